//! Sessions of a page: tickets, cookies and failed logins. Time is passed in.
//!
//! Every number is bounded: the oldest session or ticket is removed for a new one.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

/// Sessions at the same time.
const SESSIONS_MAX: usize = 64;
/// Unused tickets at the same time.
const TICKETS_MAX: usize = 16;
/// A session ends this long after its last request.
pub const SESSION_IDLE: Duration = Duration::from_secs(12 * 3600);
/// A ticket can be used for this long.
pub const TICKET_LIFETIME: Duration = Duration::from_secs(120);
/// Wrong tokens in [`FAILURE_PERIOD`]; further logins with a token are refused.
const FAILURES_MAX: usize = 10;
const FAILURE_PERIOD: Duration = Duration::from_secs(60);

/// A random secret of 256 bits, as text.
pub type Secret = String;

/// Who opened the page: an extension of every request of a session. Empty if the program that made
/// the ticket does not tell users apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageUser {
    /// Name, as the program shows it.
    pub name: Arc<str>,
    /// What the right to open the page rests on, such as a token: the program names it, and ends
    /// its sessions by that name. Empty if it can't be taken back.
    pub credential: Arc<str>,
}

struct Session {
    id: Secret,
    csrf: Secret,
    user: PageUser,
    last_used: Duration,
}

struct Ticket {
    secret: Secret,
    user: PageUser,
    expires: Duration,
}

/// Sessions, tickets and failed logins. Times count from any fixed moment.
#[derive(Default)]
pub struct Sessions {
    sessions: VecDeque<Session>,
    tickets: VecDeque<Ticket>,
    failures: VecDeque<Duration>,
}

/// What a request has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Cookie and header belong to a session.
    Session,
    /// The cookie belongs to a session, the header is missing or wrong.
    CookieOnly,
    /// The cookie is missing, wrong or expired.
    Nothing,
}

impl Sessions {
    /// Adds a ticket, which a user has asked for.
    pub fn add_ticket(&mut self, secret: Secret, user: PageUser, now: Duration) {
        if self.tickets.len() == TICKETS_MAX {
            self.tickets.pop_front();
        }
        self.tickets.push_back(Ticket { secret, user, expires: now + TICKET_LIFETIME });
    }

    /// Removes a ticket. Returns its user; `None` if it was not valid.
    pub fn use_ticket(&mut self, shown: &str, now: Duration) -> Option<PageUser> {
        self.tickets.retain(|ticket| ticket.expires > now);
        let position = self.tickets.iter().position(|ticket| is_same(&ticket.secret, shown));
        position.and_then(|position| self.tickets.remove(position)).map(|ticket| ticket.user)
    }

    /// Starts a session of a user.
    pub fn start(&mut self, id: Secret, csrf: Secret, user: PageUser, now: Duration) {
        self.remove_idle(now);
        if self.sessions.len() == SESSIONS_MAX {
            self.sessions.pop_front();
        }
        self.sessions.push_back(Session { id, csrf, user, last_used: now });
    }

    /// Checks what a request shows, and marks its session as used.
    pub fn check(&mut self, cookie: Option<&str>, csrf: Option<&str>, now: Duration) -> Shown {
        self.remove_idle(now);
        let shown = cookie.unwrap_or("");
        let Some(session) = self.sessions.iter_mut().find(|session| is_same(&session.id, shown))
        else {
            return Shown::Nothing;
        };
        if !csrf.is_some_and(|csrf| is_same(&session.csrf, csrf)) {
            return Shown::CookieOnly;
        }
        session.last_used = now;
        Shown::Session
    }

    /// Returns whether a session has neither ended nor expired.
    pub fn is_open(&mut self, cookie: &str, now: Duration) -> bool {
        self.remove_idle(now);
        self.user(cookie).is_some()
    }

    /// Returns the user of a session.
    pub fn user(&self, cookie: &str) -> Option<PageUser> {
        let session = self.sessions.iter().find(|session| is_same(&session.id, cookie));
        session.map(|session| session.user.clone())
    }

    /// Ends a session.
    pub fn end(&mut self, cookie: &str) {
        self.sessions.retain(|session| !is_same(&session.id, cookie));
    }

    /// Ends the sessions and the tickets that rest on a credential.
    pub fn end_all_by(&mut self, credential: &str) {
        self.sessions.retain(|session| *session.user.credential != *credential);
        self.tickets.retain(|ticket| *ticket.user.credential != *credential);
    }

    /// Returns whether a login with a token may be tried.
    pub fn may_try(&mut self, now: Duration) -> bool {
        self.failures.retain(|failure| *failure + FAILURE_PERIOD > now);
        self.failures.len() < FAILURES_MAX
    }

    /// Counts a login with a wrong token.
    pub fn count_failure(&mut self, now: Duration) {
        self.failures.push_back(now);
    }

    fn remove_idle(&mut self, now: Duration) {
        self.sessions.retain(|session| session.last_used + SESSION_IDLE > now);
    }
}

fn is_same(secret: &str, shown: &str) -> bool {
    crate::guard::constant_time_eq(secret.as_bytes(), shown.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(5);

    fn user(name: &str) -> PageUser {
        PageUser { name: name.into(), credential: format!("of {name}").into() }
    }

    #[test]
    fn session_needs_cookie_and_header() {
        let mut sessions = Sessions::default();
        sessions.start("id".into(), "csrf".into(), user("alice"), START);
        assert_eq!(sessions.check(Some("id"), Some("csrf"), START), Shown::Session);
        assert_eq!(sessions.check(Some("id"), None, START), Shown::CookieOnly);
        assert_eq!(sessions.check(Some("id"), Some("csrF"), START), Shown::CookieOnly);
        assert_eq!(sessions.check(Some("iD"), Some("csrf"), START), Shown::Nothing);
        assert_eq!(sessions.check(None, Some("csrf"), START), Shown::Nothing);
        assert_eq!(sessions.user("id"), Some(user("alice")));
        sessions.end("id");
        assert_eq!(sessions.user("id"), None);
        assert_eq!(sessions.check(Some("id"), Some("csrf"), START), Shown::Nothing);
    }

    #[test]
    fn session_idle_is_removed() {
        let mut sessions = Sessions::default();
        sessions.start("id".into(), "csrf".into(), user("alice"), START);
        let almost = START + SESSION_IDLE - Duration::from_secs(1);
        assert_eq!(sessions.check(Some("id"), Some("csrf"), almost), Shown::Session);
        let later = almost + SESSION_IDLE;
        assert!(sessions.is_open("id", later - Duration::from_secs(1)));
        assert!(!sessions.is_open("id", later));
        assert_eq!(sessions.check(Some("id"), Some("csrf"), later), Shown::Nothing);
    }

    #[test]
    fn sessions_over_limit_remove_the_oldest() {
        let mut sessions = Sessions::default();
        for number in 0..=SESSIONS_MAX {
            sessions.start(number.to_string(), "csrf".into(), PageUser::default(), START);
        }
        assert_eq!(sessions.check(Some("0"), Some("csrf"), START), Shown::Nothing);
        assert_eq!(sessions.check(Some("1"), Some("csrf"), START), Shown::Session);
    }

    #[test]
    fn ticket_opens_once_and_expires() {
        let mut sessions = Sessions::default();
        sessions.add_ticket("a".into(), user("alice"), START);
        sessions.add_ticket("b".into(), user("bob"), START);
        assert_eq!(sessions.use_ticket("c", START), None);
        assert_eq!(sessions.use_ticket("a", START), Some(user("alice")));
        assert_eq!(sessions.use_ticket("a", START), None);
        assert_eq!(sessions.use_ticket("b", START + TICKET_LIFETIME), None);
    }

    #[test]
    fn credential_taken_back_ends_its_sessions_and_tickets() {
        let mut sessions = Sessions::default();
        for name in ["alice", "bob"] {
            sessions.start(name.into(), "csrf".into(), user(name), START);
            sessions.add_ticket(format!("ticket of {name}"), user(name), START);
        }
        sessions.end_all_by("of alice");
        assert_eq!(sessions.check(Some("alice"), Some("csrf"), START), Shown::Nothing);
        assert_eq!(sessions.use_ticket("ticket of alice", START), None);
        assert_eq!(sessions.check(Some("bob"), Some("csrf"), START), Shown::Session);
        assert_eq!(sessions.use_ticket("ticket of bob", START), Some(user("bob")));
    }

    #[test]
    fn logins_wrong_are_limited_for_a_minute() {
        let mut sessions = Sessions::default();
        for _ in 0..FAILURES_MAX {
            assert!(sessions.may_try(START));
            sessions.count_failure(START);
        }
        assert!(!sessions.may_try(START));
        assert!(sessions.may_try(START + FAILURE_PERIOD));
    }
}
