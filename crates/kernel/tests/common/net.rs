//! Networks that tests make for themselves.

#![allow(dead_code)] // each test file uses a part

use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::net::UdpSocket;
use std::process::Command;

/// Runs in a thread with a network namespace of its own.
pub fn alone(test: fn()) {
    let thread = std::thread::spawn(move || {
        // SAFETY: this thread's network alone becomes another; memory and descriptors stay shared.
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

/// The index of an interface here.
pub fn index_of(interface: &str) -> u32 {
    let any = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    rustix::net::netdevice::name_to_index(any, interface).expect("an interface")
}

/// Sets a variable of the network's.
pub fn set(variable: &str, value: &str) {
    std::fs::write(format!("/proc/sys/net/{variable}"), value).unwrap_or_else(|e| panic!("{variable}: {e}"));
}

/// The Ethernet address that the tests give an interface.
pub fn give_mac(interface: &str, mac: [u8; 6]) {
    let text: Vec<String> = mac.iter().map(|octet| format!("{octet:02x}")).collect();
    ip(&format!("link set {interface} address {}", text.join(":")));
}
