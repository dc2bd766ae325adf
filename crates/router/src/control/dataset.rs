//! What each dataset says.

use super::publisher::Asks;
use super::{Control, Environment, Reply};
use nw_api::management::client::{Item, encode_items};
use nw_api::management::{
    Dataset, FaceQueryFilter, FibEntry, ForwarderStatus, NextHopRecord, RibEntry, Route, Scalar, Strategy,
    StrategyChoice,
};
use nw_tables::Instant;

impl Control {
    pub(super) fn on_dataset(
        &mut self,
        now: Instant,
        asks: Asks<'_>,
        filter: &FaceQueryFilter,
        env: &mut dyn Environment,
    ) -> Reply {
        let packet = match (asks.version, asks.segment) {
            (Some(version), Some(segment)) => self.publisher.kept(now, asks.prefix, version, segment),
            // The answer's name is longer than what is asked for.
            _ if !asks.can_be_prefix => None,
            (Some(version), None) => self.publisher.kept(now, asks.prefix, version, 0),
            (None, _) => {
                let unix_ms = self.unix_ms(now);
                let generation = match asks.dataset {
                    Dataset::FibList | Dataset::StrategyChoiceList => Some(self.rib.generation()),
                    // Routes that end by themselves say how long they still live, so the list changes with time.
                    Dataset::RibList if self.rib.next_expiry().is_none() => Some(self.rib.generation()),
                    _ => None,
                };
                let mut publisher = std::mem::replace(&mut self.publisher, super::Publisher::new());
                let packet = publisher.newest(now, unix_ms, asks.prefix, generation, || {
                    self.content(now, asks.dataset, filter, env)
                });
                self.publisher = publisher;
                packet
            }
        };
        match packet {
            Some(packet) => {
                env.send(&packet, true);
                Reply::Sent
            }
            None => Reply::Silent,
        }
    }

    fn content(
        &self,
        now: Instant,
        dataset: Dataset,
        filter: &FaceQueryFilter,
        env: &dyn Environment,
    ) -> Vec<u8> {
        match dataset {
            Dataset::FacesList => encode_items(&env.faces()),
            Dataset::FacesQuery => {
                let faces = env.faces();
                let matching: Vec<_> = faces.into_iter().filter(|face| filter.matches(face)).collect();
                encode_items(&matching)
            }
            Dataset::FacesChannels => encode_items(&env.channels()),
            Dataset::FibList => encode_each(self.rib.next_hops().map(|(name, hops)| {
                let hop = |hop: &nw_tables::fib::NextHop| NextHopRecord {
                    face_id: hop.face.number(),
                    cost: u64::from(hop.cost),
                };
                FibEntry { name: name.to_name(), next_hops: hops.iter().map(hop).collect() }
            })),
            Dataset::RibList => encode_each(self.rib.routes().map(|(name, routes)| {
                let routes = routes.map(|(face, origin, route)| Route {
                    face_id: face.number(),
                    origin,
                    cost: route.cost,
                    flags: route.flags,
                    expiration_period: (route.expires != Instant::NEVER)
                        .then(|| u64::try_from(route.expires.since(now).as_millis()).unwrap_or(u64::MAX)),
                });
                RibEntry { name: name.to_name(), routes: routes.collect() }
            })),
            // "CsInfo is wrapped in 0x80, ForwarderStatus is not wrapped."
            Dataset::CsInfo => encode_items(&[env.cs_info()]),
            Dataset::StrategyChoiceList => encode_each(self.rib.strategies().map(|(name, listed)| {
                StrategyChoice { name: name.to_name(), strategy: Strategy(listed.clone()) }
            })),
            Dataset::StatusDrops => encode_items(&env.drops()),
            Dataset::StatusGeneral => {
                let status = ForwarderStatus {
                    version: self.config.version.clone(),
                    start_timestamp: self.config.start_unix_ms,
                    current_timestamp: self.unix_ms(now),
                    fib_entries: self.rib.prefixes_len() as u64,
                    ..env.forwarder_status()
                };
                let mut content = Vec::new();
                status.encode_fields(&mut content);
                content
            }
        }
    }
}

/// As [`encode_items`], one item at a time: tables can be long.
fn encode_each<T: Item>(items: impl Iterator<Item = T>) -> Vec<u8> {
    let mut content = Vec::new();
    items.for_each(|item| Scalar::push(&item, T::NUMBER, &mut content));
    content
}
