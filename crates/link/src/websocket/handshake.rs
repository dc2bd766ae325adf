//! The HTTP handshake that opens a WebSocket connection (RFC 6455, section 4).
//!
//! As a server, [`answer_request`] checks a peer's request and returns the response. As a client,
//! [`ClientHandshake`] holds the request and checks the server's response.

use super::fault::WebSocketFault;
use crate::config::WebSocketConfig;
use nw_element_api::Scope;
use std::net::SocketAddr;
use tungstenite::error::{Error, ProtocolError};
use tungstenite::handshake::client::{Request as ClientRequest, Response, generate_request};
use tungstenite::handshake::machine::TryParse;
use tungstenite::handshake::server::{Request, create_response, write_response};
use tungstenite::http::HeaderMap;
use tungstenite::http::StatusCode as Status;

/// Bytes of the longest request or response. Browsers send their cookies along.
pub const HTTP_LEN_MAX: usize = 8 << 10;

/// Start of every request.
const METHOD: &[u8] = b"GET ";

/// Headers by which a reverse proxy names the client that it forwards for.
const FORWARDED: [&str; 4] = ["forwarded", "x-forwarded-for", "x-real-ip", "via"];

/// Result of checking the bytes of a request that have arrived.
#[derive(Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The request is incomplete.
    Partial,
    /// The connection becomes a face of this scope; send this response first.
    Accepted(Scope, Vec<u8>),
    /// The connection is closed; send this response first.
    Refused(Vec<u8>),
}

/// Checks the bytes of a request that have arrived from `peer`. The first `checked` bytes were
/// checked by an earlier call.
pub fn answer_request(
    request: &[u8],
    checked: usize,
    peer: SocketAddr,
    config: &WebSocketConfig,
) -> RequestOutcome {
    // A peer that speaks another protocol, perhaps sends packets, gets the error at once.
    let len = request.len().min(METHOD.len());
    if request[..len] != METHOD[..len] {
        return refused(Status::BAD_REQUEST, "this port speaks WebSocket, which begins with GET\n");
    }
    let Some(end) = end_of_head(request, checked) else {
        let fits = request.len() < HTTP_LEN_MAX;
        return if fits {
            RequestOutcome::Partial
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
        Ok(None) | Err(_) => {
            return refused(Status::BAD_REQUEST, "this is not an HTTP/1.1 request\n");
        }
    };
    let scope = match scope(request.headers(), peer, config) {
        Ok(scope) => scope,
        Err(reason) => return refused(Status::FORBIDDEN, reason),
    };
    match create_response(&request) {
        Ok(response) => {
            let mut answer = Vec::new();
            match write_response(&mut answer, &response) {
                Ok(()) => RequestOutcome::Accepted(scope, answer),
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

/// Returns the response to a request when there are too many connections.
pub fn too_many_connections() -> Vec<u8> {
    answer(Status::SERVICE_UNAVAILABLE, "too many connections: try again later\n")
}

/// Returns the response to a request that took too long.
pub fn request_timed_out() -> Vec<u8> {
    answer(Status::REQUEST_TIMEOUT, "the request took too long\n")
}

/// Returns the scope of the face: local for programs of this machine, and for pages of listed
/// origins.
fn scope(
    headers: &HeaderMap,
    peer: SocketAddr,
    config: &WebSocketConfig,
) -> Result<Scope, &'static str> {
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
    // A reverse proxy on this machine forwards for clients of other machines.
    let forwarded = FORWARDED.iter().any(|name| headers.contains_key(*name));
    let local = listed && !forwarded && config.loopback_local && peer.ip().is_loopback();
    Ok(if local { Scope::Local } else { Scope::NonLocal })
}

/// Returns the offset after the first empty line. The first `checked` bytes were searched before.
fn end_of_head(bytes: &[u8], checked: usize) -> Option<usize> {
    const END: &[u8] = b"\r\n\r\n";
    let from = checked.saturating_sub(END.len() - 1).min(bytes.len());
    bytes[from..]
        .windows(END.len())
        .position(|window| window == END)
        .map(|at| from + at + END.len())
}

fn refused(status: Status, reason: &str) -> RequestOutcome {
    RequestOutcome::Refused(answer(status, reason))
}

fn answer(status: Status, reason: &str) -> Vec<u8> {
    let upgrade = if status == Status::UPGRADE_REQUIRED {
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nConnection: Upgrade, close\r\n"
    } else {
        "Connection: close\r\n"
    };
    let len = reason.len();
    format!(
        "HTTP/1.1 {status}\r\n{upgrade}Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len}\r\n\r\n{reason}"
    )
    .into_bytes()
}

/// The handshake of a connection that this end opens.
#[derive(Debug)]
pub struct ClientHandshake {
    request: Vec<u8>,
    accept: String,
    /// Whether the request was sent.
    pub request_sent: bool,
}

impl ClientHandshake {
    /// Creates the handshake with the server at `peer`. `key` is 16 random bytes in Base64, as RFC
    /// 6455 requires.
    pub fn new(peer: SocketAddr, key: &str) -> Self {
        let request = ClientRequest::builder()
            .uri("/")
            .header("Host", peer.to_string())
            .header("Connection", "Upgrade")
            .header("Upgrade", "websocket")
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", key)
            .body(())
            .expect("these headers are a request");
        let (request, key) = generate_request(request).expect("nothing is missing in this request");
        let accept = tungstenite::handshake::derive_accept_key(key.as_bytes());
        ClientHandshake { request, accept, request_sent: false }
    }

    /// Returns the request to send.
    pub fn request(&self) -> &[u8] {
        &self.request
    }

    /// Checks the bytes of the response that have arrived. Returns the length of the response once
    /// it is complete and accepts the connection; `None` if it is incomplete.
    ///
    /// # Errors
    /// If the response refuses the connection, is too long, or is not HTTP.
    pub fn check_response(&self, bytes: &[u8]) -> Result<Option<usize>, WebSocketFault> {
        let Some(end) = end_of_head(bytes, 0) else {
            return if bytes.len() < HTTP_LEN_MAX {
                Ok(None)
            } else {
                Err(WebSocketFault::Refused)
            };
        };
        let parsed = Response::try_parse(&bytes[..end]);
        let Ok(Some((len, response))) = parsed else { return Err(WebSocketFault::Refused) };
        let headers = response.headers();
        let has_token = |name: &str, value: &str| {
            let found = headers.get(name).and_then(|found| found.to_str().ok());
            found.is_some_and(|found| {
                found.split([' ', ',']).any(|word| word.eq_ignore_ascii_case(value))
            })
        };
        // A server must not select extensions or protocols that were not offered.
        let extended = ["sec-websocket-extensions", "sec-websocket-protocol"]
            .iter()
            .any(|name| headers.contains_key(*name));
        let accepted =
            headers.get("sec-websocket-accept").is_some_and(|found| found == &self.accept);
        let agreed = response.status() == Status::SWITCHING_PROTOCOLS
            && has_token("upgrade", "websocket")
            && has_token("connection", "upgrade")
            && accepted
            && !extended;
        if agreed { Ok(Some(len)) } else { Err(WebSocketFault::Refused) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

    fn request(headers: &str) -> String {
        format!(
            "GET / HTTP/1.1\r\nHost: localhost:9696\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\
             Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n{headers}\r\n"
        )
    }

    fn outcome(request: &str, peer: &str, config: &WebSocketConfig) -> RequestOutcome {
        answer_request(request.as_bytes(), 0, peer.parse().unwrap(), config)
    }

    fn scope_with(headers: &str, peer: &str, config: &WebSocketConfig) -> Option<Scope> {
        match outcome(&request(headers), peer, config) {
            RequestOutcome::Accepted(scope, _) => Some(scope),
            _ => None,
        }
    }

    fn status(request: &str) -> u16 {
        match outcome(request, "127.0.0.1:1", &WebSocketConfig::default()) {
            RequestOutcome::Refused(answer) => {
                String::from_utf8(answer).unwrap()[9..12].parse().unwrap()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn example_of_rfc_6455_is_accepted() {
        let RequestOutcome::Accepted(Scope::Local, answer) =
            outcome(&request(""), "127.0.0.1:1", &WebSocketConfig::default())
        else {
            panic!("not accepted");
        };
        let answer = String::from_utf8(answer).unwrap().to_ascii_lowercase();
        assert!(answer.starts_with("http/1.1 101 ") && answer.ends_with("\r\n\r\n"), "{answer}");
        assert!(
            answer.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n"),
            "{answer}"
        );
    }

    #[test]
    fn request_in_pieces_is_complete_with_its_last_byte() {
        let (text, config) = (request("Cookie: a=b\r\n"), WebSocketConfig::default());
        let peer = "192.0.2.1:1".parse().unwrap();
        for len in 1..text.len() {
            assert_eq!(
                answer_request(&text.as_bytes()[..len], len - 1, peer, &config),
                RequestOutcome::Partial,
                "{len}"
            );
        }
        assert!(matches!(
            answer_request(text.as_bytes(), text.len() - 1, peer, &config),
            RequestOutcome::Accepted(..)
        ));
    }

    #[test]
    fn scope_is_local_for_programs_and_listed_origins() {
        let config = WebSocketConfig {
            local_origins: vec!["http://localhost:8080".to_owned()],
            ..WebSocketConfig::default()
        };
        let from_loopback = |headers: &str| scope_with(headers, "127.0.0.1:1", &config);
        assert_eq!(from_loopback(""), Some(Scope::Local));
        assert_eq!(scope_with("", "[::1]:1", &config), Some(Scope::Local));
        assert_eq!(scope_with("", "192.0.2.1:1", &config), Some(Scope::NonLocal));
        assert_eq!(from_loopback("Origin: http://localhost:8080\r\n"), Some(Scope::Local));
        for other in
            ["http://localhost:80", "http://localhost:80800", "https://localhost:8080", "null", ""]
        {
            assert_eq!(
                from_loopback(&format!("Origin: {other}\r\n")),
                Some(Scope::NonLocal),
                "{other}"
            );
        }
        assert_eq!(
            scope_with("Origin: http://localhost:8080\r\n", "192.0.2.1:1", &config),
            Some(Scope::NonLocal)
        );
        assert_eq!(
            from_loopback("Origin: http://localhost:8080\r\nOrigin: http://localhost:8080\r\n"),
            None
        );
        assert_eq!(from_loopback("X-Forwarded-For: 192.0.2.1\r\n"), Some(Scope::NonLocal));
        let strict = WebSocketConfig { other_origins: false, loopback_local: false, ..config };
        assert_eq!(scope_with("Origin: http://elsewhere\r\n", "127.0.0.1:1", &strict), None);
        assert_eq!(
            scope_with("Origin: http://localhost:8080\r\n", "127.0.0.1:1", &strict),
            Some(Scope::NonLocal)
        );
        assert_eq!(scope_with("", "127.0.0.1:1", &strict), Some(Scope::NonLocal));
    }

    #[test]
    fn invalid_handshake_is_refused_with_advice() {
        assert_eq!(status("\x05\x03"), 400);
        assert_eq!(status("POST / HTTP/1.1\r\n\r\n"), 400);
        assert_eq!(status("GET / HTTP/1.0\r\n\r\n"), 400);
        assert_eq!(status("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), 426);
        assert_eq!(status(&request("").replace("13", "8")), 426);
        assert_eq!(status(&request("").replace(KEY, "short")), 400);
        assert_eq!(status(&format!("{}early", request(""))), 400);
        assert_eq!(status(&format!("GET / HTTP/1.1\r\nCookie: {}", "x".repeat(HTTP_LEN_MAX))), 431);
        assert_eq!(
            status(&request(&"X: y\r\n".repeat(500))),
            400,
            "more headers than the parser allows"
        );
        let RequestOutcome::Refused(answer) =
            outcome("GET / HTTP/1.1\r\n\r\n", "127.0.0.1:1", &WebSocketConfig::default())
        else {
            panic!("accepted");
        };
        assert!(String::from_utf8(answer).unwrap().contains("open ws://"));
    }

    #[test]
    fn client_request_is_accepted_by_own_server() {
        let handshake = ClientHandshake::new("127.0.0.1:9696".parse().unwrap(), KEY);
        let text = core::str::from_utf8(handshake.request()).unwrap();
        let RequestOutcome::Accepted(_, answer) =
            outcome(text, "127.0.0.1:1", &WebSocketConfig::default())
        else {
            panic!("not accepted");
        };
        let with_a_frame = [&answer[..], &[0x82, 0]].concat();
        assert_eq!(handshake.check_response(&with_a_frame), Ok(Some(answer.len())));
        assert_eq!(handshake.check_response(&answer[..answer.len() - 1]), Ok(None));
        let other =
            ClientHandshake::new("127.0.0.1:9696".parse().unwrap(), "AAAAAAAAAAAAAAAAAAAAAA==");
        assert_eq!(other.check_response(&answer), Err(WebSocketFault::Refused), "another key");
        assert_eq!(
            handshake.check_response(b"HTTP/1.1 404 Not Found\r\n\r\n"),
            Err(WebSocketFault::Refused)
        );
        assert_eq!(handshake.check_response(&[b'x'; HTTP_LEN_MAX]), Err(WebSocketFault::Refused));
    }
}
