//! Hash: all Interests of a name go to the same next hop; names are spread evenly.
//!
//! `/localhost/nfd/strategy/hash/v=1`. With `depth~N` only the first N components of the name
//! count, so that all names below such a prefix share a next hop; without it the whole name counts.
//! The next hop is chosen by rendezvous hashing among the eligible ones: when a next hop is added
//! or removed, only its own names move. The hash key is drawn at start, so names can't be aimed at
//! a next hop, and names may move at a restart. A retransmission, or an Interest that got a Nack,
//! goes to a next hop not used yet.

use super::state::mix;
use super::{
    ForwardingStrategy, Parameters, StrategyContext, StrategyError, Suppression, parameters,
    retransmission,
};

/// The hash strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hash {
    /// Intervals of retransmission suppression.
    pub suppression: Suppression,
    /// Name components that are hashed, 1 to 32; 0 for all of them.
    pub depth: u8,
}

impl ForwardingStrategy for Hash {
    const NAME: &'static str = "hash";
    const VERSION: u64 = 1;
    const PARAMETERS: &'static [&'static str] =
        &["depth", parameters::INITIAL, parameters::MAX, parameters::MULTIPLIER];
    const RETRIES_AFTER_NACK: bool = true;
    const NACKS_LOOPS: bool = true;
    const FOLLOWS_NEW_NEXT_HOPS: bool = false;
    const NEEDS_PIT: bool = false;

    fn from_parameters(given: &Parameters<'_>) -> Result<Self, StrategyError> {
        let depth =
            given.number("depth", 1..=32, "depth is a number of components from 1 to 32")?;
        Ok(Hash { suppression: given.suppression()?, depth: depth.map_or(0, |depth| depth as u8) })
    }

    fn after_interest(&self, context: &mut StrategyContext<'_>) {
        retransmission::send_to_one(context, &self.suppression, |context| {
            let prefixes = context.prefixes();
            let hash = match usize::from(self.depth) {
                0 => prefixes.lookup_hash(),
                depth => prefixes.hash(depth.min(prefixes.stored_len())),
            };
            context.eligible().max_by_key(|hop| mix(hash ^ mix(hop.face.number())))
        });
    }

    fn after_nack(&self, context: &mut StrategyContext<'_>) {
        retransmission::retry_or_pass_on_nack(context);
    }
}
