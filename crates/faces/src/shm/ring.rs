//! One way of a link: a ring of octets that one end writes and the other reads.
//!
//! ```text
//!  words, each in lines of its own                octets, a power of two
//!  written │ read │ reader waits │ writer waits   ┌──────────────┬──────────┬────────┐
//!     └───────┴── octets since the start ────────▶│ free         │ to read  │ free   │
//!                                                 └──────────────┴──────────┴────────┘
//! ```
//!
//! Each end keeps its own position and only tells it; the other's position is read once, and believed if it is possible. So whatever is written to the
//! words, an end stays within the ring, and copies no octet twice.
//!
//! Sleep: an end that finds nothing to do says so in its word, then looks again; the other, after it has moved, looks at the word. One of the two sees the
//! other. Whoever sees that the other waits takes the word back, and rings.

use super::fault::SharedMemoryFault;
use super::memory::Memory;
use core::sync::atomic::{AtomicU64, Ordering, fence};
use std::io::IoSlice;

/// Octets from word to word: two cache lines, as processors fetch them in pairs.
const WORD_STEP: usize = 128;

/// Octets of the words of one ring.
pub const WORDS_LEN: usize = 4 * WORD_STEP;

/// Where a ring lies.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Its words.
    pub words: usize,
    /// Its octets.
    pub octets: usize,
    /// How many: a power of two.
    pub size: usize,
}

impl Place {
    fn written(self, memory: &Memory) -> &AtomicU64 {
        memory.word(self.words)
    }

    fn read(self, memory: &Memory) -> &AtomicU64 {
        memory.word(self.words + WORD_STEP)
    }

    fn reader_waits(self, memory: &Memory) -> &AtomicU64 {
        memory.word(self.words + 2 * WORD_STEP)
    }

    fn writer_waits(self, memory: &Memory) -> &AtomicU64 {
        memory.word(self.words + 3 * WORD_STEP)
    }

    /// Octets between the two positions, if there can be so many.
    fn between(self, written: u64, read: u64) -> Result<usize, SharedMemoryFault> {
        let len = written.wrapping_sub(read);
        if len > self.size as u64 { Err(SharedMemoryFault::Position) } else { Ok(len as usize) }
    }

    /// Where `len` octets at a position are: up to the end of the ring, and how many of them from its start on.
    fn split(self, position: u64, len: usize) -> (usize, usize) {
        let at = position as usize & (self.size - 1);
        (self.octets + at, len.min(self.size - at))
    }
}

/// How many times the other end may still ring: once for each time that this end said it waits.
pub type Due = u64;

/// Says that this end waits, unless what it waits for is there by now: then it does not wait.
fn wait(
    word: &AtomicU64,
    due: &mut Due,
    is_there: impl FnOnce() -> Result<bool, SharedMemoryFault>,
) -> Result<bool, SharedMemoryFault> {
    if word.load(Ordering::Relaxed) == 0 {
        word.store(1, Ordering::Relaxed);
        *due += 1;
    }
    // With the one in `takes`: either this end sees what the other did, or the other sees that this one waits.
    fence(Ordering::SeqCst);
    if !is_there()? {
        return Ok(true);
    }
    // If the other end was faster, it rings.
    if word.swap(0, Ordering::AcqRel) != 0 {
        *due = due.saturating_sub(1);
    }
    Ok(false)
}

/// True when the other end waits, and is to be woken by this one.
fn takes(word: &AtomicU64) -> bool {
    fence(Ordering::SeqCst);
    word.load(Ordering::Relaxed) != 0 && word.swap(0, Ordering::AcqRel) != 0
}

/// The end that writes.
#[derive(Debug)]
pub struct Writer {
    place: Place,
    written: u64,
    /// The reader's position when it was last looked at.
    read: u64,
}

impl Writer {
    /// Of a ring in which nothing has been written yet.
    pub const fn new(place: Place) -> Self {
        Writer { place, written: 0, read: 0 }
    }

    /// Writes as much as there is room for, but for the first `skip` octets; how much.
    ///
    /// # Errors
    /// When the reader claims to be where it can't be.
    pub fn write(
        &mut self,
        memory: &Memory,
        pieces: &[IoSlice<'_>],
        mut skip: usize,
    ) -> Result<usize, SharedMemoryFault> {
        let wanted = pieces.iter().map(|piece| piece.len()).sum::<usize>() - skip;
        let mut room = self.place.size - self.place.between(self.written, self.read)?;
        if room < wanted {
            room = self.room(memory)?;
        }
        let mut left = room.min(wanted);
        let total = left;
        if total == 0 {
            return Ok(0);
        }
        for piece in pieces {
            let (gone, piece) = piece.split_at(skip.min(piece.len()));
            skip -= gone.len();
            let piece = &piece[..piece.len().min(left)];
            let (at, len) = self.place.split(self.written, piece.len());
            memory.copy_in(at, &piece[..len]);
            memory.copy_in(self.place.octets, &piece[len..]);
            self.written = self.written.wrapping_add(piece.len() as u64);
            left -= piece.len();
            if left == 0 {
                break;
            }
        }
        self.place.written(memory).store(self.written, Ordering::Release);
        Ok(total)
    }

    /// Looks how far the reader has come.
    fn room(&mut self, memory: &Memory) -> Result<usize, SharedMemoryFault> {
        let read = self.place.read(memory).load(Ordering::Acquire);
        let used = self.place.between(self.written, read)?;
        self.read = read;
        Ok(self.place.size - used)
    }

    /// True when the reader is to be woken; asked after something was written.
    pub fn wakes(&self, memory: &Memory) -> bool {
        takes(self.place.reader_waits(memory))
    }

    /// Waits until half of the ring is free, unless it is by now: for less it would be woken too often.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn wait(&mut self, memory: &Memory, due: &mut Due) -> Result<bool, SharedMemoryFault> {
        let place = self.place;
        wait(place.writer_waits(memory), due, || self.room(memory).map(|room| room >= place.size / 2))
    }
}

/// The end that reads.
#[derive(Debug)]
pub struct Reader {
    place: Place,
    read: u64,
}

impl Reader {
    /// Of a ring in which nothing has been read yet.
    pub const fn new(place: Place) -> Self {
        Reader { place, read: 0 }
    }

    /// Octets that are there.
    fn waiting(&self, memory: &Memory) -> Result<usize, SharedMemoryFault> {
        self.place.between(self.place.written(memory).load(Ordering::Acquire), self.read)
    }

    /// Reads as much as there is and has room; how much.
    ///
    /// # Errors
    /// When the writer claims to be where it can't be.
    pub fn read(&mut self, memory: &Memory, buffer: &mut [u8]) -> Result<usize, SharedMemoryFault> {
        let total = self.waiting(memory)?.min(buffer.len());
        if total == 0 {
            return Ok(0);
        }
        let (at, len) = self.place.split(self.read, total);
        let (first, rest) = buffer[..total].split_at_mut(len);
        memory.copy_out(at, first);
        memory.copy_out(self.place.octets, rest);
        self.read = self.read.wrapping_add(total as u64);
        self.place.read(memory).store(self.read, Ordering::Release);
        Ok(total)
    }

    /// True when the writer is to be woken; asked after something was read.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn wakes(&self, memory: &Memory) -> Result<bool, SharedMemoryFault> {
        Ok(self.waiting(memory)? <= self.place.size / 2 && takes(self.place.writer_waits(memory)))
    }

    /// Waits for octets in an empty ring, unless there are some.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn wait(&self, memory: &Memory, due: &mut Due) -> Result<bool, SharedMemoryFault> {
        wait(self.place.reader_waits(memory), due, || self.waiting(memory).map(|waiting| waiting > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::new_file;
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::os::fd::AsFd;

    const SIZE: usize = 256;
    const PLACE: Place = Place { words: 0, octets: WORDS_LEN, size: SIZE };

    fn memory() -> Memory {
        let len = WORDS_LEN + SIZE;
        Memory::map(new_file(len).unwrap().as_fd(), len).unwrap()
    }

    fn ends(memory: &Memory, at: u64) -> (Writer, Reader) {
        PLACE.written(memory).store(at, Ordering::Relaxed);
        PLACE.read(memory).store(at, Ordering::Relaxed);
        (Writer { place: PLACE, written: at, read: at }, Reader { place: PLACE, read: at })
    }

    proptest! {
        #[test]
        fn as_a_deque_with_an_end(
            // Near the end of what a position can be, too.
            start in prop_oneof![0u64..1000, u64::MAX - 1000..=u64::MAX],
            steps in proptest::collection::vec((proptest::collection::vec(0usize..150, 0..4), 0usize..300), 0..100),
        ) {
            let memory = memory();
            let (mut writer, mut reader) = ends(&memory, start);
            let (mut model, mut next) = (VecDeque::new(), 0u8);
            for (lens, read) in steps {
                let pieces: Vec<Vec<u8>> = lens.iter().map(|len| (0..*len).map(|_| { next = next.wrapping_add(1); next }).collect()).collect();
                let slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
                let all = pieces.concat();
                let written = writer.write(&memory, &slices, 0).unwrap();
                prop_assert_eq!(written, all.len().min(SIZE - model.len()));
                model.extend(&all[..written]);
                let mut buffer = vec![0; read];
                let got = reader.read(&memory, &mut buffer).unwrap();
                prop_assert_eq!(got, read.min(model.len()));
                prop_assert!(buffer[..got].iter().copied().eq(model.drain(..got)));
            }
        }

        /// Whatever a neighbour writes to the words: refused, or octets of the ring, and never more than it holds.
        #[test]
        fn no_word_leads_out_of_the_ring(
            words in proptest::collection::vec((any::<bool>(), prop_oneof![any::<u64>(), 0u64..600]), 1..50),
            lens in proptest::collection::vec(0usize..400, 1..50),
        ) {
            let memory = memory();
            let (mut writer, mut reader) = ends(&memory, 100);
            for ((which, value), len) in words.into_iter().zip(lens) {
                let word = if which { PLACE.written(&memory) } else { PLACE.read(&memory) };
                word.store(value, Ordering::Relaxed);
                let mut buffer = vec![0; len];
                match reader.read(&memory, &mut buffer) {
                    Ok(read) => prop_assert!(read <= len.min(SIZE)),
                    Err(fault) => prop_assert_eq!(fault, SharedMemoryFault::Position),
                }
                match writer.write(&memory, &[IoSlice::new(&buffer)], 0) {
                    Ok(written) => prop_assert!(written <= len.min(SIZE)),
                    Err(fault) => prop_assert_eq!(fault, SharedMemoryFault::Position),
                }
            }
        }
    }

    #[test]
    fn who_waits_is_woken_once() {
        let memory = memory();
        let (mut writer, mut reader) = ends(&memory, 0);
        let (mut reads, mut writes) = (0, 0);
        assert!(reader.wait(&memory, &mut reads).unwrap());
        assert!(reader.wait(&memory, &mut reads).unwrap());
        assert_eq!(reads, 1, "said once");
        writer.write(&memory, &[IoSlice::new(b"a")], 0).unwrap();
        assert!(writer.wakes(&memory));
        assert!(!writer.wakes(&memory));
        // There is something by now: it does not wait, and nobody rings for that.
        assert!(!reader.wait(&memory, &mut reads).unwrap());
        assert_eq!(reads, 1, "the ring that is on its way");
        assert!(!writer.wakes(&memory));

        writer.write(&memory, &[IoSlice::new(&[0; 2 * SIZE])], 0).unwrap();
        assert!(writer.wait(&memory, &mut writes).unwrap());
        reader.read(&memory, &mut [0; 100]).unwrap();
        assert!(!reader.wakes(&memory).unwrap(), "less than half is free");
        reader.read(&memory, &mut [0; 100]).unwrap();
        assert!(reader.wakes(&memory).unwrap());
        assert!(!writer.wait(&memory, &mut writes).unwrap());
        assert!(!reader.wakes(&memory).unwrap());
    }

    /// Two threads that sleep as loops do: by a channel, which says once for each ring.
    #[test]
    fn nobody_sleeps_for_ever() {
        const OCTETS: usize = 2_000_000;
        let len = WORDS_LEN + SIZE;
        let file = new_file(len).unwrap();
        let [memory, other] = [(); 2].map(|()| Memory::map(file.as_fd(), len).unwrap());
        let (mut writer, mut reader) = ends(&memory, 0);
        let (ring_reader, reader_hears) = std::sync::mpsc::channel::<()>();
        let (ring_writer, writer_hears) = std::sync::mpsc::channel::<()>();
        let patience = std::time::Duration::from_secs(20);
        let writes = std::thread::spawn(move || {
            let (mut sent, mut due) = (0usize, 0);
            while sent < OCTETS {
                let octets: Vec<u8> = (sent..OCTETS.min(sent + 97)).map(|at| at as u8).collect();
                match writer.write(&other, &[IoSlice::new(&octets)], 0).unwrap() {
                    0 if writer.wait(&other, &mut due).unwrap() => {
                        writer_hears.recv_timeout(patience).unwrap()
                    }
                    written => sent += written,
                }
                if writer.wakes(&other) {
                    ring_reader.send(()).unwrap();
                }
            }
        });
        let (mut got, mut due) = (0usize, 0);
        while got < OCTETS {
            let mut buffer = [0; 61];
            match reader.read(&memory, &mut buffer).unwrap() {
                0 if reader.wait(&memory, &mut due).unwrap() => reader_hears.recv_timeout(patience).unwrap(),
                read => {
                    assert!(buffer[..read].iter().enumerate().all(|(at, octet)| *octet == (got + at) as u8));
                    got += read;
                }
            }
            if reader.wakes(&memory).unwrap() {
                let _ = ring_writer.send(());
            }
        }
        writes.join().unwrap();
    }
}
