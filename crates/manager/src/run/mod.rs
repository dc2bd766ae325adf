//! The manager: what is wanted, what runs, and two threads that bring them together.
//!
//! ```text
//!  REST, command line ─▶ Handle ─▶ Wanted (document, numbers, vetoes) ─▶ Target
//!                                     ▲ decisions                            │
//!  watch thread: list, sample, scaling and defence ──────┘                   ▼
//!  change thread:          observe ─▶ plan ─▶ steps, journal ─▶ observe … until the plan is empty
//! ```
//!
//! Invariant: only the change thread acts on the network, and only by a plan. A document, a clone,
//! a countermeasure and a service that died all take this one path.

mod change;
mod commands;
mod conditions;
mod defences;
mod orphans;
mod person;
mod quotas;
mod wanted;
mod watch;

pub use commands::{Author, Handle};
pub use person::AUTHORITY_FOLDER;
pub use wanted::{DOCUMENT_BYTES_MAX, read_document};

use crate::engine::Engine;
use crate::events::{About, EventLog};
use crate::map::Rates;
use crate::remote_hosts::RemoteHosts;
use crate::store::{Store, StoreError};
use crate::world::{Seen, World};
use conditions::Conditions;
use nw_api::network::{GraphPosition, NetworkEventKind, NetworkPlan, NetworkState};
use nw_graph_language::network::EngineKind;
use nw_manage::defence::Defences;
use orphans::Orphans;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wanted::Wanted;

/// Plans that can be shown after they ended.
const PLANS_KEPT: usize = 64;
/// Name of the manager's control socket in the network's directory.
pub const CONTROL_SOCKET: &str = "manager.sock";
/// Name of the setting that holds changes.
const DEFENCES_SETTING: &str = "defences";
const HELD_SETTING: &str = "held";
/// Name of the setting with the folder of the document.
const FOLDER_SETTING: &str = "folder";

/// How a manager runs.
pub struct Options {
    /// Name of the network: letters, digits, `-` and `_`.
    pub network: String,
    /// Directory of the network, an absolute path.
    pub directory: PathBuf,
    /// Program that runs services, usually this one.
    pub program: PathBuf,
    /// Period of samples, and of decisions.
    pub period: Duration,
    /// Engines beside the one for processes.
    pub engines: Vec<(EngineKind, Arc<dyn Engine>)>,
    /// Engines of other hosts.
    pub remote: Option<RemoteHosts>,
    /// Time after which instances that no version of the document explains are removed.
    pub orphan_grace: Duration,
    /// Revision of instances, see [`nw_manage::target::Decisions`]; may be empty.
    pub revision: String,
    /// Whether each instance has an address of its own, which links between hosts use.
    pub has_addresses: bool,
}

/// The document to start with; `None` in [`Manager::start`] takes the last one of the store.
pub struct FirstDocument {
    /// Text.
    pub text: String,
    /// Folder that file names in it are relative to.
    pub folder: PathBuf,
    /// What asks for it.
    pub author: Author,
}

/// Reasons why a manager can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store can't be used, or another manager has it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The document is wrong.
    #[error(transparent)]
    Document(#[from] CommandError),
    /// There is no document.
    #[error("the network {0} has no document yet: give a file")]
    NoDocument(String),
    /// The directory can't be used.
    #[error("can't make {}: {error}; choose another --directory", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// A thread can't be started.
    #[error("can't start a thread: {0}")]
    Thread(std::io::Error),
}

/// Reasons why a command is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// What was given is wrong; nothing has changed.
    #[error("{0}")]
    Wrong(String),
    /// What it names does not exist.
    #[error("{0}")]
    Unknown(String),
    /// It conflicts with what is in effect.
    #[error("{0}")]
    Conflict(String),
    /// Who asks may not do it.
    #[error("{0}")]
    Forbidden(String),
    /// The system refused: a full disk, an engine.
    #[error("{0}")]
    System(String),
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        CommandError::System(error.to_string())
    }
}

/// What was seen and done last, for those who ask.
#[derive(Default)]
struct View {
    state: NetworkState,
    /// Change of what is wanted with which the network was found as described.
    converged_change: u64,
    seen: Seen,
    rates: Rates,
    conditions: Conditions,
    /// Plan that is carried out.
    plan: Option<NetworkPlan>,
    /// Plans that were made or have ended, the newest last.
    plans: VecDeque<NetworkPlan>,
    /// Last decision of scaling by service.
    scale_reasons: BTreeMap<String, String>,
    positions: BTreeMap<String, GraphPosition>,
}

impl View {
    /// Returns the state for a change of what is wanted: what has not been looked at yet is not
    /// converged.
    fn state_for(&self, change: u64) -> NetworkState {
        match self.state {
            NetworkState::Converged if self.converged_change != change => NetworkState::Changing,
            state => state,
        }
    }
}

/// What all threads share.
struct Shared {
    network: String,
    directory: PathBuf,
    period: Duration,
    world: World,
    store: Mutex<Store>,
    wanted: Mutex<Wanted>,
    view: Mutex<View>,
    defences: Mutex<Defences>,
    orphans: Mutex<Orphans>,
    events: EventLog,
    /// True when the change thread is to look; the condition variable wakes it.
    is_dirty: Mutex<bool>,
    wake: Condvar,
    /// True when the threads are to end.
    quit: AtomicBool,
    /// True when they have ended.
    has_ended: Mutex<bool>,
    ended: Condvar,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns milliseconds since 1970.
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

impl Shared {
    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        locked(&self.wanted)
    }

    fn view(&self) -> MutexGuard<'_, View> {
        locked(&self.view)
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        locked(&self.store)
    }

    fn event(&self, kind: NetworkEventKind, text: impl Into<String>, about: About) {
        self.events.add(now_ms(), kind, text.into(), about);
        self.wake_waiting();
    }

    /// Lets those look who wait for events or for the end. None misses it: the lock is taken.
    fn wake_waiting(&self) {
        drop(locked(&self.has_ended));
        self.ended.notify_all();
    }

    /// Lets the change thread look.
    fn wake_change(&self) {
        *locked(&self.is_dirty) = true;
        self.wake.notify_all();
    }

    fn is_quitting(&self) -> bool {
        self.quit.load(Ordering::SeqCst)
    }

    fn quit(&self) {
        self.quit.store(true, Ordering::SeqCst);
        self.wake_change();
    }

    /// Begins a condition, or changes its reason.
    fn begin_condition(&self, subject: &str, kind: &str, reason: impl Into<String>) {
        let reason = reason.into();
        let is_new = self.view().conditions.begin(subject, kind, &reason, now_ms());
        if is_new {
            let about = About { subject: Some(subject.to_owned()), ..About::default() };
            self.event(NetworkEventKind::ConditionBegan, format!("{subject}: {reason}"), about);
        }
    }

    fn end_condition(&self, subject: &str, kind: &str) {
        let ended = self.view().conditions.end(subject, kind);
        if ended {
            let about = About { subject: Some(subject.to_owned()), ..About::default() };
            self.event(NetworkEventKind::ConditionEnded, format!("{subject}: no {kind}"), about);
        }
    }
}

/// A running manager.
pub struct Manager {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Manager {
    /// Opens the store, finds what runs, and starts the threads. With a document that differs from
    /// the last one, that document gets a new version.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is started then.
    pub fn start(options: Options, first: Option<FirstDocument>) -> Result<Self, StartError> {
        let Options {
            network,
            directory,
            program,
            period,
            engines,
            remote,
            orphan_grace,
            revision,
            has_addresses,
        } = options;
        let store = Store::open(&directory)?;
        let world = World::new(&network, &directory, program);
        let mut world =
            world.map_err(|error| StartError::Directory { path: directory.clone(), error })?;
        for (kind, engine) in engines {
            world.set_engine(kind, engine);
        }
        if let Some(remote) = remote {
            world.set_remote(remote);
        }
        let mut wanted = first_wanted(&network, &store, &world, first)?;
        wanted.persons = person::PersonSettings::load(&store)?;
        wanted.revision = revision;
        wanted.addresses = has_addresses.then(Vec::new);
        wanted.refresh()?;
        wanted.is_held = store.setting(HELD_SETTING)?.is_some_and(|value| value == "yes");
        let start_ms = now_ms();
        let unfinished = store.take_unfinished(start_ms)?;
        let positions = store.positions()?;
        let mut defences = Defences::default();
        if let Some(text) = store.setting(DEFENCES_SETTING)? {
            defences.restore(&wanted.document, &text);
        }
        store.vetoes()?.iter().for_each(|element| defences.set_veto(element, true));
        // What an earlier manager has put in stays: the first plan must not remove it.
        let mut defended = wanted.clone();
        defended.countermeasures = defences.countermeasures();
        if defended.refresh().is_ok() {
            wanted = defended;
        }
        let shared = Arc::new(Shared {
            network,
            directory,
            period,
            world,
            store: Mutex::new(store),
            wanted: Mutex::new(wanted),
            view: Mutex::new(View { positions, ..View::default() }),
            defences: Mutex::new(defences),
            orphans: Mutex::new(Orphans::new(orphan_grace)),
            events: EventLog::new(start_ms),
            is_dirty: Mutex::new(true),
            wake: Condvar::new(),
            quit: AtomicBool::new(false),
            has_ended: Mutex::new(false),
            ended: Condvar::new(),
        });
        shared.report_start(&unfinished);
        let spawn = |name: &str, run: fn(&Shared)| {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name(name.to_owned());
            thread.spawn(move || run(&shared)).map_err(StartError::Thread)
        };
        let threads = vec![spawn("change", change::run)?, spawn("watch", watch::run)?];
        Ok(Manager { shared, threads })
    }

    /// Returns a handle for commands and questions; usable from any thread.
    pub fn handle(&self) -> Handle {
        Handle::new(Arc::clone(&self.shared))
    }

    /// Waits until the manager has ended, after [`Handle::stop`].
    pub fn wait(mut self) {
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Shared {
    fn report_start(&self, unfinished: &[(String, String, String)]) {
        let version = self.wanted().version;
        let running = self.world.list().0.len();
        let mut text = format!(
            "manager of {} started with version {version} of the document; {running} instances \
             found",
            self.network
        );
        if !unfinished.is_empty() {
            text.push_str(&format!(
                "; an earlier manager ended during {} steps, which are planned anew",
                unfinished.len()
            ));
        }
        self.event(NetworkEventKind::Started, text, About::default());
    }
}

/// Returns what is wanted at the start: the given document, else the last one of the store.
fn first_wanted(
    network: &str,
    store: &Store,
    world: &World,
    first: Option<FirstDocument>,
) -> Result<Wanted, StartError> {
    let stored = store.document()?;
    let replicas = store.replicas()?;
    let links = world.links_folder();
    let Some(first) = first else {
        let stored = stored.ok_or_else(|| StartError::NoDocument(network.to_owned()))?;
        let folder = store.setting(FOLDER_SETTING)?.unwrap_or_default().into();
        let document = read_document(network, &stored.text)?;
        return Ok(Wanted::new((document, stored.version, folder), replicas, links)?);
    };
    let document = read_document(network, &first.text)?;
    let digest = document.digest();
    let is_same = stored.as_ref().is_some_and(|stored| stored.text == first.text);
    let version = stored.as_ref().map_or(0, |stored| stored.version);
    let mut wanted = Wanted::new((document, version, first.folder.clone()), replicas, links)?;
    let missing = world.missing_engines(&wanted.target.hosts);
    if !missing.is_empty() {
        return Err(CommandError::Wrong(missing.join("\n")).into());
    }
    if !is_same {
        let note = (now_ms(), first.author.0.as_str(), "nw network up");
        wanted.version = store.add_document(note, &digest, &first.text)?;
    }
    store.set_setting(FOLDER_SETTING, &first.folder.display().to_string())?;
    Ok(wanted)
}
