//! Two network namespaces with a wire between them, made for a row and removed after it.

use crate::space::Space;
use anyhow::Result;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

/// Two ends, each in a namespace of its own.
#[derive(Debug)]
pub struct Wire {
    ends: [Space; 2],
}

impl Wire {
    /// Makes the namespaces and a pair of interfaces with this MTU. Needs the rights of root, and `ip`.
    ///
    /// # Errors
    /// What is missing. Nothing is left behind.
    pub fn new(mtu: usize) -> Result<Self> {
        let wire = Wire { ends: [Space::new()?, Space::new()?] };
        let [a, b] = &wire.ends;
        a.ip(&["link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", b.name()])?;
        for (at, end) in wire.ends.iter().enumerate() {
            let address = format!("{}/24", wire.address(at, 0).ip());
            end.ip(&["address", "add", &address, "dev", "wire"])?;
            end.ip(&["link", "set", "wire", "mtu", &mtu.to_string(), "up"])?;
        }
        Ok(wire)
    }

    /// An end's address.
    pub const fn address(&self, end: usize, port: u16) -> SocketAddr {
        SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 78, 0, 1 + end as u8)), port)
    }

    /// A program that runs at an end.
    pub fn command(&self, end: usize, program: &Path) -> Command {
        let mut command = self.ends[end].command();
        command.arg(program);
        command
    }
}
