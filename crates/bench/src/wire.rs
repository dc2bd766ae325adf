//! Two network namespaces joined by a veth pair, for one row.

use crate::netns::Netns;
use anyhow::Result;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

/// A veth pair with each end in a namespace of its own.
#[derive(Debug)]
pub struct Wire {
    ends: [Netns; 2],
}

impl Wire {
    /// Creates the namespaces and a pair of interfaces with this MTU. It needs root and `ip`.
    ///
    /// # Errors
    /// If a permission or a program is missing. Nothing is left behind.
    pub fn new(mtu: usize) -> Result<Self> {
        let wire = Wire { ends: [Netns::new()?, Netns::new()?] };
        let [a, b] = &wire.ends;
        a.ip(&["link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", b.name()])?;
        for (at, end) in wire.ends.iter().enumerate() {
            let address = format!("{}/24", wire.address(at, 0).ip());
            end.ip(&["address", "add", &address, "dev", "wire"])?;
            end.ip(&["link", "set", "wire", "mtu", &mtu.to_string(), "up"])?;
        }
        Ok(wire)
    }

    /// Returns the address of an end.
    pub const fn address(&self, end: usize, port: u16) -> SocketAddr {
        SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 78, 0, 1 + end as u8)), port)
    }

    /// Returns a command that runs a program at an end.
    pub fn command(&self, end: usize, program: &Path) -> Command {
        let mut command = self.ends[end].command();
        command.arg(program);
        command
    }
}
