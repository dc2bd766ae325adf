//! HTTP requests to the Docker engine over its Unix socket: one per connection.
//!
//! HTTP/1.0 is used, so that the end of the connection is the end of the answer and nothing is
//! chunked. Heads and bodies have limits, and every read and write has a time limit.

use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Bytes of an answer's head, at most.
const HEAD_BYTES_MAX: u64 = 64 << 10;
/// Bytes of an answer's body, at most.
const BODY_BYTES_MAX: u64 = 16 << 20;

/// An answer with its status, whatever that is.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Answer {
    /// Returns the body as JSON; `null` if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns what the engine says of an error: its message, or the body's beginning.
    pub fn message(&self) -> String {
        match self.json()["message"].as_str() {
            Some(message) => message.trim().to_owned(),
            None => {
                let text = String::from_utf8_lossy(&self.body);
                let text: String = text.chars().take(200).collect();
                format!("status {} {}", self.status, text.trim()).trim_end().to_owned()
            }
        }
    }
}

/// Sends a request and reads the answer. `timeout` limits each wait for the engine.
pub fn request(
    socket: &Path,
    method: &str,
    target: &str,
    content: Option<&Value>,
    timeout: Duration,
) -> io::Result<Answer> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let content = content.map(Value::to_string).unwrap_or_default();
    let head = format!(
        "{method} {target} HTTP/1.0\r\nHost: docker\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{content}",
        content.len()
    );
    stream.write_all(head.as_bytes())?;
    read_answer(stream)
}

fn read_answer(stream: impl Read) -> io::Result<Answer> {
    let mut reader = BufReader::new(stream.take(HEAD_BYTES_MAX));
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse().ok());
    let status = status.ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "what listens at the socket is no HTTP server")
    })?;
    loop {
        line.clear();
        let bytes = reader.read_line(&mut line)?;
        if line.trim_end().is_empty() && bytes > 0 {
            break;
        }
        if bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    reader.get_mut().set_limit(BODY_BYTES_MAX);
    let mut body = Vec::new();
    reader.read_to_end(&mut body)?;
    if reader.get_ref().limit() == 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer is too long"));
    }
    Ok(Answer { status, body })
}

/// Returns `text` with everything escaped that may not be in a query.
pub fn escape(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_read_with_its_status_and_message() {
        let answer =
            read_answer(&b"HTTP/1.0 404 Not Found\r\nA: b\r\n\r\n{\"message\":\"none\"}"[..]);
        let answer = answer.unwrap();
        assert_eq!((answer.status, answer.message().as_str()), (404, "none"));
        let answer = read_answer(&b"HTTP/1.1 500 X\r\n\r\nboom\n"[..]).unwrap();
        assert_eq!(answer.message(), "status 500 boom");
    }

    #[test]
    fn garbage_and_endless_answers_are_refused() {
        assert!(read_answer(&b"SSH-2.0\r\n\r\n"[..]).is_err());
        assert!(read_answer(&b"HTTP/1.0 200 OK\r\nA: b\r\n"[..]).is_err());
        assert!(read_answer(&b""[..]).is_err());
        assert!(read_answer(io::repeat(b'a')).is_err());
        let endless = (&b"HTTP/1.0 200 OK\r\n"[..]).chain(io::repeat(b'a'));
        assert!(read_answer(endless).is_err());
        let endless = (&b"HTTP/1.0 200 OK\r\n\r\n"[..]).chain(io::repeat(b'a'));
        assert!(read_answer(endless).is_err());
    }

    #[test]
    fn query_is_escaped() {
        assert_eq!(escape("cs~1 {\"a\"}/é"), "cs~1%20%7B%22a%22%7D%2F%C3%A9");
    }
}
