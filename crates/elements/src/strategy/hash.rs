//! Hash: a name always goes to the same next hop, names spread evenly.
//!
//! `/localhost/nfd/strategy/hash/v=1`. With `depth~N` the first N components of the name decide, so that all that is below stays together; without
//! it the whole name. Of the eligible next hops the one is taken whose mix with the hash is the largest (rendezvous hashing): when a next hop
//! comes or goes, only its own names move. The hash is keyed by a secret drawn at the start, so nobody can aim names at a next hop, and after a
//! restart names may go elsewhere. A retransmission goes to a next hop not tried yet; so does an Interest that was refused.

use super::state::mix;
use super::{StrategyContext, Suppression, shared};

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hash {
    /// When a retransmission is sent.
    pub suppression: Suppression,
    /// Components that decide; 0 for all.
    pub depth: u8,
}

impl Hash {
    pub(super) fn after_interest(&self, context: &mut StrategyContext<'_>) {
        shared::send_to_one(context, &self.suppression, |context| {
            let prefixes = context.prefixes();
            let hash = match usize::from(self.depth) {
                0 => prefixes.key(),
                depth => prefixes.hash(depth.min(prefixes.kept())),
            };
            context.eligible().max_by_key(|hop| mix(hash ^ mix(hop.face.number())))
        });
    }

    pub(super) fn after_nack(&self, context: &mut StrategyContext<'_>) {
        shared::retry_or_pass_on_nack(context);
    }
}
