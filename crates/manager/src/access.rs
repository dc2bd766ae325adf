//! Who asks, and what they may do: users of this machine by the credentials of the Unix socket,
//! users of others by the name of their token.
//!
//! A session of the page rests on the token of the user who opened it, and ends with it.
//!
//! Invariant: an operation that [`OPERATIONS`] does not name can be used by admins only. Every
//! request that would change something is in the audit, also if it is refused.

use crate::run::{Author, Handle};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use nw_api::network_access::{Role, UserToken};
use nw_rest_api::{ApiError, Entry, PageAccess, PageUser};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Requests with wrong tokens per minute that are answered by 401 and noted; others get 429.
const WRONG_TOKENS_MAX: u32 = 60;
/// Follows the name of a user who acts by the page.
const BY_PAGE: &str = ", by the page";
const MINUTE: Duration = Duration::from_secs(60);

/// An operation: method, path, the role that it needs, and whether it changes something.
type Operation = (&'static str, &'static str, Role, bool);

/// Operations that not only admins may use. Reading is for viewers unless it is listed here.
const OPERATIONS: &[Operation] = &[
    ("GET", "/v1/tokens", Role::Admin, false),
    // Contents of packets are shown.
    ("GET", "/v1/instances/{name}/tap", Role::Operator, false),
    ("POST", "/v1/plan", Role::Viewer, false),
    ("POST", "/v1/drawing", Role::Viewer, false),
    ("PUT", "/v1/network", Role::Operator, true),
    ("POST", "/v1/undo", Role::Operator, true),
    ("POST", "/v1/hold", Role::Operator, true),
    ("POST", "/v1/resume", Role::Operator, true),
    ("PUT", "/v1/positions", Role::Operator, true),
    ("PUT", "/v1/scale/{service}", Role::Operator, true),
    ("DELETE", "/v1/countermeasures/{element}", Role::Operator, true),
    ("PUT", "/v1/countermeasures/{element}/veto", Role::Operator, true),
    ("POST", "/v1/routes", Role::Operator, true),
    ("POST", "/v1/routes/remove", Role::Operator, true),
];

/// What a request may do, and who sent it: an extension of every request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    name: String,
    /// The token that its right rests on; empty if it can't be taken back.
    credential: Arc<str>,
    /// What it may do.
    pub role: Role,
    /// Whether a handler has taken the author: then the command itself notes its result.
    is_noted: Arc<AtomicBool>,
}

impl Caller {
    fn new(name: String, role: Role) -> Self {
        Caller { name, credential: Arc::default(), role, is_noted: Arc::default() }
    }

    fn by_token(token: &UserToken) -> Self {
        let caller = Caller::new(format!("token {}", token.name), token.role);
        Caller { credential: credential(token).into(), ..caller }
    }

    /// Returns the user of a session that this caller opens.
    pub fn page_user(&self) -> PageUser {
        PageUser { name: self.name.as_str().into(), credential: Arc::clone(&self.credential) }
    }

    /// Returns the author of a command that notes its own result in the audit.
    pub fn author(&self) -> Author {
        self.is_noted.store(true, Ordering::SeqCst);
        Author(self.name.clone())
    }
}

/// Counts requests with wrong tokens in the current minute.
#[derive(Default)]
struct WrongTokens(Mutex<Option<(Instant, u32)>>);

impl WrongTokens {
    /// Counts one. Returns whether it is within the limit.
    fn count(&self) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let (since, count) = state.unwrap_or((now, 0));
        let is_over = now.duration_since(since) > MINUTE;
        let (since, count) = if is_over { (now, 1) } else { (since, count + 1) };
        *state = Some((since, count));
        count <= WRONG_TOKENS_MAX
    }
}

/// Decides on requests.
#[derive(Clone)]
pub(crate) struct Access {
    handle: Handle,
    page: Option<Arc<PageAccess>>,
    wrong_tokens: Arc<WrongTokens>,
}

/// Returns what a session remembers of a token: one that takes its name later is another one.
fn credential(token: &UserToken) -> String {
    format!("token {} of {}", token.name, token.created_ms)
}

/// Returns the role that an operation needs, and whether it changes something.
fn operation(method: &Method, path: &str) -> (Role, bool) {
    let is_same = |known: &&Operation| known.0 == method.as_str() && known.1 == path;
    match OPERATIONS.iter().find(is_same) {
        Some((_, _, role, is_change)) => (*role, *is_change),
        None if [Method::GET, Method::HEAD].contains(method) => (Role::Viewer, false),
        None => (Role::Admin, true),
    }
}

impl Access {
    pub fn new(handle: Handle, page: Option<Arc<PageAccess>>) -> Self {
        Access { handle, page, wrong_tokens: Arc::default() }
    }

    /// Returns who sent a request, by the way it came.
    fn caller(
        &self,
        entry: Option<Entry>,
        user: Option<&PageUser>,
        headers: &HeaderMap,
    ) -> Result<Caller, ApiError> {
        match entry {
            Some(Entry::Unix(uid)) => Ok(local_caller(uid)),
            Some(Entry::Page) => self.page_caller(user.cloned().unwrap_or_default()),
            Some(Entry::Tls) => self.token_caller(headers),
            Some(Entry::Tcp) | None => Err(ApiError::new(
                401,
                "this listener takes no commands: use the Unix socket, or TLS with a token",
            )),
        }
    }

    /// Returns the caller of a session. It begins with a ticket, which only an admin can make; it
    /// ends with the token of that admin.
    fn page_caller(&self, user: PageUser) -> Result<Caller, ApiError> {
        let caller = Caller::new(page_name(&user), Role::Admin);
        if user.credential.is_empty() {
            return Ok(caller);
        }
        if self.is_valid(&user.credential)? {
            return Ok(Caller { credential: user.credential, ..caller });
        }
        if let Some(page) = &self.page {
            page.end_sessions(&user.credential);
        }
        Err(ApiError::new(
            401,
            "this session has ended, as the token that opened it was removed or has expired: open \
             the page again with nw open",
        ))
    }

    /// Returns whether the token of a credential has neither been removed nor expired.
    fn is_valid(&self, wanted: &str) -> Result<bool, ApiError> {
        let tokens = self.handle.valid_tokens().map_err(ApiError::from)?;
        Ok(tokens.iter().any(|token| credential(token) == wanted))
    }

    /// Returns a response whose stream ends with the token that its request rests on.
    fn limit_stream(&self, wanted: Arc<str>, response: Response) -> Response {
        if wanted.is_empty() {
            return response;
        }
        let access = self.clone();
        nw_rest_api::limit_stream(response, move || access.is_valid(&wanted).unwrap_or(false))
    }

    fn token_caller(&self, headers: &HeaderMap) -> Result<Caller, ApiError> {
        let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let text = shown.and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        let Some(text) = text else {
            return Err(ApiError::new(
                401,
                "a token is needed: Authorization: Bearer TOKEN, or --token-file of nw; an admin \
                 makes one with `nw network token add`",
            ));
        };
        let found = self.handle.token(text).map_err(ApiError::from)?;
        found.as_ref().map(Caller::by_token).ok_or_else(|| match self.wrong_tokens.count() {
            true => ApiError::new(
                401,
                "the token is wrong, expired or removed: an admin makes a new one with `nw network \
                 token add`",
            ),
            false => ApiError::new(429, "too many wrong tokens: wait a minute"),
        })
    }
}

/// Returns the name for the audit of a session of the page: that of the user who opened it.
fn page_name(user: &PageUser) -> String {
    let name = user.name.trim_end_matches(BY_PAGE);
    format!("{}{BY_PAGE}", if name.is_empty() { "an unknown user" } else { name })
}

/// Returns a user of this machine: this program's own user and root are admins; others are
/// viewers, if an admin has opened the socket for them.
fn local_caller(uid: Option<u32>) -> Caller {
    let own = rustix::process::geteuid().as_raw();
    let role = match uid {
        Some(uid) if uid == own || uid == 0 => Role::Admin,
        _ => Role::Viewer,
    };
    Caller::new(uid.map_or_else(|| "an unknown user".to_owned(), describe_user), role)
}

impl Author {
    /// Returns the user of this process.
    pub fn current_user() -> Author {
        Author(describe_user(rustix::process::getuid().as_raw()))
    }
}

/// Returns a user's name and id; the id alone if the system's list does not have it.
fn describe_user(uid: u32) -> String {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let fields: Vec<&str> = line.splitn(4, ':').collect();
        let is_same = fields.get(2).is_some_and(|id| id.parse() == Ok(uid));
        is_same.then(|| fields[0].to_owned())
    });
    match name {
        Some(name) => format!("{name} (uid {uid})"),
        None => format!("uid {uid}"),
    }
}

/// Passes a request on if its sender may send it, and notes refused changes.
pub(crate) async fn authorize(
    State(access): State<Access>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = match request.extensions().get::<MatchedPath>() {
        Some(path) => path.as_str().to_owned(),
        None => request.uri().path().to_owned(),
    };
    let shown_path = request.uri().path().to_owned();
    let method = request.method().clone();
    let (needed, is_change) = operation(&method, &path);
    let entry = request.extensions().get::<Entry>().copied();
    let user = request.extensions().get::<PageUser>();
    let caller = match access.caller(entry, user, request.headers()) {
        Ok(caller) => caller,
        Err(refused) => {
            if is_change && refused.0.code != 429 {
                let action = format!("{method} {shown_path}");
                note(&access, "without a valid token".to_owned(), action, &refused).await;
            }
            return refused.into_response();
        }
    };
    let action = format!("{method} {shown_path}");
    if caller.role < needed {
        let refused = ApiError::new(
            403,
            format!(
                "{} is {}, and {action} is for {}: ask an admin for a token with that role",
                caller.name,
                caller.role.as_str(),
                needed.as_str()
            ),
        );
        if is_change {
            note(&access, caller.name, action, &refused).await;
        }
        return refused.into_response();
    }
    request.extensions_mut().insert(caller.clone());
    let response = next.run(request).await;
    let status = response.status();
    let is_refused = status.is_client_error() || status.is_server_error();
    if is_change && is_refused && !caller.is_noted.load(Ordering::SeqCst) {
        // The handler did not get to its command. Without a text of its own, the request is wrong.
        let told = response.extensions().get::<ApiError>().cloned();
        let refused = told.unwrap_or_else(|| {
            ApiError::new(status.as_u16().into(), format!("the request is wrong: {status}"))
        });
        note(&access, caller.name, action, &refused).await;
    }
    access.limit_stream(caller.credential, response)
}

async fn note(access: &Access, name: String, action: String, refused: &ApiError) {
    let (handle, text) = (access.handle.clone(), refused.0.text.clone());
    let noted = tokio::task::spawn_blocking(move || handle.note_refused(&name, &action, &text));
    if let Ok(Err(error)) = noted.await {
        tracing::warn!("a refused request is not in the audit: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_that_is_not_listed_needs_admin() {
        assert_eq!(operation(&Method::GET, "/v1/graph"), (Role::Viewer, false));
        assert_eq!(operation(&Method::GET, "/v1/tokens"), (Role::Admin, false));
        let tap = operation(&Method::GET, "/v1/instances/{name}/tap");
        assert_eq!(tap, (Role::Operator, false));
        assert_eq!(operation(&Method::POST, "/v1/anything"), (Role::Admin, true));
        assert_eq!(operation(&Method::DELETE, "/v1/network"), (Role::Admin, true));
    }

    #[test]
    fn local_user_is_named_and_other_users_only_look() {
        let own = local_caller(Some(rustix::process::geteuid().as_raw()));
        assert_eq!(own.role, Role::Admin);
        assert!(local_caller(Some(0)).name.starts_with("root (uid 0)"));
        let other = local_caller(Some(4_000_000_000));
        assert_eq!((other.name.as_str(), other.role), ("uid 4000000000", Role::Viewer));
        assert_eq!(local_caller(None).role, Role::Viewer);
    }

    #[test]
    fn token_of_the_same_name_is_another_credential() {
        let token = |created_ms| UserToken {
            name: "ci".to_owned(),
            role: Role::Admin,
            created_ms,
            expires_ms: 9,
            author: String::new(),
        };
        let user = Caller::by_token(&token(1)).page_user();
        assert_eq!(*user.credential, credential(&token(1)));
        assert_ne!(*user.credential, credential(&token(2)));
        assert_eq!(page_name(&user), "token ci, by the page");
        assert!(local_caller(Some(0)).page_user().credential.is_empty());
    }

    #[test]
    fn wrong_tokens_beyond_the_limit_are_refused() {
        let wrong = WrongTokens::default();
        assert!((0..WRONG_TOKENS_MAX).all(|_| wrong.count()));
        assert!(!wrong.count());
    }
}
