//! The reference for transfers: a relay that moves the same bytes between the same sockets without
//! parsing them.

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Bytes per read, as in the router.
const READ_LEN: usize = 64 * 1024;

/// Accepts two connections, the producer's first, and moves bytes between them until one ends.
///
/// # Errors
/// If a socket fails.
pub fn run(path: &Path) -> Result<()> {
    let _ = fs::remove_file(path);
    let listener =
        UnixListener::bind(path).with_context(|| format!("can't listen on {}", path.display()))?;
    let ends = [listener.accept()?.0, listener.accept()?.0];
    for end in &ends {
        // The same socket buffers as in the router.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(end, 1 << 20);
        end.set_nonblocking(true)?;
    }
    let mut ways = [Direction::new(), Direction::new()];
    loop {
        let mut interests = [PollFlags::empty(); 2];
        for (from, way) in ways.iter().enumerate() {
            if way.is_empty() {
                interests[from] |= PollFlags::IN;
            } else {
                interests[1 - from] |= PollFlags::OUT;
            }
        }
        let mut waits = [PollFd::new(&ends[0], interests[0]), PollFd::new(&ends[1], interests[1])];
        match poll(&mut waits, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for (from, way) in ways.iter_mut().enumerate() {
            if !way.pump(&ends[from], &ends[1 - from])? {
                return Ok(());
            }
        }
    }
}

/// One direction.
struct Direction {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Direction {
    fn new() -> Self {
        Direction { bytes: vec![0; READ_LEN], start: 0, end: 0 }
    }

    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Moves as many bytes as possible without blocking. Returns false at the end of the stream.
    fn pump(&mut self, from: &UnixStream, to: &UnixStream) -> Result<bool> {
        if self.is_empty() {
            match rustix::io::read(from, &mut self.bytes[..]) {
                Ok(0) => return Ok(false),
                Ok(len) => (self.start, self.end) = (0, len),
                Err(Errno::AGAIN | Errno::INTR) => return Ok(true),
                Err(Errno::CONNRESET) => return Ok(false),
                Err(errno) => return Err(errno.into()),
            }
        }
        match rustix::io::write(to, &self.bytes[self.start..self.end]) {
            Ok(len) => self.start += len,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::PIPE | Errno::CONNRESET) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
        Ok(true)
    }
}
