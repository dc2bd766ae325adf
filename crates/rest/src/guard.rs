//! Who may ask: what stands before every request.
//!
//! By the unix socket: whoever may open it. By TCP: with the token where one is configured; and never a web page, which a browser would let
//! speak to this machine: a page shows by `Origin`, or by a `Host` that is no address of ours.

use crate::asker::Refused;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use core::time::Duration;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::time::timeout;

/// A request is read and its answer begun within this time.
const REQUEST_MAX: Duration = Duration::from_secs(30);

/// The rules of one listener.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// By TCP: web pages are kept out.
    pub tcp: bool,
    /// What must be shown.
    pub token: Option<Arc<str>>,
}

/// Lets a request through, or answers it.
pub async fn guard(State(rules): State<Rules>, request: Request, next: Next) -> Response {
    if let Err(refused) = rules.check(request.headers()) {
        return refused.into_response();
    }
    match timeout(REQUEST_MAX, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Refused::new(408, "the request took too long").into_response(),
    }
}

impl Rules {
    fn check(&self, headers: &HeaderMap) -> Result<(), Refused> {
        if !self.tcp {
            return Ok(());
        }
        if headers.contains_key(header::ORIGIN) {
            return Err(Refused::new(403, "web pages of others may not command a router"));
        }
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("");
        if !is_own_host(host) {
            return Err(Refused::new(403, format!("Host is {host:?}: ask by an address or as localhost")));
        }
        let Some(token) = &self.token else { return Ok(()) };
        let shown = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
        let shown = shown.and_then(|value| value.strip_prefix(b"Bearer ")).unwrap_or(b"");
        if same(shown, token.as_bytes()) {
            return Ok(());
        }
        Err(Refused::new(401, "the token of control.token_file is needed: Authorization: Bearer …"))
    }
}

/// An address, or localhost: a name could be one that a web page made point here.
fn is_own_host(host: &str) -> bool {
    let without_port = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|octet| octet.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = without_port.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<IpAddr>().is_ok()
}

/// Compares without telling by its time where the difference is.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(rules: &Rules, headers: &[(header::HeaderName, &str)]) -> u64 {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        rules.check(&headers).map_or_else(|refused| refused.0.code, |()| 200)
    }

    #[test]
    fn pages_of_others_and_wrong_tokens_stay_out() {
        let open = Rules { tcp: true, token: None };
        for host in ["localhost", "localhost:6380", "127.0.0.1:6380", "[::1]:6380", "[::1]", "192.0.2.1:80"] {
            assert_eq!(code(&open, &[(header::HOST, host)]), 200, "{host}");
        }
        for host in ["evil.example", "evil.example:6380", "", "localhost.evil.example"] {
            assert_eq!(code(&open, &[(header::HOST, host)]), 403, "{host}");
        }
        assert_eq!(code(&open, &[(header::HOST, "localhost"), (header::ORIGIN, "http://x")]), 403);
        assert_eq!(code(&Rules::default(), &[]), 200, "the unix socket's rights are the file's");

        let closed = Rules { tcp: true, token: Some("secret".into()) };
        let host = (header::HOST, "localhost");
        assert_eq!(code(&closed, std::slice::from_ref(&host)), 401);
        assert_eq!(code(&closed, &[host.clone(), (header::AUTHORIZATION, "Bearer secreT")]), 401);
        assert_eq!(code(&closed, &[host.clone(), (header::AUTHORIZATION, "secret")]), 401);
        assert_eq!(code(&closed, &[host, (header::AUTHORIZATION, "Bearer secret")]), 200);
    }
}
