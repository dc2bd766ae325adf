//! What systemd is told, when it started this router: ready, reloading, stopping, alive, and a line of status (sd_notify(3)).
//!
//! Without `NOTIFY_SOCKET` all of this does nothing.

use core::time::Duration;
use nw_router::Handle;
use nw_router::inside::{Answer, Question};
use sd_notify::NotifyState;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::mpsc;

/// How often the status is said where no watchdog wants to hear more.
const STATUS_PERIOD: Duration = Duration::from_secs(30);
/// A reload takes effect within this time.
const RELOAD_MAX: Duration = Duration::from_secs(10);

fn tell(states: &[NotifyState<'_>]) {
    let place = std::env::var_os("NOTIFY_SOCKET").unwrap_or_default();
    // The library knows paths only.
    let told = match place.as_bytes().strip_prefix(b"@") {
        Some(name) => tell_abstract(name, states),
        None => sd_notify::notify(states),
    };
    if let Err(error) = told {
        tracing::warn!(%error, "systemd can't be told");
    }
}

fn tell_abstract(name: &[u8], states: &[NotifyState<'_>]) -> std::io::Result<()> {
    let text: String = states.iter().map(|state| format!("{state}\n")).collect();
    let socket = UnixDatagram::unbound()?;
    socket.send_to_addr(text.as_bytes(), &SocketAddr::from_abstract_name(name)?).map(drop)
}

fn is_listening() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// The router listens; from now on systemd is told that it is alive as long as its loop answers.
pub fn ready(handle: &Handle) -> std::io::Result<()> {
    if !is_listening() {
        return Ok(());
    }
    tell(&[NotifyState::Ready, NotifyState::Status("running")]);
    let handle = handle.clone();
    let watchdog = sd_notify::watchdog_enabled();
    // Twice in each period, as sd_watchdog_enabled(3) recommends.
    let period = watchdog.map_or(STATUS_PERIOD, |period| (period / 2).min(STATUS_PERIOD));
    let watch = move || {
        loop {
            match status(&handle, period) {
                Alive::Yes(status) => {
                    let states = [NotifyState::Status(&status), NotifyState::Watchdog];
                    tell(if watchdog.is_some() { &states } else { &states[..1] });
                }
                // The loop is stuck: systemd hears nothing, and restarts it.
                Alive::No => tracing::error!("the forwarding loop does not answer"),
                Alive::Ended => return,
            }
            std::thread::sleep(period);
        }
    };
    std::thread::Builder::new().name("systemd".into()).spawn(watch).map(drop)
}

/// Something other than a router works now.
pub fn say_ready() {
    if is_listening() {
        tell(&[NotifyState::Ready, NotifyState::Status("running")]);
    }
}

enum Alive {
    Yes(String),
    No,
    Ended,
}

fn status(handle: &Handle, patience: Duration) -> Alive {
    let (sender, receiver) = mpsc::channel();
    let asked = handle.ask(Question::Status, move |answer, _| {
        // Nobody may wait any more.
        let _ = sender.send(answer);
    });
    if asked == Err(nw_router::inside::AskError::Ended) {
        return Alive::Ended;
    }
    match receiver.recv_timeout(patience) {
        Ok(Answer::Status(status)) => Alive::Yes(format!(
            "{} faces, {} prefixes, {} pending Interests, {} packets cached",
            status.face_count,
            status.forwarder.fib_entries,
            status.forwarder.pit_entries,
            status.content_store.entries
        )),
        _ => Alive::No,
    }
}

/// The configuration is being read again.
pub fn reloading() {
    if is_listening() {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => tell(&[NotifyState::Reloading, now]),
            Err(_) => tell(&[NotifyState::Reloading]),
        }
    }
}

/// The configuration was taken over, or stays as it was.
pub fn reloaded(handle: &Handle) {
    if is_listening() {
        // Questions are answered in order: behind a reload, when that has happened.
        let _ = status(handle, RELOAD_MAX);
        tell(&[NotifyState::Ready]);
    }
}

/// The router ends.
pub fn stopping() {
    if is_listening() {
        tell(&[NotifyState::Stopping, NotifyState::Status("ending")]);
    }
}
