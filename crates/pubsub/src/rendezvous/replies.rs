//! Replies to the last requests of each client, so that a repeated request has no second effect.

use super::ReturnCode;
use nw_wire::publication::Label;
use std::collections::{BTreeMap, VecDeque};

/// Replies remembered for each client.
const REPLIES_MAX: usize = 64;

/// The replies of all clients.
#[derive(Clone, Debug)]
pub(super) struct Replies {
    by_client: BTreeMap<Label, VecDeque<(u32, ReturnCode)>>,
    clients_max: usize,
}

impl Replies {
    pub(super) const fn new(clients_max: usize) -> Self {
        Replies { by_client: BTreeMap::new(), clients_max }
    }

    /// Returns the reply to a numbered request.
    pub(super) fn find(&self, client: Label, number: u32) -> Option<ReturnCode> {
        let replies = self.by_client.get(&client)?;
        let (_, code) = replies.iter().rev().find(|(known, _)| *known == number)?;
        Some(*code)
    }

    /// Remembers the reply to a numbered request. Without capacity for another client it is not
    /// remembered: the repetition then gets the code `Exists` or `NotMember`.
    pub(super) fn insert(&mut self, client: Label, number: u32, code: ReturnCode) {
        let is_full = self.by_client.len() >= self.clients_max;
        if number == 0 || is_full && !self.by_client.contains_key(&client) {
            return;
        }
        let replies = self.by_client.entry(client).or_default();
        if replies.len() == REPLIES_MAX {
            replies.pop_front();
        }
        replies.push_back((number, code));
    }

    pub(super) fn remove(&mut self, client: Label) {
        self.by_client.remove(&client);
    }
}
