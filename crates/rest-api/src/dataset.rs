//! Typed queries: one method per kind of reply, and lists that are fetched page by page.

use crate::api_error::ApiError;
use crate::extract::within;
use crate::router_client::RouterClient;
use nw_api::management::{
    ControlParameters, ControlResponse, DropCount, FaceStatus, FibEntry, RibEntry, StrategyChoice,
    Verb,
};
use nw_api::rest::{RouterStatus, TopPrefixes};
use nw_router::introspection::{Query as RouterQuery, QueryReply};

/// Items that one request lists, unless it has a lower limit.
pub const LIST_MAX: usize = 100_000;

/// Returns the length of the list that a request asks for.
///
/// # Errors
/// 400 if the limit is out of bounds.
pub fn list_len(limit: Option<u64>) -> Result<usize, ApiError> {
    limit.map_or(Ok(LIST_MAX), |limit| {
        within("limit", limit, 1..=LIST_MAX as u64).map(|limit| limit as usize)
    })
}

/// Returns the HTTP status for a code of the management protocol. The protocol took most of its
/// codes from HTTP, with other meanings for these.
const fn http_status(code: u64) -> u64 {
    match code {
        // An unsupported option or scheme, which no other Accept header would change.
        406 => 409,
        // A face that does not exist, and may never have existed.
        410 => 404,
        // A prefix with too many components.
        414 => 400,
        code => code,
    }
}

fn unexpected_reply() -> ApiError {
    ApiError::new(500, "the router sent an unexpected reply (a bug)")
}

impl RouterClient {
    /// Executes a command.
    ///
    /// # Errors
    /// The router's refusal, or those of [`RouterClient::query`].
    pub async fn command(
        &self,
        verb: Verb,
        parameters: ControlParameters,
    ) -> Result<ControlParameters, ApiError> {
        match self.query(RouterQuery::Command(verb, Box::new(parameters))).await? {
            QueryReply::Command(response) if response.is_ok() => Ok(response.body),
            QueryReply::Command(response) => {
                let ControlResponse { code, text, .. } = *response;
                Err(ApiError::new(http_status(code), text))
            }
            _ => Err(unexpected_reply()),
        }
    }

    /// Returns status and counters of the router.
    ///
    /// # Errors
    /// As [`RouterClient::query`]; so for all methods below.
    pub async fn status(&self) -> Result<RouterStatus, ApiError> {
        match self.query(RouterQuery::Status).await? {
            QueryReply::Status(status) => Ok(*status),
            _ => Err(unexpected_reply()),
        }
    }

    /// Returns the number of dropped packets by reason.
    pub async fn drops(&self, include_zeros: bool) -> Result<Vec<DropCount>, ApiError> {
        match self.query(RouterQuery::Drops { include_zeros }).await? {
            QueryReply::Drops(drops) => Ok(drops),
            _ => Err(unexpected_reply()),
        }
    }

    /// Returns the prefixes with the most traffic, with this number of components.
    pub async fn top(&self, components: usize) -> Result<TopPrefixes, ApiError> {
        match self.query(RouterQuery::Prefixes(components)).await? {
            QueryReply::Prefixes(top) => Ok(*top),
            _ => Err(unexpected_reply()),
        }
    }

    /// Returns up to `limit` faces after the one with this id.
    pub async fn faces(
        &self,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<FaceStatus>, ApiError> {
        let (mut items, mut after) = (Vec::new(), after);
        loop {
            let QueryReply::Faces(page, next) = self.query(RouterQuery::Faces(after)).await? else {
                return Err(unexpected_reply());
            };
            items.extend(page);
            items.truncate(limit);
            match next {
                Some(next) if items.len() < limit => after = Some(next),
                _ => return Ok(items),
            }
        }
    }
}

/// Defines a method that fetches pages of a list until the list or the limit ends.
macro_rules! listing {
    ($(#[$doc:meta])+ $method:ident, $variant:ident, $item:ty) => {
        impl RouterClient {
            $(#[$doc])+
            pub async fn $method(&self, after: Option<nw_name::Name>, limit: usize) -> Result<Vec<$item>, ApiError> {
                let (mut items, mut after) = (Vec::new(), after);
                loop {
                    let QueryReply::$variant(page) = self.query(RouterQuery::$variant(after)).await? else {
                        return Err(unexpected_reply());
                    };
                    items.extend(page.items);
                    items.truncate(limit);
                    match page.next {
                        Some(next) if items.len() < limit => after = Some(next),
                        _ => return Ok(items),
                    }
                }
            }
        }
    };
}

listing! {
    /// Returns up to `limit` names with routes, after this name.
    routes, Routes, RibEntry
}
listing! {
    /// Returns up to `limit` FIB prefixes, after this one.
    fib, Fib, FibEntry
}
listing! {
    /// Returns up to `limit` strategy choices, after this name.
    strategies, Strategies, StrategyChoice
}
