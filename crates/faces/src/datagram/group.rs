//! UDP to a group on one interface: one socket that hears the group there, and speaks to it from there.

use super::{Medium, size_buffers, sys};
use crate::config::FacesConfig;
use crate::error::FaceError;
use crate::interfaces::Interface;
use crate::uri::FaceUri;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, OwnedFd};

/// Opens the socket. Bound to the group's address, it hears nothing else; the source of what it sends is the interface's address.
///
/// # Errors
/// When the interface has no address of the group's family; what the system says.
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
        // Addresses of one link only are told apart by the interface.
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
    let any = Ipv4Addr::UNSPECIFIED;
    sockopt::set_ip_add_membership_with_ifindex(&socket, group.ip(), &any, interface)?;
    sockopt::set_ip_multicast_if_with_ifindex(&socket, &any, &any, interface)?;
    // What is sent does not come back; and it stays on the link.
    sockopt::set_ip_multicast_loop(&socket, false)?;
    sockopt::set_ip_multicast_ttl(&socket, 1)?;
    Ok(socket)
}

fn open_v6(group: SocketAddrV6, interface: u32, config: &FacesConfig) -> Result<OwnedFd, Errno> {
    let socket = udp_socket(AddressFamily::INET6)?;
    sockopt::set_ipv6_v6only(&socket, true)?;
    sockopt::set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::DONT)?;
    // Kernels before 4.20 don't know it; for groups of one link the interface in the address does the same.
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
    // One such socket for each interface, all bound to the same group; and other programs' beside them.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sys::set_gro(socket.as_fd(), true);
    Ok(socket)
}
