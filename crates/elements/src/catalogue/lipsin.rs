//! Parameters of `lipsin_forwarder`.

use super::Configured;
use crate::lipsin_forwarder::{self, LipsinLink};
use crate::{LipsinForwarder, LipsinForwarderConfig};
use core::time::Duration;
use nw_element_api::parameters::{ParameterInfo, ParameterReader};
use nw_element_api::{Context, Timestamp};
use nw_wire::publication::FID_BITS;

/// Greatest number of a link.
const NUMBER_MAX: u64 = (1 << 24) - 1;

impl Configured for LipsinForwarder {
    const PARAMETERS: &'static [ParameterInfo] = &[
        ParameterInfo::fixed(
            "loop_memory_ms",
            "1000",
            "milliseconds for which an identifier that may loop is remembered; 0 is off",
        ),
        ParameterInfo::live(
            "links",
            "[]",
            "\"FACE out=N [in=M]\": numbers of the links to and from the neighbour at a face",
        ),
        ParameterInfo::live("internal", "0", "number of the node's internal link"),
        ParameterInfo::live("fill_bits_max", "179", "most bits of a forwarding identifier"),
    ];

    fn make(reader: &mut ParameterReader<'_>) -> Self {
        let loop_memory_ms = reader.integer("loop_memory_ms", 1000, 0..=600_000);
        LipsinForwarder::new(LipsinForwarderConfig {
            loop_memory: Duration::from_millis(loop_memory_ms),
            ..LipsinForwarderConfig::default()
        })
    }

    fn apply(
        &mut self,
        _: Timestamp,
        reader: &mut ParameterReader<'_>,
        _: &mut Context<'_, lipsin_forwarder::Out>,
    ) {
        let bits = reader.integer("fill_bits_max", 179, 1..=FID_BITS as u64) as u32;
        self.set_fill_bits_max(bits);
        self.set_internal(Some(reader.integer("internal", 0, 0..=NUMBER_MAX) as u32));
        let texts = reader.strings("links");
        let links: Vec<LipsinLink> =
            texts.into_iter().filter_map(|text| link(reader, text)).collect();
        self.set_links(&links);
    }
}

/// Reads `FACE out=N [in=M]`.
fn link(reader: &mut ParameterReader<'_>, text: &str) -> Option<LipsinLink> {
    let mut words = text.split_whitespace();
    let face = words.next().and_then(|word| (reader.context().faces)(word));
    let number = |word: &str, key: &str| -> Option<u32> {
        let number = word.strip_prefix(key)?.parse::<u64>().ok()?;
        (number <= NUMBER_MAX).then_some(number as u32)
    };
    let outgoing = words.next().and_then(|word| number(word, "out="));
    let incoming = words.next().map(|word| number(word, "in="));
    match (face, outgoing, incoming, words.next()) {
        (Some(face), Some(outgoing), None, None) => {
            Some(LipsinLink { face, outgoing, incoming: None })
        }
        (Some(face), Some(outgoing), Some(Some(incoming)), None) => {
            Some(LipsinLink { face, outgoing, incoming: Some(incoming) })
        }
        _ => {
            let expected = "FACE out=N [in=M] is expected, with a face of this graph";
            reader.error("links", format!("{text:?} is not a link: {expected}"));
            None
        }
    }
}
