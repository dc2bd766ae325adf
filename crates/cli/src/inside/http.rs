//! A small HTTP client for the control socket: one request a connection, the answer until its end.
//!
//! HTTP/1.0, so that the server marks the end of an answer by closing: no chunks to undo.

use crate::exit::{Failure, Status};
use anyhow::{Context, Result, bail};
use core::time::Duration;
use nw_api::rest::Problem;
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// An answer begins within this time.
const PATIENCE: Duration = Duration::from_secs(35);
/// Octets of an answer that is read as a whole.
const BODY_MAX: u64 = 256 << 20;
const HEAD_MAX: u64 = 64 << 10;

/// Where a control server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// At a path.
    Unix(PathBuf),
    /// At a path, of a service.
    Service(PathBuf),
    /// At a path, of a balancer.
    Balancer(PathBuf),
    /// At a host and port, with a token to show.
    Tcp(String, Option<String>),
}

impl Place {
    /// From what a user writes: a path, `unix:///path` or `http://host:port`.
    pub fn parse(text: &str, token_file: Option<&Path>) -> Result<Self> {
        if let Some(rest) = text.strip_prefix("http://") {
            let token = token_file.map(|path| {
                std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))
            });
            let authority = rest.trim_end_matches('/');
            if authority.is_empty() || authority.contains('/') {
                bail!("{text} is no place: http://host:port");
            }
            return Ok(Place::Tcp(
                authority.to_owned(),
                token.transpose()?.map(|token| token.trim().to_owned()),
            ));
        }
        Ok(Place::Unix(text.strip_prefix("unix://").unwrap_or(text).into()))
    }
}

impl core::fmt::Display for Place {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Place::Unix(path) | Place::Service(path) | Place::Balancer(path) => path.display().fmt(f),
            Place::Tcp(authority, _) => write!(f, "http://{authority}"),
        }
    }
}

/// What is done.
#[derive(Clone, Copy, Debug)]
pub enum Method {
    Get,
    Put,
    /// Something is to happen.
    Post,
    Patch,
    Delete,
}

/// An answer whose body is to be read.
pub struct Answer {
    reader: BufReader<Stream>,
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(bytes),
            Stream::Tcp(stream) => stream.read(bytes),
        }
    }
}

impl Stream {
    fn connect(place: &Place) -> std::io::Result<Self> {
        match place {
            Place::Unix(path) | Place::Service(path) | Place::Balancer(path) => {
                UnixStream::connect(path).map(Stream::Unix)
            }
            Place::Tcp(authority, _) => TcpStream::connect(authority).map(Stream::Tcp),
        }
    }

    fn set_patience(&self, patience: Option<Duration>) -> std::io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_read_timeout(patience),
            Stream::Tcp(stream) => stream.set_read_timeout(patience),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.write_all(bytes),
            Stream::Tcp(stream) => stream.write_all(bytes),
        }
    }
}

impl Answer {
    /// Waits so long for each part of the body; an error of kind `WouldBlock` when nothing came.
    pub fn set_patience(&self, patience: Duration) -> Result<()> {
        Ok(self.reader.get_ref().set_patience(Some(patience))?)
    }
}

impl Read for Answer {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        self.reader.read(bytes)
    }
}

/// Asks; the answer's body is to be read. A refusal is an error with the router's sentence.
pub fn ask(place: &Place, method: Method, path: &str, content: Option<&serde_json::Value>) -> Result<Answer> {
    let mut stream = Stream::connect(place)
        .with_context(|| Failure::new(Status::Unreachable, unreachable_words(place)))?;
    stream.set_patience(Some(PATIENCE))?;
    let content = content.map(serde_json::Value::to_string).unwrap_or_default();
    let (host, token) = match place {
        Place::Unix(_) | Place::Service(_) | Place::Balancer(_) => ("localhost", None),
        Place::Tcp(authority, token) => (authority.as_str(), token.as_deref()),
    };
    let verb = match method {
        Method::Get => "GET",
        Method::Put => "PUT",
        Method::Post => "POST",
        Method::Patch => "PATCH",
        Method::Delete => "DELETE",
    };
    let mut head = format!("{verb} {path} HTTP/1.0\r\nHost: {host}\r\n");
    if let Some(token) = token {
        head.push_str(&format!("Authorization: Bearer {token}\r\n"));
    }
    if !content.is_empty() {
        head.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", content.len()));
    }
    stream.write(format!("{head}\r\n{content}").as_bytes())?;
    let mut reader = BufReader::new(stream);
    let code = read_head(&mut reader).map_err(|error| no_head(place, error))?;
    let mut answer = Answer { reader };
    if (200..300).contains(&code) {
        return Ok(answer);
    }
    let mut text = String::new();
    answer.by_ref().take(HEAD_MAX).read_to_string(&mut text)?;
    let who = match place {
        Place::Service(_) => "service",
        Place::Balancer(_) => "balancer",
        Place::Unix(_) | Place::Tcp(..) => "router",
    };
    let status = if code == 404 { Status::NotFound } else { Status::Refused };
    let text = match serde_json::from_str::<Problem>(&text) {
        Ok(problem) => format!("the {who} says: {} ({})", problem.text, problem.code),
        Err(_) => format!("the {who} says {code}: {text}"),
    };
    Err(Failure::new(status, text).into())
}

/// As [`ask`], with the whole answer read as JSON.
pub fn body<T: DeserializeOwned>(
    place: &Place,
    method: Method,
    path: &str,
    content: Option<&serde_json::Value>,
) -> Result<T> {
    let mut text = Vec::new();
    ask(place, method, path, content)?.take(BODY_MAX).read_to_end(&mut text)?;
    serde_json::from_slice(&text).with_context(|| format!("{path} of {place} is not what this program knows"))
}

/// Why there is no answer.
fn no_head(place: &Place, error: anyhow::Error) -> anyhow::Error {
    let is_late = error.downcast_ref::<std::io::Error>().is_some_and(|error| {
        matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
    });
    match is_late {
        true => {
            let text = format!("{place} did not answer within {} s", PATIENCE.as_secs());
            Failure::new(Status::TimedOut, text).into()
        }
        false => error.context(format!("{place} does not speak HTTP")),
    }
}

/// The status code.
fn read_head(reader: &mut BufReader<Stream>) -> Result<u16> {
    let mut head = reader.by_ref().take(HEAD_MAX);
    let mut line = String::new();
    head.read_line(&mut line)?;
    let code = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let code = code.filter(|_| line.starts_with("HTTP/")).context("no status line")?;
    loop {
        line.clear();
        if head.read_line(&mut line)? == 0 {
            bail!("its head has no end");
        }
        if line.trim_end().is_empty() {
            return Ok(code);
        }
    }
}

fn unreachable_words(place: &Place) -> String {
    if let Place::Balancer(path) = place {
        return format!(
            "can't reach a balancer at {} (is it running? `nw balancer run` says where it listens; name that place with --control)",
            path.display()
        );
    }
    if let Place::Service(path) = place {
        return format!(
            "can't reach a service at {} (is it running? name it as `nw service run` does: its name, or the path given with --control)",
            path.display()
        );
    }
    format!(
        "can't reach a router's control socket at {place} (it runs as another user, or without; see [control] in `nw config`, or name one with --control)"
    )
}

/// Makes a value fit for a query.
pub fn escape(text: &str) -> String {
    let plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-._~/".contains(&octet);
    text.bytes()
        .map(|octet| if plain(octet) { char::from(octet).to_string() } else { format!("%{octet:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_queries() {
        assert_eq!(Place::parse("/run/x.sock", None).unwrap(), Place::Unix("/run/x.sock".into()));
        assert_eq!(Place::parse("unix:///run/x.sock", None).unwrap(), Place::Unix("/run/x.sock".into()));
        let tcp = Place::parse("http://127.0.0.1:6380/", None).unwrap();
        assert_eq!(tcp, Place::Tcp("127.0.0.1:6380".into(), None));
        assert!(Place::parse("http://127.0.0.1:6380/v1", None).is_err());
        assert_eq!(escape("/a b&c=%41"), "/a%20b%26c%3D%2541");
    }
}
