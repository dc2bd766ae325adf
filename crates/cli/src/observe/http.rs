//! A small HTTP client for control sockets: one request per connection.
//!
//! It uses HTTP/1.0, so that the server marks the end of a response by closing the connection, and
//! no chunked encoding has to be decoded.

use crate::exit::{Failure, Status};
use anyhow::{Context, Result, bail};
use core::time::Duration;
use nw_agent::UserStream;
use nw_api::config::file::{KEY_MAX, read_text};
use nw_api::rest::Problem;
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Maximum time until a response begins.
const TIMEOUT: Duration = Duration::from_secs(35);
/// Maximum size of a response body, bytes.
const BODY_MAX: u64 = 256 << 20;
/// Maximum size of a response head, bytes.
const HEAD_MAX: u64 = 64 << 10;

/// The address of a control server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlAddress {
    /// Unix socket of a router.
    Unix(PathBuf),
    /// Unix socket of a service.
    Service(PathBuf),
    /// Unix socket of a balancer.
    Balancer(PathBuf),
    /// Unix socket of a network's manager.
    Network(PathBuf),
    /// Host and port, and the token for authorization.
    Tcp(String, Option<String>),
    /// Host and port of a network's manager that speaks TLS, and the token of a user.
    Tls(String, String),
}

impl ControlAddress {
    /// Parses an address: a path, `unix:///path` or `http://host:port`.
    pub fn parse(text: &str, token_file: Option<&Path>) -> Result<Self> {
        if let Some(authority) = text.strip_prefix("http://") {
            let token = token_file.map(|path| read_text(path, KEY_MAX));
            let authority = authority.trim_end_matches('/');
            if authority.is_empty() || authority.contains('/') {
                bail!("{text} is not of the form http://host:port");
            }
            return Ok(ControlAddress::Tcp(
                authority.to_owned(),
                token.transpose()?.map(|token| token.trim().to_owned()),
            ));
        }
        Ok(ControlAddress::Unix(text.strip_prefix("unix://").unwrap_or(text).into()))
    }
}

impl core::fmt::Display for ControlAddress {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            ControlAddress::Unix(path)
            | ControlAddress::Service(path)
            | ControlAddress::Balancer(path)
            | ControlAddress::Network(path) => path.display().fmt(f),
            ControlAddress::Tcp(authority, _) => write!(f, "http://{authority}"),
            ControlAddress::Tls(authority, _) => write!(f, "https://{authority}"),
        }
    }
}

/// An HTTP method.
#[derive(Clone, Copy, Debug)]
pub enum Method {
    Get,
    Put,
    Post,
    Patch,
    Delete,
}

/// A response whose body is to be read.
pub struct Response {
    reader: BufReader<Stream>,
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<UserStream>),
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(bytes),
            Stream::Tcp(stream) => stream.read(bytes),
            Stream::Tls(stream) => stream.read(bytes),
        }
    }
}

impl Stream {
    fn connect(address: &ControlAddress) -> Result<Self> {
        Ok(match address {
            ControlAddress::Unix(path)
            | ControlAddress::Service(path)
            | ControlAddress::Balancer(path)
            | ControlAddress::Network(path) => Stream::Unix(UnixStream::connect(path)?),
            ControlAddress::Tcp(authority, _) => Stream::Tcp(TcpStream::connect(authority)?),
            ControlAddress::Tls(authority, token) => {
                Stream::Tls(Box::new(UserStream::connect(authority, token)?))
            }
        })
    }

    fn set_timeout(&self, timeout: Option<Duration>) -> std::io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_read_timeout(timeout),
            Stream::Tcp(stream) => stream.set_read_timeout(timeout),
            Stream::Tls(stream) => stream.set_read_timeout(timeout),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.write_all(bytes),
            Stream::Tcp(stream) => stream.write_all(bytes),
            Stream::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }
}

impl Response {
    /// Limits the time to wait for each part of the body. After it, reads fail with `WouldBlock`.
    pub fn set_timeout(&self, timeout: Duration) -> Result<()> {
        Ok(self.reader.get_ref().set_timeout(Some(timeout))?)
    }
}

impl Read for Response {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        self.reader.read(bytes)
    }
}

/// Sends a request and reads the head of the response. An error status becomes an error with the
/// server's message.
pub fn request(
    address: &ControlAddress,
    method: Method,
    path: &str,
    content: Option<&serde_json::Value>,
) -> Result<Response> {
    request_with(address, method, path, content, &[])
}

/// Like [`request`], with further header fields.
pub fn request_with(
    address: &ControlAddress,
    method: Method,
    path: &str,
    content: Option<&serde_json::Value>,
    headers: &[(&str, &str)],
) -> Result<Response> {
    if headers.iter().any(|(_, value)| value.contains(['\r', '\n'])) {
        bail!("a value has a line break: remove it");
    }
    let mut stream = Stream::connect(address)
        .with_context(|| Failure::new(Status::Unreachable, describe_unreachable(address)))?;
    stream.set_timeout(Some(TIMEOUT))?;
    let content = content.map(serde_json::Value::to_string).unwrap_or_default();
    let (host, token) = match address {
        ControlAddress::Tcp(authority, token) => (authority.as_str(), token.as_deref()),
        ControlAddress::Tls(authority, token) => (authority.as_str(), Some(token.as_str())),
        _ => ("localhost", None),
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
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !content.is_empty() {
        head.push_str(&format!(
            "Content-Type: application/json\r\nContent-Length: {}\r\n",
            content.len()
        ));
    }
    stream.write(format!("{head}\r\n{content}").as_bytes())?;
    let mut reader = BufReader::new(stream);
    let code = read_head(&mut reader).map_err(|error| head_error(address, error))?;
    let mut response = Response { reader };
    if (200..300).contains(&code) {
        return Ok(response);
    }
    let mut text = String::new();
    response.by_ref().take(HEAD_MAX).read_to_string(&mut text)?;
    let server = match address {
        ControlAddress::Service(_) => "service",
        ControlAddress::Balancer(_) => "balancer",
        ControlAddress::Network(_) | ControlAddress::Tls(..) => "manager",
        ControlAddress::Unix(_) | ControlAddress::Tcp(..) => "router",
    };
    let status = if code == 404 { Status::NotFound } else { Status::Refused };
    let text = match serde_json::from_str::<Problem>(&text) {
        Ok(problem) => format!("the {server} says: {} ({})", problem.text, problem.code),
        Err(_) => format!("the {server} says {code}: {text}"),
    };
    Err(Failure::new(status, text).into())
}

/// Sends a request and parses the whole response as JSON.
pub fn request_json<T: DeserializeOwned>(
    address: &ControlAddress,
    method: Method,
    path: &str,
    content: Option<&serde_json::Value>,
) -> Result<T> {
    let mut text = Vec::new();
    request(address, method, path, content)?.take(BODY_MAX).read_to_end(&mut text)?;
    serde_json::from_slice(&text).with_context(|| {
        format!("the response to {path} of {address} can't be parsed: is it another version?")
    })
}

/// Returns the error for a missing response head.
fn head_error(address: &ControlAddress, error: anyhow::Error) -> anyhow::Error {
    let is_timeout = error.downcast_ref::<std::io::Error>().is_some_and(|error| {
        matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
    });
    match is_timeout {
        true => {
            let text = format!("{address} did not answer within {} s", TIMEOUT.as_secs());
            Failure::new(Status::TimedOut, text).into()
        }
        false => error.context(format!("{address} does not speak HTTP")),
    }
}

/// Reads the head of a response. Returns the status code.
fn read_head(reader: &mut BufReader<Stream>) -> Result<u16> {
    let mut head = reader.by_ref().take(HEAD_MAX);
    let mut line = String::new();
    head.read_line(&mut line)?;
    let code = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let code = code.filter(|_| line.starts_with("HTTP/")).context("no status line")?;
    loop {
        line.clear();
        if head.read_line(&mut line)? == 0 {
            bail!("the head of the response is incomplete");
        }
        if line.trim_end().is_empty() {
            return Ok(code);
        }
    }
}

fn describe_unreachable(address: &ControlAddress) -> String {
    if let ControlAddress::Balancer(path) = address {
        return format!(
            "can't reach a balancer at {} (is it running? `nw balancer run` logs its control \
             socket; give that with --control)",
            path.display()
        );
    }
    if let ControlAddress::Tls(authority, _) = address {
        return format!(
            "can't reach the manager at {authority} (was it started with `nw network up --tls`?)"
        );
    }
    if let ControlAddress::Network(path) = address {
        return format!(
            "can't reach the manager of a network at {} (is it running? `nw network up` starts it)",
            path.display()
        );
    }
    if let ControlAddress::Service(path) = address {
        return format!(
            "can't reach a service at {} (is it running? give the name or the --control path of \
             `nw service run`)",
            path.display()
        );
    }
    format!(
        "can't reach a router's control socket at {address} (it may run as another user, or without \
         a control socket; see [control] in `nw config`, or give another with --control)"
    )
}

/// Percent-encodes a value for a query.
pub fn escape(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_parsed_and_queries_escaped() {
        assert_eq!(
            ControlAddress::parse("/run/x.sock", None).unwrap(),
            ControlAddress::Unix("/run/x.sock".into())
        );
        assert_eq!(
            ControlAddress::parse("unix:///run/x.sock", None).unwrap(),
            ControlAddress::Unix("/run/x.sock".into())
        );
        let tcp = ControlAddress::parse("http://127.0.0.1:6380/", None).unwrap();
        assert_eq!(tcp, ControlAddress::Tcp("127.0.0.1:6380".into(), None));
        assert!(ControlAddress::parse("http://127.0.0.1:6380/v1", None).is_err());
        assert_eq!(escape("/a b&c=%41"), "/a%20b%26c%3D%2541");
    }
}
