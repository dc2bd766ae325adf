//! Listening sockets (unix, shared memory, TCP, WebSocket), and connecting to such.

use crate::accounts::FaceAccounts;
use crate::config::FacesConfig;
use crate::error::FaceError;
use crate::shm::SharedMemoryLink;
use crate::socket_activation::ActivatedUnixSocket;
use crate::stream::Stream;
use nw_link::FaceUri;
use nw_link::uri::canonical_address;
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fs;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Connections that wait to be accepted: bursts of thousands.
const BACKLOG: i32 = 4096;

/// A listening stream socket.
#[derive(Debug)]
pub struct Listener {
    /// The socket.
    pub socket: OwnedFd,
    /// Local URI.
    pub uri: FaceUri,
    /// Accounts of its on-demand faces.
    pub accounts: FaceAccounts,
    /// Connections that got a face.
    pub accepted: u64,
    /// Connections refused because faces or descriptors were short, or delayed for want of
    /// descriptors.
    pub refused: u64,
    /// Socket file to remove on drop.
    path: Option<PathBuf>,
}

impl Listener {
    /// Listens on a unix socket at `path`, with access rights `mode`. Creates its folder; replaces
    /// an unused socket.
    ///
    /// # Errors
    /// If the socket can't be created; the message has path, cause and remedy.
    pub fn unix(path: &Path, mode: u32) -> Result<Self, FaceError> {
        Self::at_path(path, mode, FaceUri::Unix(path.into()))
    }

    /// Listens at `path` for peers over shared memory, like [`unix`](Self::unix).
    ///
    /// # Errors
    /// If the socket can't be created; the message has path, cause and remedy.
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
        remove_unused_socket(path, kind)?;
        let address = SocketAddrUnix::new(path).map_err(fail())?;
        let socket = new_socket(AddressFamily::UNIX, kind).map_err(fail())?;
        rustix::net::bind(&socket, &address).map_err(fail())?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(io)?;
        rustix::net::listen(&socket, BACKLOG).map_err(fail())?;
        Ok(Listener {
            socket,
            uri,
            accounts: FaceAccounts::default(),
            accepted: 0,
            refused: 0,
            path: Some(path.into()),
        })
    }

    /// Takes over a unix socket that is listening already.
    pub fn adopted(activated: ActivatedUnixSocket) -> Self {
        Listener {
            socket: activated.socket,
            uri: FaceUri::Unix(activated.path),
            accounts: FaceAccounts::default(),
            accepted: 0,
            refused: 0,
            path: None,
        }
    }

    /// Listens for TCP connections; port 0 chooses a free one. An IPv6 address accepts no IPv4
    /// connections.
    ///
    /// # Errors
    /// If the address can't be bound.
    pub fn tcp(address: SocketAddr, config: &FacesConfig) -> Result<Self, FaceError> {
        Self::internet(address, FaceUri::Tcp, config)
    }

    /// Listens for WebSocket connections, like [`tcp`](Self::tcp).
    ///
    /// # Errors
    /// If the address can't be bound.
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
            // Accepted sockets inherit these before the window is negotiated.
            tune_tcp(&socket, config)?;
            rustix::net::bind(&socket, &address)?;
            rustix::net::listen(&socket, BACKLOG)?;
            let uri = uri_of(SocketAddr::try_from(rustix::net::getsockname(&socket)?)?);
            Ok(Listener {
                socket,
                uri,
                accounts: FaceAccounts::default(),
                accepted: 0,
                refused: 0,
                path: None,
            })
        };
        make().map_err(FaceError::system("listen on", uri_of(address)))
    }

    /// Accepts one connection. Returns its socket, remote URI and local URI. `None` if none is
    /// waiting.
    ///
    /// # Errors
    /// If accepting fails; connections that ended before are skipped.
    pub fn accept(
        &self,
        config: &FacesConfig,
    ) -> Result<Option<(OwnedFd, FaceUri, FaceUri)>, Errno> {
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
                        Ok((
                            canonical_address(peer),
                            SocketAddr::try_from(rustix::net::getsockname(&socket)?)?,
                        ))
                    })
                    .and_then(|(peer, local)| {
                        sockopt::set_tcp_nodelay(&socket, true)?;
                        let local = canonical_address(local);
                        Ok(match self.uri {
                            FaceUri::Ws(_) => (FaceUri::WsClient(peer), FaceUri::Ws(local)),
                            _ => (FaceUri::Tcp(peer), FaceUri::Tcp(local)),
                        })
                    }),
                local => tune_unix(&socket, config).map(|()| (fd_uri(&socket), local.clone())),
            };
            // A connection that was reset has no peer: try the next.
            if let Ok((uri, local)) = described {
                return Ok(Some((socket, uri, local)));
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // No client could connect there any more; an error means it is gone already.
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes a socket file that no program listens on; refuses to remove anything else.
fn remove_unused_socket(path: &Path, kind: SocketType) -> Result<(), FaceError> {
    let Ok(existing) = fs::symlink_metadata(path) else { return Ok(()) };
    if !existing.file_type().is_socket() {
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
        // Connected, or its backlog is full, or it is of another kind: a program listens there.
        // Without permission to connect it is unknown.
        Ok(()) | Err(Errno::AGAIN | Errno::INPROGRESS | Errno::PROTOTYPE) => {
            Err(FaceError::SocketInUse(path.into()))
        }
        Err(errno) => Err(fail()(errno)),
    }
}

/// Connects a stream without blocking. Returns the stream, which may be connected already, and the
/// local URI.
///
/// # Errors
/// If the connection can't be started.
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
                Ok((Stream::connecting(uri, socket, true), local))
            }
            FaceUri::Shm(path) => {
                let socket = new_socket(AddressFamily::UNIX, kind_of(uri))?;
                rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
                let (local, shared) = (
                    fd_uri(&socket),
                    SharedMemoryLink::offer(socket.as_fd(), config.shared_ring_len)?,
                );
                Ok((Stream::over_shared_memory(socket, shared), local))
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
                Ok((Stream::connecting(uri, socket, connected), local_uri_of(uri, local)))
            }
            _ => Err(Errno::OPNOTSUPP),
        }
    };
    make().map_err(FaceError::system("connect to", uri))
}

/// Returns the local URI of a connection to a peer.
pub fn local_uri_of(peer: &FaceUri, local: SocketAddr) -> FaceUri {
    match peer {
        FaceUri::Ws(_) => FaceUri::WsClient(local),
        _ => FaceUri::Tcp(local),
    }
}

/// Returns remote and local URI of a connected stream.
///
/// # Errors
/// If the socket is not connected or of another kind.
pub fn uris_of(socket: &OwnedFd, config: &FacesConfig) -> Result<(FaceUri, FaceUri), FaceError> {
    let make = || -> Result<(FaceUri, FaceUri), Errno> {
        rustix::io::ioctl_fionbio(socket, true)?;
        if sockopt::socket_domain(socket)? == AddressFamily::UNIX {
            tune_unix(socket, config)?;
            return Ok((fd_uri(socket), fd_uri(socket)));
        }
        let peer = SocketAddr::try_from(rustix::net::getpeername(socket)?.ok_or(Errno::NOTCONN)?)?;
        let local = SocketAddr::try_from(rustix::net::getsockname(socket)?)?;
        tune_tcp(socket, config)?;
        Ok((FaceUri::Tcp(canonical_address(peer)), FaceUri::Tcp(canonical_address(local))))
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

/// Returns the socket type. Shared memory uses messages, so its socket is never mistaken for a unix
/// face's.
const fn kind_of(uri: &FaceUri) -> SocketType {
    match uri {
        FaceUri::Shm(_) => SocketType::SEQPACKET,
        _ => SocketType::STREAM,
    }
}

fn tune_unix(socket: &OwnedFd, config: &FacesConfig) -> Result<(), Errno> {
    // A unix stream buffers only at the sender: the larger, the more packets per call.
    sockopt::set_socket_send_buffer_size(socket, config.stream_send_buffer)
}

fn tune_tcp(socket: &OwnedFd, config: &FacesConfig) -> Result<(), Errno> {
    // Writes are gathered already; the kernel should not delay them.
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_send_buffer_size(socket, config.stream_send_buffer)?;
    config
        .tcp_receive_buffer
        .map_or(Ok(()), |bytes| sockopt::set_socket_recv_buffer_size(socket, bytes))
}

/// Returns the URI of an accepted or adopted unix socket.
pub fn fd_uri(socket: &OwnedFd) -> FaceUri {
    use std::os::fd::AsRawFd;
    FaceUri::Fd(socket.as_raw_fd().unsigned_abs())
}
