//! A hub finder (NDN-FCH, "find closest hub"): one HTTP request, whose answer is a list of hosts
//! with the closest first.
//!
//! Invariant: an answer is bounded in time and bytes; what is not a host with a port is refused.

use crate::exit::{Failure, Status};
use anyhow::{Context, Result, bail};
use core::time::Duration;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Instant;

/// How long the whole exchange may take, without the search for the finder's address.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long one of several addresses is tried.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest answer that is read, bytes.
const ANSWER_LEN_MAX: usize = 16 << 10;
/// Port of a hub that is named without one.
const HUB_PORT: u16 = 6363;
/// Longest host name.
const HOST_LEN_MAX: usize = 253;

/// Returns host and port of the closest hub that a finder names. `url`: `http://HOST[:PORT][/PATH]`.
pub fn find_hub(url: &str) -> Result<(String, u16)> {
    let (authority, path) = parse_url(url)?;
    let answer =
        get(&authority, &path).with_context(|| format!("the hub finder {url} can't be asked"))?;
    match parse_answer(&answer) {
        Ok(hub) => Ok(hub),
        Err(problem) => {
            let text = format!("the hub finder {url} {problem}: name a hub with --hub");
            Err(Failure::new(Status::Failed, text).into())
        }
    }
}

/// Returns host with port, and path with the query for UDP hubs.
fn parse_url(url: &str) -> Result<(String, String)> {
    let Some(rest) = url.strip_prefix("http://") else {
        bail!("--fch {url}: give a URL with http://, such as http://fch.example")
    };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if authority.is_empty() || url.chars().any(|c| c.is_whitespace() || c.is_control()) {
        bail!("--fch {url}: give a host, such as http://fch.example");
    }
    let authority = match authority.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => authority.to_owned(),
        _ => format!("{authority}:80"),
    };
    let query = if path.contains('?') { "" } else { "?cap=udp" };
    Ok((authority, format!("/{path}{query}")))
}

fn get(authority: &str, path: &str) -> std::io::Result<Vec<u8>> {
    let addresses: Vec<_> = authority.to_socket_addrs()?.collect();
    let deadline = Instant::now() + TIMEOUT;
    let mut stream = connect(&addresses)?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let request = format!(
        "GET {path} HTTP/1.0\r\nHost: {authority}\r\nAccept: text/plain\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    while answer.len() < ANSWER_LEN_MAX {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => break,
            len => answer.extend_from_slice(&part[..len]),
        }
    }
    Ok(answer)
}

/// Connects to the first address that accepts. Tries two addresses at most.
fn connect(addresses: &[SocketAddr]) -> std::io::Result<TcpStream> {
    let mut result = Err(std::io::Error::other("its name has no address"));
    for address in addresses.iter().take(2) {
        result = TcpStream::connect_timeout(address, CONNECT_TIMEOUT);
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Returns the first host of an HTTP answer, or what is wrong with it.
fn parse_answer(answer: &[u8]) -> Result<(String, u16), String> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n").ok_or("does not speak HTTP")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    if !head.starts_with("HTTP/1.") {
        return Err("does not speak HTTP".into());
    }
    if status != "200" {
        let shown: String = status.chars().filter(char::is_ascii_digit).take(3).collect();
        return Err(format!("answers with status {shown}"));
    }
    let first = body.split([',', '\n']).map(str::trim).find(|item| !item.is_empty());
    parse_host(first.ok_or("knows no hub")?).ok_or_else(|| "answers nonsense".into())
}

fn parse_host(text: &str) -> Option<(String, u16)> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok().filter(|port| *port > 0)?),
        None => (text, HUB_PORT),
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let is_host = (1..=HOST_LEN_MAX).contains(&host.len()) && host.chars().all(is_plain);
    is_host.then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_host_of_answer_is_the_hub() {
        let answer = |body: &str| format!("HTTP/1.0 200 OK\r\nServer: x\r\n\r\n{body}");
        for (body, host, port) in [
            ("hub.example", "hub.example", 6363),
            ("hub.example:6364,other:1", "hub.example", 6364),
            ("\n 192.0.2.1 \nother", "192.0.2.1", 6363),
        ] {
            assert_eq!(parse_answer(answer(body).as_bytes()), Ok((host.to_owned(), port)));
        }
        for (body, problem) in [
            ("", "knows no hub"),
            ("<html>", "answers nonsense"),
            ("hub:0", "answers nonsense"),
            ("hub:99999", "answers nonsense"),
            ("a b", "answers nonsense"),
            (&"x".repeat(300), "answers nonsense"),
        ] {
            assert_eq!(parse_answer(answer(body).as_bytes()), Err(problem.to_owned()), "{body}");
        }
    }

    #[test]
    fn answer_that_is_no_http_is_refused() {
        for answer in [&b""[..], b"hub.example", b"\xFF\xFE\r\n\r\nhub", b"SSH-2.0\r\n\r\nhub"] {
            assert_eq!(parse_answer(answer), Err("does not speak HTTP".to_owned()));
        }
        let found = parse_answer(b"HTTP/1.1 503 Busy\r\n\r\nhub");
        assert_eq!(found, Err("answers with status 503".to_owned()));
    }

    #[test]
    fn url_without_port_or_query_gets_the_usual_ones() {
        let parsed = |url: &str| parse_url(url).expect("a URL");
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(parsed("http://fch.example"), pair("fch.example:80", "/?cap=udp"));
        assert_eq!(parsed("http://[::1]:8080/x?k=2"), pair("[::1]:8080", "/x?k=2"));
        for url in ["https://fch.example", "fch.example", "http://", "http://a b/"] {
            assert!(parse_url(url).is_err(), "{url}");
        }
    }
}
