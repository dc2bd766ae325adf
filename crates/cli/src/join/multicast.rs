//! The search for hubs by multicast: one Interest on each interface, and all answers in one window.
//!
//! Invariant: a search takes [`ANSWERS_TIMEOUT`], however many interfaces there are.

use super::random_number;
use anyhow::Result;
use core::time::Duration;
use nw_app::FaceUri;
use nw_name::Name;
use nw_wire::{Data, InterestBuilder, LpPacket, Reader};
use rustix::net::sockopt::{
    set_ip_add_membership_with_ifindex, set_ip_multicast_if_with_ifindex, set_socket_reuseaddr,
    set_socket_reuseport,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::Instant;

/// NDN's multicast group.
const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 23, 170);
/// Port of the group.
const PORT: u16 = 56_363;
/// How long answers of hubs are awaited.
const ANSWERS_TIMEOUT: Duration = Duration::from_millis(300);
/// Most interfaces that are asked. Linux lets a socket join 20 groups.
const INTERFACES_MAX: usize = 16;
/// Most hubs that are told apart.
const HUBS_MAX: usize = 16;
/// Type of the field with a hub's face URI.
const URI: u32 = 0x72;

/// Returns the URIs of the hubs that answer on any interface, in the order of their answers.
pub fn find_hubs() -> Result<Vec<String>> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
    // The router has the same port open.
    set_socket_reuseaddr(&socket, true)?;
    set_socket_reuseport(&socket, true)?;
    bind(&socket, &SocketAddrV4::new(GROUP, PORT))?;
    let socket = UdpSocket::from(socket);
    let name: Name = "/localhop/ndn-autoconf/hub".parse()?;
    let interest = InterestBuilder::new(name.clone())
        .can_be_prefix(true)
        .must_be_fresh(true)
        .lifetime_ms(ANSWERS_TIMEOUT.as_millis() as u64)
        .nonce(random_number() as u32)
        .encode();
    let mut is_asked = false;
    for (interface, index) in interfaces() {
        match ask_group(&socket, index, &interest) {
            Ok(()) => is_asked = true,
            Err(error) => tracing::debug!(%error, interface, "no search by multicast"),
        }
    }
    if is_asked { collect_answers(&socket, &name) } else { Ok(Vec::new()) }
}

/// Sends an Interest to the group of one interface, whose answers the socket then receives.
fn ask_group(socket: &UdpSocket, index: u32, interest: &[u8]) -> Result<()> {
    set_ip_add_membership_with_ifindex(socket, &GROUP, &Ipv4Addr::UNSPECIFIED, index)?;
    set_ip_multicast_if_with_ifindex(socket, &GROUP, &Ipv4Addr::UNSPECIFIED, index)?;
    socket.send_to(interest, (GROUP, PORT))?;
    Ok(())
}

fn collect_answers(socket: &UdpSocket, name: &Name) -> Result<Vec<String>> {
    let deadline = Instant::now() + ANSWERS_TIMEOUT;
    let mut hubs = Vec::new();
    let mut buffer = [0; 9000];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || hubs.len() == HUBS_MAX {
            return Ok(hubs);
        }
        socket.set_read_timeout(Some(left))?;
        let Ok(len) = socket.recv(&mut buffer) else { continue };
        if let Some(uri) = hub_in(&buffer[..len], name)
            && !hubs.contains(&uri)
        {
            hubs.push(uri);
        }
    }
}

/// Returns the interfaces that can send to groups, by name and index.
fn interfaces() -> Vec<(String, u32)> {
    const UP: u32 = 0x1;
    const LOOPBACK: u32 = 0x8;
    const MULTICAST: u32 = 0x1000;
    let Ok(folder) = std::fs::read_dir("/sys/class/net") else { return Vec::new() };
    let mut found = Vec::new();
    for entry in folder.flatten() {
        let text = |file| std::fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        let flags = u32::from_str_radix(text("flags").trim().trim_start_matches("0x"), 16);
        let index = text("ifindex").trim().parse();
        if let (Ok(flags), Ok(index)) = (flags, index)
            && flags & (UP | LOOPBACK | MULTICAST) == UP | MULTICAST
        {
            found.push((entry.file_name().to_string_lossy().into_owned(), index));
        }
    }
    found.sort();
    found.truncate(INTERFACES_MAX);
    found
}

/// Returns the URI of a hub in a datagram. `None` for all else.
fn hub_in(datagram: &[u8], name: &Name) -> Option<String> {
    let packet = match LpPacket::check(datagram) {
        Ok(link) if link.frag_count == 1 => link.fragment?,
        Ok(_) => return None,
        Err(_) => datagram,
    };
    let data = Data::check(packet).ok()?;
    if !name.as_ref().is_prefix_of(data.name()) {
        return None;
    }
    let mut fields = Reader::new(data.content(), 0);
    while let Ok(Some(field)) = fields.next() {
        if field.typ == URI {
            let uri = std::str::from_utf8(field.value).ok()?;
            return uri.parse::<FaceUri>().ok().map(|uri| uri.to_string());
        }
    }
    None
}
