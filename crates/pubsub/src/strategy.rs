//! Dissemination strategies, and the options of an item.

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
    }
}
