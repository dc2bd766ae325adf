//! Who answers: any Interest below a prefix, each from the Interest alone. No table, no signature made, one prepared packet for all.

use super::workload::Workload;
use nw_element_api::Kind;
use nw_name::tlv::{number_len, push_integer, push_number, push_tlv};
use nw_name::{ComponentType, NameRef};
use nw_wire::types as t;

/// 32 octets that claim to be a digest: routers look at the form only.
const SIGNATURE: [u8; 7 + 32] = {
    let mut signature = [0; 39];
    let head = [t::SIGNATURE_INFO as u8, 3, t::SIGNATURE_TYPE as u8, 1, 0, t::SIGNATURE_VALUE as u8, 32];
    let mut i = 0;
    while i < head.len() {
        signature[i] = head[i];
        i += 1;
    }
    signature
};

/// Octets of MetaInfo with the longest FreshnessPeriod.
const META_LEN_MAX: usize = 2 + 2 + 8;

/// What an Interest that allows longer names is answered with, behind its own name: segment 0.
const LONGER: [u8; 3] = [ComponentType::SEGMENT.number() as u8, 1, 0];

/// Makes answers.
#[derive(Clone, Debug)]
pub struct Sink {
    workload: Workload,
    content: Vec<u8>,
    meta: Vec<u8>,
}

impl Sink {
    /// For Interests below the workload's prefix; caches may call answers fresh for so long.
    pub fn new(workload: &Workload, freshness_ms: u64) -> Self {
        let mut fields = Vec::new();
        if freshness_ms > 0 {
            push_integer(t::FRESHNESS_PERIOD, freshness_ms, &mut fields);
        }
        let mut meta = Vec::new();
        if !fields.is_empty() {
            push_tlv(t::META_INFO, &fields, &mut meta);
        }
        // Letters, so that a packet that somebody looks at can be read.
        let content = (0..workload.payload.max).map(|i| b'a' + (i % 26) as u8).collect();
        Sink { workload: workload.clone(), content, meta }
    }

    /// Octets of the longest answer to Interests for names of the workload, however fresh it is called.
    pub fn octets_max(&self) -> usize {
        let longer = if self.workload.can_be_prefix > 0.0 { LONGER.len() } else { 0 };
        let len = self.octets_in(self.workload.name_octets.max + longer, self.payload_max()).1;
        len + META_LEN_MAX - self.meta.len()
    }

    /// Octets of the longest content.
    pub const fn payload_max(&self) -> usize {
        self.workload.payload.max
    }

    /// Octets of a Data with such a name and content: within its head, and with it.
    fn octets_in(&self, name_len: usize, content_len: usize) -> (usize, usize) {
        let with_head = |len: usize| 1 + number_len(len as u64) + len;
        let len = with_head(name_len) + self.meta.len() + with_head(content_len) + SIGNATURE.len();
        (len, with_head(len))
    }

    /// True for packets that this sink answers.
    pub fn takes(&self, kind: Kind, name: NameRef<'_>) -> bool {
        kind == Kind::Interest && self.workload.prefix.as_ref().is_prefix_of(name)
    }

    /// Appends the answer to an Interest of this name.
    pub fn answer(&self, name: NameRef<'_>, can_be_prefix: bool, out: &mut Vec<u8>) {
        let content = &self.content[..self.workload.payload_of(name)];
        let longer: &[u8] = if can_be_prefix { &LONGER } else { &[] };
        let name_len = name.as_bytes().len() + longer.len();
        let (len, _) = self.octets_in(name_len, content.len());
        push_number(u64::from(t::DATA), out);
        push_number(len as u64, out);
        push_number(u64::from(t::NAME), out);
        push_number(name_len as u64, out);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(longer);
        out.extend_from_slice(&self.meta);
        push_tlv(t::CONTENT, content, out);
        out.extend_from_slice(&SIGNATURE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::Span;
    use crate::workload::tests::workload;
    use nw_wire::Data;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn answers_are_data(number in 0u64..1 << 40, payload in 0usize..8000, wider in 0usize..100, longer: bool, freshness in 0u64..100_000) {
            let payload = Span { min: payload.min(7900), max: payload.min(7900) + wider };
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
            prop_assert!((wire.len()..=wire.len() + less + 4 + META_LEN_MAX).contains(&sink.octets_max()), "{} of {}", wire.len(), sink.octets_max());
            let mut again = Vec::new();
            sink.answer(name.as_ref(), longer, &mut again);
            prop_assert_eq!(wire, again);
        }
    }
}
