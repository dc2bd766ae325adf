//! What takes long, done in parts so that packets need not wait: names below a changed one, batches of routes, long datasets, a new
//! configuration. Each call of [`Control::work`] does a little of each; the host decides how many calls fit between packets. A part is small even when
//! memory is a hundred times slower than usual, as it is where a hypervisor takes its pages back: the host can end a turn between any two.

use super::shares::face_that_gives_way;
use super::table_commands::{Erasure, to_route};
use super::{Asked, Authorize, Control, Environment, Refusal, Reply, Ticket, Verdict, bounded};
use nw_api::management::{ControlParameters, ControlResponse};
use nw_element_api::SharedPool;
use nw_name::tlv::Reader;
use nw_name::{Name, NameRef};
use nw_tables::{FaceId, Instant};
use nw_wire::{Interest, Token};
use std::collections::{BTreeMap, VecDeque};

/// Names below a changed one that are brought up to date in one part.
const NAMES_PER_PART: usize = 8;
/// Routes of a batch that are registered in one part.
const ROUTES_PER_PART: usize = 2;
/// Answers given in one part.
const ANSWERS_PER_PART: usize = 4;
/// Answers that may wait for what they say.
const WAITING_MAX: usize = 16_384;
/// Batches that may wait.
const BATCHES_MAX: usize = 1024;
/// Erasures that are under way at a time.
const ERASURES_MAX: usize = 16;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// In the order of `when`.
    waiting: VecDeque<Waiting>,
    /// How many of these are of each face.
    waiting_of: BTreeMap<FaceId, usize>,
    batches: VecDeque<Batch>,
    /// They take turns.
    erasures: VecDeque<(Asker, FaceId, Erasure)>,
    /// Answers to the host's own commands, in the order of when.
    own: VecDeque<(u64, Ticket, ControlResponse)>,
}

/// An answer that waits until what it says is in effect.
#[derive(Debug)]
struct Waiting {
    when: u64,
    name: Name,
    token: Token,
    face: FaceId,
    response: ControlResponse,
}

/// Who is told what came of it.
#[derive(Debug)]
pub(super) enum Asker {
    /// Whoever sent an Interest of this name; what its answer is to carry.
    Interest(Name, Token),
    /// The host's own command.
    Host(Ticket),
}

/// Routes to be registered, one behind the other: ControlParameters as `rib/register` takes them.
#[derive(Debug)]
struct Batch {
    asked: Asked,
    name: Name,
    wire: Vec<u8>,
    at: usize,
    done: u64,
}

impl Control {
    /// True when [`work`](Self::work) has something to do.
    pub fn has_work(&self) -> bool {
        self.rib.has_work()
            || !self.work.waiting.is_empty()
            || !self.work.batches.is_empty()
            || !self.work.erasures.is_empty()
            || !self.work.own.is_empty()
            || self.publisher.has_work()
            || self.statics.has_work()
            || self.rib.has_touched()
            || self.advertiser.has_work()
    }

    /// Does a part of what takes long: some ten microseconds. To be called, with packets in between, while
    /// [`has_work`](Self::has_work).
    pub fn work(&mut self, now: Instant, env: &mut dyn Environment) {
        self.work_on_statics(now, env);
        self.work_on_batches(now, env);
        self.work_on_erasures(env);
        if self.rib.has_work() {
            self.rib.work(NAMES_PER_PART);
            self.commit_each(env);
        }
        self.work_on_datasets(now, env);
        if self.rib.has_touched() || self.advertiser.has_work() {
            self.work_on_advertising(now, env);
        }
        for _ in 0..ANSWERS_PER_PART {
            let settled = self.rib.settled();
            let Some(waiting) = self.work.waiting.pop_front_if(|waiting| waiting.when <= settled) else {
                break;
            };
            if let Some(count) = self.work.waiting_of.get_mut(&waiting.face) {
                *count -= 1;
                if *count == 0 {
                    self.work.waiting_of.remove(&waiting.face);
                }
            }
            self.answer(waiting.name.as_ref(), waiting.token, &waiting.response, env);
        }
        while let Some((_, ticket, response)) =
            self.work.own.pop_front_if(|(when, ..)| *when <= self.rib.settled())
        {
            self.answered.push((ticket, response));
        }
    }

    /// The answer to a command of the host, if all that was asked is in effect; otherwise the ticket under which it will be answered.
    pub(super) fn own_when_in_effect(
        &mut self,
        response: ControlResponse,
    ) -> Result<ControlResponse, Ticket> {
        let when = self.rib.asked();
        if self.rib.settled() >= when {
            return Ok(response);
        }
        let ticket = self.next_ticket();
        self.work.own.push_back((when, ticket, response));
        Err(ticket)
    }

    /// True when so much is under way that no more is begun for a face. A face has at most as many answers that wait as there are places left, so
    /// that there are always some for others; the host's own commands are begun in any case.
    pub(super) fn is_busy(&mut self, face: FaceId) -> bool {
        let own = self.work.waiting_of.get(&face).copied().unwrap_or(0);
        let busy = face != FaceId::INTERNAL && own >= WAITING_MAX.saturating_sub(self.work.waiting.len());
        if busy {
            self.shortages.record(SharedPool::Commands);
        }
        busy
    }

    /// True when an erasure can be begun for a face. Each has at most as many as there are places left; the host's own have places beyond.
    pub(super) fn has_place_for_erasure(&mut self, face: FaceId) -> bool {
        let of_face = |(_, other, _): &&(Asker, FaceId, Erasure)| *other == face;
        let own = self.work.erasures.iter().filter(of_face).count();
        let free = match face {
            FaceId::INTERNAL => own < ERASURES_MAX,
            _ => own < ERASURES_MAX.saturating_sub(self.work.erasures.len()),
        };
        if !free {
            self.shortages.record(SharedPool::Commands);
        }
        free
    }

    /// Goes on with an erasure when others had their turn.
    pub(super) fn erase_in_parts(&mut self, asker: Asker, face: FaceId, erasure: Erasure) {
        self.work.erasures.push_back((asker, face, erasure));
    }

    fn work_on_erasures(&mut self, env: &mut dyn Environment) {
        let Some((asker, face, mut erasure)) = self.work.erasures.pop_front() else { return };
        match erasure.go_on(env) {
            None => self.erase_in_parts(asker, face, erasure),
            Some(response) => self.answer_asker(asker, response, env),
        }
    }

    /// Answers a command that had to wait.
    pub(super) fn answer_asker(
        &mut self,
        asker: Asker,
        response: ControlResponse,
        env: &mut dyn Environment,
    ) {
        match asker {
            Asker::Interest(name, token) => drop(self.answer(name.as_ref(), token, &response, env)),
            Asker::Host(ticket) => self.answered.push((ticket, bounded(response))),
        }
    }

    /// Answers now if all that was asked is in effect, otherwise when it is.
    pub(super) fn answer_when_in_effect(
        &mut self,
        name: NameRef<'_>,
        asked: Asked,
        response: ControlResponse,
        env: &mut dyn Environment,
    ) -> Reply {
        let when = self.rib.asked();
        let (token, face) = (asked.token, asked.ingress.face);
        if self.rib.settled() >= when {
            return self.answer(name, token, &response, env);
        }
        *self.work.waiting_of.entry(face).or_insert(0) += 1;
        self.work.waiting.push_back(Waiting { when, name: name.to_name(), token, face, response });
        Reply::Later
    }

    /// `rib/import`: many routes in one Interest, for whoever may register any.
    pub(super) fn on_import(
        &mut self,
        asked: Asked,
        interest: &Interest<'_>,
        routes: &[u8],
        authority: &mut dyn Authorize,
        env: &mut dyn Environment,
    ) -> Reply {
        match authority.command(
            asked.clocks(env),
            interest,
            asked.ingress,
            "rib",
            "import",
            Some(NameRef::ROOT),
        ) {
            Verdict::Silent => return Reply::Silent,
            Verdict::Later => return Reply::Later,
            Verdict::Deny(why) => return self.deny(asked, interest, &why, env),
            Verdict::Accept => {}
        }
        let name = interest.name();
        if self.is_busy(asked.ingress.face) || !self.has_place_for_batch(asked.ingress.face, env) {
            let refusal = ControlResponse::refuse(503, "too many batches are under way: try again");
            return self.answer(name, asked.token, &refusal, env);
        }
        let batch = Batch { asked, name: name.to_name(), wire: routes.to_vec(), at: 0, done: 0 };
        self.work.batches.push_back(batch);
        Reply::Later
    }

    /// True when a batch can wait for a face; one of a face with more gives way if need be.
    fn has_place_for_batch(&mut self, face: FaceId, env: &mut dyn Environment) -> bool {
        if self.work.batches.len() < BATCHES_MAX {
            return true;
        }
        self.shortages.record(SharedPool::Commands);
        let faces = self.work.batches.iter().map(|batch| batch.asked.ingress.face);
        let Some(most) = face_that_gives_way(face, faces) else { return false };
        // The last of its batches: the first may have begun.
        let at = self.work.batches.iter().rposition(|batch| batch.asked.ingress.face == most);
        if let Some(batch) = at.and_then(|at| self.work.batches.remove(at)) {
            let mut refusal = ControlResponse::refuse(503, "too many batches are under way: try again");
            refusal.body.count = Some(batch.done);
            self.answer(batch.name.as_ref(), batch.asked.token, &refusal, env);
        }
        true
    }

    fn work_on_batches(&mut self, now: Instant, env: &mut dyn Environment) {
        let mut left = ROUTES_PER_PART;
        while left > 0
            && let Some(mut batch) = self.work.batches.pop_front()
        {
            batch.asked.now = now;
            let response = loop {
                if left == 0 {
                    break None;
                }
                let mut reader = Reader::new(&batch.wire[batch.at..], batch.at);
                let element = match reader.next() {
                    Ok(None) => break Some(ControlResponse::ok(ControlParameters::default())),
                    Ok(Some(element)) => element,
                    Err(error) => break Some(ControlResponse::refuse(400, error.to_string())),
                };
                left -= 1;
                let done = ControlParameters::from_element(&element)
                    .map_err(|error| Refusal::new(400, error.to_string()))
                    .and_then(|parameters| {
                        let (name, face, origin, route) = to_route(batch.asked, &parameters, env)?;
                        self.put_route(name, face, origin, route, env)
                    });
                if let Err(refusal) = done {
                    break Some(refusal.into());
                }
                batch.at = element.end();
                batch.done += 1;
            };
            let Some(mut response) = response else {
                self.work.batches.push_front(batch);
                return;
            };
            response.body.count = Some(batch.done);
            if !response.is_ok() {
                response.text = format!("route {} of the batch: {}", batch.done + 1, response.text);
            }
            self.answer_when_in_effect(batch.name.as_ref(), batch.asked, response, env);
        }
    }

    /// Tells the FIB what parts of long changes came to. What it does not take stays as it was there.
    fn commit_each(&mut self, env: &mut dyn Environment) {
        let told = self
            .rib
            .flush_each(|changes| env.apply_fib(changes).map_err(|refusal| (refusal.index, refusal.text)));
        if let Err((names, text)) = told {
            tracing::warn!(names, "names below a changed route keep the next hops they had: {text}");
        }
    }
}
