//! Parameters of `counter`, `sink` and `tee`.

use super::Configured;
use crate::{Counter, Sink, Tee};
use nw_element_api::parameters::{ParameterInfo, ParameterReader};
use nw_name::PREFIXES_MAX;

impl Configured for Counter {
    const PARAMETERS: &'static [ParameterInfo] = &[ParameterInfo::fixed(
        "depth",
        "0",
        "name components by which prefixes are counted too; 0 for none",
    )];

    fn make(reader: &mut ParameterReader<'_>) -> Self {
        Counter::new(reader.integer("depth", 0, 0..=PREFIXES_MAX as u64) as usize)
    }
}

impl Configured for Sink {
    const PARAMETERS: &'static [ParameterInfo] = &[];

    fn make(_: &mut ParameterReader<'_>) -> Self {
        Sink
    }
}

impl Configured for Tee {
    const PARAMETERS: &'static [ParameterInfo] = &[];

    fn make(_: &mut ParameterReader<'_>) -> Self {
        Tee
    }
}
