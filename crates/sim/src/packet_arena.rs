//! Memory for packets in flight: reused slots of a few lengths, so that no packet allocates.

/// Slot lengths, bytes. The last one holds the largest link packet.
const SLOT_LENS: [usize; 4] = [128, 512, 2048, 9216];

/// A packet in flight. Must be returned with [`PacketArena::free`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a slot must be freed"]
pub struct PacketBuf {
    slot: u32,
    class: u8,
    len: u16,
}

impl PacketBuf {
    /// Returns the length, bytes.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns whether the packet has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[derive(Debug, Default)]
struct SizeClass {
    bytes: Vec<u8>,
    free: Vec<u32>,
}

/// Storage of all packets in flight.
#[derive(Debug)]
pub struct PacketArena {
    classes: [SizeClass; SLOT_LENS.len()],
    bytes: usize,
    bytes_max: usize,
    in_use: usize,
    in_use_peak: usize,
}

impl PacketArena {
    /// Creates an empty arena whose slots may take up to `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        PacketArena { classes: Default::default(), bytes: 0, bytes_max, in_use: 0, in_use_peak: 0 }
    }

    /// Stores a packet given in parts. `None` if the arena is full, or the packet is longer than
    /// any link packet.
    #[inline]
    pub fn put(&mut self, parts: &[&[u8]]) -> Option<PacketBuf> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let class = SLOT_LENS.iter().position(|slot_len| len <= *slot_len)?;
        let slot_len = SLOT_LENS[class];
        let size_class = &mut self.classes[class];
        let slot = match size_class.free.pop() {
            Some(slot) => slot,
            None if self.bytes + slot_len <= self.bytes_max => {
                let slot = (size_class.bytes.len() / slot_len) as u32;
                size_class.bytes.resize(size_class.bytes.len() + slot_len, 0);
                self.bytes += slot_len;
                slot
            }
            None => return None,
        };
        let mut at = slot as usize * slot_len;
        for part in parts {
            size_class.bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        self.in_use += 1;
        self.in_use_peak = self.in_use_peak.max(self.in_use);
        Some(PacketBuf { slot, class: class as u8, len: len as u16 })
    }

    /// Returns the bytes of a packet.
    #[inline]
    pub fn bytes(&self, packet: &PacketBuf) -> &[u8] {
        let start = packet.slot as usize * SLOT_LENS[usize::from(packet.class)];
        &self.classes[usize::from(packet.class)].bytes[start..start + packet.len()]
    }

    /// Frees a packet's slot.
    #[inline]
    pub fn free(&mut self, packet: PacketBuf) {
        self.in_use -= 1;
        self.classes[usize::from(packet.class)].free.push(packet.slot);
    }

    /// Returns the number of packets in flight.
    pub const fn in_use(&self) -> usize {
        self.in_use
    }

    /// Returns the largest number of packets in flight at one time.
    pub const fn in_use_peak(&self) -> usize {
        self.in_use_peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arena_slots_reused_and_bounded() {
        let mut arena = PacketArena::new(256);
        let (a, b) = (arena.put(&[b"he", b"llo"]).unwrap(), arena.put(&[&[7; 128]]).unwrap());
        assert!(arena.put(&[b"x"]).is_none());
        assert_eq!((arena.bytes(&a), arena.bytes(&b)), (&b"hello"[..], &[7; 128][..]));
        arena.free(a);
        let c = arena.put(&[b"again"]).unwrap();
        assert_eq!((arena.bytes(&c), arena.in_use(), arena.in_use_peak()), (&b"again"[..], 2, 2));
        arena.free(b);
        arena.free(c);
        assert!(arena.put(&[&[0; 9217]]).is_none());
    }
}
