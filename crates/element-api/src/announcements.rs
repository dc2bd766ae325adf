//! Prefix announcements that arrive with Data packets.
//!
//! They are copied into a ring, so packets without one, which are nearly all, neither carry nor
//! free anything. A packet's link fields hold an [`AnnouncementRef`]. It is valid until
//! [`ANNOUNCEMENTS_MAX`] further announcements have been stored, which outlasts the batch the
//! packet came in; after that it reads as absent.

/// Announcements stored at one time.
const ANNOUNCEMENTS_MAX: usize = 64;

/// Longest announcement that is stored, in bytes. A longer one counts as absent. An announcement
/// with an RSA signature has about 700 bytes.
pub const ANNOUNCEMENT_LEN_MAX: usize = 2048;

/// A reference to a stored announcement. The default is [`NONE`](Self::NONE).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnnouncementRef(u32);

impl AnnouncementRef {
    /// No announcement.
    pub const NONE: AnnouncementRef = AnnouncementRef(0);
}

/// The ring. Slot `n % ANNOUNCEMENTS_MAX` holds announcement number `n`; numbers start at 1.
#[derive(Debug)]
pub(crate) struct Announcements {
    /// One area of [`ANNOUNCEMENT_LEN_MAX`] bytes per slot. Not written, and so not resident,
    /// before the first announcement.
    bytes: Vec<u8>,
    /// Per slot: the reference it belongs to, and the length in bytes.
    slots: [(AnnouncementRef, u16); ANNOUNCEMENTS_MAX],
    last: u32,
}

impl Announcements {
    /// Creates an empty ring.
    pub fn new() -> Self {
        Announcements {
            bytes: vec![0; ANNOUNCEMENTS_MAX * ANNOUNCEMENT_LEN_MAX],
            slots: [(AnnouncementRef::NONE, 0); ANNOUNCEMENTS_MAX],
            last: 0,
        }
    }

    /// Stores a copy. Returns [`AnnouncementRef::NONE`] if it is empty or too long.
    pub fn store(&mut self, announcement: &[u8]) -> AnnouncementRef {
        if announcement.is_empty() || announcement.len() > ANNOUNCEMENT_LEN_MAX {
            return AnnouncementRef::NONE;
        }
        self.last = self.last.checked_add(1).unwrap_or(1);
        let (reference, slot) =
            (AnnouncementRef(self.last), self.last as usize % ANNOUNCEMENTS_MAX);
        let start = slot * ANNOUNCEMENT_LEN_MAX;
        self.bytes[start..start + announcement.len()].copy_from_slice(announcement);
        self.slots[slot] = (reference, announcement.len() as u16);
        reference
    }

    /// Returns the announcement's bytes. `None` if there is none or it was overwritten.
    pub fn bytes(&self, reference: AnnouncementRef) -> Option<&[u8]> {
        let slot = reference.0 as usize % ANNOUNCEMENTS_MAX;
        let (stored, len) = self.slots[slot];
        let start = slot * ANNOUNCEMENT_LEN_MAX;
        (reference != AnnouncementRef::NONE && stored == reference)
            .then(|| &self.bytes[start..start + usize::from(len)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcement_after_64_others_reads_as_absent() {
        let mut ring = Announcements::new();
        assert_eq!(ring.bytes(AnnouncementRef::NONE), None);
        assert_eq!(ring.store(&[]), AnnouncementRef::NONE);
        assert_eq!(ring.store(&[1; ANNOUNCEMENT_LEN_MAX + 1]), AnnouncementRef::NONE);
        let first = ring.store(&[7; ANNOUNCEMENT_LEN_MAX]);
        for number in 1..ANNOUNCEMENTS_MAX {
            assert_eq!(ring.bytes(first), Some(&[7; ANNOUNCEMENT_LEN_MAX][..]));
            let next = ring.store(&[number as u8; 3]);
            assert_eq!(ring.bytes(next), Some(&[number as u8; 3][..]));
        }
        ring.store(b"x");
        assert_eq!(ring.bytes(first), None);
        ring.last = u32::MAX;
        let next = ring.store(b"y");
        assert_eq!((next, ring.bytes(next)), (AnnouncementRef(1), Some(&b"y"[..])));
    }
}
