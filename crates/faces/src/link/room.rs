//! How much one end of a datagram link may send in a row. Nobody knows how much room the other end's socket has, unless it says so: we do, on
//! Interests, as what they bring back is what needs the room (decision 0022). A peer that says nothing gets what any system has by default.

use core::time::Duration;
use nw_element_api::Instant;

/// An Interest at most so often says it: datagrams get lost, and peers start anew.
const TELL_PAUSE: Duration = Duration::from_millis(250);

/// A peer that says it has more is believed this much, KiB.
const ROOM_MAX_KIB: u64 = 64 << 10;

/// Both ends' rooms.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    ours_kib: u64,
    tell_at: Instant,
    theirs_kib: u64,
    heard_anew: bool,
}

impl Default for Room {
    /// Nothing is told, and nothing was.
    fn default() -> Self {
        Room { ours_kib: 0, tell_at: Instant::NEVER, theirs_kib: 0, heard_anew: false }
    }
}

impl Room {
    /// From now on the peer is told that the socket here holds so many octets.
    pub const fn tell(&mut self, octets: usize) {
        self.ours_kib = octets as u64 >> 10;
        self.tell_at = Instant::START;
    }

    /// What the next Interest is to say, KiB.
    #[inline]
    pub fn to_tell(&mut self, now: Instant) -> Option<u64> {
        if now < self.tell_at {
            return None;
        }
        self.tell_at = now + TELL_PAUSE;
        Some(self.ours_kib)
    }

    /// The peer said what it has.
    pub fn hear(&mut self, kib: u64) {
        let kib = kib.min(ROOM_MAX_KIB);
        self.heard_anew |= kib != self.theirs_kib;
        self.theirs_kib = kib;
    }

    /// What the peer said, KiB; 0 is nothing.
    pub const fn theirs_kib(&self) -> u64 {
        self.theirs_kib
    }

    /// True once when the peer has said something else than before.
    #[inline]
    pub const fn take_heard_anew(&mut self) -> bool {
        core::mem::replace(&mut self.heard_anew, false)
    }

    /// Octets that may leave in a row: half of what the peer has, as its socket serves others too, but what any peer gets in any case.
    pub fn burst_max(&self, any: usize) -> usize {
        any.max((self.theirs_kib as usize) << 9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_now_and_then_and_believed_within_bounds() {
        let mut room = Room::default();
        assert_eq!((room.to_tell(Instant::START), room.burst_max(1000)), (None, 1000));
        room.tell(4 << 20);
        let at = |ms| Instant::from_millis(ms);
        let told: Vec<_> = [0, 1, 249, 250, 499, 500].map(|ms| room.to_tell(at(ms))).to_vec();
        assert_eq!(told, [Some(4096), None, None, Some(4096), None, Some(4096)]);
        room.hear(4096);
        assert!(room.take_heard_anew() && !room.take_heard_anew());
        room.hear(4096);
        assert!(!room.take_heard_anew());
        assert_eq!((room.burst_max(128 << 10), room.burst_max(usize::MAX)), (2 << 20, usize::MAX));
        room.hear(u64::MAX);
        assert_eq!(room.burst_max(0), 32 << 20);
        room.hear(0);
        assert_eq!(room.burst_max(128 << 10), 128 << 10);
    }
}
