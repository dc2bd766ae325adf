//! Face URIs: the addresses of both ends of a face, in commands, configuration and management.
//!
//! NFD's schemes: `unix:///path`, `tcp4://192.0.2.1:6363`, `tcp6://[2001:db8::1]:6363`, `udp4://…`,
//! `udp6://…`, `fd://7`, `internal://`, `null://`, `contentstore://`; `ether://[08:00:27:01:02:03]`
//! for a network card and `dev://eth0` for an interface of this machine; `ws://192.0.2.1:9696` for
//! a WebSocket server and `wsclient://192.0.2.7:51000` for a client connected to this router.
//!
//! Further: `shm:///path` for shared memory passed over a socket at that path; `tcp://host:port`,
//! `udp://host:port` and `ws://host:port` for a host name that is resolved later. The port defaults
//! to 6363, for WebSocket to 9696.

use crate::mac::Mac;
use core::fmt;
use core::str::FromStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Default port of NDN over UDP and TCP.
pub const PORT_DEFAULT: u16 = 6363;

/// Default port of NDN over WebSocket.
pub const WEBSOCKET_PORT_DEFAULT: u16 = 9696;

/// Bytes of the longest interface name (IFNAMSIZ without the final zero).
pub const INTERFACE_NAME_MAX: usize = 15;

/// Why a text is not a face URI, or can't be resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// There is no `://`.
    #[error("`{0}` is not a face URI: expected scheme://…, as in udp4://192.0.2.1:6363")]
    NoScheme(String),
    /// The scheme is unknown.
    #[error(
        "`{0}` is not a known scheme: expected unix, shm, tcp, tcp4, tcp6, udp, udp4, udp6, ether, dev, ws, fd, internal or null"
    )]
    Scheme(String),
    /// The address or host is invalid for the scheme.
    #[error("`{0}` is not an address for this scheme")]
    Address(String),
    /// The port is not a number from 0 to 65,535.
    #[error("`{0}` is not a port")]
    Port(String),
    /// There is a path after a URI that has none.
    #[error("`{0}` has a path, which this scheme does not allow")]
    Path(String),
    /// The path of a unix socket is relative or missing.
    #[error("`{0}`: a unix socket needs an absolute path, as in unix:///run/nfd/nfd.sock")]
    UnixPath(String),
    /// The path of a shared-memory socket is relative or missing.
    #[error(
        "`{0}`: shared memory is passed over a socket at an absolute path, as in shm:///run/nw/link.sock"
    )]
    SharedPath(String),
    /// There is no Ethernet address in brackets.
    #[error("`{0}`: an Ethernet address is written in brackets, as in ether://[08:00:27:01:02:03]")]
    Ether(String),
    /// The text can't be the name of an interface.
    #[error("`{0}` is not the name of a network interface, as in dev://eth0")]
    Interface(String),
    /// The file descriptor is not a number.
    #[error("`{0}` is not a file descriptor")]
    Fd(String),
    /// The host name has no address of the requested family; the second text is the reason.
    #[error("`{0}` has no address: {1}")]
    Unresolved(String, String),
}

/// Transport of an address with a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// WebSocket.
    WebSocket,
}

/// Address family that a host name is resolved to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Any: `tcp`, `udp`.
    Any,
    /// IPv4 only: `tcp4`, `udp4`.
    V4,
    /// IPv6 only: `tcp6`, `udp6`.
    V6,
}

/// Bytes of the longest path of a unix socket: the kernel stores 108 with the final zero.
pub const UNIX_PATH_LEN_MAX: usize = 107;

/// One end of a face.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FaceUri {
    /// Path of a unix stream socket.
    Unix(PathBuf),
    /// Path of the socket that passes shared memory.
    Shm(PathBuf),
    /// A TCP address.
    Tcp(SocketAddr),
    /// A UDP address.
    Udp(SocketAddr),
    /// A WebSocket server.
    Ws(SocketAddr),
    /// Peer of a WebSocket connection that was accepted here.
    WsClient(SocketAddr),
    /// An Ethernet address, or a group of them, on a local link.
    Ether(Mac),
    /// A network interface of this machine.
    Dev(Box<str>),
    /// A host name, not resolved yet.
    Host {
        /// TCP, UDP or WebSocket.
        transport: Transport,
        /// Permitted address family.
        family: Family,
        /// Host name.
        host: String,
        /// Port number.
        port: u16,
    },
    /// File descriptor of an accepted unix connection.
    Fd(u32),
    /// The router itself, where management answers.
    Internal,
    /// A sink that drops all packets.
    Null,
    /// The content store, shown as a face.
    ContentStore,
}

impl FaceUri {
    /// Returns whether it identifies one peer without name resolution.
    pub const fn is_canonical(&self) -> bool {
        !matches!(self, FaceUri::Host { .. })
    }

    /// Returns the scheme, without `://`.
    pub const fn scheme(&self) -> &'static str {
        match self {
            FaceUri::Unix(_) => "unix",
            FaceUri::Shm(_) => "shm",
            FaceUri::Tcp(SocketAddr::V4(_)) => "tcp4",
            FaceUri::Tcp(SocketAddr::V6(_)) => "tcp6",
            FaceUri::Udp(SocketAddr::V4(_)) => "udp4",
            FaceUri::Udp(SocketAddr::V6(_)) => "udp6",
            FaceUri::Host { transport: Transport::Tcp, family: Family::Any, .. } => "tcp",
            FaceUri::Host { transport: Transport::Tcp, family: Family::V4, .. } => "tcp4",
            FaceUri::Host { transport: Transport::Tcp, family: Family::V6, .. } => "tcp6",
            FaceUri::Host { transport: Transport::Udp, family: Family::Any, .. } => "udp",
            FaceUri::Host { transport: Transport::Udp, family: Family::V4, .. } => "udp4",
            FaceUri::Host { transport: Transport::Udp, family: Family::V6, .. } => "udp6",
            FaceUri::Ws(_) | FaceUri::Host { transport: Transport::WebSocket, .. } => "ws",
            FaceUri::WsClient(_) => "wsclient",
            FaceUri::Ether(_) => "ether",
            FaceUri::Dev(_) => "dev",
            FaceUri::Fd(_) => "fd",
            FaceUri::Internal => "internal",
            FaceUri::Null => "null",
            FaceUri::ContentStore => "contentstore",
        }
    }

    /// Returns the path of a unix or shared-memory socket.
    pub fn path(&self) -> Option<&Path> {
        match self {
            FaceUri::Unix(path) | FaceUri::Shm(path) => Some(path),
            _ => None,
        }
    }

    /// Returns the IP address and port of a TCP, UDP or WebSocket URI.
    pub const fn address(&self) -> Option<SocketAddr> {
        match self {
            FaceUri::Tcp(address)
            | FaceUri::Udp(address)
            | FaceUri::Ws(address)
            | FaceUri::WsClient(address) => Some(*address),
            _ => None,
        }
    }

    /// Resolves a host name: returns one canonical URI per address, in the resolver's order, or the
    /// URI itself if it is canonical.
    ///
    /// Calls the system's resolver and **blocks**: never call this in a packet loop.
    ///
    /// # Errors
    /// If the name has no address of the requested family.
    pub fn resolve(&self) -> Result<Vec<FaceUri>, UriError> {
        let FaceUri::Host { transport, family, host, port } = self else {
            return Ok(vec![self.clone()]);
        };
        let unresolved =
            |why: &dyn fmt::Display| UriError::Unresolved(host.clone(), why.to_string());
        let addresses = (host.as_str(), *port).to_socket_addrs().map_err(|e| unresolved(&e))?;
        let uris: Vec<_> = addresses
            .filter(|a| {
                matches!(
                    (family, a),
                    (Family::Any, _)
                        | (Family::V4, SocketAddr::V4(_))
                        | (Family::V6, SocketAddr::V6(_))
                )
            })
            .map(|a| at(*transport, a))
            .collect();
        if uris.is_empty() { Err(unresolved(&"none of this address family")) } else { Ok(uris) }
    }
}

fn at(transport: Transport, address: SocketAddr) -> FaceUri {
    let address = canonical_address(address);
    match transport {
        Transport::Tcp => FaceUri::Tcp(address),
        Transport::Udp => FaceUri::Udp(address),
        Transport::WebSocket => FaceUri::Ws(address),
    }
}

/// Returns the form under which one peer is always stored: an IPv4-mapped IPv6 address becomes
/// IPv4, and the flow label is cleared.
pub fn canonical_address(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(_) => address,
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => SocketAddr::new(IpAddr::V4(v4), v6.port()),
            None => SocketAddr::V6(SocketAddrV6::new(*v6.ip(), v6.port(), 0, v6.scope_id())),
        },
    }
}

impl FromStr for FaceUri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        let (scheme, address) =
            text.split_once("://").ok_or_else(|| UriError::NoScheme(text.into()))?;
        let without_path =
            |uri| if address.is_empty() { Ok(uri) } else { Err(UriError::Path(text.into())) };
        match scheme {
            "unix" if address.starts_with('/') && !address.contains('\0') => {
                Ok(FaceUri::Unix(address.into()))
            }
            "unix" => Err(UriError::UnixPath(text.into())),
            "shm" if address.starts_with('/') && !address.contains('\0') => {
                Ok(FaceUri::Shm(address.into()))
            }
            "shm" => Err(UriError::SharedPath(text.into())),
            "tcp" => authority(Transport::Tcp, Family::Any, address),
            "tcp4" => authority(Transport::Tcp, Family::V4, address),
            "tcp6" => authority(Transport::Tcp, Family::V6, address),
            "udp" => authority(Transport::Udp, Family::Any, address),
            "udp4" => authority(Transport::Udp, Family::V4, address),
            "udp6" => authority(Transport::Udp, Family::V6, address),
            "ws" => authority(Transport::WebSocket, Family::Any, address),
            "wsclient" => match authority(Transport::WebSocket, Family::Any, address)? {
                FaceUri::Ws(address) => Ok(FaceUri::WsClient(address)),
                _ => Err(UriError::Address(address.into())),
            },
            "ether" => {
                let mac = address.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
                mac.and_then(|mac| mac.parse().ok())
                    .map(FaceUri::Ether)
                    .ok_or_else(|| UriError::Ether(text.into()))
            }
            "dev" if is_interface_name(address) => Ok(FaceUri::Dev(address.into())),
            "dev" => Err(UriError::Interface(text.into())),
            "fd" => address.parse().map(FaceUri::Fd).map_err(|_| UriError::Fd(text.into())),
            "internal" => without_path(FaceUri::Internal),
            "null" => without_path(FaceUri::Null),
            "contentstore" => without_path(FaceUri::ContentStore),
            _ => Err(UriError::Scheme(scheme.into())),
        }
    }
}

/// Returns whether the kernel permits `text` as an interface name: 1 to 15 bytes, no slash, colon
/// or space, not `.` or `..`.
pub fn is_interface_name(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_graphic() && b != b'/' && b != b':';
    (1..=INTERFACE_NAME_MAX).contains(&text.len())
        && text.bytes().all(fits)
        && text != "."
        && text != ".."
}

fn authority(transport: Transport, family: Family, text: &str) -> Result<FaceUri, UriError> {
    let bad = || UriError::Address(text.into());
    // A single slash after the authority is an empty path.
    let text = text.strip_suffix('/').unwrap_or(text);
    if text.contains('/') {
        return Err(UriError::Path(text.into()));
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(inner) => {
            let (host, tail) = inner.split_once(']').ok_or_else(bad)?;
            let port =
                if tail.is_empty() { None } else { Some(tail.strip_prefix(':').ok_or_else(bad)?) };
            (host, port)
        }
        // More than one colon without brackets is a bare IPv6 address.
        None if text.matches(':').count() > 1 => (text, None),
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = match port {
        None if transport == Transport::WebSocket => WEBSOCKET_PORT_DEFAULT,
        None => PORT_DEFAULT,
        Some(port) => port.parse().map_err(|_| UriError::Port(port.into()))?,
    };
    if let Ok(v4) = host.parse::<Ipv4Addr>() {
        let fits = family != Family::V6;
        return if fits { Ok(at(transport, SocketAddr::from((v4, port)))) } else { Err(bad()) };
    }
    if host.contains(':') {
        let v6 = v6_address(host, port).ok_or_else(bad)?;
        return if family == Family::V4 { Err(bad()) } else { Ok(at(transport, v6)) };
    }
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'.' || b == b'-' || b == b'_';
    if host.is_empty() || host.len() > 253 || !host.bytes().all(fits) {
        return Err(bad());
    }
    Ok(FaceUri::Host { transport, family, host: host.into(), port })
}

/// Parses an IPv6 address, optionally followed by `%` (`%25` where URIs escape it) and the index or
/// name of an interface.
fn v6_address(host: &str, port: u16) -> Option<SocketAddr> {
    let (address, scope) = match host.split_once('%') {
        Some((address, scope)) => {
            let scope = scope.strip_prefix("25").filter(|s| !s.is_empty()).unwrap_or(scope);
            (address, scope.parse().ok().or_else(|| interface_index(scope))?)
        }
        None => (host, 0),
    };
    Some(SocketAddrV6::new(address.parse::<Ipv6Addr>().ok()?, port, 0, scope).into())
}

/// Returns the index of an interface of this machine. The standard library's resolver looks up zone
/// names; no name server is involved.
fn interface_index(name: &str) -> Option<u32> {
    if !is_interface_name(name) {
        return None;
    }
    let host = format!("fe80::%{name}");
    let mut addresses = (host.as_str(), 0).to_socket_addrs().ok()?;
    addresses.find_map(|address| match address {
        SocketAddr::V6(v6) => Some(v6.scope_id()),
        SocketAddr::V4(_) => None,
    })
}

impl fmt::Display for FaceUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme())?;
        match self {
            FaceUri::Unix(path) | FaceUri::Shm(path) => {
                f.write_str(&String::from_utf8_lossy(path.as_os_str().as_bytes()))
            }
            FaceUri::Tcp(address)
            | FaceUri::Udp(address)
            | FaceUri::Ws(address)
            | FaceUri::WsClient(address) => address.fmt(f),
            FaceUri::Ether(mac) => write!(f, "[{mac}]"),
            FaceUri::Dev(name) => f.write_str(name),
            FaceUri::Host { host, port, .. } => write!(f, "{host}:{port}"),
            FaceUri::Fd(fd) => fd.fmt(f),
            FaceUri::Internal | FaceUri::Null | FaceUri::ContentStore => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> FaceUri {
        text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn uri_is_printed_in_canonical_form() {
        for (text, shown) in [
            ("unix:///run/nfd/nfd.sock", "unix:///run/nfd/nfd.sock"),
            ("shm:///run/nw/a-b.sock", "shm:///run/nw/a-b.sock"),
            ("tcp4://192.0.2.1", "tcp4://192.0.2.1:6363"),
            ("tcp://192.0.2.1:7000", "tcp4://192.0.2.1:7000"),
            ("udp://192.0.2.1:7000/", "udp4://192.0.2.1:7000"),
            ("udp6://[2001:db8::1]", "udp6://[2001:db8::1]:6363"),
            ("udp6://[2001:0db8::0:1]:6364", "udp6://[2001:db8::1]:6364"),
            ("tcp6://2001:db8::1", "tcp6://[2001:db8::1]:6363"),
            ("udp://[::ffff:192.0.2.1]:1", "udp4://192.0.2.1:1"),
            ("udp6://[fe80::1%253]:6363", "udp6://[fe80::1%3]:6363"),
            ("udp6://[fe80::1%3]:6363", "udp6://[fe80::1%3]:6363"),
            ("udp6://[fe80::1%lo]:6363", "udp6://[fe80::1%1]:6363"),
            ("udp6://[ff02::1234%1]:56363", "udp6://[ff02::1234%1]:56363"),
            ("ether://[08:00:27:1:2:3]", "ether://[08:00:27:01:02:03]"),
            ("dev://eth0.100", "dev://eth0.100"),
            ("ws://192.0.2.1", "ws://192.0.2.1:9696"),
            ("ws://[::1]:80/", "ws://[::1]:80"),
            ("wsclient://192.0.2.1:50000", "wsclient://192.0.2.1:50000"),
            ("fd://17", "fd://17"),
            ("internal://", "internal://"),
            ("null://", "null://"),
        ] {
            assert_eq!(parse(text).to_string(), shown);
            assert!(parse(text).is_canonical());
            assert_eq!(parse(shown).to_string(), shown);
        }
    }

    #[test]
    fn host_name_is_resolved_by_resolve() {
        let uri = parse("tcp4://localhost:6364");
        assert!(!uri.is_canonical());
        assert_eq!(uri.to_string(), "tcp4://localhost:6364");
        assert_eq!(uri.resolve().unwrap()[0].to_string(), "tcp4://127.0.0.1:6364");
        assert_eq!(parse("udp://router.example").to_string(), "udp://router.example:6363");
    }

    #[test]
    fn invalid_uri_is_refused() {
        for text in [
            "",
            "192.0.2.1",
            "http://x",
            "tcp4://[::1]",
            "udp6://192.0.2.1",
            "udp4://",
            "udp4://:6363",
            "udp4://1.2.3.4:0x1",
            "udp4://1.2.3.4:65536",
            "udp4://1.2.3.4/x",
            "unix://relative",
            "unix://",
            "shm://relative",
            "shm://",
            "fd://-1",
            "fd://x",
            "internal://x",
            "udp6://[::1",
            "udp6://[::1]x",
            "udp4://a b",
            "udp6://[fe80::1%no-such-card]",
            "ether://08:00:27:01:02:03",
            "ether://[08:00:27:01:02]",
            "dev://",
            "dev://a/b",
            "dev://a-name-that-is-too-long",
            "ws://192.0.2.1/path",
            "wsclient://router.example:1",
        ] {
            assert!(text.parse::<FaceUri>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_uri_parses_to_itself(text in "(unix|shm|tcp[46]?|udp[46]?|ws|wsclient|ether|dev|fd|x)://[\\[\\]a-f0-9:.%/-]{0,30}") {
            if let Ok(uri) = text.parse::<FaceUri>() {
                prop_assert_eq!(uri.to_string().parse::<FaceUri>().unwrap(), uri);
            }
        }
    }
}
