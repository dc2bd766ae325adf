//! ForwardingHint: which next hops it selects, and when it is removed.

use crate::rewrite;
use core::iter::Take;
use nw_element_api::{DropReason, Meta, Packet, Pool};
use nw_name::{HashKey, Name, NameRef, PrefixHashes};
use nw_tables::fib::{Fib, NextHop};
use nw_wire::interest::HintNames;

/// Most names of a ForwardingHint that are looked up. A packet could hold a thousand.
pub const HINTS_MAX: usize = 16;

/// Returns the first [`HINTS_MAX`] names of an Interest's ForwardingHint.
pub(crate) fn names<'a>(meta: &Meta, bytes: &'a [u8]) -> Take<HintNames<'a>> {
    HintNames::from_checked(meta.forwarding_hint.in_bytes(bytes)).take(HINTS_MAX)
}

/// "FIB LPM on hint": returns the next hops of the first name that has any, or else those of `/`.
pub(crate) fn next_hops<'f>(
    fib: &'f Fib,
    key: &HashKey,
    hints: Take<HintNames<'_>>,
) -> &'f [NextHop] {
    for hint in hints {
        let found: &[NextHop] =
            fib.lookup(hint, &PrefixHashes::of(key, hint)).map_or(&[], |route| route.next_hops);
        if !found.is_empty() {
            return found;
        }
    }
    fib.exact(NameRef::ROOT).map_or(&[], |route| route.next_hops)
}

/// "Strip ForwardingHint if in producer region": removes the hint if one of its names is a prefix
/// of a region's name. On failure returns the packet and the drop reason.
pub(crate) fn strip(
    regions: &[Name],
    packet: Packet,
    pool: &mut Pool,
) -> Result<Packet, (Packet, DropReason)> {
    let meta = pool.meta(&packet);
    if !meta.forwarding_hint.is_some() || regions.is_empty() {
        return Ok(packet);
    }
    let mut hints = names(meta, pool.bytes(&packet));
    let is_in_region =
        hints.any(|hint| regions.iter().any(|region| hint.is_prefix_of(region.as_ref())));
    if is_in_region { rewrite::without_hint(pool, packet) } else { Ok(packet) }
}
