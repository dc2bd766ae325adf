//! Two network namespaces with a wire between them, made for a row and removed after it.

use anyhow::{Context, Result, ensure};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Tells the wires of one process apart.
static MADE: AtomicUsize = AtomicUsize::new(0);

/// Two ends, each in a namespace of its own.
#[derive(Debug)]
pub struct Wire {
    ends: [String; 2],
}

impl Wire {
    /// Makes the namespaces and a pair of interfaces with this MTU. Needs the rights of root, and `ip`.
    ///
    /// # Errors
    /// What is missing. Nothing is left behind.
    pub fn new(mtu: usize) -> Result<Self> {
        ensure!(rustix::process::geteuid().is_root(), "network namespaces need root");
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let id = std::process::id();
        let wire = Wire { ends: ["a", "b"].map(|end| format!("nwbench{id}-{number}{end}")) };
        let [a, b] = &wire.ends;
        for end in [a, b] {
            ip(&["netns", "add", end])?;
        }
        ip(&["-n", a, "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", b])?;
        for (at, end) in [a, b].into_iter().enumerate() {
            let address = format!("{}/24", wire.address(at, 0).ip());
            ip(&["-n", end, "address", "add", &address, "dev", "wire"])?;
            ip(&["-n", end, "link", "set", "wire", "mtu", &mtu.to_string(), "up"])?;
            ip(&["-n", end, "link", "set", "lo", "up"])?;
        }
        Ok(wire)
    }

    /// An end's address.
    pub const fn address(&self, end: usize, port: u16) -> SocketAddr {
        SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 78, 0, 1 + end as u8)), port)
    }

    /// A program that runs at an end.
    pub fn command(&self, end: usize, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.ends[end]]).arg(program);
        command
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for end in &self.ends {
            // One that was never made is no reason to complain.
            let _ = Command::new("ip").args(["netns", "del", end]).stderr(Stdio::null()).status();
        }
    }
}

fn ip(words: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(words).stdin(Stdio::null()).output();
    let output = output.context("there is no ip: apt install iproute2")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "this system refused ip {}: {}", words.join(" "), said.trim());
    Ok(())
}
