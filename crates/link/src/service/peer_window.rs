//! The receive windows of both ends of a datagram link: how many bytes each may send in one burst.
//!
//! A sender can't see how large the peer's socket buffer is. So each end advertises its own, in a
//! field of Interests: the Data that they bring back is what needs the buffer (decision 0022). A
//! peer that advertises nothing gets what every system has by default.

use core::time::Duration;
use nw_element_api::Timestamp;

/// Least time between two advertisements: repeated, as datagrams get lost and peers restart.
const ADVERTISE_INTERVAL: Duration = Duration::from_millis(250);

/// Upper bound on an advertised buffer, KiB: a peer is not trusted beyond it.
const WINDOW_MAX_KIB: u64 = 64 << 10;

/// Advertised receive buffers of both ends.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveWindow {
    own_kib: u64,
    advertise_at: Timestamp,
    peer_kib: u64,
    peer_changed: bool,
}

impl Default for ReceiveWindow {
    /// Returns a window that advertises nothing and has received no advertisement.
    fn default() -> Self {
        ReceiveWindow {
            own_kib: 0,
            advertise_at: Timestamp::NEVER,
            peer_kib: 0,
            peer_changed: false,
        }
    }
}

impl ReceiveWindow {
    /// Advertises a receive buffer of `bytes` from the next Interest on.
    pub const fn advertise(&mut self, bytes: usize) {
        self.own_kib = bytes as u64 >> 10;
        self.advertise_at = Timestamp::START;
    }

    /// Returns what the Interest sent now advertises, KiB. `None`: nothing this time.
    #[inline]
    pub fn next_advertisement(&mut self, now: Timestamp) -> Option<u64> {
        if now < self.advertise_at {
            return None;
        }
        self.advertise_at = now + ADVERTISE_INTERVAL;
        Some(self.own_kib)
    }

    /// Takes an advertisement of the peer, KiB.
    pub fn on_advertised(&mut self, kib: u64) {
        let kib = kib.min(WINDOW_MAX_KIB);
        self.peer_changed |= kib != self.peer_kib;
        self.peer_kib = kib;
    }

    /// Returns the peer's advertised buffer, KiB; 0 if it advertised none.
    pub const fn peer_kib(&self) -> u64 {
        self.peer_kib
    }

    /// Returns whether the peer's advertisement changed since the last call.
    #[inline]
    pub const fn take_peer_changed(&mut self) -> bool {
        core::mem::replace(&mut self.peer_changed, false)
    }

    /// Returns the bytes that may be sent in one burst: half of the peer's buffer, as its socket
    /// serves other peers too, and at least `default_bytes`.
    pub fn burst_bytes_max(&self, default_bytes: usize) -> usize {
        default_bytes.max((self.peer_kib as usize) << 9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receive_window_is_advertised_periodically_and_trusted_within_bounds() {
        let mut window = ReceiveWindow::default();
        assert_eq!(
            (window.next_advertisement(Timestamp::START), window.burst_bytes_max(1000)),
            (None, 1000)
        );
        window.advertise(4 << 20);
        let at = |ms| Timestamp::from_millis(ms);
        let advertised: Vec<_> =
            [0, 1, 249, 250, 499, 500].map(|ms| window.next_advertisement(at(ms))).to_vec();
        assert_eq!(advertised, [Some(4096), None, None, Some(4096), None, Some(4096)]);
        window.on_advertised(4096);
        assert!(window.take_peer_changed() && !window.take_peer_changed());
        window.on_advertised(4096);
        assert!(!window.take_peer_changed());
        let bursts = (window.burst_bytes_max(128 << 10), window.burst_bytes_max(usize::MAX));
        assert_eq!(bursts, (2 << 20, usize::MAX));
        window.on_advertised(u64::MAX);
        assert_eq!(window.burst_bytes_max(0), 32 << 20);
        window.on_advertised(0);
        assert_eq!(window.burst_bytes_max(128 << 10), 128 << 10);
    }
}
