//! The router's configuration file: TOML, with a documented default for every option.
//!
//! Invariant: all mistakes of a file are reported at once, and a file with a mistake gives no
//! configuration.
//!
//! Each option is declared once, in `options.rs`: name, type, default, limits and documentation.
//! Parsing and the reference text ([`Config::reference`]) are derived from the declaration. Other
//! programs' files use the same modules, [`section`](mod@section) and [`read`].
//!
//! ```text
//! text ── read ──> sections, Places ── check, trust ──> Config, or Diagnostics
//!           │ table: one table, option by option            (file, line, option, what is wrong)
//! ```

mod check;
mod checker;
mod data_trust;
pub mod diagnostics;
pub mod file;
mod interface;
mod options;
pub mod read;
pub mod section;
pub mod suggest;
pub mod table;
#[cfg(test)]
mod tests;
mod toml_errors;
mod trust;
pub mod value;

pub use checker::Check;
pub use data_trust::{DataRuleItem, DataTrust};
pub use diagnostics::{Diagnostic, Diagnostics, Renamed};
pub use interface::{InterfacePattern, MacAddress, MacGroup};
pub use options::{
    AllowFrom, ContentStore, Control, CsPolicy, Ethernet, EthernetSockets, FaceItem, Faces,
    Forwarder, LargeTrees, Log, LogFormat, Management, Multicast, Page, Persistency, Process,
    PubSub, PubSubRule, Rib, RouteItem, StrategyItem, Tables, Tcp, TcpCommands, Udp, Unix,
    WebSocket, Xdp,
};
pub use trust::{ANY, AllowItem, Allowed, AnchorItem, Faces as RuleFaces, IssuerItem};
pub use value::{LOG_PARTS, LogFilter, Mode, Origin, STRATEGIES, StrategyName, Uri};

use diagnostics::Source;
pub use section::SectionText;
use section::{Item, Section};
use std::path::{Path, PathBuf};

/// The configuration of a router.
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
    /// `[[issuer]]`, in the file's order.
    pub issuer: Vec<IssuerItem>,
    /// `[rib]`
    pub rib: Rib,
    /// `[log]`
    pub log: Log,
    /// `[process]`
    pub process: Process,
    /// `[control]`
    pub control: Control,
    /// `[pubsub]`
    pub pubsub: PubSub,
    /// `[[pubsub_rule]]`, in the file's order.
    pub pubsub_rule: Vec<PubSubRule>,
    /// `[page]`
    pub page: Page,
    /// `[[face]]`, in the file's order.
    pub face: Vec<FaceItem>,
    /// `[[route]]`, in the file's order.
    pub route: Vec<RouteItem>,
    /// `[[strategy]]`, in the file's order.
    pub strategy: Vec<StrategyItem>,
    /// Options and sections that the file calls by an old name, each once.
    pub renamed: Vec<Renamed>,
}

impl Config {
    /// Parses the text of a file. `file`: its name in messages.
    ///
    /// # Errors
    /// All mistakes: invalid TOML, unknown options, wrong types and values, contradicting options.
    pub fn parse(file: &str, text: &str) -> Result<Config, Diagnostics> {
        Config::parse_with(file, text, |_, _| {})
    }

    /// Parses the text of a file as [`parse`](Self::parse) does. `adjust` may change the
    /// configuration, as a command line does, and report further mistakes.
    ///
    /// # Errors
    /// All mistakes, including those that `adjust` reports.
    pub fn parse_with(
        file: &str,
        text: &str,
        adjust: impl FnOnce(&mut Config, &mut Check<'_, '_>),
    ) -> Result<Config, Diagnostics> {
        let mut source = Source::new(file, text);
        let read = read::read(&mut source, Config::read_sections);
        let config = read.map_or_else(Config::default, |(mut config, places)| {
            config.renamed = places.renamed().to_vec();
            let mut check = Check::new(&places, &mut source);
            adjust(&mut config, &mut check);
            check::contradictions(&config, &mut check);
            config
        });
        source.finish(config)
    }

    fn read_sections(file: &mut read::File<'_, '_, '_>) -> Config {
        Config {
            faces: file.section(),
            unix: file.section(),
            tcp: file.section(),
            udp: file.section(),
            websocket: file.section(),
            multicast: file.section(),
            ethernet: file.section(),
            xdp: file.section(),
            tables: file.section(),
            content_store: file.section(),
            forwarder: file.section(),
            management: file.section(),
            anchor: file.items(),
            allow: file.items(),
            issuer: file.items(),
            rib: file.section(),
            log: file.section(),
            process: file.section(),
            control: file.section(),
            pubsub: file.section(),
            pubsub_rule: file.items(),
            page: file.section(),
            face: file.items(),
            route: file.items(),
            strategy: file.items(),
            renamed: Vec::new(),
        }
    }

    /// Returns every option with its documentation and default, as a file with the meaning of an
    /// empty one.
    pub fn reference() -> String {
        let mut text = String::from(
            "# Configuration of a Namewire router. Every option is listed with its default; a file \
             needs only the options that differ.\n\
             # SIGHUP reloads the file: routes, faces (also those of network interfaces), \
             strategies, \
             content store, access rules,\n\
             # readvertised prefixes and log levels change immediately, all other options at the \
             next \
             start.\n",
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
        section::write_item::<IssuerItem>(&mut text);
        section::write::<Rib>(&mut text);
        section::write::<Log>(&mut text);
        section::write::<Process>(&mut text);
        section::write::<Control>(&mut text);
        section::write::<PubSub>(&mut text);
        section::write_item::<PubSubRule>(&mut text);
        section::write::<Page>(&mut text);
        section::write_item::<FaceItem>(&mut text);
        section::write_item::<RouteItem>(&mut text);
        section::write_item::<StrategyItem>(&mut text);
        text
    }

    /// Returns the path of the unix socket.
    ///
    /// The default is `/run/nfd/nfd.sock`, where clients look, for root and for users without a
    /// runtime folder; for other users it is in the runtime folder (`XDG_RUNTIME_DIR`).
    pub fn unix_path(&self, root: bool, runtime_dir: Option<&Path>) -> PathBuf {
        match (&self.unix.path, runtime_dir) {
            (Some(path), _) => path.clone(),
            (None, Some(runtime_dir)) if !root => runtime_dir.join("nfd.sock"),
            (None, _) => PathBuf::from(UNIX_PATH),
        }
    }

    /// Returns the path of the control socket; `None` if it is disabled. The default is in the
    /// folder of the unix socket at `unix`.
    pub fn control_path(&self, unix: &Path) -> Option<PathBuf> {
        match &self.control.path {
            _ if !self.control.enabled => None,
            Some(path) => Some(path.clone()),
            None => self.unix.enabled.then(|| control_path_beside(unix)),
        }
    }

    /// Returns the path of the socket of publish/subscribe; `None` if it is disabled.
    pub fn pubsub_path(&self, unix: &Path) -> Option<PathBuf> {
        let path = || self.pubsub.path.clone().unwrap_or_else(|| pubsub_path_beside(unix));
        self.pubsub.enabled.then(path)
    }

    /// Returns the options that differ from `other` and need a restart.
    ///
    /// No restart is needed for routes, faces (except the idle timeout of Ethernet faces),
    /// strategies, content store, access rules, readvertised prefixes and log level. Whether the
    /// content store exceeds its initial size is checked by the host.
    pub fn restart_options(&self, other: &Config) -> Vec<String> {
        let without_live_options = |config: &Config| Config {
            management: Management::default(),
            log: Log { level: LogFilter::default(), ..config.log.clone() },
            multicast: Multicast::default(),
            ethernet: Ethernet {
                idle_timeout_s: config.ethernet.idle_timeout_s,
                ..Ethernet::default()
            },
            xdp: Xdp::default(),
            content_store: ContentStore::default(),
            rib: Rib::default(),
            ..config.clone()
        };
        let (own, other) =
            (without_live_options(self).values(), without_live_options(other).values());
        let differs = own.into_iter().zip(other).filter(|(own, other)| own != other);
        differs.map(|((option, _), _)| option).collect()
    }

    /// Returns whether a change to `other` needs a restart; see
    /// [`restart_options`](Self::restart_options).
    pub fn needs_restart(&self, other: &Config) -> bool {
        !self.restart_options(other).is_empty()
    }

    /// Returns the options of all sections with their values as TOML, without repeated sections.
    fn values(&self) -> Vec<(String, Option<String>)> {
        fn of<S: Section>(section: &S) -> Vec<(String, Option<String>)> {
            section
                .values()
                .into_iter()
                .map(|(key, value)| (format!("{}.{key}", S::PATH), value))
                .collect()
        }
        let sections = [
            of(&self.faces),
            of(&self.unix),
            of(&self.tcp),
            of(&self.udp),
            of(&self.websocket),
            of(&self.multicast),
            of(&self.ethernet),
            of(&self.xdp),
            of(&self.tables),
            of(&self.content_store),
            of(&self.forwarder),
            of(&self.management),
            of(&self.rib),
            of(&self.log),
            of(&self.process),
            of(&self.control),
            of(&self.pubsub),
            of(&self.page),
        ];
        sections.concat()
    }

    /// Returns every section with its options, in the order of the reference.
    pub fn sections() -> Vec<SectionText> {
        fn of<S: Section>() -> SectionText {
            SectionText { path: S::PATH, many: false, doc: S::DOC, options: S::options() }
        }
        fn of_item<I: Item>() -> SectionText {
            SectionText { path: I::PATH, many: true, doc: I::DOC, options: I::options() }
        }
        vec![
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
            of_item::<IssuerItem>(),
            of::<Rib>(),
            of::<Log>(),
            of::<Process>(),
            of::<Control>(),
            of::<PubSub>(),
            of_item::<PubSubRule>(),
            of::<Page>(),
            of_item::<FaceItem>(),
            of_item::<RouteItem>(),
            of_item::<StrategyItem>(),
        ]
    }

    /// Returns every option's name, `section.key`, in the order of the reference.
    pub fn option_names() -> Vec<String> {
        let names = |section: SectionText| {
            let names =
                section.options.iter().map(|option| format!("{}.{}", section.path, option.key));
            names.collect::<Vec<_>>()
        };
        Config::sections().into_iter().flat_map(names).collect()
    }
}

/// Returns the default path of the control socket for a unix socket.
pub fn control_path_beside(unix: &Path) -> PathBuf {
    unix.with_extension("control.sock")
}

/// Returns the default path of the publish/subscribe socket for a unix socket.
pub fn pubsub_path_beside(unix: &Path) -> PathBuf {
    unix.with_extension("pubsub.sock")
}

/// The path at which clients look for a router's unix socket.
pub const UNIX_PATH: &str = "/run/nfd/nfd.sock";
