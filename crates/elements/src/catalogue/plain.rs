//! Elements that watch, copy and end packets, made from parameters.

use super::{Configured, fixed};
use crate::{Counter, Sink, Tee};
use nw_element_api::parameters::{ParameterInfo, Reader};
use nw_name::PREFIXES_MAX;

impl Configured for Counter {
    const PARAMETERS: &'static [ParameterInfo] =
        &[fixed("depth", "0", "also counts by the first so many components of names; 0 does not")];

    fn make(reader: &mut Reader<'_>) -> Self {
        Counter::new(reader.integer("depth", 0, 0..=PREFIXES_MAX as u64) as usize)
    }
}

impl Configured for Sink {
    const PARAMETERS: &'static [ParameterInfo] = &[];

    fn make(_: &mut Reader<'_>) -> Self {
        Sink
    }
}

impl Configured for Tee {
    const PARAMETERS: &'static [ParameterInfo] = &[];

    fn make(_: &mut Reader<'_>) -> Self {
        Tee
    }
}
