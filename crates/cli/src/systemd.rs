//! Notifications to systemd (sd_notify(3)): ready, reloading, stopping, watchdog, and a status
//! line.
//!
//! Without `NOTIFY_SOCKET` in the environment all functions do nothing.

use core::time::Duration;
use nw_router::Handle;
use nw_router::introspection::{Query, QueryReply};
use sd_notify::NotifyState;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::mpsc;

/// Interval of status lines if no watchdog requires a shorter one.
const STATUS_PERIOD: Duration = Duration::from_secs(30);
/// A reload takes effect within this time.
const RELOAD_MAX: Duration = Duration::from_secs(10);

fn notify(states: &[NotifyState<'_>]) {
    let socket = std::env::var_os("NOTIFY_SOCKET").unwrap_or_default();
    // The library supports only sockets with a path.
    let result = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => notify_abstract(name, states),
        None => sd_notify::notify(states),
    };
    if let Err(error) = result {
        tracing::warn!(%error, "can't notify systemd");
    }
}

fn notify_abstract(name: &[u8], states: &[NotifyState<'_>]) -> std::io::Result<()> {
    let text: String = states.iter().map(|state| format!("{state}\n")).collect();
    let socket = UnixDatagram::unbound()?;
    socket.send_to_addr(text.as_bytes(), &SocketAddr::from_abstract_name(name)?).map(drop)
}

fn is_listening() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// Reports that the router listens. From then on the watchdog is notified as long as the event loop
/// answers.
pub fn ready(handle: &Handle) -> std::io::Result<()> {
    if !is_listening() {
        return Ok(());
    }
    notify(&[NotifyState::Ready, NotifyState::Status("running")]);
    let handle = handle.clone();
    let watchdog = sd_notify::watchdog_enabled();
    // Twice in each period, as sd_watchdog_enabled(3) recommends.
    let period = watchdog.map_or(STATUS_PERIOD, |period| (period / 2).min(STATUS_PERIOD));
    let watch = move || {
        loop {
            match status(&handle, period) {
                Alive::Yes(status) => {
                    let states = [NotifyState::Status(&status), NotifyState::Watchdog];
                    notify(if watchdog.is_some() { &states } else { &states[..1] });
                }
                // Without a watchdog notification systemd restarts the router.
                Alive::No => tracing::error!("the event loop does not answer"),
                Alive::StopFlag => return,
            }
            std::thread::sleep(period);
        }
    };
    std::thread::Builder::new().name("systemd".into()).spawn(watch).map(drop)
}

/// Reports that a program other than a router, such as the balancer, is ready.
pub fn ready_without_watchdog() {
    if is_listening() {
        notify(&[NotifyState::Ready, NotifyState::Status("running")]);
    }
}

enum Alive {
    Yes(String),
    No,
    StopFlag,
}

fn status(handle: &Handle, patience: Duration) -> Alive {
    let (sender, receiver) = mpsc::channel();
    let query = handle.query(Query::Status, move |answer, _| {
        // The receiver is gone after a timeout.
        let _ = sender.send(answer);
    });
    if query == Err(nw_router::introspection::QueryError::Ended) {
        return Alive::StopFlag;
    }
    match receiver.recv_timeout(patience) {
        Ok(QueryReply::Status(status)) => Alive::Yes(format!(
            "{} faces, {} prefixes, {} pending Interests, {} packets cached",
            status.face_count,
            status.forwarder.fib_entries,
            status.forwarder.pit_entries,
            status.content_store.entries
        )),
        _ => Alive::No,
    }
}

/// Reports the begin of a reload.
pub fn reloading() {
    if is_listening() {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => notify(&[NotifyState::Reloading, now]),
            Err(_) => notify(&[NotifyState::Reloading]),
        }
    }
}

/// Reports the end of a reload, successful or not.
pub fn reloaded(handle: &Handle) {
    if is_listening() {
        // Queries are answered in order, so this one returns after the reload.
        let _ = status(handle, RELOAD_MAX);
        notify(&[NotifyState::Ready]);
    }
}

/// Reports that the router is stopping.
pub fn stopping() {
    if is_listening() {
        notify(&[NotifyState::Stopping, NotifyState::Status("ending")]);
    }
}
