//! Answers queries in the event loop.

use super::{Capture, DEFERRED_MAX, PAGE_LEN, Query, QueryReply, ReplyCallback, TraceBatch};
use crate::Host;
use crate::environment::drop_name;
use crate::shards::command::ShardCommand;
use crate::trace::Tracer;
use core::time::Duration;
use nw_api::management::{ControlResponse, DropCount, ForwarderStatus};
use nw_api::rest::{PoolShortage, PrefixTraffic, RouterStatus, TopPrefixes};
use nw_control::{Environment, OperationId};
use nw_element_api::capture::FaceLabel;
use nw_element_api::decision_trace::{Decision, DecisionTrace, Event};
use nw_element_api::{DropCounters, FaceId, SharedPool, Timestamp};
use nw_name::Name;
use std::sync::Arc;

impl Host {
    /// Answers one query. A command that is not complete yet is answered later.
    pub(crate) fn answer_query(&mut self, now: Timestamp, query: Query, reply: ReplyCallback) {
        let started = self.now();
        let answer = match query {
            Query::Alive => QueryReply::Alive,
            Query::Command(verb, parameters) => {
                let result = self
                    .with_control(now, |control, env| control.command(now, verb, &parameters, env));
                self.forward(now);
                match result {
                    Ok(response) => QueryReply::Command(Box::new(response)),
                    Err(operation) => return self.defer_query(operation, reply),
                }
            }
            Query::Status => QueryReply::Status(Box::new(self.router_status(now))),
            Query::Faces(after) => self.faces_page(now, after),
            Query::Face(id) => {
                let id = FaceId::from_number(id);
                let status = self.with_control(now, |_, env| id.and_then(|id| env.face_status(id)));
                QueryReply::Face(status.map(Box::new))
            }
            Query::FaceLabel(id) => QueryReply::FaceLabel(self.face_label(id)),
            Query::Channels => {
                QueryReply::Channels(self.with_control(now, |_, env| env.channels()))
            }
            Query::Routes(after) => QueryReply::Routes(self.control.routes_page(
                now,
                after.as_ref().map(|name| name.as_ref()),
                PAGE_LEN,
            )),
            Query::Fib(after) => QueryReply::Fib(
                self.control.fib_page(after.as_ref().map(|name| name.as_ref()), PAGE_LEN),
            ),
            Query::Strategies(after) => QueryReply::Strategies(
                self.control.strategies_page(after.as_ref().map(|name| name.as_ref()), PAGE_LEN),
            ),
            Query::Drops { include_zeros } => QueryReply::Drops(self.drop_counts(include_zeros)),
            Query::Prefixes(components) => {
                QueryReply::Prefixes(Box::new(self.top_prefixes(now, components)))
            }
            Query::StartTap(filter) => {
                let started = self.observer.get_or_insert_default().start_tap(now, *filter);
                QueryReply::TapStarted(started)
            }
            Query::TakeTap(id) => QueryReply::Tap(self.take_tap(now, id).map(Box::new)),
            Query::StopTap(id) => {
                if let Some(observer) = &mut self.observer {
                    observer.stop_tap(id);
                }
                QueryReply::Stopped
            }
            Query::StartTrace(prefix, duration) => {
                QueryReply::TraceStarted(self.start_trace(now, prefix, duration))
            }
            Query::TakeTrace(id) => QueryReply::Trace(self.take_trace(now, id).map(Box::new)),
            Query::StopTrace(id) => {
                if id == self.trace_id {
                    self.tracer = None;
                    self.command_trace(None);
                }
                QueryReply::Stopped
            }
        };
        self.update_replicas();
        let spent = self.now().since(started);
        reply(answer, spent);
    }

    fn face_label(&self, id: FaceId) -> Option<FaceLabel> {
        match self.faces.status(id) {
            Some(status) => Some(FaceLabel { name: String::new(), uri: status.uri.to_string() }),
            None => self.observer.as_ref()?.ended_face(id).cloned(),
        }
    }

    fn take_tap(&mut self, now: Timestamp, id: u64) -> Option<Capture> {
        let mut capture = self.observer.as_mut()?.take_tap(now, id)?;
        // Read at each fetch, as the wall clock may have been set since.
        let start = self.wall.unix().saturating_sub(self.started());
        capture.start_unix_ns = start.as_nanos() as u64;
        Some(capture)
    }

    /// Keeps a query until its command completes. If the pool is full, the oldest one is answered
    /// with 503, so that an operator's next command is always executed.
    fn defer_query(&mut self, operation: OperationId, reply: ReplyCallback) {
        if self.deferred_queries.len() >= DEFERRED_MAX {
            self.query_shortages.record(SharedPool::Commands);
            let (_, oldest) = self.deferred_queries.remove(0);
            let refusal = ControlResponse::refuse(
                503,
                "the command is still being executed, but too many later commands are waiting: \
                 check its result later",
            );
            oldest(QueryReply::Command(Box::new(refusal)), Duration::ZERO);
        }
        self.deferred_queries.push((operation, reply));
    }

    /// Ends captures and counters that are not fetched any more.
    pub(crate) fn expire_observer(&mut self, now: Timestamp) {
        if self.observer.as_mut().is_some_and(|observer| observer.expire(now)) {
            self.observer = None;
            self.update_replicas();
        }
    }

    fn top_prefixes(&mut self, now: Timestamp, components: usize) -> TopPrefixes {
        let (since, sketch) = self.observer.get_or_insert_default().count(now, components);
        let mut entries: Vec<_> = sketch.entries().iter().collect();
        entries.sort_by(|a, b| {
            b.packets()
                .cmp(&a.packets())
                .then_with(|| a.prefix().as_bytes().cmp(b.prefix().as_bytes()))
        });
        let prefixes = entries.iter().map(|entry| PrefixTraffic {
            prefix: entry.prefix().to_string(),
            interests: entry.traffic.interests,
            data: entry.traffic.data,
            bytes: entry.traffic.bytes,
            error: entry.error,
        });
        TopPrefixes {
            counting_ms: now.since(since).as_millis() as u64,
            components: components as u32,
            packets: sketch.packets(),
            prefixes: prefixes.collect(),
        }
    }

    fn start_trace(&mut self, now: Timestamp, prefix: Name, duration: Duration) -> Option<u64> {
        if self.tracer.as_ref().is_some_and(|tracer| !tracer.journal.is_expired(now)) {
            return None;
        }
        self.trace_id += 1;
        self.command_trace(Some((&prefix, duration)));
        self.tracer = Some(Box::new(Tracer::new(DecisionTrace::new(prefix, now + duration))));
        Some(self.trace_id)
    }

    /// Starts or stops a trace in the other shards.
    fn command_trace(&mut self, request: Option<(&Name, Duration)>) {
        if let Some(shard_pool) = &mut self.shard_pool {
            shard_pool.trace_events.clear();
            shard_pool.trace_lost = 0;
            shard_pool.command(&ShardCommand::Trace(
                request.map(|(prefix, duration)| (Arc::new(prefix.clone()), duration)),
            ));
        }
    }

    fn take_trace(&mut self, now: Timestamp, id: u64) -> Option<TraceBatch> {
        if id != self.trace_id {
            return None;
        }
        let journal = &mut self.tracer.as_mut()?.journal;
        let is_over = journal.is_expired(now);
        let (mut events, mut lost) = journal.take();
        if let Some(shard_pool) = &mut self.shard_pool {
            events.append(&mut shard_pool.trace_events);
            lost += core::mem::take(&mut shard_pool.trace_lost);
        }
        if is_over {
            self.tracer = None;
            self.command_trace(None);
        }
        let router = self.plane.router();
        let with_strategy = |(event, name): (Event, Name)| {
            let strategy = match event.decision {
                Decision::Strategy(id) => router.strategy_name(id).map(|name| name.to_name()),
                _ => None,
            };
            (event, name, strategy)
        };
        Some(TraceBatch { events: events.into_iter().map(with_strategy).collect(), lost, is_over })
    }

    /// Sends the replies of commands that have completed.
    pub(crate) fn send_deferred_replies(&mut self) {
        if self.deferred_queries.is_empty() {
            return;
        }
        for (operation, response) in self.control.take_host_replies() {
            if let Some(index) =
                self.deferred_queries.iter().position(|(pending, _)| *pending == operation)
            {
                let (_, reply) = self.deferred_queries.remove(index);
                reply(QueryReply::Command(Box::new(response)), Duration::ZERO);
            }
        }
    }

    fn faces_page(&mut self, now: Timestamp, after: Option<u64>) -> QueryReply {
        let after = after.and_then(FaceId::from_number).map(FaceId::slot);
        let following = self.faces.ids().filter(|id| after.is_none_or(|after| id.slot() > after));
        let mut ids: Vec<FaceId> = following.take(PAGE_LEN + 1).collect();
        let has_more = ids.len() > PAGE_LEN;
        ids.truncate(PAGE_LEN);
        let next = ids.last().filter(|_| has_more).map(|id| id.number());
        let faces = self.with_control(now, |_, env| {
            ids.into_iter().filter_map(|id| env.face_status(id)).collect()
        });
        QueryReply::Faces(faces, next)
    }

    fn router_status(&mut self, now: Timestamp) -> RouterStatus {
        let (forwarder, content_store, shards) =
            self.with_control(now, |_, env| (env.forwarder_status(), env.cs_info(), env.shards()));
        let totals = self.faces.totals();
        let reports = || self.shard_pool.iter().flat_map(|shard_pool| shard_pool.reports());
        RouterStatus {
            forwarder: ForwarderStatus {
                version: self.control.version().to_owned(),
                fib_entries: self.control.rib().listed_len() as u64,
                ..forwarder
            },
            content_store,
            content_store_bytes: self.plane.content_store().store().bytes() as u64
                + reports().map(|report| report.store_bytes).sum::<u64>(),
            face_count: self.faces.len() as u64,
            in_bytes: totals.in_bytes,
            out_bytes: totals.out_bytes,
            packets_in_use: self.pool.packets_in_use() as u64
                + reports().map(|report| report.packets_in_use).sum::<u64>(),
            loop_time: self.loop_time,
            shards,
            shortages: self.pool_shortages(),
        }
    }

    fn pool_shortages(&self) -> Vec<PoolShortage> {
        let shortages = self.shortages();
        let describe = |(pool, count): (SharedPool, u64)| PoolShortage {
            pool: pool.as_str().to_owned(),
            count,
        };
        shortages.iter().map(describe).collect()
    }

    /// Returns the drop counters of all shards and faces together.
    pub(crate) fn drops(&self) -> DropCounters {
        let mut total = self.plane.drops().clone();
        total.merge(self.faces.drops());
        self.shard_pool.iter().for_each(|shard_pool| shard_pool.add_drops(&mut total));
        total
    }

    fn drop_counts(&self, include_zeros: bool) -> Vec<DropCount> {
        let drops = self.drops();
        let counted = drops.iter().filter(|(_, packets)| include_zeros || *packets > 0);
        counted.map(|(reason, count)| DropCount { reason: drop_name(reason), count }).collect()
    }
}
