//! Which requests the rendezvous node has to know: of several publishers or subscribers here of one
//! thing it knows the node once, so the first request is sent, and the last end of them.

use crate::session::SessionId;
use nw_wire::publication::{Id, Operation, RequestBody};
use std::collections::BTreeMap;

/// Number of the strategy whose requests go to the rendezvous node.
pub const DOMAIN: u8 = 2;

/// What published or subscribed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// A program of Blackadder, by its connection.
    Program(SessionId),
    /// An item of another application.
    Item(SessionId, String),
    /// A subscription of another application.
    Pattern(SessionId, String),
}

/// What is published or subscribed to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Subject {
    is_publication: bool,
    is_scope: bool,
    id: Id,
}

impl Subject {
    fn of(body: &RequestBody) -> Self {
        let operation = body.operation as u8;
        let id = body.prefix.child(body.id.last().unwrap_or_default());
        Subject { is_publication: operation < 4, is_scope: operation.is_multiple_of(2), id }
    }

    /// Returns the request that ends it.
    fn end(&self) -> RequestBody {
        let operation = match (self.is_publication, self.is_scope) {
            (true, true) => Operation::UnpublishScope,
            (true, false) => Operation::UnpublishItem,
            (false, true) => Operation::UnsubscribeScope,
            (false, false) => Operation::UnsubscribeItem,
        };
        let id = Id::new(self.id.last().into_iter().collect());
        let prefix = self.id.parent().unwrap_or_default();
        RequestBody { operation, id, prefix, strategy: DOMAIN, option: None }
    }
}

/// The publications and subscriptions of this node.
#[derive(Debug, Default)]
pub struct Requests {
    /// With the number of each owner's request.
    owners: BTreeMap<Subject, BTreeMap<Owner, u64>>,
    /// By owner and number of the request.
    subjects: BTreeMap<Owner, BTreeMap<u64, Subject>>,
    next: u64,
    len: usize,
}

impl Requests {
    /// Returns the number of publications and subscriptions.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Adds a publication or subscription. Returns whether it is the node's first.
    pub fn begin(&mut self, owner: &Owner, body: &RequestBody) -> bool {
        let subject = Subject::of(body);
        let owners = self.owners.entry(subject.clone()).or_default();
        let is_first = owners.is_empty();
        if !owners.contains_key(owner) {
            self.len += 1;
            self.next += 1;
            owners.insert(owner.clone(), self.next);
            self.subjects.entry(owner.clone()).or_default().insert(self.next, subject);
        }
        is_first
    }

    /// Ends what a request ends. Returns the requests to send.
    pub fn end(&mut self, owner: &Owner, body: &RequestBody) -> Vec<RequestBody> {
        let subject = Subject::of(body);
        let mut ended = Vec::new();
        if subject.is_publication && subject.is_scope {
            // Blackadder's rendezvous node withdraws the items below with the scope, but only the
            // last publisher here withdraws the scope.
            let own = self.subjects.get(owner).into_iter().flat_map(BTreeMap::values);
            let is_item = |below: &&Subject| below.is_publication && !below.is_scope;
            let below = own.filter(is_item).filter(|below| {
                below.id.len() == subject.id.len() + 1 && subject.id.is_prefix_of(&below.id)
            });
            let below: Vec<Subject> = below.cloned().collect();
            ended.extend(below.iter().filter_map(|below| self.remove(owner, below)));
        }
        ended.extend(self.remove(owner, &subject));
        ended
    }

    /// Ends all of an owner. Returns the requests to send: what is last comes first, so that
    /// scopes are empty when they end.
    pub fn end_all(&mut self, owner: &Owner) -> Vec<RequestBody> {
        let subjects = self.subjects.get(owner).into_iter().flat_map(BTreeMap::values);
        let subjects: Vec<Subject> = subjects.rev().cloned().collect();
        subjects.iter().filter_map(|subject| self.remove(owner, subject)).collect()
    }

    fn remove(&mut self, owner: &Owner, subject: &Subject) -> Option<RequestBody> {
        let owners = self.owners.get_mut(subject)?;
        let number = owners.remove(owner)?;
        self.len -= 1;
        let is_last = owners.is_empty();
        if is_last {
            self.owners.remove(subject);
        }
        if let Some(subjects) = self.subjects.get_mut(owner) {
            subjects.remove(&number);
            if subjects.is_empty() {
                self.subjects.remove(owner);
            }
        }
        is_last.then(|| subject.end())
    }

    /// Returns whether an item is published here.
    pub fn publishes(&self, item: &Id) -> bool {
        let id = item.clone();
        self.owners.contains_key(&Subject { is_publication: true, is_scope: false, id })
    }

    /// Returns whether there is a subscription to a scope here.
    pub fn subscribes_to_scope(&self, scope: &Id) -> bool {
        let id = scope.clone();
        self.owners.contains_key(&Subject { is_publication: false, is_scope: true, id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_wire::publication::Label;

    fn body(operation: Operation, labels: &[u64]) -> RequestBody {
        let labels: Vec<Label> = labels.iter().map(|label| Label::from_number(*label)).collect();
        let (last, prefix) = labels.split_last().unwrap();
        let (id, prefix) = (Id::new(vec![*last]), Id::from(prefix));
        RequestBody { operation, id, prefix, strategy: DOMAIN, option: None }
    }

    #[test]
    fn first_and_last_of_several_are_sent() {
        let (one, two) = (Owner::Program(1), Owner::Item(2, "/a/b".into()));
        let mut requests = Requests::default();
        let (scope, item) =
            (body(Operation::PublishScope, &[1]), body(Operation::PublishItem, &[1, 2]));
        for (owner, body, is_first) in
            [(&one, &scope, true), (&two, &scope, false), (&one, &item, true), (&one, &item, false)]
        {
            assert_eq!(requests.begin(owner, body), is_first);
        }
        assert!(requests.publishes(&Id::from(&[1, 2].map(Label::from_number)[..])));
        assert_eq!(requests.len(), 3);
        // The scope stays for the other one, so the item below is withdrawn alone.
        let unpublish = body(Operation::UnpublishScope, &[1]);
        let of_item = body(Operation::UnpublishItem, &[1, 2]);
        assert_eq!(requests.end(&one, &unpublish), std::slice::from_ref(&of_item));
        assert_eq!(requests.end(&one, &unpublish), []);
        assert!(requests.begin(&two, &item));
        assert_eq!(requests.end_all(&two), [of_item, unpublish]);
        assert_eq!((requests.len(), requests.end_all(&two).len()), (0, 0));
        assert!(requests.owners.is_empty() && requests.subjects.is_empty());
    }
}
