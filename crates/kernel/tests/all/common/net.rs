//! Network namespaces and interfaces for tests.

use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::net::UdpSocket;
use std::process::Command;

/// Runs in a thread with its own network namespace.
pub fn alone(test: fn()) {
    let thread = std::thread::spawn(move || {
        // SAFETY: only this thread's network namespace changes; memory and descriptors stay shared.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.expect("a network namespace");
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

pub fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("ip of iproute2");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Returns the index of an interface in this namespace.
pub fn index_of(interface: &str) -> u32 {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    rustix::net::netdevice::name_to_index(socket, interface).expect("an interface")
}

/// Sets a variable below /proc/sys/net.
pub fn set(variable: &str, value: &str) {
    std::fs::write(format!("/proc/sys/net/{variable}"), value)
        .unwrap_or_else(|e| panic!("{variable}: {e}"));
}

/// Sets the Ethernet address of an interface.
pub fn give_mac(interface: &str, mac: [u8; 6]) {
    let text: Vec<String> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
    ip(&format!("link set {interface} address {}", text.join(":")));
}
