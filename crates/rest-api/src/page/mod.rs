//! The web page of a program: its files, its login, and what its listener may be used for
//! (decisions 0074 and 0075).
//!
//! A request of the page needs the session's cookie and the session's header `X-NW-CSRF`. The
//! cookie alone opens nothing: browsers send cookies to every port of a host, so a program of
//! another user could receive it.

mod files;
mod sessions;
mod tls;

use crate::api_error::ApiError;
use crate::extract::Body;
use crate::guard::{Target, check_origin, constant_time_eq, single_value};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use core::time::Duration;
use nw_api::config::Page as PageConfig;
use nw_api::rest::{PageInfo, PageTicket, SessionMade, SessionWanted};
pub use sessions::PageUser;
pub use tls::TlsError;

use sessions::{SESSION_IDLE, Sessions, Shown, TICKET_LIFETIME};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

const CSRF: HeaderName = HeaderName::from_static("x-nw-csrf");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// The login: the only path of the interface without a session.
const SESSION_PATH: &str = "/v1/session";
/// Headers of every response.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         object-src 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

/// User of a session that began with the page's own token.
const TOKEN_USER: &str = "the token of the page";

/// The page of a program: who may use it.
pub struct PageAccess {
    /// Kind of program: the page chooses its view by it.
    program: &'static str,
    token: Option<Arc<str>>,
    public_url: Option<String>,
    /// Certificate and key; `None`: the page is served without TLS.
    tls: Option<Arc<rustls::ServerConfig>>,
    /// First address of the page, known when its socket is open.
    address: OnceLock<SocketAddr>,
    sessions: Mutex<Sessions>,
    started: Instant,
}

impl PageAccess {
    /// Creates the access control of a page. `program`: router, network, balancer or recording.
    ///
    /// # Errors
    /// If the certificate or the key can't be read, or they do not belong together.
    pub fn new(
        config: &PageConfig,
        program: &'static str,
        token: Option<Arc<str>>,
    ) -> Result<Arc<Self>, TlsError> {
        let tls = match (&config.certificate, &config.key) {
            (Some(certificate), Some(key)) => Some(tls::read(certificate, key)?),
            _ => None,
        };
        Ok(Arc::new(PageAccess {
            program,
            token,
            public_url: config.public_url.clone(),
            tls,
            address: OnceLock::new(),
            sessions: Mutex::default(),
            started: Instant::now(),
        }))
    }

    /// Returns what its listener needs for TLS. `None`: without TLS.
    pub(crate) fn tls(&self) -> Option<Arc<rustls::ServerConfig>> {
        self.tls.clone()
    }

    /// Returns the scheme of addresses, as the listener serves them.
    fn own_scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Stores the address of the page. Only the first call has an effect.
    pub(crate) fn set_address(&self, address: SocketAddr) {
        let _ = self.address.set(address);
    }

    /// Returns the URL of the page.
    pub fn url(&self) -> String {
        match (&self.public_url, self.address.get()) {
            (Some(url), _) => format!("{url}/"),
            (None, Some(address)) => format!("{}://{address}/", self.own_scheme()),
            (None, None) => String::new(),
        }
    }

    /// Returns a URL that opens the page once. The session is that of `user`; see [`PageUser`].
    ///
    /// # Errors
    /// 500 if the operating system has no random numbers.
    pub fn create_ticket(&self, user: PageUser) -> Result<PageTicket, ApiError> {
        let secret = random_secret()?;
        self.lock().add_ticket(secret.clone(), user, self.now());
        let url = format!("{}#ticket={secret}", self.url());
        Ok(PageTicket { url, expires_s: TICKET_LIFETIME.as_secs() })
    }

    /// Ends all sessions, and the tickets, of users with this credential.
    pub fn end_sessions(&self, credential: &str) {
        self.lock().end_all_by(credential);
    }

    /// Checks a request to the page's listener.
    ///
    /// # Errors
    /// 401 without a session, 403 for a request of another site or without the session's header.
    pub(crate) fn check(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        host: &str,
    ) -> Result<(), ApiError> {
        let scheme = self.scheme_of(host)?;
        let is_file = files::contains(uri.path());
        if is_file && *method == Method::GET {
            return Ok(());
        }
        check_origin(single_value(headers, header::ORIGIN)?, host, scheme)?;
        let site = single_value(headers, FETCH_SITE)?;
        if site.is_some_and(|site| site != "same-origin" && site != "none") {
            return Err(ApiError::new(
                403,
                "pages of other sites may not send requests to this one",
            ));
        }
        if uri.path() == SESSION_PATH && *method == Method::POST {
            return Ok(());
        }
        let csrf = single_value(headers, CSRF)?.and_then(|value| value.to_str().ok());
        match self.lock().check(self.cookie(headers), csrf, self.now()) {
            Shown::Session => Ok(()),
            Shown::CookieOnly => Err(ApiError::new(
                403,
                "the header X-NW-CSRF of this session is missing or wrong: open the page again \
                 with nw open",
            )),
            Shown::Nothing => Err(ApiError::new(
                401,
                "no session, or it has expired: open the page with nw open, or log in with the \
                 token in page.token_file",
            )),
        }
    }

    /// Returns the scheme under which browsers see this host. Other hosts are refused: their owner
    /// could point a name to this machine.
    fn scheme_of(&self, host: &str) -> Result<&str, ApiError> {
        let target = Target::parse(host, None);
        let public = self.public_url.as_deref().and_then(|url| url.split_once("://"));
        if let Some((scheme, authority)) = public
            && target.is_some()
            && target == Target::parse(authority, None)
        {
            return Ok(scheme);
        }
        if target.is_some_and(|target| target.is_local_name()) {
            return Ok(self.own_scheme());
        }
        Err(ApiError::new(
            403,
            format!("Host is {host:?}: use an address, localhost, or the name in page.public_url"),
        ))
    }

    /// Returns the user of a request's session.
    pub(crate) fn user(&self, headers: &HeaderMap) -> Option<PageUser> {
        self.lock().user(self.cookie(headers)?)
    }

    /// Returns a response whose stream ends with the session of its request.
    pub(crate) fn limit_stream(
        self: &Arc<Self>,
        headers: &HeaderMap,
        response: Response,
    ) -> Response {
        let Some(cookie) = self.cookie(headers).map(str::to_owned) else { return response };
        let access = Arc::clone(self);
        crate::limit_stream(response, move || access.lock().is_open(&cookie, access.now()))
    }

    fn log_in(&self, wanted: &SessionWanted) -> Result<PageUser, ApiError> {
        let (now, mut sessions) = (self.now(), self.lock());
        if let Some(ticket) = &wanted.ticket {
            return match sessions.use_ticket(ticket, now) {
                Some(user) => Ok(user),
                None => Err(ApiError::new(
                    401,
                    "the ticket was used before or has expired: run nw open again",
                )),
            };
        }
        let Some(token) = &self.token else {
            return Err(ApiError::new(401, "this page has no token: open it with nw open"));
        };
        if !sessions.may_try(now) {
            return Err(ApiError::new(429, "too many wrong tokens: wait a minute"));
        }
        let shown = wanted.token.as_deref().unwrap_or("");
        if constant_time_eq(token.as_bytes(), shown.as_bytes()) {
            return Ok(PageUser { name: TOKEN_USER.into(), ..PageUser::default() });
        }
        sessions.count_failure(now);
        tracing::warn!("a login to the page with a wrong token");
        Err(ApiError::new(401, "the token is wrong: it stands in the file page.token_file"))
    }

    /// Name of the session's cookie. It has the port, as browsers do not separate cookies by port.
    fn cookie_name(&self) -> String {
        let port = self.address.get().map_or(0, SocketAddr::port);
        format!("nw_session_{port}")
    }

    fn cookie<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let name = self.cookie_name();
        let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut cookies = values.flat_map(|value| value.split(';'));
        cookies.find_map(|cookie| cookie.trim().strip_prefix(&name)?.strip_prefix('='))
    }

    fn set_cookie(&self, id: &str, max_age_s: u64) -> HeaderValue {
        let is_public = self.public_url.as_deref().is_some_and(|url| url.starts_with("https:"));
        let secure = if is_public || self.tls.is_some() { "; Secure" } else { "" };
        let name = self.cookie_name();
        let value =
            format!("{name}={id}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Strict{secure}");
        HeaderValue::try_from(value).expect("hexadecimal digits and ASCII")
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

/// Returns the response to a request for a ticket, which `user` has sent.
///
/// # Errors
/// 409 if the program serves no page.
pub fn create_page_ticket(
    page: Option<&PageAccess>,
    user: PageUser,
) -> Result<(StatusCode, Json<PageTicket>), ApiError> {
    let Some(page) = page else {
        return Err(ApiError::new(
            409,
            "this program serves no page: start it with --page, or set listen in [page]",
        ));
    };
    Ok((StatusCode::CREATED, Json(page.create_ticket(user)?)))
}

/// Adds the headers of every response of the page's listener.
pub(crate) fn add_headers(response: &mut Response) {
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
}

/// Returns the files and the login of a page, in front of the program's own paths.
pub(crate) fn router(access: Arc<PageAccess>, program: Router) -> Router {
    let mut router = Router::new();
    for path in files::paths() {
        router = router.route(path, get(files::serve));
    }
    router
        .route(SESSION_PATH, post(log_in).delete(log_out))
        .route("/v1/page", get(info))
        .with_state(access)
        .fallback_service(program)
}

async fn info(State(access): State<Arc<PageAccess>>) -> Json<PageInfo> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let version = concat!("namewire ", env!("CARGO_PKG_VERSION")).to_owned();
    Json(PageInfo { program: access.program.to_owned(), version, host })
}

async fn log_in(
    State(access): State<Arc<PageAccess>>,
    Body(wanted): Body<SessionWanted>,
) -> Result<Response, ApiError> {
    let user = access.log_in(&wanted)?;
    let (id, csrf) = (random_secret()?, random_secret()?);
    access.lock().start(id.clone(), csrf.clone(), user, access.now());
    let made = SessionMade { csrf, idle_s: SESSION_IDLE.as_secs() };
    let mut response = (StatusCode::CREATED, Json(made)).into_response();
    let cookie = access.set_cookie(&id, SESSION_IDLE.as_secs());
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

async fn log_out(State(access): State<Arc<PageAccess>>, request: Request) -> Response {
    if let Some(id) = access.cookie(request.headers()) {
        access.lock().end(id);
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    response.headers_mut().insert(header::SET_COOKIE, access.set_cookie("", 0));
    response
}

fn random_secret() -> Result<String, ApiError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| ApiError::new(500, format!("no random numbers: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests;
