//! Who answers: any Interest below a prefix, each from the Interest alone, at once or after a while.

use super::{AppCounters, Application, Arrival, Sends, shortest};
use core::time::Duration;
use nw_element_api::Instant;
use nw_name::tlv::{number_len, push_integer, push_number, push_tlv};
use nw_name::{ComponentType, Name, NameRef, convention};
use nw_wire::{DataBuilder, DigestSha256, types as t};
use std::collections::VecDeque;

/// 32 octets that claim to be a digest: routers look at the form only.
const SIGNATURE: [u8; 39] = {
    let mut signature = [0; 39];
    let head = [t::SIGNATURE_INFO as u8, 3, t::SIGNATURE_TYPE as u8, 1, 0, t::SIGNATURE_VALUE as u8, 32];
    let mut at = 0;
    while at < head.len() {
        signature[at] = head[at];
        at += 1;
    }
    signature
};

/// Answers that may wait for their moment; what comes beyond is not answered.
const WAITING_MAX: usize = 1 << 20;

/// How to answer.
#[derive(Clone, Debug)]
pub struct ProducerConfig {
    /// Below which all names are.
    pub prefix: Name,
    /// Octets of content.
    pub payload_octets: usize,
    /// FreshnessPeriod; 0 is none.
    pub freshness_ms: u64,
    /// The object has so many segments; 0 is no end.
    pub segments: u64,
    /// How long an answer takes.
    pub delay: Duration,
    /// With a SHA-256 digest that fits; without, 32 octets that claim to be one.
    pub digest: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Producer {
    config: ProducerConfig,
    content: Vec<u8>,
    /// MetaInfo, whole.
    meta: Vec<u8>,
    waiting: VecDeque<(Instant, Name)>,
    counters: AppCounters,
}

impl Producer {
    /// Nothing answered yet.
    pub fn new(config: ProducerConfig) -> Self {
        let content = (0..config.payload_octets).map(|at| b'a' + (at % 26) as u8).collect();
        let mut fields = Vec::new();
        if config.freshness_ms > 0 {
            push_integer(t::FRESHNESS_PERIOD, config.freshness_ms, &mut fields);
        }
        if let Some(last) = config.segments.checked_sub(1) {
            let (octets, from) = shortest(last);
            let mut component = Vec::new();
            push_tlv(u32::from(ComponentType::SEGMENT.number()), &octets[from..], &mut component);
            push_tlv(t::FINAL_BLOCK_ID, &component, &mut fields);
        }
        let mut meta = Vec::new();
        if !fields.is_empty() {
            push_tlv(t::META_INFO, &fields, &mut meta);
        }
        Producer { config, content, meta, waiting: VecDeque::new(), counters: AppCounters::default() }
    }

    fn answer(&mut self, name: NameRef<'_>, sends: &mut Sends) {
        let is_segment = name.len() == self.config.prefix.as_ref().len() + 1;
        if self.config.segments > 0
            && is_segment
            && convention::segment(name).is_some_and(|segment| segment >= self.config.segments)
        {
            return;
        }
        self.counters.sent += 1;
        let before = self.counters.octets;
        let mut octets = 0;
        sends.push(|out| {
            let start = out.len();
            if self.config.digest {
                self.signed(name, out)
            } else {
                self.unsigned(name, out)
            }
            octets = (out.len() - start) as u64;
        });
        self.counters.octets = before + octets;
    }

    fn unsigned(&self, name: NameRef<'_>, out: &mut Vec<u8>) {
        let name = name.as_bytes();
        let len_of = |len: usize| 1 + number_len(len as u64) + len;
        let len = len_of(name.len()) + self.meta.len() + len_of(self.content.len()) + SIGNATURE.len();
        push_number(u64::from(t::DATA), out);
        push_number(len as u64, out);
        push_tlv(t::NAME, name, out);
        out.extend_from_slice(&self.meta);
        push_tlv(t::CONTENT, &self.content, out);
        out.extend_from_slice(&SIGNATURE);
    }

    fn signed(&self, name: NameRef<'_>, out: &mut Vec<u8>) {
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
    fn receive(&mut self, now: Instant, arrival: Arrival<'_>, sends: &mut Sends) {
        let Arrival::Interest { name } = arrival else { return };
        self.counters.satisfied += 1;
        if self.config.delay.is_zero() {
            self.answer(name, sends);
        } else if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back((now + self.config.delay, name.to_name()));
        }
    }

    fn tick(&mut self, now: Instant, sends: &mut Sends) {
        while let Some((_, name)) = self.waiting.pop_front_if(|(due, _)| *due <= now) {
            self.answer(name.as_ref(), sends);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.waiting.front().map(|(due, _)| *due)
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
    fn answers_are_data() {
        for (digest, segments, freshness_ms) in
            [(false, 0, 0), (false, 300, 1000), (true, 300, 1000), (true, 0, 0)]
        {
            let mut producer = Producer::new(ProducerConfig {
                prefix: "/a".parse().unwrap(),
                payload_octets: 500,
                freshness_ms,
                segments,
                delay: Duration::ZERO,
                digest,
            });
            let mut sends = Sends::default();
            let name: Name = "/a/seg=7".parse().unwrap();
            producer.receive(Instant::START, Arrival::Interest { name: name.as_ref() }, &mut sends);
            let wire = sends.iter().next().unwrap().to_vec();
            let data = Data::check(&wire).unwrap();
            assert_eq!((data.name(), data.content().len()), (name.as_ref(), 500));
            assert_eq!(data.freshness_ms(), freshness_ms);
            assert_eq!(data.final_block().is_some(), segments > 0);
            let beyond: Name = "/a/seg=300".parse().unwrap();
            sends.clear();
            producer.receive(Instant::START, Arrival::Interest { name: beyond.as_ref() }, &mut sends);
            assert_eq!(sends.iter().count(), usize::from(segments == 0));
        }
    }
}
