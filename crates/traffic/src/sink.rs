//! The sink: answers any Interest below a prefix. It is stateless: each answer is built from the
//! Interest alone, with prepared content and a placeholder signature.

use super::workload::Workload;
use nw_element_api::Kind;
use nw_name::tlv::{number_len, push_integer, push_number, push_tlv};
use nw_name::{ComponentType, NameRef};
use nw_wire::types as t;

/// SignatureInfo and SignatureValue of a SHA-256 digest of zeros: routers check only the form.
const SIGNATURE: [u8; 7 + 32] = {
    let mut signature = [0; 39];
    let head =
        [t::SIGNATURE_INFO as u8, 3, t::SIGNATURE_TYPE as u8, 1, 0, t::SIGNATURE_VALUE as u8, 32];
    let mut i = 0;
    while i < head.len() {
        signature[i] = head[i];
        i += 1;
    }
    signature
};

/// Bytes of MetaInfo with the longest FreshnessPeriod.
const META_LEN_MAX: usize = 2 + 2 + 8;

/// Component `seg=0`, appended to the name in answers to Interests with CanBePrefix.
const SEGMENT_ZERO: [u8; 3] = [ComponentType::SEGMENT.number() as u8, 1, 0];

/// A stateless producer of answers.
#[derive(Clone, Debug)]
pub struct Sink {
    workload: Workload,
    content: Vec<u8>,
    meta: Vec<u8>,
}

impl Sink {
    /// Creates a sink for Interests below the workload's prefix, with this FreshnessPeriod.
    pub fn new(workload: &Workload, freshness_ms: u64) -> Self {
        let mut fields = Vec::new();
        if freshness_ms > 0 {
            push_integer(t::FRESHNESS_PERIOD, freshness_ms, &mut fields);
        }
        let mut meta = Vec::new();
        if !fields.is_empty() {
            push_tlv(t::META_INFO, &fields, &mut meta);
        }
        // Letters, so that a captured packet can be read.
        let content = (0..workload.payload.max).map(|i| b'a' + (i % 26) as u8).collect();
        Sink { workload: workload.clone(), content, meta }
    }

    /// Returns the length in bytes of the longest answer to Interests of the workload, with any
    /// FreshnessPeriod.
    pub fn packet_len_max(&self) -> usize {
        let suffix_len = if self.workload.can_be_prefix > 0.0 { SEGMENT_ZERO.len() } else { 0 };
        let len = self.data_len(self.workload.name_len.max + suffix_len, self.payload_max()).1;
        len + META_LEN_MAX - self.meta.len()
    }

    /// Returns the length in bytes of the longest content.
    pub const fn payload_max(&self) -> usize {
        self.workload.payload.max
    }

    /// Returns the length in bytes of a Data packet with this name and content, without and with
    /// its outer type and length.
    fn data_len(&self, name_len: usize, content_len: usize) -> (usize, usize) {
        let with_head = |len: usize| 1 + number_len(len as u64) + len;
        let len = with_head(name_len) + self.meta.len() + with_head(content_len) + SIGNATURE.len();
        (len, with_head(len))
    }

    /// Returns true for packets that this sink answers.
    pub fn takes(&self, kind: Kind, name: NameRef<'_>) -> bool {
        kind == Kind::Interest && self.workload.prefix.as_ref().is_prefix_of(name)
    }

    /// Appends the answer to an Interest with this name.
    pub fn answer(&self, name: NameRef<'_>, can_be_prefix: bool, out: &mut Vec<u8>) {
        let content = &self.content[..self.workload.payload_of(name)];
        let suffix: &[u8] = if can_be_prefix { &SEGMENT_ZERO } else { &[] };
        let name_len = name.as_bytes().len() + suffix.len();
        let (len, _) = self.data_len(name_len, content.len());
        push_number(u64::from(t::DATA), out);
        push_number(len as u64, out);
        push_number(u64::from(t::NAME), out);
        push_number(name_len as u64, out);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(suffix);
        out.extend_from_slice(&self.meta);
        push_tlv(t::CONTENT, content, out);
        out.extend_from_slice(&SIGNATURE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number_range::NumberRange;
    use crate::workload::tests::workload;
    use nw_wire::Data;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sink_answers_are_valid_data(
            number in 0u64..1 << 40,
            payload in 0usize..8000,
            wider in 0usize..100,
            longer: bool,
            freshness in 0u64..100_000,
        ) {
            let payload = NumberRange { min: payload.min(7900), max: payload.min(7900) + wider };
            let workload = Workload { payload, can_be_prefix: if longer { 0.5 } else { 0.0 }, ..workload() };
            let sink = Sink::new(&workload, freshness);
            let name = workload.name(number);
            prop_assert!(sink.takes(Kind::Interest, name.as_ref()));
            let mut wire = Vec::new();
            sink.answer(name.as_ref(), longer, &mut wire);
            let data = Data::check(&wire).unwrap();
            prop_assert_eq!(data.name().len(), name.as_ref().len() + usize::from(longer));
            prop_assert!((payload.min..=payload.max).contains(&data.content().len()));
            prop_assert_eq!(data.freshness_ms(), freshness);
            let less = payload.max - data.content().len();
            let longest = wire.len() + less + 4 + META_LEN_MAX;
            prop_assert!((wire.len()..=longest).contains(&sink.packet_len_max()));
            let mut again = Vec::new();
            sink.answer(name.as_ref(), longer, &mut again);
            prop_assert_eq!(wire, again);
        }
    }
}
