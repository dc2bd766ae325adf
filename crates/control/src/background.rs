//! Long operations, split into parts so that packets need not wait: names below a changed one,
//! batches of routes, long datasets, a new configuration.
//!
//! Each call of [`Control::work`] executes one part of each; the host decides how many calls fit
//! between two batches of packets. Parts are small enough that one stays short even where memory
//! is a hundred times slower than usual, as when a hypervisor reclaims pages.
//!
//! A reply is deferred until its change is in effect. Changes of the RIB have sequence numbers: the
//! reply to a command waits until [`Rib::applied_seq`](super::rib::Rib::applied_seq) reaches the
//! number that was issued last when the command was executed.

use super::shares::face_to_evict;
use super::table_commands::{Erasure, to_route};
use super::{
    Authorize, CommandContext, Control, Environment, OperationId, Refusal, Reply, Verdict, bounded,
};
use nw_api::management::{ControlParameters, ControlResponse};
use nw_element_api::SharedPool;
use nw_name::tlv::Reader;
use nw_name::{Name, NameRef};
use nw_tables::{FaceId, Timestamp};
use nw_wire::{Interest, Token};
use std::collections::{BTreeMap, VecDeque};

/// Names below a changed one that are recomputed in one part.
const NAMES_PER_PART: usize = 8;
/// Routes of a batch that are registered in one part.
const ROUTES_PER_PART: usize = 2;
/// Deferred replies sent in one part.
const REPLIES_PER_PART: usize = 4;
/// Replies that may be deferred at the same time.
const DEFERRED_REPLIES_MAX: usize = 16_384;
/// Batches of routes that may be queued.
const BATCHES_MAX: usize = 1024;
/// Erasures that may be under way at the same time.
const ERASURES_MAX: usize = 16;

/// Long operations under way, and the replies that wait for them.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// In ascending order of `change_seq`.
    deferred_replies: VecDeque<DeferredReply>,
    /// Number of deferred replies per face.
    deferred_counts: BTreeMap<FaceId, usize>,
    batches: VecDeque<Batch>,
    /// Executed in turn, one part each.
    erasures: VecDeque<(ReplyTo, FaceId, Erasure)>,
    /// Deferred replies to the host's own commands, with the change they wait for, in ascending
    /// order.
    deferred_host_replies: VecDeque<(u64, OperationId, ControlResponse)>,
}

/// A reply that is sent when its change is in effect.
#[derive(Debug)]
struct DeferredReply {
    /// Sequence number of the change that it waits for.
    change_seq: u64,
    name: Name,
    token: Token,
    face: FaceId,
    response: ControlResponse,
}

/// Where the reply to a command goes.
#[derive(Debug)]
pub(super) enum ReplyTo {
    /// To the Interest with this name and PIT token.
    Interest(Name, Token),
    /// To the host, by [`Control::take_host_replies`].
    Host(OperationId),
}

/// Routes to register, encoded one after the other as ControlParameters of `rib/register`.
#[derive(Debug)]
struct Batch {
    ctx: CommandContext,
    name: Name,
    wire: Vec<u8>,
    /// Start of the next route in `wire`, in bytes.
    offset: usize,
    /// Routes registered so far.
    registered: u64,
}

impl Control {
    /// Returns whether [`work`](Self::work) has something to do.
    pub fn has_work(&self) -> bool {
        self.rib.has_work()
            || !self.backlog.deferred_replies.is_empty()
            || !self.backlog.batches.is_empty()
            || !self.backlog.erasures.is_empty()
            || !self.backlog.deferred_host_replies.is_empty()
            || self.publisher.has_work()
            || self.config_sync.has_work()
            || self.rib.has_changed_names()
            || self.advertiser.has_work()
    }

    /// Executes one part of each long operation, about ten microseconds. The host calls it, with
    /// packets in between, while [`has_work`](Self::has_work) returns `true`.
    pub fn work(&mut self, now: Timestamp, env: &mut dyn Environment) {
        self.config_sync_step(now, env);
        self.batch_step(now, env);
        self.erasure_step(env);
        if self.rib.has_work() {
            self.rib.work(NAMES_PER_PART);
            self.commit_each(env);
        }
        self.dataset_step(now, env);
        if self.rib.has_changed_names() || self.advertiser.has_work() {
            self.advertise_step(now, env);
        }
        for _ in 0..REPLIES_PER_PART {
            let applied_seq = self.rib.applied_seq();
            let Some(reply) =
                self.backlog.deferred_replies.pop_front_if(|reply| reply.change_seq <= applied_seq)
            else {
                break;
            };
            if let Some(count) = self.backlog.deferred_counts.get_mut(&reply.face) {
                *count -= 1;
                if *count == 0 {
                    self.backlog.deferred_counts.remove(&reply.face);
                }
            }
            self.send_response(reply.name.as_ref(), reply.token, &reply.response, env);
        }
        while let Some((_, operation, response)) = self
            .backlog
            .deferred_host_replies
            .pop_front_if(|(change_seq, ..)| *change_seq <= self.rib.applied_seq())
        {
            self.host_replies.push((operation, response));
        }
    }

    /// Returns the reply to a command of the host if all changes so far are in effect.
    ///
    /// # Errors
    /// Otherwise the operation under which the reply will be delivered.
    pub(super) fn host_reply_when_applied(
        &mut self,
        response: ControlResponse,
    ) -> Result<ControlResponse, OperationId> {
        let change_seq = self.rib.issued_seq();
        if self.rib.applied_seq() >= change_seq {
            return Ok(response);
        }
        let operation = self.next_operation();
        self.backlog.deferred_host_replies.push_back((change_seq, operation, response));
        Err(operation)
    }

    /// Returns whether no more commands are accepted from a face for now. A face may have at most
    /// as many deferred replies as there is free capacity, so that some is always left for others.
    /// The host's own commands are never refused.
    pub(super) fn is_busy(&mut self, face: FaceId) -> bool {
        let deferred = self.backlog.deferred_counts.get(&face).copied().unwrap_or(0);
        let busy = face != FaceId::INTERNAL
            && deferred >= DEFERRED_REPLIES_MAX.saturating_sub(self.backlog.deferred_replies.len());
        if busy {
            self.shortages.record(SharedPool::Commands);
        }
        busy
    }

    /// Returns whether an erasure may start for a face. A face may have at most as many as there is
    /// free capacity. The host's own erasures have a capacity of their own.
    pub(super) fn has_erasure_capacity(&mut self, face: FaceId) -> bool {
        let is_of_face = |(_, owner, _): &&(ReplyTo, FaceId, Erasure)| *owner == face;
        let running = self.backlog.erasures.iter().filter(is_of_face).count();
        let free = match face {
            FaceId::INTERNAL => running < ERASURES_MAX,
            _ => running < ERASURES_MAX.saturating_sub(self.backlog.erasures.len()),
        };
        if !free {
            self.shortages.record(SharedPool::Commands);
        }
        free
    }

    /// Queues the next part of an erasure behind those of others.
    pub(super) fn queue_erasure(&mut self, reply_to: ReplyTo, face: FaceId, erasure: Erasure) {
        self.backlog.erasures.push_back((reply_to, face, erasure));
    }

    fn erasure_step(&mut self, env: &mut dyn Environment) {
        let Some((reply_to, face, mut erasure)) = self.backlog.erasures.pop_front() else { return };
        match erasure.step(env) {
            None => self.queue_erasure(reply_to, face, erasure),
            Some(response) => self.send_reply(reply_to, response, env),
        }
    }

    /// Sends the reply to a command that was deferred.
    pub(super) fn send_reply(
        &mut self,
        reply_to: ReplyTo,
        response: ControlResponse,
        env: &mut dyn Environment,
    ) {
        match reply_to {
            ReplyTo::Interest(name, token) => {
                self.send_response(name.as_ref(), token, &response, env);
            }
            ReplyTo::Host(operation) => self.host_replies.push((operation, bounded(response))),
        }
    }

    /// Sends the reply now if all changes so far are in effect, otherwise when they are.
    pub(super) fn reply_when_applied(
        &mut self,
        name: NameRef<'_>,
        ctx: CommandContext,
        response: ControlResponse,
        env: &mut dyn Environment,
    ) -> Reply {
        let change_seq = self.rib.issued_seq();
        let (token, face) = (ctx.token, ctx.ingress.face);
        if self.rib.applied_seq() >= change_seq {
            return self.send_response(name, token, &response, env);
        }
        *self.backlog.deferred_counts.entry(face).or_insert(0) += 1;
        self.backlog.deferred_replies.push_back(DeferredReply {
            change_seq,
            name: name.to_name(),
            token,
            face,
            response,
        });
        Reply::Deferred
    }

    /// Command `rib/import`: many routes in one Interest. The client must be allowed to register
    /// `/`.
    pub(super) fn on_import(
        &mut self,
        ctx: CommandContext,
        interest: &Interest<'_>,
        routes: &[u8],
        authority: &mut dyn Authorize,
        env: &mut dyn Environment,
    ) -> Reply {
        match authority.command(
            ctx.clocks(env),
            interest,
            ctx.ingress,
            "rib",
            "import",
            Some(NameRef::ROOT),
        ) {
            Verdict::Ignore => return Reply::Ignored,
            Verdict::Defer => return Reply::Deferred,
            Verdict::Deny(reason) => return self.deny(ctx, interest, &reason, env),
            Verdict::Accept => {}
        }
        let name = interest.name();
        if self.is_busy(ctx.ingress.face) || !self.has_batch_capacity(ctx.ingress.face, env) {
            let refusal = ControlResponse::refuse(503, "too many batches are under way: try again");
            return self.send_response(name, ctx.token, &refusal, env);
        }
        let batch =
            Batch { ctx, name: name.to_name(), wire: routes.to_vec(), offset: 0, registered: 0 };
        self.backlog.batches.push_back(batch);
        Reply::Deferred
    }

    /// Returns whether a batch may be queued for a face. If the queue is full, the last batch of
    /// the face with the most batches is refused instead.
    fn has_batch_capacity(&mut self, face: FaceId, env: &mut dyn Environment) -> bool {
        if self.backlog.batches.len() < BATCHES_MAX {
            return true;
        }
        self.shortages.record(SharedPool::Commands);
        let faces = self.backlog.batches.iter().map(|batch| batch.ctx.ingress.face);
        let Some(heaviest) = face_to_evict(face, faces) else { return false };
        // The last one, as the first may have begun.
        let index =
            self.backlog.batches.iter().rposition(|batch| batch.ctx.ingress.face == heaviest);
        if let Some(batch) = index.and_then(|index| self.backlog.batches.remove(index)) {
            let mut refusal =
                ControlResponse::refuse(503, "too many batches are under way: try again");
            refusal.body.count = Some(batch.registered);
            self.send_response(batch.name.as_ref(), batch.ctx.token, &refusal, env);
        }
        true
    }

    fn batch_step(&mut self, now: Timestamp, env: &mut dyn Environment) {
        let mut budget = ROUTES_PER_PART;
        while budget > 0
            && let Some(mut batch) = self.backlog.batches.pop_front()
        {
            batch.ctx.now = now;
            let response = loop {
                if budget == 0 {
                    break None;
                }
                let mut reader = Reader::new(&batch.wire[batch.offset..], batch.offset);
                let element = match reader.next() {
                    Ok(None) => break Some(ControlResponse::ok(ControlParameters::default())),
                    Ok(Some(element)) => element,
                    Err(error) => break Some(ControlResponse::refuse(400, error.to_string())),
                };
                budget -= 1;
                let result = ControlParameters::from_element(&element)
                    .map_err(|error| Refusal::new(400, error.to_string()))
                    .and_then(|parameters| {
                        let (name, face, origin, route) = to_route(batch.ctx, &parameters, env)?;
                        self.put_route(name, face, origin, route, env)
                    });
                if let Err(refusal) = result {
                    break Some(refusal.into());
                }
                batch.offset = element.end();
                batch.registered += 1;
            };
            let Some(mut response) = response else {
                self.backlog.batches.push_front(batch);
                return;
            };
            response.body.count = Some(batch.registered);
            if !response.is_ok() {
                response.text =
                    format!("route {} of the batch: {}", batch.registered + 1, response.text);
            }
            self.reply_when_applied(batch.name.as_ref(), batch.ctx, response, env);
        }
    }

    /// Applies a finished part of a long change to the FIB. Entries that the FIB refuses keep their
    /// previous value.
    fn commit_each(&mut self, env: &mut dyn Environment) {
        let applied = self.rib.flush_each(|changes| {
            env.apply_fib(changes).map_err(|refusal| (refusal.index, refusal.text))
        });
        if let Err((names, text)) = applied {
            tracing::warn!(
                names,
                "names below a changed route keep their previous next hops: {text}"
            );
        }
    }
}
