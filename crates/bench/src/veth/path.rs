//! Three network namespaces in a row, made for a row and removed after it: who asks, what forwards, who answers.

use crate::space::Space;
use anyhow::{Context, Result};
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

/// The forwarder's interface towards who asks.
pub const LEFT: &str = "left";
/// And towards who answers.
pub const RIGHT: &str = "right";
/// The only interface of an end.
pub const WIRE: &str = "wire";

/// A place on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Who asks.
    Asker,
    /// What forwards.
    Middle,
    /// Who answers.
    Answerer,
}

/// Two pairs of interfaces in a row.
#[derive(Debug)]
pub struct Street {
    asker: Space,
    middle: Space,
    answerer: Space,
}

impl Street {
    /// Makes the namespaces and what joins them. Needs the rights of root, and `ip`.
    ///
    /// # Errors
    /// What is missing. Nothing is left behind.
    pub fn new() -> Result<Self> {
        let street = Street { asker: Space::new()?, middle: Space::new()?, answerer: Space::new()? };
        let middle = &street.middle;
        for (end, interface) in [(Place::Asker, LEFT), (Place::Answerer, RIGHT)] {
            let space = street.space(end);
            let peer = ["peer", "name", interface, "netns", middle.name()];
            space.ip(&[&["link", "add", WIRE, "type", "veth"], &peer[..]].concat())?;
            let (own, other) = (end_address(end, 0).ip(), middle_address(end, 0).ip());
            space.ip(&["address", "add", &format!("{own}/24"), "dev", WIRE])?;
            middle.ip(&["address", "add", &format!("{other}/24"), "dev", interface])?;
            space.ip(&["link", "set", WIRE, "up"])?;
            middle.ip(&["link", "set", interface, "up"])?;
        }
        Ok(street)
    }

    /// The namespace at a place.
    pub const fn space(&self, place: Place) -> &Space {
        match place {
            Place::Asker => &self.asker,
            Place::Middle => &self.middle,
            Place::Answerer => &self.answerer,
        }
    }

    /// Its name.
    pub fn name(&self, place: Place) -> String {
        self.space(place).name().to_owned()
    }

    /// A program that runs in the middle, on a processor of its own where there are several.
    pub fn forwarder(&self, program: &Path) -> Command {
        let mut command = self.middle.command();
        on_processor(&mut command, 1);
        command.arg(program);
        command
    }
}

/// An end's address.
pub const fn end_address(end: Place, port: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 79, net(end), 1)), port)
}

/// The forwarder's address towards an end.
pub const fn middle_address(end: Place, port: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 79, net(end), 2)), port)
}

const fn net(end: Place) -> u8 {
    if matches!(end, Place::Asker) { 1 } else { 2 }
}

/// Goes before a program's name: it runs on this processor, if there is one.
pub fn on_processor(command: &mut Command, processor: usize) {
    if std::thread::available_parallelism().is_ok_and(|there| there.get() > processor) {
        command.args(["taskset", "-c", &processor.to_string()]);
    }
}

/// Does something in a namespace, in a thread of its own.
///
/// # Errors
/// When there is no such namespace, or it may not be entered; and those of what is done.
pub fn within<T: Send>(name: &str, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let space =
        File::open(Path::new("/run/netns").join(name)).with_context(|| format!("no namespace {name}"))?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let network = rustix::thread::LinkNameSpaceType::Network;
            rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&space), Some(network))?;
            work()
        });
        thread.join().unwrap_or_else(|_| anyhow::bail!("the thread in {name} failed"))
    })
}
