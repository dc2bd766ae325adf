//! Access control for every request: what each listener may be used for (decision 0048).
//!
//! * The Unix socket: its file permissions decide.
//! * `control.listen`: everything with the token. If no token is configured, only [`OPEN_PATHS`].
//! * `control.metrics_listen`: only [`OPEN_PATHS`], which report and never change anything.
//! * A listener with TLS: everything but requests of web pages; the program checks tokens itself.
//! * `page.listen`: the page's files, and everything with a session of the page (decision 0075).
//!
//! A browser lets web pages send requests to this machine. Such a request has an `Origin`, or a
//! `Host` that is a name chosen by the page's owner. Both are refused. The `Host` is not checked if
//! the request has the token, which no web page knows.

use crate::api_error::ApiError;
use crate::entry::{Entry, Peer};
use crate::page::{self, PageAccess};
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use core::time::Duration;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::time::timeout;

/// Time to read a request and start its response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Paths without a token if none is configured: for monitoring.
pub const OPEN_PATHS: [&str; 3] = ["/metrics", "/healthz", "/readyz"];

/// Rules of a listener.
#[derive(Clone, Default)]
pub enum Rules {
    /// The Unix socket.
    #[default]
    Unix,
    /// `control.listen`, with the token if one is configured.
    Control(Option<Arc<str>>),
    /// `control.metrics_listen`.
    Metrics {
        /// Only this machine can connect, so `Host` must be an address or localhost. Other machines
        /// use names.
        loopback: bool,
    },
    /// `page.listen`.
    Page(Arc<PageAccess>),
    /// A listener with TLS, where the program itself decides.
    Tls(Arc<rustls::ServerConfig>),
}

/// Passes a request on, or answers it with an error.
pub async fn guard(State(rules): State<Rules>, request: Request, next: Next) -> Response {
    let (uri, headers) = (request.uri(), request.headers());
    let checked = match &rules {
        Rules::Page(access) => requested_host(uri, headers)
            .and_then(|host| access.check(request.method(), uri, headers, host)),
        _ => rules.check(uri, headers),
    };
    let user = match &rules {
        Rules::Page(access) => access.user(headers),
        _ => None,
    };
    let shown = matches!(rules, Rules::Page(_)).then(|| headers.clone());
    let mut request = request;
    user.map(|user| request.extensions_mut().insert(user));
    let peer = request.extensions().get::<Peer>().copied().unwrap_or_default();
    request.extensions_mut().insert(rules.entry(peer));
    let mut response = match checked {
        Err(refused) => refused.into_response(),
        Ok(()) => match timeout(REQUEST_TIMEOUT, next.run(request)).await {
            Ok(response) => response,
            Err(_) => ApiError::new(408, "the request took too long").into_response(),
        },
    };
    if let (Rules::Page(access), Some(shown)) = (&rules, shown) {
        page::add_headers(&mut response);
        response = access.limit_stream(&shown, response);
    }
    response
}

/// Returns the host that a request names. Empty if it names none.
fn requested_host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Result<&'a str, ApiError> {
    // "A server MUST respond with 400 to any request message that contains more than one Host."
    // (RFC 9112, 3.2)
    let host = single_value(headers, header::HOST)?.map(HeaderValue::to_str).transpose();
    let host = host.map_err(|_| ApiError::new(400, "Host is not ASCII"))?;
    // "When an absolute-form is received, the server MUST ignore the Host header." (RFC 9112,
    // 3.2.2)
    Ok(uri.authority().map(Authority::as_str).or(host).unwrap_or(""))
}

impl Rules {
    const fn entry(&self, peer: Peer) -> Entry {
        match self {
            Rules::Unix => Entry::Unix(peer.0),
            Rules::Page(_) => Entry::Page,
            Rules::Tls(_) => Entry::Tls,
            Rules::Control(_) | Rules::Metrics { .. } => Entry::Tcp,
        }
    }

    fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
        let host = requested_host(uri, headers)?;
        let token = match self {
            Rules::Unix => return Ok(()),
            Rules::Control(token) => token.as_deref(),
            Rules::Metrics { .. } | Rules::Page(_) => None,
            // No page of this program is served there.
            Rules::Tls(_) => {
                return match single_value(headers, header::ORIGIN)? {
                    None => Ok(()),
                    Some(_) => Err(ApiError::new(403, "web pages may not send requests here")),
                };
            }
        };
        let shown_token = single_value(headers, header::AUTHORIZATION)?.and_then(bearer);
        let has_token = token
            .zip(shown_token)
            .is_some_and(|(token, shown)| constant_time_eq(shown, token.as_bytes()));
        // The server speaks plain HTTP, so an https page is from another server.
        check_origin(single_value(headers, header::ORIGIN)?, host, "http")?;
        let accepts_any_host = matches!(self, Rules::Metrics { loopback: false });
        if !has_token
            && !accepts_any_host
            && !Target::parse(host, None).is_some_and(|target| target.is_local_name())
        {
            return Err(ApiError::new(
                403,
                format!("Host is {host:?}: use an address or localhost, or send the token"),
            ));
        }
        match self {
            _ if has_token => Ok(()),
            Rules::Metrics { .. } if OPEN_PATHS.contains(&uri.path()) => Ok(()),
            Rules::Metrics { .. } => Err(ApiError::new(
                404,
                "this listener is for monitoring: /metrics, /healthz, /readyz; send commands to \
                 control.listen or the unix socket",
            )),
            Rules::Control(None) if OPEN_PATHS.contains(&uri.path()) => Ok(()),
            Rules::Control(None) => Err(ApiError::new(
                401,
                "commands over TCP need a token: set control.token_file, or use the unix socket; \
                 without a token this listener serves /metrics, /healthz and /readyz",
            )),
            _ => Err(ApiError::new(
                401,
                "the token in control.token_file is required: Authorization: Bearer …, or \
                 --token-file of nw",
            )),
        }
    }
}

/// Returns the only value of a header. Two values are an error, as they contradict each other.
pub(crate) fn single_value(
    headers: &HeaderMap,
    name: HeaderName,
) -> Result<Option<&HeaderValue>, ApiError> {
    let mut values = headers.get_all(&name).iter();
    let value = values.next();
    match values.next() {
        None => Ok(value),
        Some(_) => Err(ApiError::new(400, format!("the header {name} occurs twice"))),
    }
}

/// Returns the token of `Authorization: Bearer TOKEN`. Scheme names are case-insensitive (RFC 9110,
/// 11.1).
fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let value = value.as_bytes();
    let (scheme, token) = value.split_at(value.iter().position(|byte| *byte == b' ')?);
    scheme.eq_ignore_ascii_case(b"bearer").then(|| token.trim_ascii())
}

/// Refuses requests of web pages, except pages from the address that the request is sent to.
/// `own_scheme`: the scheme of the address, as browsers see it.
pub(crate) fn check_origin(
    origin: Option<&HeaderValue>,
    host: &str,
    own_scheme: &str,
) -> Result<(), ApiError> {
    let Some(origin) = origin else { return Ok(()) };
    let port = Some(if own_scheme == "https" { 443 } else { 80 });
    let parsed = origin.to_str().ok().and_then(|origin| {
        let (scheme, authority) = origin.split_once("://")?;
        scheme.eq_ignore_ascii_case(own_scheme).then(|| Target::parse(authority, port)).flatten()
    });
    if parsed.is_some() && parsed == Target::parse(host, port) {
        return Ok(());
    }
    Err(ApiError::new(403, "web pages of other sites may not send requests to this program"))
}

/// A host and port, normalised for comparison.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    host: String,
    port: Option<u16>,
}

impl Target {
    /// Parses `host[:port]`. `None` if it is malformed.
    pub(crate) fn parse(text: &str, port_default: Option<u16>) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(inner) => {
                let (host, suffix) = inner.split_once(']')?;
                let host = host.parse::<std::net::Ipv6Addr>().ok()?.to_string();
                (host, if suffix.is_empty() { None } else { Some(suffix.strip_prefix(':')?) })
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host.to_ascii_lowercase(), Some(port)),
                None => (text.to_ascii_lowercase(), None),
            },
        };
        // A final period marks a fully qualified name and changes nothing.
        let host = host.strip_suffix('.').map(str::to_owned).unwrap_or(host);
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".:-_~%".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_allowed) {
            return None;
        }
        // "Host: localhost:" has an empty port, which is the default one (RFC 3986, 3.2.3).
        let port = match port.filter(|port| !port.is_empty()) {
            Some(port) => Some(port.parse().ok()?),
            None => port_default,
        };
        Some(Target { host, port })
    }

    /// Returns whether the host is an address or localhost. The owner of a web page could point any
    /// other name to this machine.
    pub(crate) fn is_local_name(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok()
    }
}

/// Compares in constant time, so that the time does not reveal where the difference is.
pub(crate) fn constant_time_eq(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |diff, (a, b)| diff | (a ^ b)) == 0
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

    const LOCAL_HOSTS: [&str; 12] = [
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
    const FOREIGN_HOSTS: [&str; 13] = [
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
    fn host_without_token_must_be_address_or_localhost() {
        for rules in [Rules::Control(None), Rules::Metrics { loopback: true }] {
            for host in LOCAL_HOSTS {
                assert_eq!(code(&rules, &[(header::HOST, host)]), 200, "{host}");
                let twice = [(header::HOST, host), (header::HOST, host)];
                assert_eq!(code(&rules, &twice), 400, "{host}");
            }
            for host in FOREIGN_HOSTS {
                assert_eq!(code(&rules, &[(header::HOST, host)]), 403, "{host}");
            }
            assert_eq!(code(&rules, &[]), 403);
            // The authority of an absolute target counts, not Host.
            let host = [(header::HOST, "localhost")];
            assert_eq!(code_for(&rules, "http://evil.example/metrics", &host), 403);
            let host = [(header::HOST, "evil.example")];
            assert_eq!(code_for(&rules, "HTTP://LOCALHOST:6380/metrics", &host), 200);
            assert_eq!(code_for(&rules, "http://[::1]/metrics", &host), 200);
        }
        let remote = Rules::Metrics { loopback: false };
        assert_eq!(code(&remote, &[(header::HOST, "router1.example:6380")]), 200);
        assert_eq!(code(&Rules::Unix, &[]), 200, "the file's permissions protect the unix socket");
        let twice = [(header::HOST, "a"), (header::HOST, "b")];
        assert_eq!(code(&Rules::Unix, &twice), 400);
    }

    #[test]
    fn origin_must_be_requested_address() {
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
    fn token_correct_opens_every_path() {
        let rules = Rules::Control(Some("secret".into()));
        let host = (header::HOST, "localhost");
        let with_authorization = |value| [host.clone(), (header::AUTHORIZATION, value)];
        assert_eq!(code(&rules, std::slice::from_ref(&host)), 401);
        for wrong in
            ["Bearer secreT", "secret", "Bearer", "Bearer ", "Basic secret", "Bearer secret secret"]
        {
            assert_eq!(code(&rules, &with_authorization(wrong)), 401, "{wrong}");
        }
        for right in ["Bearer secret", "bearer secret", "BEARER  secret "] {
            assert_eq!(code(&rules, &with_authorization(right)), 200, "{right}");
            assert_eq!(code_for(&rules, "/v1/faces", &with_authorization(right)), 200, "{right}");
            let named = [(header::HOST, "router1.example:6380"), (header::AUTHORIZATION, right)];
            assert_eq!(code(&rules, &named), 200, "a web page does not know the token");
        }
        let twice = [
            host.clone(),
            (header::AUTHORIZATION, "Bearer secret"),
            (header::AUTHORIZATION, "Bearer x"),
        ];
        assert_eq!(code(&rules, &twice), 400);
        let page = [
            host,
            (header::AUTHORIZATION, "Bearer secret"),
            (header::ORIGIN, "http://evil.example"),
        ];
        assert_eq!(code(&rules, &page), 403);
    }

    #[test]
    fn token_missing_opens_monitoring_only() {
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
