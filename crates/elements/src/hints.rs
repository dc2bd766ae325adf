//! ForwardingHints: where they lead, and when they have done their work.

use crate::rewrite;
use core::iter::Take;
use nw_element_api::{DropReason, Meta, Packet, Pool};
use nw_name::{HashKey, Name, NameRef, Prefixes};
use nw_tables::fib::{Fib, NextHop};
use nw_wire::interest::HintNames;

/// Names of a ForwardingHint that are looked at; one packet could hold a thousand, each a lookup.
const HINTS_MAX: usize = 16;

/// The names of an Interest's ForwardingHint.
pub(crate) fn names<'a>(meta: &Meta, bytes: &'a [u8]) -> Take<HintNames<'a>> {
    let (start, len) = (usize::from(meta.hint.0), usize::from(meta.hint.1));
    HintNames::from_checked(&bytes[start..start + len]).take(HINTS_MAX)
}

/// "FIB LPM on hint": the first name that leads anywhere.
pub(crate) fn next_hops<'f>(fib: &'f Fib, key: &HashKey, hints: Take<HintNames<'_>>) -> &'f [NextHop] {
    for hint in hints {
        let found: &[NextHop] =
            fib.lookup(hint, &Prefixes::of(key, hint)).map_or(&[], |route| route.next_hops);
        if !found.is_empty() {
            return found;
        }
    }
    fib.exact(NameRef::ROOT).map_or(&[], |route| route.next_hops)
}

/// "Strip ForwardingHint if in producer region": one of its names is a prefix of a region's.
pub(crate) fn strip(
    regions: &[Name],
    packet: Packet,
    pool: &mut Pool,
) -> Result<Packet, (Packet, DropReason)> {
    let meta = pool.meta(&packet);
    if meta.hint.1 == 0 || regions.is_empty() {
        return Ok(packet);
    }
    let mut hints = names(meta, pool.bytes(&packet));
    let arrived = hints.any(|hint| regions.iter().any(|region| hint.is_prefix_of(region.as_ref())));
    if arrived { rewrite::without_hint(pool, packet) } else { Ok(packet) }
}
