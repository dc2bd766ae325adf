//! How the loop answers.

use super::{Answer, PAGE, Question, Reply, Traced, WAITING_MAX};
use crate::Host;
use crate::control::{Environment, Ticket};
use crate::environment::drop_name;
use crate::shards::order::Order;
use core::time::Duration;
use nw_api::management::{ControlResponse, DropCount, ForwarderStatus};
use nw_api::rest::{PoolShortage, PrefixTraffic, RouterStatus, TopPrefixes};
use nw_element_api::journal::{Decision, Event, Journal};
use nw_element_api::{DropCounters, FaceId, Instant, SharedPool};
use nw_name::Name;
use std::sync::Arc;

impl Host {
    /// Answers one question; a command whose face is being connected is answered later.
    pub(crate) fn answer_question(&mut self, now: Instant, question: Question, reply: Reply) {
        let began = self.now();
        let answer = match question {
            Question::Alive => Answer::Alive,
            Question::Command(verb, parameters) => {
                let done =
                    self.with_control(now, |control, hands| control.command(now, verb, &parameters, hands));
                self.forward(now);
                match done {
                    Ok(response) => Answer::Command(Box::new(response)),
                    Err(ticket) => return self.wait_for_answer(ticket, reply),
                }
            }
            Question::Status => Answer::Status(Box::new(self.router_status(now))),
            Question::Faces(after) => self.faces_page(now, after),
            Question::Face(id) => {
                let id = FaceId::from_number(id);
                let status = self.with_control(now, |_, hands| id.and_then(|id| hands.face_status(id)));
                Answer::Face(status.map(Box::new))
            }
            Question::Channels => Answer::Channels(self.with_control(now, |_, hands| hands.channels())),
            Question::Routes(after) => {
                Answer::Routes(self.control.routes_page(now, after.as_ref().map(|name| name.as_ref()), PAGE))
            }
            Question::Fib(after) => {
                Answer::Fib(self.control.fib_page(after.as_ref().map(|name| name.as_ref()), PAGE))
            }
            Question::Strategies(after) => Answer::Strategies(
                self.control.strategies_page(after.as_ref().map(|name| name.as_ref()), PAGE),
            ),
            Question::Drops { zeros } => Answer::Drops(self.drop_counts(zeros)),
            Question::Prefixes(components) => Answer::Prefixes(Box::new(self.top_prefixes(now, components))),
            Question::StartTap(filter) => {
                let started = self.watch.get_or_insert_default().start_tap(now, *filter);
                Answer::TapStarted(started)
            }
            Question::TakeTap(id) => {
                let mut capture = self.watch.as_mut().and_then(|watch| watch.take_tap(now, id));
                // Read anew each time: the wall clock may have been set since the last.
                let start_unix_ns = self.wall.unix().saturating_sub(self.started()).as_nanos() as u64;
                capture.iter_mut().for_each(|capture| capture.start_unix_ns = start_unix_ns);
                Answer::Tap(capture.map(Box::new))
            }
            Question::StopTap(id) => {
                if let Some(watch) = &mut self.watch {
                    watch.stop_tap(id);
                }
                Answer::Stopped
            }
            Question::StartTrace(prefix, patience) => {
                Answer::TraceStarted(self.start_trace(now, prefix, patience))
            }
            Question::TakeTrace(id) => Answer::Trace(self.take_trace(now, id).map(Box::new)),
            Question::StopTrace(id) => {
                if id == self.trace_id {
                    self.plane.set_journal(None);
                    self.order_trace(None);
                }
                Answer::Stopped
            }
        };
        self.gather_lanes();
        let spent = self.now().since(began);
        reply(answer, spent);
    }

    /// Keeps a command until its answer is there. When all places are used the one that has waited longest gives way, so that an operator's next
    /// command is always carried out.
    fn wait_for_answer(&mut self, ticket: Ticket, reply: Reply) {
        if self.waiting.len() >= WAITING_MAX {
            self.rest_shortages.record(SharedPool::Commands);
            let (_, oldest) = self.waiting.remove(0);
            let refusal = ControlResponse::refuse(
                503,
                "it goes on, but too many later commands wait as well: look at its result later",
            );
            oldest(Answer::Command(Box::new(refusal)), Duration::ZERO);
        }
        self.waiting.push((ticket, reply));
    }

    /// Ends what nobody asks for any more.
    pub(crate) fn expire_watch(&mut self, now: Instant) {
        if self.watch.as_mut().is_some_and(|watch| watch.expire(now)) {
            self.watch = None;
            self.gather_lanes();
        }
    }

    fn top_prefixes(&mut self, now: Instant, components: usize) -> TopPrefixes {
        let (since, sketch) = self.watch.get_or_insert_default().count(now, components);
        let mut places: Vec<_> = sketch.places().iter().collect();
        places.sort_by(|a, b| {
            b.packets().cmp(&a.packets()).then_with(|| a.prefix().as_bytes().cmp(b.prefix().as_bytes()))
        });
        let prefixes = places.iter().map(|place| PrefixTraffic {
            prefix: place.prefix().to_string(),
            interests: place.traffic.interests,
            data: place.traffic.data,
            bytes: place.traffic.bytes,
            error: place.error,
        });
        TopPrefixes {
            counting_ms: now.since(since).as_millis() as u64,
            components: components as u32,
            packets: sketch.packets(),
            prefixes: prefixes.collect(),
        }
    }

    fn start_trace(&mut self, now: Instant, prefix: Name, patience: Duration) -> Option<u64> {
        if self.plane.journal_mut().is_some_and(|journal| !journal.is_over(now)) {
            return None;
        }
        self.trace_id += 1;
        self.order_trace(Some((&prefix, patience)));
        self.plane.set_journal(Some(Journal::new(prefix, now + patience)));
        Some(self.trace_id)
    }

    /// Lets other shards write decisions down, or no longer.
    fn order_trace(&mut self, wanted: Option<(&Name, Duration)>) {
        if let Some(crew) = &mut self.crew {
            crew.traced.clear();
            crew.trace_lost = 0;
            crew.order(&Order::Trace(wanted.map(|(prefix, patience)| (Arc::new(prefix.clone()), patience))));
        }
    }

    fn take_trace(&mut self, now: Instant, id: u64) -> Option<Traced> {
        if id != self.trace_id {
            return None;
        }
        let journal = self.plane.journal_mut()?;
        let over = journal.is_over(now);
        let (mut events, mut lost) = journal.take();
        if let Some(crew) = &mut self.crew {
            events.append(&mut crew.traced);
            lost += core::mem::take(&mut crew.trace_lost);
        }
        if over {
            self.plane.set_journal(None);
            self.order_trace(None);
        }
        let router = self.plane.router();
        let with_strategy = |(event, name): (Event, Name)| {
            let strategy = match event.decision {
                Decision::Strategy(id) => router.strategy_name(id).map(|name| name.to_name()),
                _ => None,
            };
            (event, name, strategy)
        };
        Some(Traced { events: events.into_iter().map(with_strategy).collect(), lost, over })
    }

    /// Answers commands whose faces have been connected, or won't be.
    pub(crate) fn answer_waiting(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        for (ticket, response) in self.control.take_answered() {
            if let Some(at) = self.waiting.iter().position(|(waiting, _)| *waiting == ticket) {
                let (_, reply) = self.waiting.remove(at);
                reply(Answer::Command(Box::new(response)), Duration::ZERO);
            }
        }
    }

    fn faces_page(&mut self, now: Instant, after: Option<u64>) -> Answer {
        let after = after.and_then(FaceId::from_number).map(FaceId::slot);
        let behind = self.faces.ids().filter(|id| after.is_none_or(|after| id.slot() > after));
        let mut ids: Vec<FaceId> = behind.take(PAGE + 1).collect();
        let more = ids.len() > PAGE;
        ids.truncate(PAGE);
        let next = ids.last().filter(|_| more).map(|id| id.number());
        let faces = self
            .with_control(now, |_, hands| ids.into_iter().filter_map(|id| hands.face_status(id)).collect());
        Answer::Faces(faces, next)
    }

    fn router_status(&mut self, now: Instant) -> RouterStatus {
        let (forwarder, content_store, shards) =
            self.with_control(now, |_, hands| (hands.forwarder_status(), hands.cs_info(), hands.shards()));
        let totals = self.faces.totals();
        let reports = || self.crew.iter().flat_map(|crew| crew.reports());
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
        let named = |(pool, count): (SharedPool, u64)| PoolShortage { pool: pool.as_str().to_owned(), count };
        shortages.iter().map(named).collect()
    }

    /// Returns the drop counters of all shards and faces together.
    pub(crate) fn drops(&self) -> DropCounters {
        let mut all = self.plane.drops().clone();
        all.merge(self.faces.drops());
        self.crew.iter().for_each(|crew| crew.add_drops(&mut all));
        all
    }

    fn drop_counts(&self, zeros: bool) -> Vec<DropCount> {
        let all = self.drops();
        let counted = all.iter().filter(|(_, packets)| zeros || *packets > 0);
        counted.map(|(reason, count)| DropCount { reason: drop_name(reason), count }).collect()
    }
}
