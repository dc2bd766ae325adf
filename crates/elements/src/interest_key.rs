//! The PIT and content store key of an Interest.

use nw_element_api::Meta;
use nw_tables::InterestKey;

/// Returns the key of a decoded Interest or Nack. `bytes` are the packet's.
#[inline(always)]
pub(crate) fn interest_key<'a>(meta: &'a Meta, bytes: &'a [u8]) -> InterestKey<'a> {
    InterestKey {
        name: meta.name_in(bytes),
        prefixes: &meta.prefixes,
        can_be_prefix: meta.can_be_prefix,
        must_be_fresh: meta.must_be_fresh,
    }
}
