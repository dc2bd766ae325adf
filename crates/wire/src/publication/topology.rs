//! Blackadder's messages of the rendezvous and topology functions.
//!
//! ```text
//! match:    105 1 | strategy 1 | publishers n 1, labels | subscribers n 1, labels | ids
//! change:   102 or 103 1 | strategy 1 | subscribers n 1, labels | ids
//! notice:   100 1 | ids | FID 32      101 1 | ids      102 or 103 1 | ids | ignored bytes
//!           55 1 | FID to the rendezvous function 32 | FID to the topology function 32
//! ```
//!
//! `ids` is a count (1 byte) and identifiers. All counts are single bytes.

use super::cursor::{Cursor, push_ids, push_labels};
use super::fid::Fid;
use super::id::{Id, Label};
use crate::{Error, Fault};

const UPDATE_FIDS: u8 = 55;
const START_PUBLISH: u8 = 100;
const STOP_PUBLISH: u8 = 101;
const SCOPE_PUBLISHED: u8 = 102;
const SCOPE_UNPUBLISHED: u8 = 103;
const MATCH: u8 = 105;

/// Publishers and subscribers of an item, from the rendezvous to the topology function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchMessage {
    /// Number of the strategy.
    pub strategy: u8,
    /// Nodes with publishers, at most 255.
    pub publishers: Vec<Label>,
    /// Nodes with subscribers, at most 255.
    pub subscribers: Vec<Label>,
    /// All full identifiers of the item, at most 255.
    pub ids: Vec<Id>,
}

impl MatchMessage {
    /// Parses a message.
    ///
    /// # Errors
    /// When it is cut, has bytes after its end, or is of another type.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(bytes);
        if cursor.byte()? != MATCH {
            return Err(Error::new(Fault::UnknownPacket, 0));
        }
        let strategy = cursor.byte()?;
        let (publishers, subscribers) = (cursor.labels()?, cursor.labels()?);
        let ids = cursor.ids()?;
        cursor.end()?;
        Ok(MatchMessage { strategy, publishers, subscribers, ids })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// When a list has more than 255 entries.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        out.extend_from_slice(&[MATCH, self.strategy]);
        push_labels(&self.publishers, out)?;
        push_labels(&self.subscribers, out)?;
        push_ids(&self.ids, out)
    }
}

/// A scope that was published or withdrawn, from the rendezvous to the topology function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeChange {
    /// Whether it was published.
    pub published: bool,
    /// Number of the strategy.
    pub strategy: u8,
    /// Nodes to be notified, at most 255.
    pub subscribers: Vec<Label>,
    /// Full identifiers of the scope, at most 255.
    pub ids: Vec<Id>,
}

impl ScopeChange {
    /// Parses a message.
    ///
    /// # Errors
    /// When it is cut, has bytes after its end, or is of another type.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(bytes);
        let published = match cursor.byte()? {
            SCOPE_PUBLISHED => true,
            SCOPE_UNPUBLISHED => false,
            _ => return Err(Error::new(Fault::UnknownPacket, 0)),
        };
        let (strategy, subscribers, ids) = (cursor.byte()?, cursor.labels()?, cursor.ids()?);
        cursor.end()?;
        Ok(ScopeChange { published, strategy, subscribers, ids })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// When a list has more than 255 entries.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        let number = if self.published { SCOPE_PUBLISHED } else { SCOPE_UNPUBLISHED };
        out.extend_from_slice(&[number, self.strategy]);
        push_labels(&self.subscribers, out)?;
        push_ids(&self.ids, out)
    }
}

/// A notice of the topology function (or of a node's own rendezvous function) to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeNotice {
    /// The item has subscribers, which this forwarding identifier reaches.
    Start {
        /// Full identifiers of the item.
        ids: Vec<Id>,
        /// The forwarding identifier.
        fid: Fid,
    },
    /// The item has no subscribers.
    Stop {
        /// Full identifiers of the item.
        ids: Vec<Id>,
    },
    /// A scope was published or withdrawn below a scope that is subscribed to. Bytes that follow
    /// are ignored.
    Scope {
        /// Whether it was published.
        published: bool,
        /// Full identifiers of the scope.
        ids: Vec<Id>,
    },
    /// New forwarding identifiers to the rendezvous and topology functions.
    UpdateFids {
        /// To the rendezvous function.
        rendezvous: Fid,
        /// To the topology function.
        topology: Fid,
    },
}

impl NodeNotice {
    /// Parses a notice.
    ///
    /// # Errors
    /// When it is cut, has bytes after its end, or is of an unknown type.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(bytes);
        let notice = match cursor.byte()? {
            START_PUBLISH => NodeNotice::Start { ids: cursor.ids()?, fid: cursor.fid()? },
            STOP_PUBLISH => NodeNotice::Stop { ids: cursor.ids()? },
            number @ (SCOPE_PUBLISHED | SCOPE_UNPUBLISHED) => {
                let ids = cursor.ids()?;
                cursor.rest();
                NodeNotice::Scope { published: number == SCOPE_PUBLISHED, ids }
            }
            UPDATE_FIDS => {
                NodeNotice::UpdateFids { rendezvous: cursor.fid()?, topology: cursor.fid()? }
            }
            _ => return Err(Error::new(Fault::UnknownPacket, 0)),
        };
        cursor.end()?;
        Ok(notice)
    }

    /// Appends the notice.
    ///
    /// # Errors
    /// When there are more than 255 identifiers.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            NodeNotice::Start { ids, fid } => {
                out.push(START_PUBLISH);
                push_ids(ids, out)?;
                out.extend_from_slice(&fid.to_bytes());
            }
            NodeNotice::Stop { ids } => {
                out.push(STOP_PUBLISH);
                push_ids(ids, out)?;
            }
            NodeNotice::Scope { published, ids } => {
                out.push(if *published { SCOPE_PUBLISHED } else { SCOPE_UNPUBLISHED });
                push_ids(ids, out)?;
            }
            NodeNotice::UpdateFids { rendezvous, topology } => {
                out.push(UPDATE_FIDS);
                out.extend_from_slice(&rendezvous.to_bytes());
                out.extend_from_slice(&topology.to_bytes());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_do_not_fit_their_count_are_refused() {
        let nodes = |count: u64| (0..count).map(Label::from_number).collect::<Vec<_>>();
        let mut message = MatchMessage {
            strategy: 2,
            publishers: nodes(255),
            subscribers: nodes(3),
            ids: vec![Id::new(nodes(2)), Id::new(nodes(3))],
        };
        let mut bytes = Vec::new();
        message.encode(&mut bytes).expect("255 fit");
        assert_eq!(MatchMessage::parse(&bytes), Ok(message.clone()));
        message.subscribers = nodes(256);
        assert_eq!(message.encode(&mut Vec::new()).map_err(|e| e.fault), Err(Fault::TooLong));
        for cut in 0..bytes.len() {
            assert!(MatchMessage::parse(&bytes[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn notices_are_read_as_written() {
        let ids = vec![Id::new(vec![Label::from_number(1)])];
        for notice in [
            NodeNotice::Start { ids: ids.clone(), fid: Fid::of_bit(1) },
            NodeNotice::Stop { ids: ids.clone() },
            NodeNotice::Scope { published: false, ids: ids.clone() },
            NodeNotice::UpdateFids { rendezvous: Fid::of_bit(2), topology: Fid::BROADCAST },
        ] {
            let mut bytes = Vec::new();
            notice.encode(&mut bytes).expect("few identifiers");
            assert_eq!(NodeNotice::parse(&bytes), Ok(notice.clone()));
            bytes.push(9);
            let is_scope = matches!(notice, NodeNotice::Scope { .. });
            assert_eq!(NodeNotice::parse(&bytes).is_ok(), is_scope, "{notice:?}");
        }
        let change = ScopeChange { published: true, strategy: 2, subscribers: vec![], ids };
        let mut bytes = Vec::new();
        change.encode(&mut bytes).expect("few identifiers");
        assert_eq!(ScopeChange::parse(&bytes), Ok(change));
    }
}
