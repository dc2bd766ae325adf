//! A producer: replies to any Interest below a prefix, from the Interest alone, at once or after a
//! delay.

use super::{AppCounters, Application, Arrival, OutgoingPackets, minimal_bytes};
use core::time::Duration;
use nw_element_api::Timestamp;
use nw_name::tlv::{number_len, push_integer, push_number, push_tlv};
use nw_name::{ComponentType, Name, NameRef, convention};
use nw_wire::{DataBuilder, DigestSha256, types as t};
use std::collections::VecDeque;

/// SignatureInfo and 32 zero bytes in place of a digest: routers do not verify signatures.
const SIGNATURE: [u8; 39] = {
    let mut signature = [0; 39];
    let head =
        [t::SIGNATURE_INFO as u8, 3, t::SIGNATURE_TYPE as u8, 1, 0, t::SIGNATURE_VALUE as u8, 32];
    let mut at = 0;
    while at < head.len() {
        signature[at] = head[at];
        at += 1;
    }
    signature
};

/// Maximum number of delayed replies; further Interests are not answered.
const DELAYED_MAX: usize = 1 << 20;

/// Parameters of a producer.
#[derive(Clone, Debug)]
pub struct ProducerConfig {
    /// Prefix of all names.
    pub prefix: Name,
    /// Length of the content, bytes.
    pub payload_bytes: usize,
    /// FreshnessPeriod, milliseconds; 0: none.
    pub freshness_ms: u64,
    /// Number of segments of the object; 0: no end.
    pub segments: u64,
    /// Delay of a reply.
    pub delay: Duration,
    /// True: a valid SHA-256 digest. False: 32 zero bytes.
    pub digest: bool,
}

/// A producer.
#[derive(Debug)]
pub struct Producer {
    config: ProducerConfig,
    content: Vec<u8>,
    /// Encoded MetaInfo.
    meta: Vec<u8>,
    delayed: VecDeque<(Timestamp, Name)>,
    counters: AppCounters,
}

impl Producer {
    /// Creates a producer.
    pub fn new(config: ProducerConfig) -> Self {
        let content = (0..config.payload_bytes).map(|at| b'a' + (at % 26) as u8).collect();
        let mut fields = Vec::new();
        if config.freshness_ms > 0 {
            push_integer(t::FRESHNESS_PERIOD, config.freshness_ms, &mut fields);
        }
        if let Some(last) = config.segments.checked_sub(1) {
            let (bytes, from) = minimal_bytes(last);
            let mut component = Vec::new();
            push_tlv(u32::from(ComponentType::SEGMENT.number()), &bytes[from..], &mut component);
            push_tlv(t::FINAL_BLOCK_ID, &component, &mut fields);
        }
        let mut meta = Vec::new();
        if !fields.is_empty() {
            push_tlv(t::META_INFO, &fields, &mut meta);
        }
        Producer {
            config,
            content,
            meta,
            delayed: VecDeque::new(),
            counters: AppCounters::default(),
        }
    }

    fn reply(&mut self, name: NameRef<'_>, outgoing: &mut OutgoingPackets) {
        let is_segment = name.len() == self.config.prefix.as_ref().len() + 1;
        if self.config.segments > 0
            && is_segment
            && convention::segment(name).is_some_and(|segment| segment >= self.config.segments)
        {
            return;
        }
        self.counters.sent += 1;
        let before = self.counters.bytes;
        let mut bytes = 0;
        outgoing.push(|out| {
            let start = out.len();
            if self.config.digest {
                self.write_signed(name, out)
            } else {
                self.write_unsigned(name, out)
            }
            bytes = (out.len() - start) as u64;
        });
        self.counters.bytes = before + bytes;
    }

    fn write_unsigned(&self, name: NameRef<'_>, out: &mut Vec<u8>) {
        let name = name.as_bytes();
        let len_of = |len: usize| 1 + number_len(len as u64) + len;
        let len =
            len_of(name.len()) + self.meta.len() + len_of(self.content.len()) + SIGNATURE.len();
        push_number(u64::from(t::DATA), out);
        push_number(len as u64, out);
        push_tlv(t::NAME, name, out);
        out.extend_from_slice(&self.meta);
        push_tlv(t::CONTENT, &self.content, out);
        out.extend_from_slice(&SIGNATURE);
    }

    fn write_signed(&self, name: NameRef<'_>, out: &mut Vec<u8>) {
        let mut last = Name::default();
        let mut data = DataBuilder::new(name, &self.content).freshness_ms(self.config.freshness_ms);
        if let Some(segment) = self.config.segments.checked_sub(1) {
            last = last.with_segment(segment);
            data = data.final_block_of(last.as_ref());
        }
        match data.encode(&DigestSha256) {
            Ok(wire) => out.extend_from_slice(&wire),
            Err(never) => match never {},
        }
    }
}

impl Application for Producer {
    fn receive(&mut self, now: Timestamp, arrival: Arrival<'_>, outgoing: &mut OutgoingPackets) {
        let Arrival::Interest { name } = arrival else { return };
        self.counters.satisfied += 1;
        if self.config.delay.is_zero() {
            self.reply(name, outgoing);
        } else if self.delayed.len() < DELAYED_MAX {
            self.delayed.push_back((now + self.config.delay, name.to_name()));
        }
    }

    fn tick(&mut self, now: Timestamp, outgoing: &mut OutgoingPackets) {
        while let Some((_, name)) = self.delayed.pop_front_if(|(due, _)| *due <= now) {
            self.reply(name.as_ref(), outgoing);
        }
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.delayed.front().map(|(due, _)| *due)
    }

    fn counters(&self) -> &AppCounters {
        &self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_wire::Data;

    #[test]
    fn producer_replies_with_valid_data() {
        for (digest, segments, freshness_ms) in
            [(false, 0, 0), (false, 300, 1000), (true, 300, 1000), (true, 0, 0)]
        {
            let mut producer = Producer::new(ProducerConfig {
                prefix: "/a".parse().unwrap(),
                payload_bytes: 500,
                freshness_ms,
                segments,
                delay: Duration::ZERO,
                digest,
            });
            let mut outgoing = OutgoingPackets::default();
            let name: Name = "/a/seg=7".parse().unwrap();
            producer.receive(
                Timestamp::START,
                Arrival::Interest { name: name.as_ref() },
                &mut outgoing,
            );
            let wire = outgoing.iter().next().unwrap().to_vec();
            let data = Data::check(&wire).unwrap();
            assert_eq!((data.name(), data.content().len()), (name.as_ref(), 500));
            assert_eq!(data.freshness_ms(), freshness_ms);
            assert_eq!(data.final_block().is_some(), segments > 0);
            let after_end: Name = "/a/seg=300".parse().unwrap();
            outgoing.clear();
            producer.receive(
                Timestamp::START,
                Arrival::Interest { name: after_end.as_ref() },
                &mut outgoing,
            );
            assert_eq!(outgoing.iter().count(), usize::from(segments == 0));
        }
    }
}
