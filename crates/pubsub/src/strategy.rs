//! Dissemination strategies, and the options of an item.

use core::cmp::Reverse;
use core::fmt;

/// How publications of a scope's items are disseminated. The number is Blackadder's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Strategy {
    /// Among the applications of one node.
    NodeLocal = 0,
    /// To the node at the other end of a given link; no rendezvous.
    LinkLocal = 1,
    /// In a domain with rendezvous and topology functions.
    #[default]
    Domain = 2,
    /// By a given forwarding identifier, or by that of another item; no rendezvous.
    Implicit = 3,
    /// To every neighbour, one hop; no rendezvous.
    Broadcast = 4,
}

impl Strategy {
    /// Every strategy, in the order of their numbers.
    pub const ALL: [Strategy; 5] = [
        Strategy::NodeLocal,
        Strategy::LinkLocal,
        Strategy::Domain,
        Strategy::Implicit,
        Strategy::Broadcast,
    ];

    /// Returns the strategy with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns the strategy's name in commands and files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Strategy::NodeLocal => "node",
            Strategy::LinkLocal => "link",
            Strategy::Domain => "domain",
            Strategy::Implicit => "implicit",
            Strategy::Broadcast => "broadcast",
        }
    }

    /// Returns whether requests go to a rendezvous function. Otherwise subscriptions are kept by
    /// the subscriber's node only, and publish requests have no effect.
    pub const fn has_rendezvous(self) -> bool {
        matches!(self, Strategy::NodeLocal | Strategy::Domain)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl core::str::FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter();
        all.find(|strategy| strategy.as_str() == text).ok_or(UnknownStrategy)
    }
}

/// The text is not the name of a strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a strategy: use node, link, domain, implicit or broadcast")]
pub struct UnknownStrategy;

/// Which of several publishers of an item serve a subscriber.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PublisherChoice {
    /// Every publisher.
    #[default]
    All,
    /// The nearest one, as in Blackadder.
    Nearest,
    /// The one with the greatest strength; of equal ones the first in label order.
    Strongest,
}

impl PublisherChoice {
    /// Every choice.
    pub const ALL: [PublisherChoice; 3] =
        [PublisherChoice::All, PublisherChoice::Nearest, PublisherChoice::Strongest];

    /// Returns the choice's name in commands and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            PublisherChoice::All => "all",
            PublisherChoice::Nearest => "nearest",
            PublisherChoice::Strongest => "strongest",
        }
    }

    /// Returns the one publisher that serves a subscriber; of equal ones, that with the lowest
    /// identity. `None` if there is none, or if all of them serve.
    pub fn select<P: Ord>(self, candidates: impl IntoIterator<Item = Candidate<P>>) -> Option<P> {
        let candidates = candidates.into_iter();
        let selected = match self {
            PublisherChoice::All => None,
            PublisherChoice::Nearest => {
                candidates.min_by(|a, b| (a.hops, &a.publisher).cmp(&(b.hops, &b.publisher)))
            }
            PublisherChoice::Strongest => candidates.min_by(|a, b| {
                (Reverse(a.strength), &a.publisher).cmp(&(Reverse(b.strength), &b.publisher))
            }),
        };
        selected.map(|candidate| candidate.publisher)
    }
}

impl fmt::Display for PublisherChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl core::str::FromStr for PublisherChoice {
    type Err = UnknownChoice;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|choice| choice.as_str() == text).ok_or(UnknownChoice)
    }
}

/// The text is not the name of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a choice of publishers: use all, nearest or strongest")]
pub struct UnknownChoice;

/// A publisher that can serve a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<P> {
    /// Identity of the publisher, the same at all nodes.
    pub publisher: P,
    /// Links between it and the subscriber.
    pub hops: u32,
    /// Its strength.
    pub strength: u32,
}

/// Options of an item. They are set when the item is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemOptions {
    /// Which publishers serve a subscriber.
    pub choice: PublisherChoice,
    /// Whether the item is published once and never changes.
    pub immutable: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_read_as_written() {
        for strategy in Strategy::ALL {
            assert_eq!(Strategy::from_number(strategy as u8), Some(strategy));
            assert_eq!(strategy.to_string().parse(), Ok(strategy));
        }
        assert_eq!(Strategy::from_number(5), None);
        assert_eq!("anycast".parse::<Strategy>(), Err(UnknownStrategy));
        assert!(Strategy::Domain.has_rendezvous() && !Strategy::Implicit.has_rendezvous());
        for choice in PublisherChoice::ALL {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        assert_eq!("fastest".parse::<PublisherChoice>(), Err(UnknownChoice));
    }

    #[test]
    fn one_publisher_is_selected_whatever_the_order_and_ties_go_to_the_lowest() {
        let mut all = [(7, 2, 5), (3, 2, 1), (5, 1, 1), (4, 1, 5)]
            .map(|(publisher, hops, strength)| Candidate { publisher, hops, strength });
        for _ in 0..all.len() {
            all.rotate_left(1);
            assert_eq!(PublisherChoice::Nearest.select(all), Some(4));
            assert_eq!(PublisherChoice::Strongest.select(all), Some(4));
            assert_eq!(PublisherChoice::All.select(all), None, "all of them serve");
        }
        let near = all.into_iter().filter(|candidate| candidate.publisher != 4);
        assert_eq!(PublisherChoice::Nearest.select(near.clone()), Some(5));
        assert_eq!(PublisherChoice::Strongest.select(near), Some(7));
        assert_eq!(PublisherChoice::Nearest.select(Vec::<Candidate<u8>>::new()), None);
    }
}
