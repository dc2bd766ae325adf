//! UDP multicast on one interface: one socket that joins the group there and sends to it from
//! there.

use super::{Medium, size_buffers, sys};
use crate::config::FacesConfig;
use crate::error::FaceError;
use crate::interfaces::Interface;
use nw_link::FaceUri;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, OwnedFd};

/// Opens the socket. Bound to the group's address, it receives nothing else; it sends from the
/// interface's address.
///
/// # Errors
/// If the interface has no address of the group's family, or the socket can't be opened.
pub fn open(
    group: SocketAddr,
    interface: &Interface,
    config: &FacesConfig,
) -> Result<(OwnedFd, Medium), FaceError> {
    let index = interface.index;
    let Some(local) = interface.address_like(group.ip()) else {
        return Err(FaceError::NoAddress(interface.name.clone(), group));
    };
    let (group, local) = match (group, local) {
        // Link-local addresses include the interface's index.
        (SocketAddr::V6(v6), IpAddr::V6(local)) => {
            let scoped = |ip| SocketAddr::V6(SocketAddrV6::new(ip, v6.port(), 0, index));
            (scoped(*v6.ip()), scoped(local))
        }
        (group, local) => (group, SocketAddr::new(local, group.port())),
    };
    let make = || match group {
        SocketAddr::V4(group) => open_v4(group, index, config),
        SocketAddr::V6(group) => open_v6(group, index, config),
    };
    let socket = make().map_err(FaceError::system("join", FaceUri::Udp(group)))?;
    Ok((socket, Medium::Group { interface: index, name: interface.name.clone(), local, group }))
}

fn open_v4(group: SocketAddrV4, interface: u32, config: &FacesConfig) -> Result<OwnedFd, Errno> {
    let socket = udp_socket(AddressFamily::INET)?;
    sockopt::set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DONT)?;
    sys::own_groups_only(socket.as_fd(), false)?;
    size_buffers(&socket, config)?;
    rustix::net::bind(&socket, &SocketAddr::V4(group))?;
    let unspecified = Ipv4Addr::UNSPECIFIED;
    sockopt::set_ip_add_membership_with_ifindex(&socket, group.ip(), &unspecified, interface)?;
    sockopt::set_ip_multicast_if_with_ifindex(&socket, &unspecified, &unspecified, interface)?;
    // Sent datagrams are not looped back, and stay on the link.
    sockopt::set_ip_multicast_loop(&socket, false)?;
    sockopt::set_ip_multicast_ttl(&socket, 1)?;
    Ok(socket)
}

fn open_v6(group: SocketAddrV6, interface: u32, config: &FacesConfig) -> Result<OwnedFd, Errno> {
    let socket = udp_socket(AddressFamily::INET6)?;
    sockopt::set_ipv6_v6only(&socket, true)?;
    sockopt::set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::DONT)?;
    // Unknown to kernels before 4.20; for link-local groups the interface in the address has the
    // same effect.
    let _ = sys::own_groups_only(socket.as_fd(), true);
    size_buffers(&socket, config)?;
    rustix::net::bind(&socket, &SocketAddr::V6(group))?;
    sockopt::set_ipv6_add_membership(&socket, group.ip(), interface)?;
    sockopt::set_ipv6_multicast_if(&socket, interface)?;
    sockopt::set_ipv6_multicast_loop(&socket, false)?;
    sockopt::set_ipv6_multicast_hops(&socket, 1)?;
    Ok(socket)
}

fn udp_socket(family: AddressFamily) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
    // One socket per interface, all bound to the same group, and other programs' too.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sys::set_gro(socket.as_fd(), true);
    Ok(socket)
}
