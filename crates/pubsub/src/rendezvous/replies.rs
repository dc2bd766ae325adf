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

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENTS_MAX: usize = 3;

    fn label(client: usize) -> Label {
        Label::from_number(client as u64)
    }

    #[test]
    fn full_table_remembers_known_clients_only() {
        let mut replies = Replies::new(CLIENTS_MAX);
        for client in 0..100 {
            replies.insert(label(client), 1, ReturnCode::Exists);
        }
        assert_eq!(replies.by_client.len(), CLIENTS_MAX);
        assert_eq!(replies.find(label(2), 1), Some(ReturnCode::Exists));
        assert_eq!(replies.find(label(3), 1), None);
        // A client that is known still gets its next reply remembered.
        replies.insert(label(2), 2, ReturnCode::NotMember);
        assert_eq!(replies.find(label(2), 2), Some(ReturnCode::NotMember));
        // The place of a client that left is free for another.
        replies.remove(label(0));
        assert_eq!(replies.find(label(0), 1), None);
        replies.insert(label(3), 1, ReturnCode::Success);
        assert_eq!(replies.find(label(3), 1), Some(ReturnCode::Success));
        replies.insert(label(4), 1, ReturnCode::Success);
        assert_eq!(replies.by_client.len(), CLIENTS_MAX);
    }

    #[test]
    fn full_list_of_a_client_forgets_its_oldest_reply() {
        let mut replies = Replies::new(CLIENTS_MAX);
        for number in 1..=REPLIES_MAX as u32 {
            replies.insert(label(0), number, ReturnCode::Success);
        }
        assert_eq!(replies.find(label(0), 1), Some(ReturnCode::Success));
        for number in 1..=1000 {
            replies.insert(label(0), REPLIES_MAX as u32 + number, ReturnCode::Success);
            assert_eq!(replies.by_client[&label(0)].len(), REPLIES_MAX);
            assert_eq!(replies.find(label(0), number), None);
            assert_eq!(replies.find(label(0), number + 1), Some(ReturnCode::Success));
        }
    }

    #[test]
    fn request_without_number_is_not_remembered() {
        let mut replies = Replies::new(CLIENTS_MAX);
        replies.insert(label(0), 0, ReturnCode::Success);
        assert_eq!((replies.find(label(0), 0), replies.by_client.len()), (None, 0));
    }
}
