//! The HTTP at the beginning of a WebSocket connection: a peer's request judged and answered, a request of ours made and its answer judged.

use super::fault::WebSocketFault;
use crate::config::WebSocketConfig;
use nw_element_api::Scope;
use std::net::SocketAddr;
use tungstenite::error::{Error, ProtocolError};
use tungstenite::handshake::client::{Request as OwnRequest, Response, generate_key, generate_request};
use tungstenite::handshake::machine::TryParse;
use tungstenite::handshake::server::{Request, create_response, write_response};
use tungstenite::http::HeaderMap;
use tungstenite::http::StatusCode as Status;

/// Octets of the longest request or answer. Browsers send their cookies along.
pub const HTTP_LEN_MAX: usize = 8 << 10;

/// How a request begins.
const METHOD: &[u8] = b"GET ";

/// What a web server in front says of whom it speaks for.
const FORWARDED: [&str; 4] = ["forwarded", "x-forwarded-for", "x-real-ip", "via"];

/// What is to become of a connection after what came so far.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    /// The request is not whole.
    Partial,
    /// It becomes a face of this scope, after this answer.
    Accepted(Scope, Vec<u8>),
    /// It ends after this answer.
    Refused(Vec<u8>),
}

/// Judges what a peer at an address sent so far. `seen` octets of it were here before.
pub fn judge(request: &[u8], seen: usize, peer: SocketAddr, config: &WebSocketConfig) -> Asked {
    // Whoever speaks something else, packets perhaps, learns at once.
    let begin = request.len().min(METHOD.len());
    if request[..begin] != METHOD[..begin] {
        return refused(Status::BAD_REQUEST, "this port speaks WebSocket, which begins with GET\n");
    }
    let Some(end) = end_of_head(request, seen) else {
        let fits = request.len() < HTTP_LEN_MAX;
        return if fits {
            Asked::Partial
        } else {
            refused(
                Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "the request is too long: send fewer or shorter cookies\n",
            )
        };
    };
    if end < request.len() {
        return refused(Status::BAD_REQUEST, "wait for the answer before sending more\n");
    }
    let request = match Request::try_parse(request) {
        Ok(Some((_, request))) => request,
        Ok(None) | Err(_) => return refused(Status::BAD_REQUEST, "this is no HTTP/1.1 request\n"),
    };
    let scope = match scope(request.headers(), peer, config) {
        Ok(scope) => scope,
        Err(why) => return refused(Status::FORBIDDEN, why),
    };
    match create_response(&request) {
        Ok(response) => {
            let mut answer = Vec::new();
            match write_response(&mut answer, &response) {
                Ok(()) => Asked::Accepted(scope, answer),
                Err(_) => refused(Status::BAD_REQUEST, "this request has no answer\n"),
            }
        }
        Err(Error::Protocol(
            ProtocolError::MissingConnectionUpgradeHeader
            | ProtocolError::MissingUpgradeWebSocketHeader
            | ProtocolError::MissingSecWebSocketVersionHeader,
        )) => refused(
            Status::UPGRADE_REQUIRED,
            "an NDN router listens here for WebSocket connections, version 13: open ws://, not http://\n",
        ),
        Err(error) => refused(Status::BAD_REQUEST, &format!("{error}\n")),
    }
}

/// The answer to a request that came when there was no room.
pub fn no_room() -> Vec<u8> {
    answer(Status::SERVICE_UNAVAILABLE, "there are as many connections as there may be: try again later\n")
}

/// The answer to a request that took too long.
pub fn too_slow() -> Vec<u8> {
    answer(Status::REQUEST_TIMEOUT, "the request took too long\n")
}

/// Whether the peer is local, as a program of this machine is, and a page only if its origin is listed.
fn scope(headers: &HeaderMap, peer: SocketAddr, config: &WebSocketConfig) -> Result<Scope, &'static str> {
    let mut origins = headers.get_all("origin").iter();
    let origin = origins.next();
    if origins.next().is_some() {
        return Err("more than one Origin\n");
    }
    let listed = match origin {
        None => true,
        Some(origin) => {
            let same = |listed: &String| origin.as_bytes().eq_ignore_ascii_case(listed.as_bytes());
            let listed = config.local_origins.iter().any(same);
            if !listed && !config.other_origins {
                return Err(
                    "pages of this origin may not connect here: faces.websocket.local_origins doesn't list it\n",
                );
            }
            listed
        }
    };
    // Behind a web server on this machine are others.
    let forwarded = FORWARDED.iter().any(|name| headers.contains_key(*name));
    let local = listed && !forwarded && config.loopback_local && peer.ip().is_loopback();
    Ok(if local { Scope::Local } else { Scope::NonLocal })
}

/// Where the first empty line ends; `seen` octets were looked at before.
fn end_of_head(bytes: &[u8], seen: usize) -> Option<usize> {
    const END: &[u8] = b"\r\n\r\n";
    let from = seen.saturating_sub(END.len() - 1).min(bytes.len());
    bytes[from..].windows(END.len()).position(|window| window == END).map(|at| from + at + END.len())
}

fn refused(status: Status, why: &str) -> Asked {
    Asked::Refused(answer(status, why))
}

fn answer(status: Status, why: &str) -> Vec<u8> {
    let upgrade = if status == Status::UPGRADE_REQUIRED {
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nConnection: Upgrade, close\r\n"
    } else {
        "Connection: close\r\n"
    };
    let len = why.len();
    format!(
        "HTTP/1.1 {status}\r\n{upgrade}Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len}\r\n\r\n{why}"
    )
    .into_bytes()
}

/// A connection that this end makes.
#[derive(Debug)]
pub struct Opening {
    request: Vec<u8>,
    accept: String,
    /// The request is on its way.
    pub asked: bool,
}

impl Opening {
    /// To a server at an address.
    pub fn to(peer: SocketAddr) -> Self {
        let key = generate_key();
        let request = OwnRequest::builder()
            .uri("/")
            .header("Host", peer.to_string())
            .header("Connection", "Upgrade")
            .header("Upgrade", "websocket")
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", &key)
            .body(())
            .expect("these headers are a request");
        let (request, key) = generate_request(request).expect("nothing is missing in this request");
        let accept = tungstenite::handshake::derive_accept_key(key.as_bytes());
        Opening { request, accept, asked: false }
    }

    /// What is to be sent.
    pub fn request(&self) -> &[u8] {
        &self.request
    }

    /// Judges what came so far: the octets of the answer when it is whole and agrees, `None` when it is not whole.
    ///
    /// # Errors
    /// When it does not agree, is too long or no HTTP.
    pub fn answered(&self, bytes: &[u8]) -> Result<Option<usize>, WebSocketFault> {
        let Some(end) = end_of_head(bytes, 0) else {
            return if bytes.len() < HTTP_LEN_MAX { Ok(None) } else { Err(WebSocketFault::Refused) };
        };
        let parsed = Response::try_parse(&bytes[..end]);
        let Ok(Some((len, response))) = parsed else { return Err(WebSocketFault::Refused) };
        let headers = response.headers();
        let says = |name: &str, value: &str| {
            let found = headers.get(name).and_then(|found| found.to_str().ok());
            found.is_some_and(|found| found.split([' ', ',']).any(|word| word.eq_ignore_ascii_case(value)))
        };
        // What was not asked for may not be agreed to.
        let extended = ["sec-websocket-extensions", "sec-websocket-protocol"]
            .iter()
            .any(|name| headers.contains_key(*name));
        let accepted = headers.get("sec-websocket-accept").is_some_and(|found| found == &self.accept);
        let agreed = response.status() == Status::SWITCHING_PROTOCOLS
            && says("upgrade", "websocket")
            && says("connection", "upgrade")
            && accepted
            && !extended;
        if agreed { Ok(Some(len)) } else { Err(WebSocketFault::Refused) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

    fn request(more: &str) -> String {
        format!(
            "GET / HTTP/1.1\r\nHost: localhost:9696\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\
             Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n{more}\r\n"
        )
    }

    fn judged(request: &str, peer: &str, config: &WebSocketConfig) -> Asked {
        judge(request.as_bytes(), 0, peer.parse().unwrap(), config)
    }

    fn scope_of(more: &str, peer: &str, config: &WebSocketConfig) -> Option<Scope> {
        match judged(&request(more), peer, config) {
            Asked::Accepted(scope, _) => Some(scope),
            _ => None,
        }
    }

    fn status(request: &str) -> u16 {
        match judged(request, "127.0.0.1:1", &WebSocketConfig::default()) {
            Asked::Refused(answer) => String::from_utf8(answer).unwrap()[9..12].parse().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_example_of_the_specification_is_answered_as_it_says() {
        let Asked::Accepted(Scope::Local, answer) =
            judged(&request(""), "127.0.0.1:1", &WebSocketConfig::default())
        else {
            panic!("not accepted");
        };
        let answer = String::from_utf8(answer).unwrap().to_ascii_lowercase();
        assert!(answer.starts_with("http/1.1 101 ") && answer.ends_with("\r\n\r\n"), "{answer}");
        assert!(answer.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n"), "{answer}");
    }

    #[test]
    fn a_request_in_pieces_is_whole_with_its_last_octet() {
        let (text, config) = (request("Cookie: a=b\r\n"), WebSocketConfig::default());
        let peer = "192.0.2.1:1".parse().unwrap();
        for len in 1..text.len() {
            assert_eq!(judge(&text.as_bytes()[..len], len - 1, peer, &config), Asked::Partial, "{len}");
        }
        assert!(matches!(judge(text.as_bytes(), text.len() - 1, peer, &config), Asked::Accepted(..)));
    }

    #[test]
    fn programs_are_local_and_pages_are_if_they_are_listed() {
        let config = WebSocketConfig {
            local_origins: vec!["http://localhost:8080".to_owned()],
            ..WebSocketConfig::default()
        };
        let here = |more: &str| scope_of(more, "127.0.0.1:1", &config);
        assert_eq!(here(""), Some(Scope::Local));
        assert_eq!(scope_of("", "[::1]:1", &config), Some(Scope::Local));
        assert_eq!(scope_of("", "192.0.2.1:1", &config), Some(Scope::NonLocal));
        assert_eq!(here("Origin: http://localhost:8080\r\n"), Some(Scope::Local));
        for other in ["http://localhost:80", "http://localhost:80800", "https://localhost:8080", "null", ""] {
            assert_eq!(here(&format!("Origin: {other}\r\n")), Some(Scope::NonLocal), "{other}");
        }
        assert_eq!(
            scope_of("Origin: http://localhost:8080\r\n", "192.0.2.1:1", &config),
            Some(Scope::NonLocal)
        );
        assert_eq!(here("Origin: http://localhost:8080\r\nOrigin: http://localhost:8080\r\n"), None);
        assert_eq!(here("X-Forwarded-For: 192.0.2.1\r\n"), Some(Scope::NonLocal));
        let strict = WebSocketConfig { other_origins: false, loopback_local: false, ..config };
        assert_eq!(scope_of("Origin: http://elsewhere\r\n", "127.0.0.1:1", &strict), None);
        assert_eq!(
            scope_of("Origin: http://localhost:8080\r\n", "127.0.0.1:1", &strict),
            Some(Scope::NonLocal)
        );
        assert_eq!(scope_of("", "127.0.0.1:1", &strict), Some(Scope::NonLocal));
    }

    #[test]
    fn what_is_no_handshake_is_refused_with_what_helps() {
        assert_eq!(status("\x05\x03"), 400);
        assert_eq!(status("POST / HTTP/1.1\r\n\r\n"), 400);
        assert_eq!(status("GET / HTTP/1.0\r\n\r\n"), 400);
        assert_eq!(status("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), 426);
        assert_eq!(status(&request("").replace("13", "8")), 426);
        assert_eq!(status(&request("").replace(KEY, "short")), 400);
        assert_eq!(status(&format!("{}early", request(""))), 400);
        assert_eq!(status(&format!("GET / HTTP/1.1\r\nCookie: {}", "x".repeat(HTTP_LEN_MAX))), 431);
        assert_eq!(status(&request(&"X: y\r\n".repeat(500))), 400, "more headers than there may be");
        let Asked::Refused(answer) =
            judged("GET / HTTP/1.1\r\n\r\n", "127.0.0.1:1", &WebSocketConfig::default())
        else {
            panic!("accepted");
        };
        assert!(String::from_utf8(answer).unwrap().contains("open ws://"));
    }

    #[test]
    fn what_we_ask_our_own_side_grants() {
        let opening = Opening::to("127.0.0.1:9696".parse().unwrap());
        let text = core::str::from_utf8(opening.request()).unwrap();
        let Asked::Accepted(_, answer) = judged(text, "127.0.0.1:1", &WebSocketConfig::default()) else {
            panic!("not accepted");
        };
        let with_a_frame = [&answer[..], &[0x82, 0]].concat();
        assert_eq!(opening.answered(&with_a_frame), Ok(Some(answer.len())));
        assert_eq!(opening.answered(&answer[..answer.len() - 1]), Ok(None));
        let other = Opening::to("127.0.0.1:9696".parse().unwrap());
        assert_eq!(other.answered(&answer), Err(WebSocketFault::Refused), "a key of its own each");
        assert_eq!(opening.answered(b"HTTP/1.1 404 Not Found\r\n\r\n"), Err(WebSocketFault::Refused));
        assert_eq!(opening.answered(&[b'x'; HTTP_LEN_MAX]), Err(WebSocketFault::Refused));
    }
}
