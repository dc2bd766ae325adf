//! Listening sockets: unix, shared memory, TCP and WebSocket; and connections to such.

use crate::config::FacesConfig;
use crate::error::FaceError;
use crate::inherited::InheritedUnix;
use crate::shares::PeerShares;
use crate::shm::Shared;
use crate::stream::Stream;
use crate::uri::{FaceUri, canonical};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fs;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Connections that wait to be accepted: bursts of a thousand.
const BACKLOG: i32 = 4096;

/// A listening stream socket.
#[derive(Debug)]
pub struct Listener {
    /// The socket.
    pub socket: OwnedFd,
    /// Where it listens.
    pub uri: FaceUri,
    /// Faces there are of it.
    pub shares: PeerShares,
    /// Connections that became faces.
    pub accepted: u64,
    /// Connections that were closed at once because faces or descriptors were short, or that had to wait for descriptors.
    pub refused: u64,
    /// Removed when the listener ends.
    path: Option<PathBuf>,
}

impl Listener {
    /// A unix socket at `path`, with access rights `mode`. Makes its directory; takes the place of a socket that nobody listens on any more.
    ///
    /// # Errors
    /// With the path, the cause and what helps.
    pub fn unix(path: &Path, mode: u32) -> Result<Self, FaceError> {
        Self::at_path(path, mode, FaceUri::Unix(path.into()))
    }

    /// A socket at `path` over which memory is handed, likewise.
    ///
    /// # Errors
    /// With the path, the cause and what helps.
    pub fn shared_memory(path: &Path, mode: u32) -> Result<Self, FaceError> {
        Self::at_path(path, mode, FaceUri::Shm(path.into()))
    }

    fn at_path(path: &Path, mode: u32, uri: FaceUri) -> Result<Self, FaceError> {
        let fail = || FaceError::system("listen on", path.display());
        let io = |e: std::io::Error| fail()(Errno::from_io_error(&e).unwrap_or(Errno::IO));
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(io)?;
        }
        let kind = kind_of(&uri);
        make_way(path, kind)?;
        let address = SocketAddrUnix::new(path).map_err(fail())?;
        let socket = new_socket(AddressFamily::UNIX, kind).map_err(fail())?;
        rustix::net::bind(&socket, &address).map_err(fail())?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(io)?;
        rustix::net::listen(&socket, BACKLOG).map_err(fail())?;
        Ok(Listener {
            socket,
            uri,
            shares: PeerShares::default(),
            accepted: 0,
            refused: 0,
            path: Some(path.into()),
        })
    }

    /// A unix socket that listens already.
    pub fn adopted(inherited: InheritedUnix) -> Self {
        Listener {
            socket: inherited.socket,
            uri: FaceUri::Unix(inherited.path),
            shares: PeerShares::default(),
            accepted: 0,
            refused: 0,
            path: None,
        }
    }

    /// A TCP socket; port 0 asks for a free one. An IPv6 address takes no IPv4 connections.
    ///
    /// # Errors
    /// What the system says.
    pub fn tcp(address: SocketAddr, config: &FacesConfig) -> Result<Self, FaceError> {
        Self::internet(address, FaceUri::Tcp, config)
    }

    /// A TCP socket for WebSocket connections, likewise.
    ///
    /// # Errors
    /// What the system says.
    pub fn websocket(address: SocketAddr, config: &FacesConfig) -> Result<Self, FaceError> {
        Self::internet(address, FaceUri::Ws, config)
    }

    fn internet(
        address: SocketAddr,
        uri_of: fn(SocketAddr) -> FaceUri,
        config: &FacesConfig,
    ) -> Result<Self, FaceError> {
        let make = || -> Result<Self, Errno> {
            let socket = stream_socket(family(&address))?;
            sockopt::set_socket_reuseaddr(&socket, true)?;
            if address.is_ipv6() {
                sockopt::set_ipv6_v6only(&socket, true)?;
            }
            // Accepted sockets inherit these, in time for the window to be negotiated.
            tune_tcp(&socket, config)?;
            rustix::net::bind(&socket, &address)?;
            rustix::net::listen(&socket, BACKLOG)?;
            let uri = uri_of(SocketAddr::try_from(rustix::net::getsockname(&socket)?)?);
            Ok(Listener { socket, uri, shares: PeerShares::default(), accepted: 0, refused: 0, path: None })
        };
        make().map_err(FaceError::system("listen on", uri_of(address)))
    }

    /// Takes one connection: its socket, the peer's URI, this end's URI. `None` when nobody waits.
    ///
    /// # Errors
    /// What the system says; connections that ended before they were taken are passed over.
    pub fn accept(&self, config: &FacesConfig) -> Result<Option<(OwnedFd, FaceUri, FaceUri)>, Errno> {
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let (socket, peer) = match rustix::net::acceptfrom_with(&self.socket, flags) {
                Ok(accepted) => accepted,
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => continue,
                Err(errno) => return Err(errno),
            };
            let described = match &self.uri {
                FaceUri::Tcp(_) | FaceUri::Ws(_) => peer
                    .ok_or(Errno::NOTCONN)
                    .and_then(SocketAddr::try_from)
                    .and_then(|peer| {
                        Ok((canonical(peer), SocketAddr::try_from(rustix::net::getsockname(&socket)?)?))
                    })
                    .and_then(|(peer, local)| {
                        sockopt::set_tcp_nodelay(&socket, true)?;
                        let local = canonical(local);
                        Ok(match self.uri {
                            FaceUri::Ws(_) => (FaceUri::WsClient(peer), FaceUri::Ws(local)),
                            _ => (FaceUri::Tcp(peer), FaceUri::Tcp(local)),
                        })
                    }),
                local => tune_unix(&socket, config).map(|()| (fd_uri(&socket), local.clone())),
            };
            // A connection that was reset already has no peer: on to the next.
            if let Ok((uri, local)) = described {
                return Ok(Some((socket, uri, local)));
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Nobody could connect there any more; if it is gone already, all the better.
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes a socket that nobody listens on; refuses to remove anything else.
fn make_way(path: &Path, kind: SocketType) -> Result<(), FaceError> {
    let Ok(there) = fs::symlink_metadata(path) else { return Ok(()) };
    if !there.file_type().is_socket() {
        return Err(FaceError::NotASocket(path.into()));
    }
    let fail = || FaceError::system("listen on", path.display());
    let address = SocketAddrUnix::new(path).map_err(fail())?;
    let probe = new_socket(AddressFamily::UNIX, kind).map_err(fail())?;
    match rustix::net::connect(&probe, &address) {
        Err(Errno::CONNREFUSED) => {
            fs::remove_file(path).map_err(|e| fail()(Errno::from_io_error(&e).unwrap_or(Errno::IO)))
        }
        Err(Errno::NOENT) => Ok(()),
        // Connected, or its backlog is full, or it is of another kind: either way somebody is there. Without permission to connect one can't know.
        Ok(()) | Err(Errno::AGAIN | Errno::INPROGRESS | Errno::PROTOTYPE) => {
            Err(FaceError::SocketInUse(path.into()))
        }
        Err(errno) => Err(fail()(errno)),
    }
}

/// Connects a stream without waiting: the stream, which may be connected already, and this end's URI.
///
/// # Errors
/// What the system says.
pub fn connect(
    uri: &FaceUri,
    local: Option<SocketAddr>,
    config: &FacesConfig,
) -> Result<(Stream, FaceUri), FaceError> {
    let make = || -> Result<(Stream, FaceUri), Errno> {
        match uri {
            FaceUri::Unix(path) => {
                let socket = stream_socket(AddressFamily::UNIX)?;
                tune_unix(&socket, config)?;
                rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
                let local = fd_uri(&socket);
                Ok((Stream::to(uri, socket, true), local))
            }
            FaceUri::Shm(path) => {
                let socket = new_socket(AddressFamily::UNIX, kind_of(uri))?;
                rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
                let (local, shared) =
                    (fd_uri(&socket), Shared::offer(socket.as_fd(), config.shared_ring_len)?);
                Ok((Stream::beside(socket, shared), local))
            }
            FaceUri::Tcp(address) | FaceUri::Ws(address) => {
                let socket = stream_socket(family(address))?;
                tune_tcp(&socket, config)?;
                if let Some(local) = local {
                    sockopt::set_socket_reuseaddr(&socket, true)?;
                    rustix::net::bind(&socket, &local)?;
                }
                let connected = match rustix::net::connect(&socket, address) {
                    Ok(()) => true,
                    Err(Errno::INPROGRESS | Errno::INTR) => false,
                    Err(errno) => return Err(errno),
                };
                let local = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
                Ok((Stream::to(uri, socket, connected), near_end(uri, local)))
            }
            _ => Err(Errno::OPNOTSUPP),
        }
    };
    make().map_err(FaceError::system("connect to", uri))
}

/// This end of a connection to a peer.
pub fn near_end(peer: &FaceUri, local: SocketAddr) -> FaceUri {
    match peer {
        FaceUri::Ws(_) => FaceUri::WsClient(local),
        _ => FaceUri::Tcp(local),
    }
}

/// The two ends of a stream that is connected already.
///
/// # Errors
/// What the system says.
pub fn ends_of(socket: &OwnedFd, config: &FacesConfig) -> Result<(FaceUri, FaceUri), FaceError> {
    let make = || -> Result<(FaceUri, FaceUri), Errno> {
        rustix::io::ioctl_fionbio(socket, true)?;
        if sockopt::socket_domain(socket)? == AddressFamily::UNIX {
            tune_unix(socket, config)?;
            return Ok((fd_uri(socket), fd_uri(socket)));
        }
        let peer = SocketAddr::try_from(rustix::net::getpeername(socket)?.ok_or(Errno::NOTCONN)?)?;
        let local = SocketAddr::try_from(rustix::net::getsockname(socket)?)?;
        tune_tcp(socket, config)?;
        Ok((FaceUri::Tcp(canonical(peer)), FaceUri::Tcp(canonical(local))))
    };
    make().map_err(FaceError::system("adopt", "a connected socket"))
}

fn family(address: &SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

fn stream_socket(family: AddressFamily) -> Result<OwnedFd, Errno> {
    new_socket(family, SocketType::STREAM)
}

fn new_socket(family: AddressFamily, kind: SocketType) -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

/// Beside shared memory the socket has messages; being of another kind, it is not taken for a unix face by mistake.
const fn kind_of(uri: &FaceUri) -> SocketType {
    match uri {
        FaceUri::Shm(_) => SocketType::SEQPACKET,
        _ => SocketType::STREAM,
    }
}

fn tune_unix(socket: &OwnedFd, config: &FacesConfig) -> Result<(), Errno> {
    // The sender's buffer is all there is on a unix stream: the larger, the more packets a call.
    sockopt::set_socket_send_buffer_size(socket, config.stream_send_buffer)
}

fn tune_tcp(socket: &OwnedFd, config: &FacesConfig) -> Result<(), Errno> {
    // Writes are gathered here; the kernel need not wait for more.
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_send_buffer_size(socket, config.stream_send_buffer)?;
    config.tcp_receive_buffer.map_or(Ok(()), |bytes| sockopt::set_socket_recv_buffer_size(socket, bytes))
}

/// How an accepted or adopted Unix socket is named.
pub fn fd_uri(socket: &OwnedFd) -> FaceUri {
    use std::os::fd::AsRawFd;
    FaceUri::Fd(socket.as_raw_fd().unsigned_abs())
}
