//! Asks early for what evictions will touch.
//!
//! In a full store each new packet pushes one out, and which one comes when is known from the order of the policy; but following that order link by link
//! waits for each line in turn. So every entry that hangs nowhere remembers which one came [`FAR`] packets after it: likely, it will also go so much later.

use super::record::{Entry, NONE};
use super::tree::Tree;

/// Packets between one and the entry whose line is asked for when it goes. Where the store takes a batch by itself, as in a graph, one takes but 30 ns:
/// eight were not enough for two lines.
const FAR: usize = 16;
/// Packets before its turn at which the rest is asked for: by then the line is there.
const NEAR: usize = 8;

#[derive(Debug)]
pub(super) struct Lookahead {
    /// The last ones that came, and the last ones asked for.
    came: [u32; FAR],
    asked: [u32; NEAR],
    turn: usize,
}

impl Lookahead {
    pub const fn new() -> Self {
        Lookahead { came: [NONE; FAR], asked: [NONE; NEAR], turn: 0 }
    }

    /// A packet has come to stay in `slot`.
    #[inline(always)]
    pub fn came(&mut self, entries: &mut [Entry], slot: u32) {
        self.turn = self.turn.wrapping_add(1);
        let before = core::mem::replace(&mut self.came[self.turn % FAR], slot);
        if let Some(entry) = entries.get_mut(before as usize) {
            entry.set_follower(slot);
        }
    }

    /// A packet goes, whose follower is this one.
    #[inline(always)]
    pub fn goes(&mut self, tree: &Tree, follower: u32) {
        tree.entries.prefetch(follower as usize);
        let near = core::mem::replace(&mut self.asked[self.turn % NEAR], follower);
        tree.prefetch_removal(near);
    }
}
