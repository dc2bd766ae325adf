//! Content of each dataset, built in parts.

use super::publisher::{BuildCursor, DatasetBuild, DatasetRequest};
use super::{Control, Environment, Reply};
use nw_api::management::client::Item;
use nw_api::management::{
    Dataset, FaceQueryFilter, FibEntry, ForwarderStatus, NextHopRecord, RibEntry, Route, Scalar,
    Strategy, StrategyChoice,
};
use nw_name::{Name, NameRef};
use nw_tables::fib::NextHop;
use nw_tables::{FaceId, Timestamp};
use nw_wire::Token;

/// Names visited in one part.
const NAMES_PER_PART: usize = 16;
/// Faces encoded in one part.
const FACES_PER_PART: usize = 8;

impl Control {
    /// Replies to an Interest for a dataset or one of its segments.
    pub(super) fn on_dataset(
        &mut self,
        now: Timestamp,
        request: DatasetRequest<'_>,
        filter: FaceQueryFilter,
        token: Token,
        env: &mut dyn Environment,
    ) -> Reply {
        let packet = match (request.version, request.segment) {
            (Some(version), Some(segment)) => {
                self.publisher.published_packet(now, request.prefix, version, segment)
            }
            // The name of the reply is longer than that of the Interest.
            _ if !request.can_be_prefix => None,
            (Some(version), None) => {
                self.publisher.published_packet(now, request.prefix, version, 0)
            }
            (None, _) => {
                let generation = self.generation(request.dataset);
                let current = generation.and_then(|generation| {
                    self.publisher.current_packet(now, request.prefix, generation)
                });
                if current.is_none() {
                    return self.begin_dataset(now, &request, filter, generation, token, env);
                }
                current
            }
        };
        match packet {
            Some(packet) => {
                env.send_data(&packet, token);
                Reply::Sent
            }
            None => Reply::Ignored,
        }
    }

    /// Builds the next part of a dataset.
    pub(super) fn dataset_step(&mut self, now: Timestamp, env: &mut dyn Environment) {
        self.publisher.free_part();
        if let Some(build) = self.publisher.take_build(None) {
            self.build_dataset(now, build, env);
        }
    }

    /// Starts to build a dataset, and builds its first part.
    fn begin_dataset(
        &mut self,
        now: Timestamp,
        request: &DatasetRequest<'_>,
        filter: FaceQueryFilter,
        generation: Option<u64>,
        token: Token,
        env: &mut dyn Environment,
    ) -> Reply {
        if !self.publisher.start_build(request, filter, generation, token) {
            return Reply::Ignored;
        }
        match self.publisher.take_build(Some(request.prefix)) {
            Some(build) => self.build_dataset(now, build, env),
            None => Reply::Ignored,
        }
    }

    /// Builds one part; after the last part, publishes the dataset and replies to all Interests
    /// that wait for it.
    fn build_dataset(
        &mut self,
        now: Timestamp,
        mut build: DatasetBuild,
        env: &mut dyn Environment,
    ) -> Reply {
        if !self.build_part(now, &mut build, env) {
            self.publisher.requeue(build);
            return Reply::Deferred;
        }
        // After a change during construction the content is mixed: this version is not used again.
        build.generation = build
            .generation
            .filter(|generation| self.generation(build.dataset) == Some(*generation));
        let (packet, waiting) = self.publisher.publish(now, env.unix_ms(), build);
        if let Some(packet) = packet {
            waiting.into_iter().for_each(|token| env.send_data(&packet, token));
        }
        Reply::Sent
    }

    /// Returns the generation of the table behind a dataset. `None` if its content changes without
    /// one.
    fn generation(&self, dataset: Dataset) -> Option<u64> {
        match dataset {
            Dataset::FibList | Dataset::StrategyChoiceList if !self.rib.has_work() => {
                Some(self.rib.generation())
            }
            // Routes with an expiration are listed with their remaining lifetime, so the list
            // changes with time.
            Dataset::RibList if self.rib.next_expiry().is_none() => Some(self.rib.generation()),
            _ => None,
        }
    }

    /// Builds the next part. Returns `true` when the dataset is complete.
    fn build_part(&self, now: Timestamp, build: &mut DatasetBuild, env: &dyn Environment) -> bool {
        let DatasetBuild { dataset, filter, cursor, content, .. } = build;
        let mut item = Vec::new();
        let mut push = |bytes: &mut Vec<u8>| {
            content.push(bytes);
            bytes.clear();
        };
        match dataset {
            Dataset::FacesList | Dataset::FacesQuery => {
                return build_faces(
                    filter,
                    *dataset == Dataset::FacesQuery,
                    cursor,
                    env,
                    |status| {
                        encode(status, &mut item);
                        push(&mut item);
                    },
                );
            }
            Dataset::FacesChannels => {
                env.channels().iter().for_each(|channel| encode(channel, &mut item))
            }
            Dataset::FibList => {
                let end = self.rib.visit_next_hops(after(cursor), NAMES_PER_PART, |name, hops| {
                    let hop = |hop: &NextHop| NextHopRecord {
                        face_id: hop.face.number(),
                        cost: u64::from(hop.cost),
                    };
                    let next_hops = hops.iter().map(hop).collect();
                    encode(&FibEntry { name: name.to_name(), next_hops }, &mut item);
                    push(&mut item);
                });
                return advance(cursor, end);
            }
            Dataset::RibList => {
                let end = self.rib.visit_routes(after(cursor), NAMES_PER_PART, |name, routes| {
                    let routes = routes
                        .map(|(face, origin, route)| route_record(now, face, origin, route))
                        .collect();
                    encode(&RibEntry { name: name.to_name(), routes }, &mut item);
                    push(&mut item);
                });
                return advance(cursor, end);
            }
            Dataset::StrategyChoiceList => {
                let end =
                    self.rib.visit_strategies(after(cursor), NAMES_PER_PART, |name, listed| {
                        let strategy = Strategy(listed.clone());
                        encode(&StrategyChoice { name: name.to_name(), strategy }, &mut item);
                        push(&mut item);
                    });
                return advance(cursor, end);
            }
            // "CsInfo is wrapped in 0x80, ForwarderStatus is not wrapped."
            Dataset::CsInfo => encode(&env.cs_info(), &mut item),
            Dataset::StatusDrops => env.drops().iter().for_each(|drop| encode(drop, &mut item)),
            Dataset::StatusShards => env.shards().iter().for_each(|shard| encode(shard, &mut item)),
            Dataset::StatusXdp => {
                env.xdp().iter().for_each(|interface| encode(interface, &mut item))
            }
            Dataset::StatusGeneral => self.forwarder_status(env).encode_fields(&mut item),
        }
        push(&mut item);
        true
    }

    /// Returns the status of the environment with the version and the number of FIB entries.
    fn forwarder_status(&self, env: &dyn Environment) -> ForwarderStatus {
        ForwarderStatus {
            version: self.config.version.clone(),
            fib_entries: self.rib.listed_len() as u64,
            ..env.forwarder_status()
        }
    }
}

fn route_record(now: Timestamp, face: FaceId, origin: u64, route: &super::rib::Route) -> Route {
    Route {
        face_id: face.number(),
        origin,
        cost: route.cost,
        flags: route.flags,
        expiration_period: (route.expires != Timestamp::NEVER)
            .then(|| u64::try_from(route.expires.since(now).as_millis()).unwrap_or(u64::MAX)),
    }
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// Items in canonical order of their names.
    pub items: Vec<T>,
    /// Name after which the next page starts; `None` at the end.
    pub next: Option<Name>,
}

impl Control {
    /// Returns the routes of up to `names_max` names after `after`, with those names that have
    /// routes.
    pub fn routes_page(
        &self,
        now: Timestamp,
        after: Option<NameRef<'_>>,
        names_max: usize,
    ) -> Page<RibEntry> {
        let mut items = Vec::new();
        let next = self.rib.visit_routes(after, names_max, |name, routes| {
            let routes = routes
                .map(|(face, origin, route)| route_record(now, face, origin, route))
                .collect();
            items.push(RibEntry { name: name.to_name(), routes });
        });
        Page { items, next }
    }

    /// Returns FIB entries, as [`routes_page`](Self::routes_page) returns routes.
    pub fn fib_page(&self, after: Option<NameRef<'_>>, names_max: usize) -> Page<FibEntry> {
        let mut items = Vec::new();
        let next = self.rib.visit_next_hops(after, names_max, |name, hops| {
            let hop = |hop: &NextHop| NextHopRecord {
                face_id: hop.face.number(),
                cost: u64::from(hop.cost),
            };
            let next_hops = hops.iter().map(hop).collect();
            items.push(FibEntry { name: name.to_name(), next_hops });
        });
        Page { items, next }
    }

    /// Returns strategy choices, as [`routes_page`](Self::routes_page) returns routes.
    pub fn strategies_page(
        &self,
        after: Option<NameRef<'_>>,
        names_max: usize,
    ) -> Page<StrategyChoice> {
        let mut items = Vec::new();
        let next = self.rib.visit_strategies(after, names_max, |name, listed| {
            items.push(StrategyChoice { name: name.to_name(), strategy: Strategy(listed.clone()) });
        });
        Page { items, next }
    }
}

fn build_faces(
    filter: &FaceQueryFilter,
    filtered: bool,
    cursor: &mut BuildCursor,
    env: &dyn Environment,
    mut visit: impl FnMut(&nw_api::management::FaceStatus),
) -> bool {
    if !matches!(cursor, BuildCursor::Faces(..)) {
        *cursor = BuildCursor::Faces(env.face_ids(), 0);
    }
    let BuildCursor::Faces(ids, index) = cursor else { return true };
    for id in ids.iter().skip(*index).take(FACES_PER_PART) {
        *index += 1;
        // A face that was closed meanwhile is not listed.
        let status = env.face_status(*id);
        if let Some(status) = status.filter(|status| !filtered || filter.matches(status)) {
            visit(&status);
        }
    }
    *index == ids.len()
}

fn after(cursor: &BuildCursor) -> Option<NameRef<'_>> {
    match cursor {
        BuildCursor::After(name) => Some(name.as_ref()),
        BuildCursor::Start | BuildCursor::Faces(..) => None,
    }
}

/// Moves the cursor behind the last visited name. Returns `true` at the end.
fn advance(cursor: &mut BuildCursor, last: Option<Name>) -> bool {
    match last {
        Some(last) => {
            *cursor = BuildCursor::After(last);
            false
        }
        None => true,
    }
}

fn encode<T: Item>(item: &T, out: &mut Vec<u8>) {
    Scalar::push(item, T::NUMBER, out);
}
