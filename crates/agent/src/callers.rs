//! The manager's side of connections on which a host calls: one call at a time, each only while the
//! host's certificate is in force.

use crate::dial::keep_alive;
use crate::frame::{self, Kind, PART_MAX};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Bytes of a host's request, at most.
const REQUEST_MAX: usize = 64 << 10;
/// How often the right of a silent host is looked at.
const RIGHT_INTERVAL: Duration = Duration::from_secs(1);
/// Time for a host to read a part of a reply.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// First byte of a connection with TLS: a record of the handshake.
const TLS_HANDSHAKE: u8 = 22;

/// Answers hosts that call their manager. Called from threads of a pool; calls of different hosts
/// overlap.
pub trait CallHandler: Send + Sync + 'static {
    /// Returns the reply to a request of `host`, which has shown its certificate.
    fn call(&self, host: &str, request: &[u8]) -> Vec<u8>;
}

/// Answers the calls of a host until its connection ends or `has_right` is false.
pub async fn serve(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    host: &str,
    handler: &Arc<dyn CallHandler>,
    has_right: impl Fn() -> bool,
) -> io::Result<()> {
    loop {
        let request = {
            let mut read = pin!(frame::read(stream, REQUEST_MAX));
            loop {
                match timeout(RIGHT_INTERVAL, &mut read).await {
                    Ok(read) => break read?,
                    Err(_) if has_right() => {}
                    Err(_) => return Ok(()),
                }
            }
        };
        let (Kind::Call, request) = request else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "an unexpected message"));
        };
        if !has_right() {
            return Ok(());
        }
        let (handler, host) = (handler.clone(), host.to_owned());
        let reply = tokio::task::spawn_blocking(move || handler.call(&host, &request));
        let reply = reply.await.map_err(io::Error::other)?;
        let (parts, last) = reply.split_at(reply.len().saturating_sub(1) / PART_MAX * PART_MAX);
        for part in parts.chunks(PART_MAX) {
            write(stream, Kind::Part, part).await?;
        }
        write(stream, Kind::Reply, last).await?;
    }
}

async fn write(
    stream: &mut (impl AsyncWrite + Unpin),
    kind: Kind,
    payload: &[u8],
) -> io::Result<()> {
    let written = timeout(WRITE_TIMEOUT, frame::write(stream, kind, payload)).await;
    written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Prepares a connection. Returns false if the peer does not speak TLS; it has a sentence then, in
/// HTTP, which is what such a peer most likely speaks.
pub async fn begin(stream: &mut TcpStream) -> io::Result<bool> {
    stream.set_nodelay(true)?;
    keep_alive(stream)?;
    let mut first = [0];
    let is_tls = stream.peek(&mut first).await? == 1 && first[0] == TLS_HANDSHAKE;
    if !is_tls && first[0].is_ascii_uppercase() {
        let text = "this address is for agents, which use TLS and a token: see `nw balancer agent` \
                    and `nw network agent`\n";
        let head = "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close";
        let answer = format!("{head}\r\nContent-Length: {}\r\n\r\n{text}", text.len());
        stream.write_all(answer.as_bytes()).await?;
        // What the peer has sent is read first: the system would drop the answer otherwise.
        let mut rest = [0; 1024];
        let _ = stream.try_read(&mut rest);
        stream.shutdown().await?;
    }
    Ok(is_tls)
}
