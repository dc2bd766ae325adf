//! Face URIs: how people and management name the two ends of a face.
//!
//! Forms as NFD has them: `unix:///path`, `tcp4://192.0.2.1:6363`, `tcp6://[2001:db8::1]:6363`, `udp4://…`, `udp6://…`, `fd://7`, `internal://`,
//! `null://`, `contentstore://`; `ether://[08:00:27:01:02:03]` for a network card and `dev://eth0` for an interface of this machine;
//! `shm:///path` for shared memory that is handed over a socket at a path;
//! `ws://192.0.2.1:9696` for a WebSocket server and `wsclient://192.0.2.7:51000` for a client of ours; `tcp://host:port`, `udp://host:port` and
//! `ws://host:port` when a name is still to be resolved. The port is 6363 when not said, 9696 for WebSocket.

use crate::mac::Mac;
use core::fmt;
use core::str::FromStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Port of NDN over UDP and TCP.
pub const PORT_DEFAULT: u16 = 6363;

/// Port of NDN over WebSocket.
pub const WEBSOCKET_PORT_DEFAULT: u16 = 9696;

/// Octets of the longest name of an interface (IFNAMSIZ less its end).
pub const INTERFACE_NAME_MAX: usize = 15;

/// Why some text is no face URI.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// No `://`.
    #[error("`{0}` is no face URI: expected scheme://…, as in udp4://192.0.2.1:6363")]
    NoScheme(String),
    /// A scheme nobody knows here.
    #[error(
        "`{0}` is no known scheme: expected unix, shm, tcp, tcp4, tcp6, udp, udp4, udp6, ether, dev, ws, fd, internal or null"
    )]
    Scheme(String),
    /// An address or host that can't be.
    #[error("`{0}` is no address for this scheme")]
    Address(String),
    /// A port that can't be.
    #[error("`{0}` is no port")]
    Port(String),
    /// Something after an URI that ends before.
    #[error("`{0}` has a path, where none may be")]
    Path(String),
    /// A relative path, or none.
    #[error("`{0}`: a unix socket needs an absolute path, as in unix:///run/nfd/nfd.sock")]
    UnixPath(String),
    /// Likewise.
    #[error(
        "`{0}`: shared memory is handed over a socket at an absolute path, as in shm:///run/nw/link.sock"
    )]
    SharedPath(String),
    /// No Ethernet address in brackets.
    #[error("`{0}`: an Ethernet address stands in brackets, as in ether://[08:00:27:01:02:03]")]
    Ether(String),
    /// No name that an interface can have.
    #[error("`{0}` is no name of a network interface, as in dev://eth0")]
    Interface(String),
    /// A descriptor that is no number.
    #[error("`{0}` is no file descriptor")]
    Fd(String),
    /// The name has no address (of this family).
    #[error("`{0}` has no address: {1}")]
    Unresolved(String, String),
}

/// What an address with a port is reached by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// WebSocket.
    WebSocket,
}

/// Which addresses a host name may resolve to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Any: `tcp`, `udp`.
    Any,
    /// IPv4 only: `tcp4`, `udp4`.
    V4,
    /// IPv6 only: `tcp6`, `udp6`.
    V6,
}

/// Octets of a unix socket's path, at most: the system keeps it in 108, the last of which is 0.
pub const UNIX_PATH_LEN_MAX: usize = 107;

/// One end of a face.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FaceUri {
    /// A unix stream socket's path.
    Unix(PathBuf),
    /// The path of the socket over which memory is handed that both ends share.
    Shm(PathBuf),
    /// A TCP address.
    Tcp(SocketAddr),
    /// A UDP address.
    Udp(SocketAddr),
    /// A WebSocket server.
    Ws(SocketAddr),
    /// The far end of a WebSocket connection that was accepted here.
    WsClient(SocketAddr),
    /// A network card, or a group of them, on the same link.
    Ether(Mac),
    /// An interface of this machine.
    Dev(Box<str>),
    /// A host name that is still to be resolved.
    Host {
        /// TCP, UDP or WebSocket.
        transport: Transport,
        /// Which addresses will do.
        family: Family,
        /// The name.
        host: String,
        /// The port.
        port: u16,
    },
    /// A descriptor: the far end of an accepted unix connection.
    Fd(u32),
    /// The router itself, where management answers.
    Internal,
    /// Drops all that is sent to it.
    Null,
    /// The content store, seen as a face.
    ContentStore,
}

impl FaceUri {
    /// True when it names one peer, without anything to resolve.
    pub const fn is_canonical(&self) -> bool {
        !matches!(self, FaceUri::Host { .. })
    }

    /// The scheme, as management filters by it.
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

    /// The path of the socket of an end that has one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            FaceUri::Unix(path) | FaceUri::Shm(path) => Some(path),
            _ => None,
        }
    }

    /// The address of an end that has one.
    pub const fn address(&self) -> Option<SocketAddr> {
        match self {
            FaceUri::Tcp(address)
            | FaceUri::Udp(address)
            | FaceUri::Ws(address)
            | FaceUri::WsClient(address) => Some(*address),
            _ => None,
        }
    }

    /// The canonical URIs this one stands for: itself, or one per address of its host name, in the resolver's order.
    ///
    /// Asks the system's resolver and **waits for it**: never call this in a packet loop.
    ///
    /// # Errors
    /// When the name has no address of the family asked for.
    pub fn resolve(&self) -> Result<Vec<FaceUri>, UriError> {
        let FaceUri::Host { transport, family, host, port } = self else {
            return Ok(vec![self.clone()]);
        };
        let unresolved = |why: &dyn fmt::Display| UriError::Unresolved(host.clone(), why.to_string());
        let addresses = (host.as_str(), *port).to_socket_addrs().map_err(|e| unresolved(&e))?;
        let uris: Vec<_> = addresses
            .filter(|a| {
                matches!(
                    (family, a),
                    (Family::Any, _) | (Family::V4, SocketAddr::V4(_)) | (Family::V6, SocketAddr::V6(_))
                )
            })
            .map(|a| at(*transport, a))
            .collect();
        if uris.is_empty() { Err(unresolved(&"none of this address family")) } else { Ok(uris) }
    }
}

fn at(transport: Transport, address: SocketAddr) -> FaceUri {
    let address = canonical(address);
    match transport {
        Transport::Tcp => FaceUri::Tcp(address),
        Transport::Udp => FaceUri::Udp(address),
        Transport::WebSocket => FaceUri::Ws(address),
    }
}

/// One form per peer: an IPv4 address in IPv6 clothes is an IPv4 address, and a flow label is no part of who the peer is.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
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
        let (scheme, rest) = text.split_once("://").ok_or_else(|| UriError::NoScheme(text.into()))?;
        let nothing = |uri| if rest.is_empty() { Ok(uri) } else { Err(UriError::Path(text.into())) };
        match scheme {
            "unix" if rest.starts_with('/') && !rest.contains('\0') => Ok(FaceUri::Unix(rest.into())),
            "unix" => Err(UriError::UnixPath(text.into())),
            "shm" if rest.starts_with('/') && !rest.contains('\0') => Ok(FaceUri::Shm(rest.into())),
            "shm" => Err(UriError::SharedPath(text.into())),
            "tcp" => authority(Transport::Tcp, Family::Any, rest),
            "tcp4" => authority(Transport::Tcp, Family::V4, rest),
            "tcp6" => authority(Transport::Tcp, Family::V6, rest),
            "udp" => authority(Transport::Udp, Family::Any, rest),
            "udp4" => authority(Transport::Udp, Family::V4, rest),
            "udp6" => authority(Transport::Udp, Family::V6, rest),
            "ws" => authority(Transport::WebSocket, Family::Any, rest),
            "wsclient" => match authority(Transport::WebSocket, Family::Any, rest)? {
                FaceUri::Ws(address) => Ok(FaceUri::WsClient(address)),
                _ => Err(UriError::Address(rest.into())),
            },
            "ether" => {
                let mac = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
                mac.and_then(|mac| mac.parse().ok())
                    .map(FaceUri::Ether)
                    .ok_or_else(|| UriError::Ether(text.into()))
            }
            "dev" if is_interface_name(rest) => Ok(FaceUri::Dev(rest.into())),
            "dev" => Err(UriError::Interface(text.into())),
            "fd" => rest.parse().map(FaceUri::Fd).map_err(|_| UriError::Fd(text.into())),
            "internal" => nothing(FaceUri::Internal),
            "null" => nothing(FaceUri::Null),
            "contentstore" => nothing(FaceUri::ContentStore),
            _ => Err(UriError::Scheme(scheme.into())),
        }
    }
}

/// As the kernel has it: one to 15 octets, no slash, colon or space, and not a folder's names.
pub fn is_interface_name(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_graphic() && b != b'/' && b != b':';
    (1..=INTERFACE_NAME_MAX).contains(&text.len()) && text.bytes().all(fits) && text != "." && text != ".."
}

fn authority(transport: Transport, family: Family, text: &str) -> Result<FaceUri, UriError> {
    let bad = || UriError::Address(text.into());
    // A single slash behind the authority is an empty path.
    let text = text.strip_suffix('/').unwrap_or(text);
    if text.contains('/') {
        return Err(UriError::Path(text.into()));
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(inner) => {
            let (host, rest) = inner.split_once(']').ok_or_else(bad)?;
            let port = if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or_else(bad)?) };
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

/// An address, perhaps with the number or the name of an interface behind `%` (`%25` as URIs escape it).
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

/// The number of an interface of this machine.
fn interface_index(name: &str) -> Option<u32> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
    if !is_interface_name(name) {
        return None;
    }
    let any = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
    netdevice::name_to_index(&any, name).ok()
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
    fn canonical_forms() {
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
    fn hosts_are_resolved_when_asked() {
        let uri = parse("tcp4://localhost:6364");
        assert!(!uri.is_canonical());
        assert_eq!(uri.to_string(), "tcp4://localhost:6364");
        assert_eq!(uri.resolve().unwrap()[0].to_string(), "tcp4://127.0.0.1:6364");
        assert_eq!(parse("udp://router.example").to_string(), "udp://router.example:6363");
    }

    #[test]
    fn refused() {
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
        fn never_panics_and_prints_what_it_reads(text in "(unix|shm|tcp[46]?|udp[46]?|ws|wsclient|ether|dev|fd|x)://[\\[\\]a-f0-9:.%/-]{0,30}") {
            if let Ok(uri) = text.parse::<FaceUri>() {
                prop_assert_eq!(uri.to_string().parse::<FaceUri>().unwrap(), uri);
            }
        }
    }
}
