//! Octets of packets on their way: slots of a few lengths, used again and again, so that no packet allocates.

/// Lengths of slots, octets. The last holds the largest link packet.
const SLOT_LENS: [usize; 4] = [128, 512, 2048, 9216];

/// A packet on its way. Given back by [`Wires::free`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a slot is given back"]
pub struct Wire {
    slot: u32,
    class: u8,
    len: u16,
}

impl Wire {
    /// Octets.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// True when there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[derive(Debug, Default)]
struct Class {
    octets: Vec<u8>,
    free: Vec<u32>,
}

/// All packets on their way.
#[derive(Debug)]
pub struct Wires {
    classes: [Class; SLOT_LENS.len()],
    octets: usize,
    octets_max: usize,
    in_use: usize,
    in_use_most: usize,
}

impl Wires {
    /// With room for so many octets of slots.
    pub fn new(octets_max: usize) -> Self {
        Wires { classes: Default::default(), octets: 0, octets_max, in_use: 0, in_use_most: 0 }
    }

    /// Takes a packet that stands in pieces; `None` when there is no room, or it is longer than any link packet.
    #[inline]
    pub fn put(&mut self, pieces: &[&[u8]]) -> Option<Wire> {
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        let class = SLOT_LENS.iter().position(|slot_len| len <= *slot_len)?;
        let slot_len = SLOT_LENS[class];
        let of = &mut self.classes[class];
        let slot = match of.free.pop() {
            Some(slot) => slot,
            None if self.octets + slot_len <= self.octets_max => {
                let slot = (of.octets.len() / slot_len) as u32;
                of.octets.resize(of.octets.len() + slot_len, 0);
                self.octets += slot_len;
                slot
            }
            None => return None,
        };
        let mut at = slot as usize * slot_len;
        for piece in pieces {
            of.octets[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        self.in_use += 1;
        self.in_use_most = self.in_use_most.max(self.in_use);
        Some(Wire { slot, class: class as u8, len: len as u16 })
    }

    /// Its octets.
    #[inline]
    pub fn bytes(&self, wire: &Wire) -> &[u8] {
        let start = wire.slot as usize * SLOT_LENS[usize::from(wire.class)];
        &self.classes[usize::from(wire.class)].octets[start..start + wire.len()]
    }

    /// Ends a packet.
    #[inline]
    pub fn free(&mut self, wire: Wire) {
        self.in_use -= 1;
        self.classes[usize::from(wire.class)].free.push(wire.slot);
    }

    /// Packets on their way.
    pub const fn in_use(&self) -> usize {
        self.in_use
    }

    /// Most packets on their way at one time.
    pub const fn in_use_most(&self) -> usize {
        self.in_use_most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_back_and_are_bounded() {
        let mut wires = Wires::new(256);
        let (a, b) = (wires.put(&[b"he", b"llo"]).unwrap(), wires.put(&[&[7; 128]]).unwrap());
        assert!(wires.put(&[b"x"]).is_none());
        assert_eq!((wires.bytes(&a), wires.bytes(&b)), (&b"hello"[..], &[7; 128][..]));
        wires.free(a);
        let c = wires.put(&[b"again"]).unwrap();
        assert_eq!((wires.bytes(&c), wires.in_use(), wires.in_use_most()), (&b"again"[..], 2, 2));
        wires.free(b);
        wires.free(c);
        assert!(wires.put(&[&[0; 9217]]).is_none());
    }
}
