//! What stands before every request: which listener may do what (decision 0048).
//!
//! * The unix socket: its file's rights decide.
//! * `control.listen`: everything with the token; without a configured token only [`OPEN_PATHS`].
//! * `control.metrics_listen`: only [`OPEN_PATHS`], which tell and never change anything.
//!
//! A browser lets web pages send requests to this machine. Such a request shows by `Origin`, or by a `Host` that is a name of the page's
//! owner; both are refused, but for the `Host` of a request with the token, which no page knows.

use crate::asker::Refused;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use core::time::Duration;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::time::timeout;

/// A request is read and its answer begun within this time.
const REQUEST_MAX: Duration = Duration::from_secs(30);
/// Paths that need no token where none is configured: for monitoring.
pub const OPEN_PATHS: [&str; 3] = ["/metrics", "/healthz", "/readyz"];

/// What a listener is for.
#[derive(Clone, Debug, Default)]
pub enum Rules {
    /// The unix socket.
    #[default]
    Unix,
    /// `control.listen`, with the token if there is one.
    Control(Option<Arc<str>>),
    /// `control.metrics_listen`.
    Metrics {
        /// Only this machine reaches it, so `Host` is an address or localhost. Others use names of their own.
        loopback: bool,
    },
}

/// Lets a request through, or answers it.
pub async fn guard(State(rules): State<Rules>, request: Request, next: Next) -> Response {
    if let Err(refused) = rules.check(request.uri(), request.headers()) {
        return refused.into_response();
    }
    match timeout(REQUEST_MAX, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Refused::new(408, "the request took too long").into_response(),
    }
}

impl Rules {
    fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refused> {
        // "A server MUST respond with 400 to any request message that contains more than one Host." (RFC 9112, 3.2)
        let host = single(headers, header::HOST)?.map(HeaderValue::to_str).transpose();
        let host = host.map_err(|_| Refused::new(400, "Host is not ASCII"))?;
        // "When an absolute-form is received, the server MUST ignore the Host header." (RFC 9112, 3.2.2)
        let host = uri.authority().map(Authority::as_str).or(host).unwrap_or("");
        let token = match self {
            Rules::Unix => return Ok(()),
            Rules::Control(token) => token.as_deref(),
            Rules::Metrics { .. } => None,
        };
        let shown = single(headers, header::AUTHORIZATION)?.and_then(bearer);
        let knows_token = token.zip(shown).is_some_and(|(token, shown)| same(shown, token.as_bytes()));
        check_origin(single(headers, header::ORIGIN)?, host)?;
        let any_host = matches!(self, Rules::Metrics { loopback: false });
        if !knows_token && !any_host && !Target::parse(host, None).is_some_and(|target| target.is_own()) {
            return Err(Refused::new(
                403,
                format!("Host is {host:?}: use an address or localhost, or show the token"),
            ));
        }
        match self {
            _ if knows_token => Ok(()),
            Rules::Metrics { .. } if OPEN_PATHS.contains(&uri.path()) => Ok(()),
            Rules::Metrics { .. } => Err(Refused::new(
                404,
                "this listener is for monitoring: /metrics, /healthz, /readyz; commands take control.listen or the unix socket",
            )),
            Rules::Control(None) if OPEN_PATHS.contains(&uri.path()) => Ok(()),
            Rules::Control(None) => Err(Refused::new(
                401,
                "no command by TCP without a token: set control.token_file, or use the unix socket; without, this listener serves /metrics, /healthz and /readyz",
            )),
            _ => Err(Refused::new(
                401,
                "the token of control.token_file is needed: Authorization: Bearer …, or --token-file of nw",
            )),
        }
    }
}

/// The only value of a header. Two contradict each other.
fn single(headers: &HeaderMap, name: HeaderName) -> Result<Option<&HeaderValue>, Refused> {
    let mut values = headers.get_all(&name).iter();
    let value = values.next();
    match values.next() {
        None => Ok(value),
        Some(_) => Err(Refused::new(400, format!("the header {name} stands twice"))),
    }
}

/// The token of `Authorization: Bearer TOKEN`. Names of schemes have no case (RFC 9110, 11.1).
fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let value = value.as_bytes();
    let (scheme, token) = value.split_at(value.iter().position(|byte| *byte == b' ')?);
    scheme.eq_ignore_ascii_case(b"bearer").then(|| token.trim_ascii())
}

/// Refuses pages but those of the very address the request goes to.
fn check_origin(origin: Option<&HeaderValue>, host: &str) -> Result<(), Refused> {
    let Some(origin) = origin else { return Ok(()) };
    let parsed = origin.to_str().ok().and_then(|origin| {
        let (scheme, authority) = origin.split_once("://")?;
        // The server speaks plain HTTP: a page by https came from elsewhere.
        scheme.eq_ignore_ascii_case("http").then(|| Target::parse(authority, Some(80))).flatten()
    });
    if parsed.is_some() && parsed == Target::parse(host, Some(80)) {
        return Ok(());
    }
    Err(Refused::new(403, "web pages of others may not send requests to this program"))
}

/// A host and port, in one form for all that mean the same.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    host: String,
    port: Option<u16>,
}

impl Target {
    /// From `host[:port]`. `None` if it is no such thing.
    fn parse(text: &str, port_default: Option<u16>) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(inner) => {
                let (host, rest) = inner.split_once(']')?;
                let host = host.parse::<std::net::Ipv6Addr>().ok()?.to_string();
                (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host.to_ascii_lowercase(), Some(port)),
                None => (text.to_ascii_lowercase(), None),
            },
        };
        // A period at the end marks a whole name, and changes nothing.
        let host = host.strip_suffix('.').map(str::to_owned).unwrap_or(host);
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".:-_~%".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_plain) {
            return None;
        }
        // "Host: localhost:" has an empty port, which is the default one (RFC 3986, 3.2.3).
        let port = match port.filter(|port| !port.is_empty()) {
            Some(port) => Some(port.parse().ok()?),
            None => port_default,
        };
        Some(Target { host, port })
    }

    /// An address, or localhost: another name could be one that a web page's owner points here.
    fn is_own(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok()
    }
}

/// Compares in a time that does not tell where the difference is.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_for(rules: &Rules, target: &str, headers: &[(HeaderName, &str)]) -> u64 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value.parse().unwrap());
        }
        rules.check(&target.parse().unwrap(), &map).map_or_else(|refused| refused.0.code, |()| 200)
    }

    fn code(rules: &Rules, headers: &[(HeaderName, &str)]) -> u64 {
        code_for(rules, "/metrics", headers)
    }

    const OWN: [&str; 12] = [
        "localhost",
        "LocalHost:6380",
        "localhost.",
        "localhost.:6380",
        "localhost:",
        "127.0.0.1:6380",
        "127.0.0.1",
        "[::1]:6380",
        "[::1]",
        "[0:0:0:0:0:0:0:1]:6380",
        "192.0.2.1:80",
        "[::ffff:127.0.0.1]",
    ];
    const FOREIGN: [&str; 13] = [
        "evil.example",
        "evil.example:6380",
        "",
        "localhost.evil.example",
        "localhost..",
        "evil.example@localhost",
        "localhost, evil.example",
        "localhost:x",
        "[::1",
        "::1",
        "[localhost]",
        "[::1]x:80",
        "127.0.0.1.evil.example",
    ];

    #[test]
    fn host_without_token_is_an_address_or_localhost() {
        for rules in [Rules::Control(None), Rules::Metrics { loopback: true }] {
            for host in OWN {
                assert_eq!(code(&rules, &[(header::HOST, host)]), 200, "{host}");
                let twice = [(header::HOST, host), (header::HOST, host)];
                assert_eq!(code(&rules, &twice), 400, "{host}");
            }
            for host in FOREIGN {
                assert_eq!(code(&rules, &[(header::HOST, host)]), 403, "{host}");
            }
            assert_eq!(code(&rules, &[]), 403);
            // An absolute target counts, not Host.
            let host = [(header::HOST, "localhost")];
            assert_eq!(code_for(&rules, "http://evil.example/metrics", &host), 403);
            let host = [(header::HOST, "evil.example")];
            assert_eq!(code_for(&rules, "HTTP://LOCALHOST:6380/metrics", &host), 200);
            assert_eq!(code_for(&rules, "http://[::1]/metrics", &host), 200);
        }
        let elsewhere = Rules::Metrics { loopback: false };
        assert_eq!(code(&elsewhere, &[(header::HOST, "router1.example:6380")]), 200);
        assert_eq!(code(&Rules::Unix, &[]), 200, "the unix socket's rights are the file's");
        let twice = [(header::HOST, "a"), (header::HOST, "b")];
        assert_eq!(code(&Rules::Unix, &twice), 400);
    }

    #[test]
    fn origin_is_the_requested_address_or_refused() {
        let rules = Rules::Control(None);
        for (host, origin, expected) in [
            ("localhost:6380", "http://localhost:6380", 200),
            ("LOCALHOST.:6380", "HTTP://localhost:6380", 200),
            ("localhost", "http://localhost:80", 200),
            ("localhost:80", "http://localhost", 200),
            ("[::1]:6380", "http://[0:0::1]:6380", 200),
            ("localhost:6380", "http://localhost", 403),
            ("localhost:6380", "https://localhost:6380", 403),
            ("localhost:6380", "http://127.0.0.1:6380", 403),
            ("localhost:6380", "http://evil.example", 403),
            ("localhost:6380", "null", 403),
            ("evil.example", "http://evil.example", 403),
        ] {
            assert_eq!(
                code(&rules, &[(header::HOST, host), (header::ORIGIN, origin)]),
                expected,
                "{host} {origin}"
            );
        }
    }

    #[test]
    fn token_opens_everything_and_nothing_else_does() {
        let rules = Rules::Control(Some("secret".into()));
        let host = (header::HOST, "localhost");
        let with = |value| [host.clone(), (header::AUTHORIZATION, value)];
        assert_eq!(code(&rules, std::slice::from_ref(&host)), 401);
        for wrong in ["Bearer secreT", "secret", "Bearer", "Bearer ", "Basic secret", "Bearer secret secret"]
        {
            assert_eq!(code(&rules, &with(wrong)), 401, "{wrong}");
        }
        for right in ["Bearer secret", "bearer secret", "BEARER  secret "] {
            assert_eq!(code(&rules, &with(right)), 200, "{right}");
            assert_eq!(code_for(&rules, "/v1/faces", &with(right)), 200, "{right}");
            let named = [(header::HOST, "router1.example:6380"), (header::AUTHORIZATION, right)];
            assert_eq!(code(&rules, &named), 200, "a token is no page's");
        }
        let twice =
            [host.clone(), (header::AUTHORIZATION, "Bearer secret"), (header::AUTHORIZATION, "Bearer x")];
        assert_eq!(code(&rules, &twice), 400);
        let page = [host, (header::AUTHORIZATION, "Bearer secret"), (header::ORIGIN, "http://evil.example")];
        assert_eq!(code(&rules, &page), 403);
    }

    #[test]
    fn without_a_token_only_monitoring_is_open() {
        let host = [(header::HOST, "localhost")];
        for path in OPEN_PATHS {
            assert_eq!(code_for(&Rules::Control(None), path, &host), 200);
            assert_eq!(code_for(&Rules::Metrics { loopback: true }, path, &host), 200);
        }
        for path in ["/v1/faces", "/v1/version", "/", "/metrics/", "//metrics", "/openapi.json"] {
            assert_eq!(code_for(&Rules::Control(None), path, &host), 401, "{path}");
            assert_eq!(code_for(&Rules::Metrics { loopback: true }, path, &host), 404, "{path}");
            let token = [host[0].clone(), (header::AUTHORIZATION, "Bearer ")];
            assert_eq!(code_for(&Rules::Control(None), path, &token), 401, "{path}");
        }
    }
}
