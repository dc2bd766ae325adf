//! How a request came in, for programs that give rights by it; and the listener with TLS.

use std::net::SocketAddr;
use std::sync::Arc;

/// How a request came in: an extension of every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// By the Unix socket, with the user id of the process at the other end; `None` if the system
    /// does not say.
    Unix(Option<u32>),
    /// By a session of the page.
    Page,
    /// By plain TCP, with the rules of [`serve`](crate::serve).
    Tcp,
    /// By TLS: the program itself decides what the request may do.
    Tls,
}

/// A listener with TLS. It asks for no token: the program does, by [`Entry::Tls`].
pub struct TlsListener {
    /// Address to listen on.
    pub address: SocketAddr,
    /// Certificate, key and protocol versions.
    pub config: Arc<rustls::ServerConfig>,
    /// Most connections at a time.
    pub connections: u32,
}

/// The user id of the process at the other end of a connection, if it is a Unix socket.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peer(pub Option<u32>);
