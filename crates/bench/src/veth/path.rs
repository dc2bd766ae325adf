//! Three network namespaces in a line: consumer, forwarder, producer. They are created for a row
//! and removed after it.

use crate::netns::Netns;
use anyhow::{Context, Result};
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

/// The forwarder's interface towards the consumer.
pub const LEFT: &str = "left";
/// The forwarder's interface towards the producer.
pub const RIGHT: &str = "right";
/// The interface of an end.
pub const WIRE: &str = "wire";

/// A position on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// The consumer.
    Downstream,
    /// The forwarder.
    Middle,
    /// The producer.
    Answerer,
}

/// A path of two veth pairs.
#[derive(Debug)]
pub struct VethPath {
    asker: Netns,
    middle: Netns,
    answerer: Netns,
}

impl VethPath {
    /// Creates the namespaces and the veth pairs. It needs root and `ip`.
    ///
    /// # Errors
    /// If a permission or a program is missing. Nothing is left behind.
    pub fn new() -> Result<Self> {
        let path =
            VethPath { asker: Netns::new()?, middle: Netns::new()?, answerer: Netns::new()? };
        let middle = &path.middle;
        for (end, interface) in [(Position::Downstream, LEFT), (Position::Answerer, RIGHT)] {
            let space = path.space(end);
            let peer = ["peer", "name", interface, "netns", middle.name()];
            space.ip(&[&["link", "add", WIRE, "type", "veth"], &peer[..]].concat())?;
            let (own, other) = (end_address(end, 0).ip(), forwarder_address(end, 0).ip());
            space.ip(&["address", "add", &format!("{own}/24"), "dev", WIRE])?;
            middle.ip(&["address", "add", &format!("{other}/24"), "dev", interface])?;
            space.ip(&["link", "set", WIRE, "up"])?;
            middle.ip(&["link", "set", interface, "up"])?;
        }
        Ok(path)
    }

    /// Returns the namespace of a position.
    pub const fn space(&self, place: Position) -> &Netns {
        match place {
            Position::Downstream => &self.asker,
            Position::Middle => &self.middle,
            Position::Answerer => &self.answerer,
        }
    }

    /// Returns the name of the namespace.
    pub fn name(&self, place: Position) -> String {
        self.space(place).name().to_owned()
    }

    /// Returns a command that runs a program as forwarder, on a processor of its own if there are
    /// several.
    pub fn forwarder(&self, program: &Path) -> Command {
        let mut command = self.middle.command();
        on_processor(&mut command, 1);
        command.arg(program);
        command
    }
}

/// Returns the address of an end.
pub const fn end_address(end: Position, port: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 79, net(end), 1)), port)
}

/// Returns the forwarder's address towards an end.
pub const fn forwarder_address(end: Position, port: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 79, net(end), 2)), port)
}

const fn net(end: Position) -> u8 {
    if matches!(end, Position::Downstream) { 1 } else { 2 }
}

/// Appends arguments that bind the following program to a processor, if it exists.
pub fn on_processor(command: &mut Command, processor: usize) {
    if std::thread::available_parallelism().is_ok_and(|there| there.get() > processor) {
        command.args(["taskset", "-c", &processor.to_string()]);
    }
}

/// Runs `work` in a namespace, in a thread of its own.
///
/// # Errors
/// If the namespace can't be entered, or `work` fails.
pub fn within<T: Send>(name: &str, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let space = File::open(Path::new("/run/netns").join(name))
        .with_context(|| format!("no namespace {name}"))?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let network = rustix::thread::LinkNameSpaceType::Network;
            rustix::thread::move_into_link_name_space(
                std::os::fd::AsFd::as_fd(&space),
                Some(network),
            )?;
            work()
        });
        thread.join().unwrap_or_else(|_| anyhow::bail!("the thread in {name} failed"))
    })
}
