//! Questions whose answers have one kind, and lists that come in pages.

use crate::asker::{Asker, Refused};
use crate::extract::within;
use nw_api::management::{
    ControlParameters, ControlResponse, DropCount, FaceStatus, FibEntry, RibEntry, StrategyChoice, Verb,
};
use nw_api::rest::{RouterStatus, TopPrefixes};
use nw_router::inside::{Answer, Question};

/// Items that one request lists, unless it asks for fewer.
pub const LIST_MAX: usize = 100_000;

/// The length of a list that a request wants.
///
/// # Errors
/// When it is out of bounds.
pub fn list_len(limit: Option<u64>) -> Result<usize, Refused> {
    limit
        .map_or(Ok(LIST_MAX), |limit| within("limit", limit, 1..=LIST_MAX as u64).map(|limit| limit as usize))
}

/// The HTTP status for a code of the management protocol. The protocol took most of its codes from HTTP, with other meanings for these.
const fn http_status(code: u64) -> u64 {
    match code {
        // An option or a scheme that can't be: nothing that another Accept would change.
        406 => 409,
        // A face that is not there; it may never have been.
        410 => 404,
        // A prefix with too many components.
        414 => 400,
        code => code,
    }
}

fn other() -> Refused {
    Refused::new(500, "the router answered something else")
}

impl Asker {
    /// Carries out a command.
    ///
    /// # Errors
    /// As the router says.
    pub async fn command(
        &self,
        verb: Verb,
        parameters: ControlParameters,
    ) -> Result<ControlParameters, Refused> {
        match self.ask(Question::Command(verb, Box::new(parameters))).await? {
            Answer::Command(response) if response.is_ok() => Ok(response.body),
            Answer::Command(response) => {
                let ControlResponse { code, text, .. } = *response;
                Err(Refused::new(http_status(code), text))
            }
            _ => Err(other()),
        }
    }

    /// The router as a whole.
    ///
    /// # Errors
    /// See [`Asker::ask`]; so for all below.
    pub async fn status(&self) -> Result<RouterStatus, Refused> {
        match self.ask(Question::Status).await? {
            Answer::Status(status) => Ok(*status),
            _ => Err(other()),
        }
    }

    /// Dropped packets by reason.
    pub async fn drops(&self, zeros: bool) -> Result<Vec<DropCount>, Refused> {
        match self.ask(Question::Drops { zeros }).await? {
            Answer::Drops(drops) => Ok(drops),
            _ => Err(other()),
        }
    }

    /// Traffic by prefix.
    pub async fn top(&self, components: usize) -> Result<TopPrefixes, Refused> {
        match self.ask(Question::Prefixes(components)).await? {
            Answer::Prefixes(top) => Ok(*top),
            _ => Err(other()),
        }
    }

    /// Faces behind an id, at most so many.
    pub async fn faces(&self, after: Option<u64>, limit: usize) -> Result<Vec<FaceStatus>, Refused> {
        let (mut all, mut after) = (Vec::new(), after);
        loop {
            let Answer::Faces(page, next) = self.ask(Question::Faces(after)).await? else {
                return Err(other());
            };
            all.extend(page);
            all.truncate(limit);
            match next {
                Some(next) if all.len() < limit => after = Some(next),
                _ => return Ok(all),
            }
        }
    }
}

/// Fetches pages of a list until it ends or is long enough.
macro_rules! listing {
    ($(#[$doc:meta])+ $method:ident, $variant:ident, $item:ty) => {
        impl Asker {
            $(#[$doc])+
            pub async fn $method(&self, after: Option<nw_name::Name>, limit: usize) -> Result<Vec<$item>, Refused> {
                let (mut all, mut after) = (Vec::new(), after);
                loop {
                    let Answer::$variant(page) = self.ask(Question::$variant(after)).await? else {
                        return Err(other());
                    };
                    all.extend(page.items);
                    all.truncate(limit);
                    match page.next {
                        Some(next) if all.len() < limit => after = Some(next),
                        _ => return Ok(all),
                    }
                }
            }
        }
    };
}

listing! {
    /// Names with routes.
    routes, Routes, RibEntry
}
listing! {
    /// Prefixes of the FIB.
    fib, Fib, FibEntry
}
listing! {
    /// Strategy choices.
    strategies, Strategies, StrategyChoice
}
