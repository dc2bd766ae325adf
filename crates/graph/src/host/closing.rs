//! Faces that a change of the graph has removed. Each stays until nothing is pending by it, so that
//! replies under way arrive. A face of the same name takes its place as soon as it is up.
//!
//! The host does not know which Interests are pending by a face. It compares the face's counters:
//! as many replies as Interests, then [`QUIET`] without a further packet. As Interests can be lost,
//! unbalanced counters count as balanced after [`QUIET_UNBALANCED`] without a packet. Invariant: a
//! face is closed [`CLOSING_MAX`] after the change at the latest.

use crate::engine::ChangeMode;
use nw_element_api::{DropCause, DropCounters, FaceId, Kind, Packet, Pool, Timestamp};
use nw_faces::{FaceCounters, FaceStatus};
use std::time::Duration;

/// Longest time that a removed face stays: twice the default InterestLifetime of 4 s.
const CLOSING_MAX: Duration = Duration::from_secs(8);
/// Time without a packet after which a face with balanced counters is closed.
const QUIET: Duration = Duration::from_millis(200);
/// Time without a packet after which any removed face is closed: the default InterestLifetime.
const QUIET_UNBALANCED: Duration = Duration::from_secs(4);
/// Interval between checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Interval between checks while Interests are held.
const CHECK_INTERVAL_HOLDING: Duration = Duration::from_millis(1);
/// Time without a packet after which held Interests are released.
const HOLD_QUIET: Duration = Duration::from_millis(250);
/// Maximum number of Interests held.
const HELD_INTERESTS_MAX: usize = 16_384;

/// A removed face.
#[derive(Debug)]
struct ClosingFace {
    id: FaceId,
    name: String,
    /// Packets counted at the last check that saw a new one.
    packets: u64,
    /// Time of that check.
    active_at: Timestamp,
    deadline: Timestamp,
}

/// Removed faces, and the Interests held for them.
#[derive(Debug, Default)]
pub(super) struct ClosingFaces {
    faces: Vec<ClosingFace>,
    /// True from a change with [`ChangeMode::Buffer`] until nothing is pending by removed faces.
    is_holding: bool,
    held: Vec<Packet>,
    next_check: Option<Timestamp>,
}

impl ClosingFaces {
    /// Adds faces that had this name. With [`ChangeMode::Drop`] they are closed at the next check.
    pub fn add(&mut self, now: Timestamp, name: &str, ids: Vec<FaceId>, mode: ChangeMode) {
        let stay = if mode == ChangeMode::Drop { Duration::ZERO } else { CLOSING_MAX };
        self.is_holding |= mode == ChangeMode::Buffer && !ids.is_empty();
        self.faces.extend(ids.into_iter().map(|id| ClosingFace {
            id,
            name: name.to_owned(),
            packets: 0,
            active_at: now,
            deadline: now + stay,
        }));
        self.next_check = Some(now);
    }

    /// Returns whether no removed face is open.
    pub const fn is_empty(&self) -> bool {
        self.faces.is_empty()
    }

    /// Returns whether a face was removed.
    pub fn contains(&self, id: FaceId) -> bool {
        self.faces.iter().any(|face| face.id == id)
    }

    /// Returns whether a face with this name was removed.
    pub fn has_name(&self, name: &str) -> bool {
        self.faces.iter().any(|face| face.name == name)
    }

    /// Returns the name of a removed face.
    pub fn name_of(&self, id: FaceId) -> Option<&str> {
        self.faces.iter().find(|face| face.id == id).map(|face| face.name.as_str())
    }

    /// Returns the removed face that takes Interests until the new face of its name is up. `None`
    /// if the new face is up, or if its peer connected to it.
    pub fn predecessor(&self, name: &str, is_accepted: bool, is_up: bool) -> Option<FaceId> {
        let old = self.faces.iter().find(|face| face.name == name)?;
        (!is_accepted && !is_up).then_some(old.id)
    }

    /// Returns when to call [`check`](Self::check).
    pub const fn next_check(&self) -> Option<Timestamp> {
        self.next_check
    }

    /// Returns whether Interests are to be passed to [`hold`](Self::hold).
    pub const fn holds_interests(&self) -> bool {
        self.is_holding
    }

    /// Takes the Interests out of a batch; drops those that are too many.
    pub fn hold(&mut self, batch: &mut Vec<Packet>, pool: &mut Pool, drops: &mut DropCounters) {
        let mut others = Vec::with_capacity(batch.len());
        for packet in batch.drain(..) {
            if pool.meta(&packet).kind != Kind::Interest {
                others.push(packet);
            } else if self.held.len() < HELD_INTERESTS_MAX {
                self.held.push(packet);
            } else {
                pool.drop_packet(packet, DropCause::ChangeFull, drops);
            }
        }
        *batch = others;
    }

    /// Returns the Interests that are no longer to be held, in order of arrival.
    pub fn take_released(&mut self) -> Vec<Packet> {
        if self.is_holding { Vec::new() } else { self.take_held() }
    }

    /// Returns all held Interests.
    pub fn take_held(&mut self) -> Vec<Packet> {
        core::mem::take(&mut self.held)
    }

    /// Returns the faces to close now. `is_replaced` returns whether the new face of a name is up,
    /// or there is none to wait for; `is_changing`: elements of the old graph wait for replies.
    pub fn check(
        &mut self,
        now: Timestamp,
        is_changing: bool,
        status: impl Fn(FaceId) -> Option<FaceStatus>,
        is_replaced: impl Fn(&str) -> bool,
    ) -> Vec<FaceId> {
        if self.next_check.is_none_or(|due| due > now) {
            return Vec::new();
        }
        let (mut done, mut is_pending) = (Vec::new(), false);
        self.faces.retain_mut(|face| {
            let Some(status) = status(face.id).filter(|status| status.up) else {
                done.push(face.id);
                return false;
            };
            let packets = packets(&status.counters);
            if packets != face.packets {
                (face.packets, face.active_at) = (packets, now);
            }
            let quiet = now.since(face.active_at);
            let is_balanced = is_balanced(&status.counters);
            let waits = is_changing || !is_replaced(&face.name);
            is_pending |= waits || !is_balanced && quiet < HOLD_QUIET;
            let is_quiet = quiet >= if is_balanced { QUIET } else { QUIET_UNBALANCED };
            let is_done = now >= face.deadline || !waits && is_quiet;
            if is_done {
                done.push(face.id);
            }
            !is_done
        });
        self.is_holding &= is_pending && !self.faces.is_empty();
        let interval = if self.is_holding { CHECK_INTERVAL_HOLDING } else { CHECK_INTERVAL };
        self.next_check = (!self.faces.is_empty()).then(|| now + interval);
        done
    }
}

/// Returns the packets that passed, in both directions.
const fn packets(counters: &FaceCounters) -> u64 {
    counters.in_interests
        + counters.in_data
        + counters.in_nacks
        + counters.out_interests
        + counters.out_data
        + counters.out_nacks
}

/// Returns whether there were as many replies as Interests, in both directions.
const fn is_balanced(counters: &FaceCounters) -> bool {
    counters.out_interests <= counters.in_data + counters.in_nacks
        && counters.in_interests <= counters.out_data + counters.out_nacks
}
