//! What each dataset says, made a part at a time.

use super::publisher::{Asks, Making, Place};
use super::{Control, Environment, Reply};
use nw_api::management::client::Item;
use nw_api::management::{
    Dataset, FaceQueryFilter, FibEntry, ForwarderStatus, NextHopRecord, RibEntry, Route, Scalar, Strategy,
    StrategyChoice,
};
use nw_name::{Name, NameRef};
use nw_tables::fib::NextHop;
use nw_tables::{FaceId, Instant};
use nw_wire::Token;

/// Names of a table that are looked at in one part.
const NAMES_PER_PART: usize = 16;
/// Faces that are described in one part.
const FACES_PER_PART: usize = 8;

impl Control {
    pub(super) fn on_dataset(
        &mut self,
        now: Instant,
        asks: Asks<'_>,
        filter: FaceQueryFilter,
        token: Token,
        env: &mut dyn Environment,
    ) -> Reply {
        let packet = match (asks.version, asks.segment) {
            (Some(version), Some(segment)) => self.publisher.kept(now, asks.prefix, version, segment),
            // The answer's name is longer than what is asked for.
            _ if !asks.can_be_prefix => None,
            (Some(version), None) => self.publisher.kept(now, asks.prefix, version, 0),
            (None, _) => {
                let generation = self.generation(asks.dataset);
                let current =
                    generation.and_then(|generation| self.publisher.current(now, asks.prefix, generation));
                if current.is_none() {
                    return self.begin_dataset(now, &asks, filter, generation, token, env);
                }
                current
            }
        };
        match packet {
            Some(packet) => {
                env.send(&packet, token);
                Reply::Sent
            }
            None => Reply::Silent,
        }
    }

    /// Goes on with a dataset that is being made.
    pub(super) fn work_on_datasets(&mut self, now: Instant, env: &mut dyn Environment) {
        self.publisher.free_part();
        if let Some(making) = self.publisher.take(None) {
            self.make(now, making, env);
        }
    }

    fn begin_dataset(
        &mut self,
        now: Instant,
        asks: &Asks<'_>,
        filter: FaceQueryFilter,
        generation: Option<u64>,
        token: Token,
        env: &mut dyn Environment,
    ) -> Reply {
        if !self.publisher.begin(asks, filter, generation, token) {
            return Reply::Silent;
        }
        match self.publisher.take(Some(asks.prefix)) {
            Some(making) => self.make(now, making, env),
            None => Reply::Silent,
        }
    }

    fn make(&mut self, now: Instant, mut making: Making, env: &mut dyn Environment) -> Reply {
        if !self.make_part(now, &mut making, env) {
            self.publisher.go_on(making);
            return Reply::Later;
        }
        // What changed while it was made may be in it or not.
        making.generation = making.generation.filter(|made| self.generation(making.dataset) == Some(*made));
        let (packet, asking) = self.publisher.publish(now, env.unix_ms(), making);
        if let Some(packet) = packet {
            asking.into_iter().for_each(|token| env.send(&packet, token));
        }
        Reply::Sent
    }

    fn generation(&self, dataset: Dataset) -> Option<u64> {
        match dataset {
            Dataset::FibList | Dataset::StrategyChoiceList if !self.rib.has_work() => {
                Some(self.rib.generation())
            }
            // Routes that end by themselves say how long they still live, so the list changes with time.
            Dataset::RibList if self.rib.next_expiry().is_none() => Some(self.rib.generation()),
            _ => None,
        }
    }

    /// True when that was all.
    fn make_part(&self, now: Instant, making: &mut Making, env: &dyn Environment) -> bool {
        let Making { dataset, filter, place, content, .. } = making;
        let mut item = Vec::new();
        let mut push = |octets: &mut Vec<u8>| {
            content.push(octets);
            octets.clear();
        };
        match dataset {
            Dataset::FacesList | Dataset::FacesQuery => {
                return make_faces(filter, *dataset == Dataset::FacesQuery, place, env, |status| {
                    encode(status, &mut item);
                    push(&mut item);
                });
            }
            Dataset::FacesChannels => env.channels().iter().for_each(|channel| encode(channel, &mut item)),
            Dataset::FibList => {
                let end = self.rib.next_hops_part(behind(place), NAMES_PER_PART, |name, hops| {
                    let hop = |hop: &NextHop| NextHopRecord {
                        face_id: hop.face.number(),
                        cost: u64::from(hop.cost),
                    };
                    let next_hops = hops.iter().map(hop).collect();
                    encode(&FibEntry { name: name.to_name(), next_hops }, &mut item);
                    push(&mut item);
                });
                return go_on(place, end);
            }
            Dataset::RibList => {
                let end = self.rib.routes_part(behind(place), NAMES_PER_PART, |name, routes| {
                    let routes =
                        routes.map(|(face, origin, route)| listed(now, face, origin, route)).collect();
                    encode(&RibEntry { name: name.to_name(), routes }, &mut item);
                    push(&mut item);
                });
                return go_on(place, end);
            }
            Dataset::StrategyChoiceList => {
                let end = self.rib.strategies_part(behind(place), NAMES_PER_PART, |name, listed| {
                    let strategy = Strategy(listed.clone());
                    encode(&StrategyChoice { name: name.to_name(), strategy }, &mut item);
                    push(&mut item);
                });
                return go_on(place, end);
            }
            // "CsInfo is wrapped in 0x80, ForwarderStatus is not wrapped."
            Dataset::CsInfo => encode(&env.cs_info(), &mut item),
            Dataset::StatusDrops => env.drops().iter().for_each(|drop| encode(drop, &mut item)),
            Dataset::StatusShards => env.shards().iter().for_each(|shard| encode(shard, &mut item)),
            Dataset::StatusXdp => env.xdp().iter().for_each(|interface| encode(interface, &mut item)),
            Dataset::StatusGeneral => {
                let status = ForwarderStatus {
                    version: self.config.version.clone(),
                    fib_entries: self.rib.listed_len() as u64,
                    ..env.forwarder_status()
                };
                status.encode_fields(&mut item);
            }
        }
        push(&mut item);
        true
    }
}

fn listed(now: Instant, face: FaceId, origin: u64, route: &super::rib::Route) -> Route {
    Route {
        face_id: face.number(),
        origin,
        cost: route.cost,
        flags: route.flags,
        expiration_period: (route.expires != Instant::NEVER)
            .then(|| u64::try_from(route.expires.since(now).as_millis()).unwrap_or(u64::MAX)),
    }
}

/// Part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// In canonical order of their names.
    pub items: Vec<T>,
    /// Where the next page starts behind; `None` at the end.
    pub next: Option<Name>,
}

impl Control {
    /// Routes behind a name, of at most `names` names looked at; and the name to go on behind, if there may be more.
    pub fn routes_page(&self, now: Instant, after: Option<NameRef<'_>>, names: usize) -> Page<RibEntry> {
        let mut items = Vec::new();
        let next = self.rib.routes_part(after, names, |name, routes| {
            let routes = routes.map(|(face, origin, route)| listed(now, face, origin, route)).collect();
            items.push(RibEntry { name: name.to_name(), routes });
        });
        Page { items, next }
    }

    /// As [`routes_page`](Self::routes_page), of the FIB.
    pub fn fib_page(&self, after: Option<NameRef<'_>>, names: usize) -> Page<FibEntry> {
        let mut items = Vec::new();
        let next = self.rib.next_hops_part(after, names, |name, hops| {
            let hop = |hop: &NextHop| NextHopRecord { face_id: hop.face.number(), cost: u64::from(hop.cost) };
            let next_hops = hops.iter().map(hop).collect();
            items.push(FibEntry { name: name.to_name(), next_hops });
        });
        Page { items, next }
    }

    /// Strategy choices behind a name.
    pub fn strategies_page(&self, after: Option<NameRef<'_>>, names: usize) -> Page<StrategyChoice> {
        let mut items = Vec::new();
        let next = self.rib.strategies_part(after, names, |name, listed| {
            items.push(StrategyChoice { name: name.to_name(), strategy: Strategy(listed.clone()) });
        });
        Page { items, next }
    }
}

fn make_faces(
    filter: &FaceQueryFilter,
    filtered: bool,
    place: &mut Place,
    env: &dyn Environment,
    mut each: impl FnMut(&nw_api::management::FaceStatus),
) -> bool {
    if !matches!(place, Place::Faces(..)) {
        *place = Place::Faces(env.face_ids(), 0);
    }
    let Place::Faces(ids, at) = place else { return true };
    for id in ids.iter().skip(*at).take(FACES_PER_PART) {
        *at += 1;
        // One that went away meanwhile is not listed.
        let status = env.face_status(*id);
        if let Some(status) = status.filter(|status| !filtered || filter.matches(status)) {
            each(&status);
        }
    }
    *at == ids.len()
}

fn behind(place: &Place) -> Option<NameRef<'_>> {
    match place {
        Place::Behind(name) => Some(name.as_ref()),
        Place::Start | Place::Faces(..) => None,
    }
}

/// True at the end.
fn go_on(place: &mut Place, last: Option<nw_name::Name>) -> bool {
    match last {
        Some(last) => {
            *place = Place::Behind(last);
            false
        }
        None => true,
    }
}

fn encode<T: Item>(item: &T, out: &mut Vec<u8>) {
    Scalar::push(item, T::NUMBER, out);
}
