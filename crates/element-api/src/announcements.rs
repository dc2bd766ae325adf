//! Prefix announcements that came with packets: copies in a ring, so that ordinary packets neither carry nor free anything.
//!
//! A packet's link fields hold a [`Ticket`]. An announcement is there until [`KEPT`] others have come: it outlives the batch it came with, not
//! much more, and one that is gone reads as absent.

/// Announcements kept at one time.
const KEPT: usize = 64;

/// Octets of the longest announcement that is kept; a longer one counts as absent. One with an RSA signature has some 700.
pub const ANNOUNCEMENT_LEN_MAX: usize = 2048;

/// Stands for an announcement; the default one for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticket(u32);

impl Ticket {
    /// No announcement.
    pub const NONE: Ticket = Ticket(0);
}

#[derive(Debug)]
pub(crate) struct Announcements {
    /// Not touched, and so not resident, until announcements come.
    octets: Vec<u8>,
    kept: [(Ticket, u16); KEPT],
    last: u32,
}

impl Announcements {
    pub fn new() -> Self {
        Announcements {
            octets: vec![0; KEPT * ANNOUNCEMENT_LEN_MAX],
            kept: [(Ticket::NONE, 0); KEPT],
            last: 0,
        }
    }

    pub fn keep(&mut self, announcement: &[u8]) -> Ticket {
        if announcement.is_empty() || announcement.len() > ANNOUNCEMENT_LEN_MAX {
            return Ticket::NONE;
        }
        self.last = self.last.checked_add(1).unwrap_or(1);
        let (ticket, place) = (Ticket(self.last), self.last as usize % KEPT);
        let start = place * ANNOUNCEMENT_LEN_MAX;
        self.octets[start..start + announcement.len()].copy_from_slice(announcement);
        self.kept[place] = (ticket, announcement.len() as u16);
        ticket
    }

    pub fn octets(&self, ticket: Ticket) -> Option<&[u8]> {
        let place = ticket.0 as usize % KEPT;
        let (kept, len) = self.kept[place];
        let start = place * ANNOUNCEMENT_LEN_MAX;
        (ticket != Ticket::NONE && kept == ticket).then(|| &self.octets[start..start + usize::from(len)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_until_many_others_have_come() {
        let mut ring = Announcements::new();
        assert_eq!(ring.octets(Ticket::NONE), None);
        assert_eq!(ring.keep(&[]), Ticket::NONE);
        assert_eq!(ring.keep(&[1; ANNOUNCEMENT_LEN_MAX + 1]), Ticket::NONE);
        let first = ring.keep(&[7; ANNOUNCEMENT_LEN_MAX]);
        for number in 1..KEPT {
            assert_eq!(ring.octets(first), Some(&[7; ANNOUNCEMENT_LEN_MAX][..]));
            let next = ring.keep(&[number as u8; 3]);
            assert_eq!(ring.octets(next), Some(&[number as u8; 3][..]));
        }
        ring.keep(b"x");
        assert_eq!(ring.octets(first), None);
        ring.last = u32::MAX;
        let next = ring.keep(b"y");
        assert_eq!((next, ring.octets(next)), (Ticket(1), Some(&b"y"[..])));
    }
}
