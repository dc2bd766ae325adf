//! The one configuration file: TOML, a documented default for every option, all mistakes named at once.
//!
//! Each option is written down in one place, `config/options.rs`: its name, type, default, limits and documentation. Reading, checking and the
//! reference text ([`Config::reference`]) come from there. Other programs' files are written and read by the same means: [`section`](mod@section), [`read`].

mod check;
mod interface;
mod options;
pub mod problem;
pub mod read;
pub mod section;
#[cfg(test)]
mod tests;
mod trust;
pub mod value;

pub use interface::{InterfacePattern, MacAddress, MacGroup};
pub use options::{
    ContentStore, Control, CsPolicy, Ethernet, FaceItem, Faces, Forwarder, Log, LogFormat, LogLevel,
    Management, Multicast, Persistency, Reach, Rib, RouteItem, StrategyItem, Tables, Tcp, TcpCommands, Udp,
    Unix, WebSocket, Xdp,
};
pub use problem::{Problem, Problems};
pub use trust::{ANY, AllowItem, Allowed, AnchorItem, Faces as RuleFaces, VouchItem};
pub use value::{Mode, Origin, Uri};

use problem::Source;
use section::{Item, Section};
use std::path::{Path, PathBuf};

/// All that a router is told at its start, and again when it re-reads its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `[faces]`
    pub faces: Faces,
    /// `[faces.unix]`
    pub unix: Unix,
    /// `[faces.tcp]`
    pub tcp: Tcp,
    /// `[faces.udp]`
    pub udp: Udp,
    /// `[faces.websocket]`
    pub websocket: WebSocket,
    /// `[faces.multicast]`
    pub multicast: Multicast,
    /// `[faces.ethernet]`
    pub ethernet: Ethernet,
    /// `[faces.xdp]`
    pub xdp: Xdp,
    /// `[tables]`
    pub tables: Tables,
    /// `[content_store]`
    pub content_store: ContentStore,
    /// `[forwarder]`
    pub forwarder: Forwarder,
    /// `[management]`
    pub management: Management,
    /// `[[anchor]]`, in the file's order.
    pub anchor: Vec<AnchorItem>,
    /// `[[allow]]`, in the file's order.
    pub allow: Vec<AllowItem>,
    /// `[[vouch]]`, in the file's order.
    pub vouch: Vec<VouchItem>,
    /// `[rib]`
    pub rib: Rib,
    /// `[log]`
    pub log: Log,
    /// `[control]`
    pub control: Control,
    /// `[[face]]`, in the file's order.
    pub face: Vec<FaceItem>,
    /// `[[route]]`, in the file's order.
    pub route: Vec<RouteItem>,
    /// `[[strategy]]`, in the file's order.
    pub strategy: Vec<StrategyItem>,
}

impl Config {
    /// Reads a file's text. `file` is what problems call it.
    ///
    /// # Errors
    /// Every mistake in the text: what is no TOML, unknown options, wrong types and values, options that contradict each other.
    pub fn parse(file: &str, text: &str) -> Result<Config, Problems> {
        let mut source = Source::new(file, text);
        let config = read::config(&mut source);
        source.finish(config)
    }

    /// Every option with its documentation and default, as a file that says what no file says.
    pub fn reference() -> String {
        let mut text = String::from(
            "# Configuration of a Namewire router. Every option is here with its default; a file needs only what differs.\n\
             # A running router re-reads its file on SIGHUP: routes, faces, those of network interfaces, strategies, content store, who may command,\n\
             # what others are told and log level change at once, the rest at the next start.\n",
        );
        section::write::<Faces>(&mut text);
        section::write::<Unix>(&mut text);
        section::write::<Tcp>(&mut text);
        section::write::<Udp>(&mut text);
        section::write::<WebSocket>(&mut text);
        section::write::<Multicast>(&mut text);
        section::write::<Ethernet>(&mut text);
        section::write::<Xdp>(&mut text);
        section::write::<Tables>(&mut text);
        section::write::<ContentStore>(&mut text);
        section::write::<Forwarder>(&mut text);
        section::write::<Management>(&mut text);
        section::write_item::<AnchorItem>(&mut text);
        section::write_item::<AllowItem>(&mut text);
        section::write_item::<VouchItem>(&mut text);
        section::write::<Rib>(&mut text);
        section::write::<Log>(&mut text);
        section::write::<Control>(&mut text);
        section::write_item::<FaceItem>(&mut text);
        section::write_item::<RouteItem>(&mut text);
        section::write_item::<StrategyItem>(&mut text);
        text
    }

    /// Where the unix socket is when the file doesn't say: `/run/nfd/nfd.sock`, where clients look, for root; in the user's runtime folder
    /// (`XDG_RUNTIME_DIR`) for others who have one.
    pub fn unix_path(&self, root: bool, runtime_dir: Option<&Path>) -> PathBuf {
        match (&self.unix.path, runtime_dir) {
            (Some(path), _) => path.clone(),
            (None, Some(runtime_dir)) if !root => runtime_dir.join("nfd.sock"),
            (None, _) => PathBuf::from(UNIX_PATH),
        }
    }

    /// Where the control socket is; `None` when there is none. When the file doesn't say: beside the unix socket at `unix`.
    pub fn control_path(&self, unix: &Path) -> Option<PathBuf> {
        match &self.control.path {
            _ if !self.control.enabled => None,
            Some(path) => Some(path.clone()),
            None => self.unix.enabled.then(|| control_path_beside(unix)),
        }
    }

    /// True when a change to `other` needs a new start: something other than routes, faces, strategies, content store, who may command, what
    /// others are told and log level differs. Faces of interfaces follow the file, too; but for how long they may be silent. A content store that
    /// is to be larger than it was made is for the host to find out.
    pub fn needs_restart(&self, other: &Config) -> bool {
        let live = |config: &Config| Config {
            management: Management::default(),
            anchor: Vec::new(),
            allow: Vec::new(),
            vouch: Vec::new(),
            log: Log { level: LogLevel::Info, ..config.log.clone() },
            multicast: Multicast::default(),
            ethernet: Ethernet { idle_timeout_s: config.ethernet.idle_timeout_s, ..Ethernet::default() },
            xdp: Xdp::default(),
            content_store: ContentStore::default(),
            rib: Rib::default(),
            face: Vec::new(),
            route: Vec::new(),
            strategy: Vec::new(),
            ..config.clone()
        };
        live(self) != live(other)
    }

    /// Every option's name, `section.key`, in the reference's order.
    pub fn option_names() -> Vec<String> {
        fn of<S: Section>() -> Vec<String> {
            S::options().iter().map(|option| format!("{}.{}", S::PATH, option.key)).collect()
        }
        fn of_item<I: Item>() -> Vec<String> {
            I::options().iter().map(|option| format!("{}.{}", I::PATH, option.key)).collect()
        }
        let sections = [
            of::<Faces>(),
            of::<Unix>(),
            of::<Tcp>(),
            of::<Udp>(),
            of::<WebSocket>(),
            of::<Multicast>(),
            of::<Ethernet>(),
            of::<Xdp>(),
            of::<Tables>(),
            of::<ContentStore>(),
            of::<Forwarder>(),
            of::<Management>(),
            of_item::<AnchorItem>(),
            of_item::<AllowItem>(),
            of_item::<VouchItem>(),
            of::<Rib>(),
            of::<Log>(),
            of::<Control>(),
            of_item::<FaceItem>(),
            of_item::<RouteItem>(),
            of_item::<StrategyItem>(),
        ];
        sections.concat()
    }
}

/// The control socket that belongs to a unix socket, when no configuration says otherwise.
pub fn control_path_beside(unix: &Path) -> PathBuf {
    unix.with_extension("control.sock")
}

/// Where clients look for a router.
pub const UNIX_PATH: &str = "/run/nfd/nfd.sock";
