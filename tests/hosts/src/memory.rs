//! Shared parts of the hosts with the interface of the plane: clock steps, faces, decoding.

use crate::trace::{
    FACES, Incoming, OutstandingInterest, Sent, Step, face_info, kind_name, sort_outstanding,
};
use crate::{KEY, Outcome, Tables, Trace};
use nw_element_api::decode::decode_lazily;
use nw_element_api::{DropCounters, FaceId, FaceInfo, Kind, Packet, Pool, Scope, Timestamp};
use std::time::Duration;

/// A host with the interface of the fused plane.
pub trait InMemory {
    /// Creates the host with the routes of a trace and the faces `face(0)` and so on.
    fn new(trace: &Trace) -> Self;

    /// Processes decoded packets.
    fn process(
        &mut self,
        now: Timestamp,
        packets: &mut Vec<Packet>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    );

    /// Returns when to call [`tick`](Self::tick) next.
    fn deadline(&self) -> Option<Timestamp>;

    /// Runs the timers that are due.
    fn tick(&mut self, now: Timestamp, pool: &mut Pool, out: &mut Vec<Packet>);

    /// Returns the drop counters.
    fn drops(&self) -> &DropCounters;

    /// Returns [`Outcome::tables`].
    fn tables(&self) -> Tables;
}

/// Returns the face id of a face of the trace.
pub const fn face(number: usize) -> FaceId {
    FaceId::from_slot(300 + number as u32, 0)
}

/// Returns all faces, with scope and link type.
pub fn faces() -> impl Iterator<Item = (FaceId, FaceInfo)> {
    (0..FACES.len()).map(|number| (face(number), face_info(number)))
}

/// Runs a trace, with up to `batch_len` packets per batch where they do not depend on each other.
pub fn run<H: InMemory>(trace: &Trace, batch_len: usize) -> Outcome {
    let mut host = H::new(trace);
    let mut pool = Pool::new(KEY, 64, 4096);
    let (mut outcome, mut outstanding) = (Outcome::default(), Vec::<OutstandingInterest>::new());
    let (mut now, mut batch, mut out) = (Timestamp::from_millis(1), Vec::new(), Vec::new());
    for (at, step) in trace.steps.iter().enumerate() {
        if let Step::Wait { ms } = step {
            for _ in 0..*ms {
                now = now + Duration::from_millis(1);
                if host.deadline().is_some_and(|deadline| deadline <= now) {
                    host.tick(now, &mut pool, &mut out);
                }
            }
        } else if let Some(incoming) = step.incoming(&outstanding) {
            batch.extend(receive(now, &incoming, &mut pool));
        }
        let next = trace.steps.get(at + 1);
        let ends_batch = matches!(
            next,
            None | Some(Step::Wait { .. } | Step::Answer { .. } | Step::Recorded { .. })
        );
        if ends_batch || batch.len() >= batch_len {
            host.process(now, &mut batch, &mut pool, &mut out);
        }
        let before = outstanding.len();
        outcome
            .sent
            .push(out.drain(..).map(|packet| send(packet, &mut pool, &mut outstanding)).collect());
        sort_outstanding(&mut outstanding[before..]);
    }
    for (reason, packets) in host.drops().iter().filter(|(_, packets)| *packets > 0) {
        outcome.drops.insert(reason.as_str().to_owned(), packets);
    }
    outcome.tables = host.tables();
    assert_eq!(pool.packets_in_use(), 0, "no packet is left in the pool");
    outcome
}

fn receive(now: Timestamp, incoming: &Incoming, pool: &mut Pool) -> Option<Packet> {
    let packet = pool.copy_of(&incoming.wire)?;
    let meta = pool.meta_mut(&packet);
    meta.arrival = now;
    meta.ingress = face(incoming.face);
    meta.ingress_local = face_info(incoming.face).scope == Scope::Local;
    meta.link.token = incoming.token;
    meta.link.nack = incoming.nack;
    decode_lazily(pool, &packet).expect("traces contain well-formed packets");
    Some(packet)
}

fn send(packet: Packet, pool: &mut Pool, outstanding: &mut Vec<OutstandingInterest>) -> Sent {
    let (wire, meta) = pool.view(&packet);
    let number = (0..FACES.len()).find(|number| face(*number) == meta.egress);
    let number = number.expect("packets leave by existing faces");
    let is_interest = meta.kind == Kind::Interest;
    if is_interest {
        outstanding.push(OutstandingInterest {
            face: number,
            wire: wire.to_vec(),
            token: meta.link.token,
        });
    }
    let token = if is_interest {
        vec![meta.link.token.as_bytes().len() as u8]
    } else {
        meta.link.token.as_bytes().to_vec()
    };
    let nack = meta.link.nack.map(nw_wire::NackReason::number);
    let sent = Sent { face: number, kind: kind_name(meta.kind), wire: wire.to_vec(), token, nack };
    pool.release(packet);
    sent
}
