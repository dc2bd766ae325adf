//! What the hosts have in common that take packets as the plane does: a clock that steps, faces, decoding.

use crate::trace::{FACES, Incoming, Open, Sent, Step, face_info, kind_name, order};
use crate::{KEY, Outcome, Tables, Trace};
use nw_element_api::decode::decode_lazily;
use nw_element_api::{DropCounters, FaceId, FaceInfo, Instant, Kind, Packet, Pool, Scope};
use std::time::Duration;

/// A host as the fused plane is one.
pub trait InMemory {
    /// Made for a trace: its routes are in place; faces are `face(0)` and so on.
    fn new(trace: &Trace) -> Self;

    /// Takes decoded packets through.
    fn process(&mut self, now: Instant, packets: &mut Vec<Packet>, pool: &mut Pool, out: &mut Vec<Packet>);

    /// When [`tick`](Self::tick) wants to be called.
    fn deadline(&self) -> Option<Instant>;

    /// Ends what is due.
    fn tick(&mut self, now: Instant, pool: &mut Pool, out: &mut Vec<Packet>);

    /// What was dropped.
    fn drops(&self) -> &DropCounters;

    /// See [`Outcome::tables`].
    fn tables(&self) -> Tables;
}

/// The face of a number.
pub const fn face(number: usize) -> FaceId {
    FaceId::from_slot(300 + number as u32, 0)
}

/// All faces, with what is known of them.
pub fn faces() -> impl Iterator<Item = (FaceId, FaceInfo)> {
    (0..FACES.len()).map(|number| (face(number), face_info(number)))
}

/// Runs a trace, up to `together` packets in one batch where they do not depend on each other.
pub fn run<H: InMemory>(trace: &Trace, together: usize) -> Outcome {
    let mut host = H::new(trace);
    let mut pool = Pool::new(KEY, 64, 4096);
    let (mut outcome, mut open) = (Outcome::default(), Vec::<Open>::new());
    let (mut now, mut batch, mut out) = (Instant::from_millis(1), Vec::new(), Vec::new());
    for (at, step) in trace.steps.iter().enumerate() {
        if let Step::Wait { ms } = step {
            for _ in 0..*ms {
                now = now + Duration::from_millis(1);
                if host.deadline().is_some_and(|deadline| deadline <= now) {
                    host.tick(now, &mut pool, &mut out);
                }
            }
        } else if let Some(incoming) = step.incoming(&open) {
            batch.extend(receive(now, &incoming, &mut pool));
        }
        let next = trace.steps.get(at + 1);
        let is_alone =
            matches!(next, None | Some(Step::Wait { .. } | Step::Answer { .. } | Step::Recorded { .. }));
        if is_alone || batch.len() >= together {
            host.process(now, &mut batch, &mut pool, &mut out);
        }
        let before = open.len();
        outcome.sent.push(out.drain(..).map(|packet| send(packet, &mut pool, &mut open)).collect());
        order(&mut open[before..]);
    }
    for (reason, packets) in host.drops().iter().filter(|(_, packets)| *packets > 0) {
        outcome.drops.insert(reason.as_str().to_owned(), packets);
    }
    outcome.tables = host.tables();
    assert_eq!(pool.packets_in_use(), 0, "every packet ended");
    outcome
}

fn receive(now: Instant, incoming: &Incoming, pool: &mut Pool) -> Option<Packet> {
    let packet = pool.copy_of(&incoming.wire)?;
    let meta = pool.meta_mut(&packet);
    meta.arrival = now;
    meta.ingress = face(incoming.face);
    meta.ingress_local = face_info(incoming.face).scope == Scope::Local;
    meta.link.token = incoming.token;
    meta.link.nack = incoming.nack;
    decode_lazily(pool, &packet).expect("traces are of well-formed packets");
    Some(packet)
}

fn send(packet: Packet, pool: &mut Pool, open: &mut Vec<Open>) -> Sent {
    let (wire, meta) = pool.view(&packet);
    let number = (0..FACES.len()).find(|number| face(*number) == meta.egress);
    let number = number.expect("what leaves does so by a face that there is");
    let is_interest = meta.kind == Kind::Interest;
    if is_interest {
        open.push(Open { face: number, wire: wire.to_vec(), token: meta.link.token });
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
