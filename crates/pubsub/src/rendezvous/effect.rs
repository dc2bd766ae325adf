//! Codes of replies, and what a request causes.

use crate::strategy::{ItemOptions, Strategy};
use nw_wire::publication::{Id, Label, RendezvousReply};

/// The result of a request. Numbers up to 10 are Blackadder's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ReturnCode {
    /// Done.
    Success = 0,
    /// The identifiers do not fit the operation.
    WrongIds = 1,
    /// The parent scope has another strategy.
    StrategyMismatch = 2,
    /// The client has this publication or subscription already.
    Exists = 3,
    /// The parent scope does not exist.
    ParentMissing = 4,
    /// An item has this identifier.
    ItemWithSameId = 5,
    /// The scope does not exist.
    ScopeMissing = 6,
    /// A scope has this identifier.
    ScopeWithSameId = 7,
    /// The item does not exist.
    ItemMissing = 8,
    /// The client does not have this publication or subscription.
    NotMember = 9,
    /// The operation is unknown.
    UnknownRequest = 10,
    /// The scope would be below itself.
    Cycle = 11,
    /// A limit of the rendezvous function is reached.
    LimitReached = 12,
    /// The rules do not allow this client to do this.
    NotAllowed = 13,
    /// The strategy has no rendezvous.
    NoRendezvous = 14,
}

impl ReturnCode {
    /// Every code, in the order of their numbers.
    pub const ALL: [ReturnCode; 15] = [
        ReturnCode::Success,
        ReturnCode::WrongIds,
        ReturnCode::StrategyMismatch,
        ReturnCode::Exists,
        ReturnCode::ParentMissing,
        ReturnCode::ItemWithSameId,
        ReturnCode::ScopeMissing,
        ReturnCode::ScopeWithSameId,
        ReturnCode::ItemMissing,
        ReturnCode::NotMember,
        ReturnCode::UnknownRequest,
        ReturnCode::Cycle,
        ReturnCode::LimitReached,
        ReturnCode::NotAllowed,
        ReturnCode::NoRendezvous,
    ];

    /// Returns the code with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns one sentence for people that says what happened and what to do.
    pub const fn explanation(self) -> &'static str {
        match self {
            ReturnCode::Success => "done",
            ReturnCode::WrongIds => {
                "the identifiers do not fit the request: an item needs a scope, and a subscription \
                 names one label below its scope"
            }
            ReturnCode::StrategyMismatch => {
                "the scope has another strategy: use that one, or none to inherit it"
            }
            ReturnCode::Exists => "already published or subscribed to by this client",
            ReturnCode::ParentMissing => "the parent scope does not exist: publish it first",
            ReturnCode::ItemWithSameId => {
                "an item has this name: choose another name for the scope"
            }
            ReturnCode::ScopeMissing => "the scope does not exist: check its name",
            ReturnCode::ScopeWithSameId => "a scope has this name: choose another one for the item",
            ReturnCode::ItemMissing => "the item does not exist: check its name",
            ReturnCode::NotMember => "not published or subscribed to by this client",
            ReturnCode::UnknownRequest => "unknown request: the two ends have different versions",
            ReturnCode::Cycle => "the scope would be below itself: choose another parent",
            ReturnCode::LimitReached => {
                "a limit is reached: withdraw something, or raise the limits of the rendezvous node"
            }
            ReturnCode::NotAllowed => "not allowed by the rules for this name",
            ReturnCode::NoRendezvous => {
                "this strategy has no rendezvous: publish without announcing, or use node or domain"
            }
        }
    }
}

/// An item, also after it was removed and its place reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemKey(pub u64);

/// A publisher of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Publisher {
    /// The node or application.
    pub client: Label,
    /// Its strength, which decides where only the strongest publisher serves.
    pub strength: u8,
}

/// A change of an item's publishers and subscribers. The first one of an item has all of them,
/// and all identifiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembershipChange {
    /// The item.
    pub item: ItemKey,
    /// Version after the change: one more each time. A receiver that misses one asks for
    /// [`Rendezvous::membership`](super::Rendezvous::membership).
    pub version: u32,
    /// The item's strategy.
    pub strategy: Strategy,
    /// The item's options.
    pub options: ItemOptions,
    /// New publishers.
    pub publishers_joined: Vec<Publisher>,
    /// Publishers that left.
    pub publishers_left: Vec<Label>,
    /// New subscribers.
    pub subscribers_joined: Vec<Label>,
    /// Subscribers that left.
    pub subscribers_left: Vec<Label>,
    /// All full identifiers, if they changed; otherwise empty.
    pub ids: Vec<Id>,
    /// Whether no publisher is left. The item's deliveries end.
    pub ended: bool,
}

/// What a request causes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The reply to the client.
    Reply(RendezvousReply),
    /// Publishers or subscribers of an item with at least one publisher changed. For items of
    /// strategy domain the topology function acts on it.
    Membership(MembershipChange),
    /// Strategy node: the publisher should publish.
    Start {
        /// The publisher.
        publisher: Label,
        /// The item.
        item: ItemKey,
        /// Its full identifiers.
        ids: Vec<Id>,
        /// Number of subscribers.
        subscribers: u32,
        /// Subscribers that joined with this request: they have received nothing yet.
        joined: Vec<Label>,
    },
    /// Strategy node: the publisher's publications have no subscribers.
    Stop {
        /// The publisher.
        publisher: Label,
        /// The item.
        item: ItemKey,
        /// Its full identifiers.
        ids: Vec<Id>,
    },
    /// A scope was published or withdrawn directly below scopes that these clients subscribe to.
    Scope {
        /// Whether it was published.
        published: bool,
        /// The scope's strategy.
        strategy: Strategy,
        /// The subscribers.
        subscribers: Vec<Label>,
        /// Full identifiers of the scope.
        ids: Vec<Id>,
    },
    /// Publishers or subscribers came or went, for clients that asked for such notices.
    Presence {
        /// The client to be notified.
        watcher: Label,
        /// Full identifiers of the item.
        ids: Vec<Id>,
        /// Publishers that came.
        publishers_joined: Vec<Label>,
        /// Publishers that went.
        publishers_left: Vec<Label>,
        /// Number of subscribers that came.
        subscribers_joined: u32,
        /// Number of subscribers that went.
        subscribers_left: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_their_numbers_and_a_sentence() {
        for (number, code) in ReturnCode::ALL.into_iter().enumerate() {
            assert_eq!(ReturnCode::from_number(number as u8), Some(code));
            assert!(code.explanation().len() > 3);
        }
        assert_eq!(ReturnCode::from_number(15), None);
    }
}
