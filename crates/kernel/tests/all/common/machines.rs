//! The machines on both sides of a balancer: network namespaces with sockets that tests use from
//! any thread.

use super::cluster::{Cluster, entry, member_port, options};
use super::frames::Udp;
use super::net::{give_mac, index_of, ip, set};
use nw_kernel::balancer::{AttachMode, Hop, MemberEntry};
use rustix::thread::{UnshareFlags, gettid, unshare_unsafe};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

pub const PEER: &str = "198.51.100.7:6363";
pub const INSIDE_MAC: [u8; 6] = [2, 0, 0, 0, 3, 1];
pub const OUTSIDE_MAC: [u8; 6] = [2, 0, 0, 0, 3, 2];
pub const MEMBERS_MAC: [u8; 6] = [2, 0, 0, 0, 3, 3];
pub const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 3, 4];

/// A socket that sends and receives whole frames on an interface of this thread's namespace.
pub struct Raw(OwnedFd);

impl Raw {
    pub fn open(interface: &str) -> Raw {
        let all = i32::from((libc::ETH_P_ALL as u16).to_be());
        // SAFETY: the call takes three numbers.
        let socket =
            unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, all) };
        assert!(socket >= 0, "a packet socket: {}", std::io::Error::last_os_error());
        // SAFETY: the descriptor was created just now and has no other owner.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        // SAFETY: sockaddr_ll is plain C data, valid with zeros.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index_of(interface) as i32;
        // SAFETY: the address lives until the call returns, and has the given length.
        let bound = unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of_val(&address) as u32,
            )
        };
        assert_eq!(bound, 0, "bound: {}", std::io::Error::last_os_error());
        let raw = Raw(socket);
        raw.option(libc::PACKET_AUXDATA);
        raw.option(libc::PACKET_IGNORE_OUTGOING);
        raw
    }

    fn option(&self, option: i32) {
        let on = 1i32;
        // SAFETY: the value lives until the call returns, and has the given length.
        let done = unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                libc::SOL_PACKET,
                option,
                (&raw const on).cast(),
                4,
            )
        };
        assert_eq!(done, 0, "option {option}: {}", std::io::Error::last_os_error());
    }

    pub fn send(&self, frame: &[u8]) {
        // SAFETY: the buffer has the given length, and lives until the call returns.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(sent, frame.len() as isize, "{}", std::io::Error::last_os_error());
    }

    /// Returns the next frame, with the tag that the system has removed from it. `None` after
    /// `wait`.
    pub fn receive(&self, wait: Duration) -> Option<(Option<u16>, Vec<u8>)> {
        let mut ready = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, which lives until the call returns.
        if unsafe { libc::poll(&raw mut ready, 1, wait.as_millis() as i32) } < 1 {
            return None;
        }
        let mut frame = vec![0u8; 4096];
        let mut control = [0u64; 8];
        let mut buffer = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
        // SAFETY: msghdr is plain C data, valid with zeros.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut buffer;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        // SAFETY: both buffers have the given lengths, and live until the call returns.
        let len = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, 0) };
        assert!(len >= 0, "{}", std::io::Error::last_os_error());
        frame.truncate(len as usize);
        // SAFETY: the call above filled in the message, and its control buffer lives.
        let tag = unsafe {
            let head = libc::CMSG_FIRSTHDR(&raw const message);
            assert!(
                !head.is_null() && (*head).cmsg_type == libc::PACKET_AUXDATA,
                "the removed tag"
            );
            let about = libc::CMSG_DATA(head).cast::<libc::tpacket_auxdata>().read_unaligned();
            (about.tp_status & libc::TP_STATUS_VLAN_VALID != 0).then_some(about.tp_vlan_tci)
        };
        Some((tag, frame))
    }
}

/// The machine on one side.
pub struct Machine {
    pub raw: Raw,
    /// UDP sockets, in the order of their addresses.
    pub sockets: Vec<UdpSocket>,
    /// Keeps the namespace alive.
    _stays: Sender<()>,
}

/// Moves an interface into a new namespace, and binds sockets to these addresses there.
fn machine(
    interface: &'static str,
    mac: [u8; 6],
    addresses: Vec<String>,
    router: (&'static str, [u8; 6]),
) -> Machine {
    let (say_thread, thread) = channel();
    let (moved, wait) = channel::<()>();
    let (give, sockets) = channel();
    let (stays, until) = channel::<()>();
    std::thread::spawn(move || {
        // SAFETY: only this thread's network namespace changes; memory and descriptors stay shared.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.expect("a network namespace");
        say_thread.send(gettid()).expect("heard");
        wait.recv().expect("moved");
        give_mac(interface, mac);
        ip("link set lo up");
        ip(&format!("link set {interface} up"));
        // veth accepts frames sent by XDP only with GRO.
        nw_faces::interfaces::ethtool::set_features(interface, &[("rx-gro", true)]).expect("GRO");
        for address in &addresses {
            let (address, _) = address.split_once(':').expect("a port");
            ip(&format!("addr add {address}/24 dev {interface}"));
        }
        let (router, mac) = router;
        let mac: Vec<String> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
        ip(&format!("neigh add {router} lladdr {} dev {interface} nud permanent", mac.join(":")));
        ip(&format!("route add default via {router}"));
        let sockets =
            addresses.iter().map(|address| UdpSocket::bind(address).expect("a socket")).collect();
        give.send((Raw::open(interface), sockets)).expect("taken");
        // Until the other end of the channel is dropped.
        let _ = until.recv();
    });
    let thread = thread.recv().expect("a thread");
    ip(&format!("link set {interface} netns {}", thread.as_raw_nonzero()));
    moved.send(()).expect("heard");
    let (raw, sockets) = sockets.recv().expect("sockets");
    Machine { raw, sockets, _stays: stays }
}

/// A balancer in this thread's namespace, with three members on one side and a peer on the other.
pub struct Network {
    pub cluster: Cluster,
    pub members: Machine,
    pub peer: Machine,
}

impl Network {
    /// Creates the network with the balancer attached in this mode; frames to members get this tag.
    pub fn new(mode: AttachMode, vlan: Option<u16>) -> Self {
        for (here, there) in [("in0", "in1"), ("out0", "out1")] {
            ip(&format!("link add {here} type veth peer name {there}"));
        }
        give_mac("in0", INSIDE_MAC);
        give_mac("out0", OUTSIDE_MAC);
        for up in ["lo", "in0", "out0"] {
            ip(&format!("link set {up} up"));
        }
        let addresses =
            (1..=3).map(|number| format!("10.0.0.{number}:{}", member_port(number))).collect();
        let members = machine("in1", MEMBERS_MAC, addresses, ("10.0.0.254", INSIDE_MAC));
        let peer = machine("out1", PEER_MAC, vec![PEER.to_owned()], ("198.51.100.1", OUTSIDE_MAC));
        set("ipv4/ip_forward", "1");
        ip("addr add 10.0.0.254/24 dev in0");
        ip("addr add 192.0.2.1/32 dev lo");
        ip("addr add 198.51.100.1/24 dev out0");
        ip("neigh add 198.51.100.7 lladdr 02:00:00:00:03:04 dev out0 nud permanent");
        let mut cluster = Cluster::with(&options());
        for number in 1..=3 {
            let hop = Hop {
                interface_index: index_of("in0"),
                own_mac: INSIDE_MAC,
                mac: MEMBERS_MAC,
                vlan,
                mtu_bytes: 1500,
            };
            let entry = MemberEntry { hop: Some(hop), address_v6: None, ..entry(number) };
            cluster.balancer.set_member(number, &entry).expect("a member");
        }
        for interface in ["in0", "out0"] {
            cluster.balancer.attach(interface, Some(mode)).expect("attached");
        }
        Network { cluster, members, peer }
    }

    /// Returns a datagram from the peer to the cluster, or to a member's port.
    pub fn peer_datagram(&self, to: &str, payload: &[u8]) -> Udp {
        let frame = Udp::new(PEER, to, payload);
        Udp { to_mac: OUTSIDE_MAC, from_mac: PEER_MAC, ..frame }
    }

    /// Returns a datagram from a member to the peer.
    pub fn member_datagram(&self, number: u8, payload: &[u8]) -> Udp {
        let frame = Udp::new(&format!("10.0.0.{number}:{}", member_port(number)), PEER, payload);
        Udp { to_mac: INSIDE_MAC, from_mac: MEMBERS_MAC, ..frame }
    }
}

/// Returns the next datagram at a socket. `None` after `wait`.
pub fn received(socket: &UdpSocket, wait: Duration) -> Option<Vec<u8>> {
    socket.set_read_timeout(Some(wait)).expect("a time");
    let mut bytes = vec![0; 65_536];
    let (len, _) = socket.recv_from(&mut bytes).ok()?;
    bytes.truncate(len);
    Some(bytes)
}
