//! Checks of a requested face that need no socket.

use crate::config::{FaceOptions, MTU_MIN};
use crate::error::FaceError;
use nw_link::uri::{FaceUri, Family, Transport, UNIX_PATH_LEN_MAX};
use nw_link::{FaceFlags, LinkError, Persistency};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;

/// Checks a request as [`Faces::connect`](crate::Faces::connect) does, as far as it does not depend
/// on this machine: its interfaces, addresses, rights and faces. A host name counts as a matching
/// address.
///
/// # Errors
/// The error that `connect` would return.
pub fn check(
    uri: &FaceUri,
    local: Option<&FaceUri>,
    options: &FaceOptions,
) -> Result<(), FaceError> {
    if options.persistency == Some(Persistency::OnDemand) {
        return Err(FaceError::Persistency(Persistency::OnDemand.as_str()));
    }
    let scheme = || FaceError::Scheme(uri.clone());
    let unreachable =
        |a: &SocketAddr| a.port() == 0 || a.ip().is_unspecified() || a.ip().is_multicast();
    match uri {
        FaceUri::Udp(group) if group.ip().is_multicast() && group.port() != 0 => {
            check_group(uri, *group, local)?;
        }
        FaceUri::Udp(peer) | FaceUri::Tcp(peer) | FaceUri::Ws(peer) if unreachable(peer) => {
            return Err(scheme());
        }
        FaceUri::Udp(peer) if is_broadcast(*peer) => return Err(scheme()),
        FaceUri::Host { port: 0, .. } => return Err(scheme()),
        FaceUri::Host { .. } | FaceUri::Udp(_) | FaceUri::Tcp(_) | FaceUri::Ws(_) => {
            check_local(uri, local)?;
        }
        FaceUri::Ether(_) => match local {
            Some(FaceUri::Dev(_)) => {}
            Some(other) => return Err(FaceError::Scheme(other.clone())),
            None => return Err(FaceError::InterfaceNeeded(uri.clone())),
        },
        FaceUri::Unix(path) | FaceUri::Shm(path) => {
            if path.as_os_str().as_bytes().len() > UNIX_PATH_LEN_MAX {
                return Err(FaceError::system("connect to", uri)(rustix::io::Errno::NAMETOOLONG));
            }
            check_local(uri, local)?;
        }
        _ => return Err(scheme()),
    }
    if let Some(mtu) = options.mtu
        && (is_stream(uri) || mtu < MTU_MIN)
    {
        return Err(FaceError::Link(LinkError::Mtu(mtu)));
    }
    let reliable = options.flags.contains(FaceFlags::RELIABILITY)
        && options.flags_mask.contains(FaceFlags::RELIABILITY);
    let shared = match uri {
        FaceUri::Udp(peer) => peer.ip().is_multicast(),
        FaceUri::Ether(mac) => mac.0[0] & 1 == 1,
        _ => false,
    };
    if reliable && shared { Err(FaceError::Link(LinkError::ReliabilityShared)) } else { Ok(()) }
}

fn is_broadcast(peer: SocketAddr) -> bool {
    matches!(peer, SocketAddr::V4(v4) if v4.ip().is_broadcast())
}

const fn is_stream(uri: &FaceUri) -> bool {
    matches!(
        uri,
        FaceUri::Tcp(_)
            | FaceUri::Ws(_)
            | FaceUri::Unix(_)
            | FaceUri::Shm(_)
            | FaceUri::Host { transport: Transport::Tcp | Transport::WebSocket, .. }
    )
}

fn check_group(uri: &FaceUri, group: SocketAddr, local: Option<&FaceUri>) -> Result<(), FaceError> {
    match (local, group) {
        (Some(FaceUri::Dev(_)), _) => {}
        (Some(FaceUri::Udp(local)), _) if local.is_ipv4() == group.is_ipv4() => {}
        (None, SocketAddr::V6(v6)) if v6.scope_id() != 0 => {}
        (None, _) => return Err(FaceError::InterfaceNeeded(uri.clone())),
        (Some(other), _) => return Err(FaceError::Scheme(other.clone())),
    }
    if crate::interfaces::is_group_of_a_link(group.ip()) {
        Ok(())
    } else {
        Err(FaceError::Scheme(uri.clone()))
    }
}

/// Checks that the local URI has the kind of the remote one.
fn check_local(uri: &FaceUri, local: Option<&FaceUri>) -> Result<(), FaceError> {
    let Some(local) = local else { return Ok(()) };
    let fits = match (uri, local) {
        (FaceUri::Host { transport, family, .. }, _) => {
            let (local_transport, address) = match local {
                FaceUri::Udp(address) => (Transport::Udp, address),
                FaceUri::Tcp(address) => (Transport::Tcp, address),
                FaceUri::Ws(address) => (Transport::WebSocket, address),
                _ => return Err(FaceError::Scheme(local.clone())),
            };
            let family = match family {
                Family::Any => true,
                Family::V4 => address.is_ipv4(),
                Family::V6 => address.is_ipv6(),
            };
            local_transport == *transport && family
        }
        _ => local.scheme() == uri.scheme() && local.is_canonical(),
    };
    if fits { Ok(()) } else { Err(FaceError::Scheme(local.clone())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_face_is_refused_without_socket() {
        let with = |uri: &str, local: &str, options: &FaceOptions| {
            let local = (!local.is_empty()).then(|| local.parse::<FaceUri>().unwrap());
            check(&uri.parse::<FaceUri>().unwrap(), local.as_ref(), options)
        };
        let none = FaceOptions::default();
        for (uri, local) in [
            ("udp4://192.0.2.1:6363", ""),
            ("udp4://192.0.2.1:6363", "udp4://192.0.2.2:6363"),
            ("udp4://router.example", "udp4://192.0.2.2:6363"),
            ("tcp://router.example:80", "tcp6://[::1]:1"),
            ("udp4://224.0.23.170:56363", "dev://eth0"),
            ("udp6://[ff02::1234%1]:56363", ""),
            ("ether://[08:00:27:01:02:03]", "dev://eth0"),
            ("unix:///x", ""),
            ("ws://192.0.2.1", ""),
        ] {
            assert!(with(uri, local, &none).is_ok(), "{uri} {local}");
        }
        for (uri, local) in [
            ("udp4://192.0.2.1:0", ""),
            ("tcp4://0.0.0.0:6363", ""),
            ("udp4://255.255.255.255:6363", ""),
            ("tcp4://224.0.0.1:6363", ""),
            ("udp4://224.0.23.170:56363", ""),
            ("udp6://[ff05::1%1]:56363", ""),
            ("udp4://router.example:0", ""),
            ("udp4://router.example", "tcp4://192.0.2.2:6363"),
            ("udp4://router.example", "udp6://[::1]:6363"),
            ("udp4://192.0.2.1:6363", "udp6://[::1]:6363"),
            ("udp4://192.0.2.1:6363", "dev://eth0"),
            ("ether://[08:00:27:01:02:03]", ""),
            ("ether://[08:00:27:01:02:03]", "udp4://192.0.2.2:6363"),
            ("fd://5", ""),
            ("dev://eth0", ""),
            ("internal://", ""),
            ("unix:///x", "udp4://192.0.2.2:6363"),
        ] {
            assert!(with(uri, local, &none).is_err(), "{uri} {local}");
        }
        let long = format!("unix:///{}", "x".repeat(107));
        assert!(with(&long, "", &none).is_err());
        let mtu = FaceOptions { mtu: Some(1400), ..FaceOptions::default() };
        assert!(with("udp4://192.0.2.1", "", &mtu).is_ok());
        for stream in ["tcp4://192.0.2.1", "tcp://router.example", "unix:///x", "ws://192.0.2.1"] {
            assert!(
                matches!(with(stream, "", &mtu), Err(FaceError::Link(LinkError::Mtu(1400)))),
                "{stream}"
            );
        }
        let reliable = FaceOptions {
            flags: FaceFlags::RELIABILITY,
            flags_mask: FaceFlags::RELIABILITY,
            ..FaceOptions::default()
        };
        assert!(with("udp4://192.0.2.1", "", &reliable).is_ok());
        for (group, local) in [
            ("udp4://224.0.23.170:56363", "dev://eth0"),
            ("ether://[01:00:5e:00:17:aa]", "dev://eth0"),
        ] {
            assert!(
                matches!(
                    with(group, local, &reliable),
                    Err(FaceError::Link(LinkError::ReliabilityShared))
                ),
                "{group}"
            );
        }
    }
}
