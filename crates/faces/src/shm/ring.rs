//! One direction of a link: a ring of bytes that one end writes and the other reads.
//!
//! ```text
//!  words, 128 bytes apart                         bytes, a power of two
//!  written │ read │ reader waits │ writer waits   ┌──────────────┬──────────┬────────┐
//!     └───────┴── bytes since the start ─────────▶│ free         │ to read  │ free   │
//!                                                 └──────────────┴──────────┴────────┘
//! ```
//!
//! Each end keeps its own position and only publishes it; it reads the other's position once, and
//! accepts it if it is possible. So whatever the other process writes to the words, an end stays
//! within the ring and copies no byte twice.
//!
//! Sleep: an end with nothing to do sets its "waits" word, then checks the ring again; the other,
//! after moving its position, checks that word. At least one of the two sees the other's write. The
//! end that sees the other waiting clears the word and sends a wake-up.

use super::access::{Word, WriteMemory};
use super::fault::SharedMemoryFault;
use core::sync::atomic::Ordering;
use std::io::IoSlice;

/// Bytes from word to word: two cache lines, as processors fetch them in pairs.
const WORD_STEP: usize = 128;

/// Bytes of the words of one ring.
pub const WORDS_LEN: usize = 4 * WORD_STEP;

/// Layout of a ring in the memory.
#[derive(Clone, Copy, Debug)]
pub struct RingLayout {
    /// Offset of its words.
    pub words: usize,
    /// Offset of its bytes.
    pub bytes: usize,
    /// Number of its bytes: a power of two.
    pub size: usize,
}

impl RingLayout {
    fn written<M: WriteMemory>(self, memory: &M) -> &M::Word {
        memory.word(self.words)
    }

    fn read<M: WriteMemory>(self, memory: &M) -> &M::Word {
        memory.word(self.words + WORD_STEP)
    }

    fn reader_waits<M: WriteMemory>(self, memory: &M) -> &M::Word {
        memory.word(self.words + 2 * WORD_STEP)
    }

    fn writer_waits<M: WriteMemory>(self, memory: &M) -> &M::Word {
        memory.word(self.words + 3 * WORD_STEP)
    }

    /// Returns the bytes between the two positions, if that is possible.
    fn distance(self, written: u64, read: u64) -> Result<usize, SharedMemoryFault> {
        let len = written.wrapping_sub(read);
        if len > self.size as u64 { Err(SharedMemoryFault::Position) } else { Ok(len as usize) }
    }

    /// Returns the offset of `len` bytes at a position, and how many of them precede the end of the
    /// ring; the others are at its start.
    fn split(self, position: u64, len: usize) -> (usize, usize) {
        let at = position as usize & (self.size - 1);
        (self.bytes + at, len.min(self.size - at))
    }
}

/// Wake-ups that the other end may still send: one for each time that this end announced that it
/// waits.
pub type WakeupsDue = u64;

/// Announces that this end waits. Returns false if what it waits for is there already: then it does
/// not wait.
fn wait<M: WriteMemory>(
    memory: &M,
    word: &M::Word,
    due: &mut WakeupsDue,
    is_ready: impl FnOnce() -> Result<bool, SharedMemoryFault>,
) -> Result<bool, SharedMemoryFault> {
    if word.load(Ordering::Relaxed) == 0 {
        word.store(1, Ordering::Relaxed);
        *due += 1;
    }
    // Pairs with the fence in `clear_wait`: either this end sees the other's position, or the other
    // sees that this one waits.
    memory.fence(Ordering::SeqCst);
    if !is_ready()? {
        return Ok(true);
    }
    // If the other end cleared it first, its wake-up is on the way.
    if word.swap(0, Ordering::AcqRel) != 0 {
        *due = due.saturating_sub(1);
    }
    Ok(false)
}

/// Clears the other end's "waits" word. Returns true if it was set: send a wake-up.
fn clear_wait<M: WriteMemory>(memory: &M, word: &M::Word) -> bool {
    memory.fence(Ordering::SeqCst);
    word.load(Ordering::Relaxed) != 0 && word.swap(0, Ordering::AcqRel) != 0
}

/// The writing end of a ring.
#[derive(Debug)]
pub struct Writer {
    layout: RingLayout,
    written: u64,
    /// The reader's position as last read.
    read: u64,
}

impl Writer {
    /// Returns the writer of an unused ring.
    pub const fn new(layout: RingLayout) -> Self {
        Writer { layout, written: 0, read: 0 }
    }

    /// Writes as much as fits, without the first `skip` bytes. Returns the bytes written.
    ///
    /// # Errors
    /// If the reader's position is impossible.
    pub fn write<M: WriteMemory>(
        &mut self,
        memory: &M,
        pieces: &[IoSlice<'_>],
        mut skip: usize,
    ) -> Result<usize, SharedMemoryFault> {
        let wanted = pieces.iter().map(|piece| piece.len()).sum::<usize>() - skip;
        let mut free = self.layout.size - self.layout.distance(self.written, self.read)?;
        if free < wanted {
            free = self.read_free(memory)?;
        }
        let mut left = free.min(wanted);
        let total = left;
        if total == 0 {
            return Ok(0);
        }
        for piece in pieces {
            let (skipped, piece) = piece.split_at(skip.min(piece.len()));
            skip -= skipped.len();
            let piece = &piece[..piece.len().min(left)];
            let (at, len) = self.layout.split(self.written, piece.len());
            memory.copy_in(at, &piece[..len]);
            memory.copy_in(self.layout.bytes, &piece[len..]);
            self.written = self.written.wrapping_add(piece.len() as u64);
            left -= piece.len();
            if left == 0 {
                break;
            }
        }
        self.layout.written(memory).store(self.written, Ordering::Release);
        Ok(total)
    }

    /// Reads the reader's position. Returns the free bytes.
    fn read_free<M: WriteMemory>(&mut self, memory: &M) -> Result<usize, SharedMemoryFault> {
        let read = self.layout.read(memory).load(Ordering::Acquire);
        let used = self.layout.distance(self.written, read)?;
        self.read = read;
        Ok(self.layout.size - used)
    }

    /// Returns whether the reader must be woken. Call after writing.
    pub fn must_wake_peer<M: WriteMemory>(&self, memory: &M) -> bool {
        clear_wait(memory, self.layout.reader_waits(memory))
    }

    /// Announces that the writer waits until half of the ring is free: for less it would be woken
    /// too often. Returns false if it is free already.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn wait<M: WriteMemory>(
        &mut self,
        memory: &M,
        due: &mut WakeupsDue,
    ) -> Result<bool, SharedMemoryFault> {
        let layout = self.layout;
        wait(memory, layout.writer_waits(memory), due, || {
            self.read_free(memory).map(|free| free >= layout.size / 2)
        })
    }
}

/// The reading end of a ring.
#[derive(Debug)]
pub struct Reader {
    layout: RingLayout,
    read: u64,
}

impl Reader {
    /// Returns the reader of an unused ring.
    pub const fn new(layout: RingLayout) -> Self {
        Reader { layout, read: 0 }
    }

    /// Returns the bytes to read.
    fn available<M: WriteMemory>(&self, memory: &M) -> Result<usize, SharedMemoryFault> {
        self.layout.distance(self.layout.written(memory).load(Ordering::Acquire), self.read)
    }

    /// Reads as much as is there and fits. Returns the bytes read.
    ///
    /// # Errors
    /// If the writer's position is impossible.
    pub fn read<M: WriteMemory>(
        &mut self,
        memory: &M,
        buffer: &mut [u8],
    ) -> Result<usize, SharedMemoryFault> {
        let total = self.available(memory)?.min(buffer.len());
        if total == 0 {
            return Ok(0);
        }
        let (at, len) = self.layout.split(self.read, total);
        let (first, second) = buffer[..total].split_at_mut(len);
        memory.copy_out(at, first);
        memory.copy_out(self.layout.bytes, second);
        self.read = self.read.wrapping_add(total as u64);
        self.layout.read(memory).store(self.read, Ordering::Release);
        Ok(total)
    }

    /// Returns whether the writer must be woken. Call after reading.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn must_wake_peer<M: WriteMemory>(&self, memory: &M) -> Result<bool, SharedMemoryFault> {
        Ok(self.available(memory)? <= self.layout.size / 2
            && clear_wait(memory, self.layout.writer_waits(memory)))
    }

    /// Announces that the reader waits for bytes. Returns false if there are some.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn wait<M: WriteMemory>(
        &self,
        memory: &M,
        due: &mut WakeupsDue,
    ) -> Result<bool, SharedMemoryFault> {
        wait(memory, self.layout.reader_waits(memory), due, || {
            self.available(memory).map(|available| available > 0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::{Memory, new_file};
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::os::fd::AsFd;

    const SIZE: usize = 256;
    const LAYOUT: RingLayout = RingLayout { words: 0, bytes: WORDS_LEN, size: SIZE };

    fn memory() -> Memory {
        let len = WORDS_LEN + SIZE;
        Memory::map(new_file(len).unwrap().as_fd(), len).unwrap()
    }

    fn ends(memory: &Memory, at: u64) -> (Writer, Reader) {
        LAYOUT.written(memory).store(at, Ordering::Relaxed);
        LAYOUT.read(memory).store(at, Ordering::Relaxed);
        (Writer { layout: LAYOUT, written: at, read: at }, Reader { layout: LAYOUT, read: at })
    }

    proptest! {
        #[test]
        fn ring_equals_bounded_deque(
            // Also near the overflow of positions.
            start in prop_oneof![0u64..1000, u64::MAX - 1000..=u64::MAX],
            steps in proptest::collection::vec((proptest::collection::vec(0usize..150, 0..4), 0usize..300), 0..100),
        ) {
            let memory = memory();
            let (mut writer, mut reader) = ends(&memory, start);
            let (mut model, mut next) = (VecDeque::<u8>::new(), 0u8);
            for (lens, read) in steps {
                let mut next_byte = || {
                    next = next.wrapping_add(1);
                    next
                };
                let mut piece = |len: &usize| (0..*len).map(|_| next_byte()).collect();
                let pieces: Vec<Vec<u8>> = lens.iter().map(&mut piece).collect();
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

        /// Whatever the other process writes to the words: it is refused, or gives bytes of the
        /// ring, never more than it holds.
        #[test]
        fn any_words_keep_ends_within_ring(
            words in proptest::collection::vec((any::<bool>(), prop_oneof![any::<u64>(), 0u64..600]), 1..50),
            lens in proptest::collection::vec(0usize..400, 1..50),
        ) {
            let memory = memory();
            let (mut writer, mut reader) = ends(&memory, 100);
            for ((is_writer, value), len) in words.into_iter().zip(lens) {
                let word = if is_writer { LAYOUT.written(&memory) } else { LAYOUT.read(&memory) };
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
    fn waiting_end_is_woken_once() {
        let memory = memory();
        let (mut writer, mut reader) = ends(&memory, 0);
        let (mut reads, mut writes) = (0, 0);
        assert!(reader.wait(&memory, &mut reads).unwrap());
        assert!(reader.wait(&memory, &mut reads).unwrap());
        assert_eq!(reads, 1, "said once");
        writer.write(&memory, &[IoSlice::new(b"a")], 0).unwrap();
        assert!(writer.must_wake_peer(&memory));
        assert!(!writer.must_wake_peer(&memory));
        // There are bytes by now: it does not wait, and needs no wake-up.
        assert!(!reader.wait(&memory, &mut reads).unwrap());
        assert_eq!(reads, 1, "the ring that is on its way");
        assert!(!writer.must_wake_peer(&memory));

        writer.write(&memory, &[IoSlice::new(&[0; 2 * SIZE])], 0).unwrap();
        assert!(writer.wait(&memory, &mut writes).unwrap());
        reader.read(&memory, &mut [0; 100]).unwrap();
        assert!(!reader.must_wake_peer(&memory).unwrap(), "less than half is free");
        reader.read(&memory, &mut [0; 100]).unwrap();
        assert!(reader.must_wake_peer(&memory).unwrap());
        assert!(!writer.wait(&memory, &mut writes).unwrap());
        assert!(!reader.must_wake_peer(&memory).unwrap());
    }

    /// Two threads that sleep as event loops do: on a channel, with one message per wake-up.
    #[test]
    fn two_threads_never_sleep_forever() {
        const LEN: usize = 2_000_000;
        let len = WORDS_LEN + SIZE;
        let file = new_file(len).unwrap();
        let [memory, writer_memory] = [(); 2].map(|()| Memory::map(file.as_fd(), len).unwrap());
        let (mut writer, mut reader) = ends(&memory, 0);
        let (wake_reader, reader_wakeups) = std::sync::mpsc::channel::<()>();
        let (wake_writer, writer_wakeups) = std::sync::mpsc::channel::<()>();
        let timeout = std::time::Duration::from_secs(20);
        let writes = std::thread::spawn(move || {
            let (mut sent, mut due) = (0usize, 0);
            while sent < LEN {
                let bytes: Vec<u8> = (sent..LEN.min(sent + 97)).map(|at| at as u8).collect();
                match writer.write(&writer_memory, &[IoSlice::new(&bytes)], 0).unwrap() {
                    0 if writer.wait(&writer_memory, &mut due).unwrap() => {
                        writer_wakeups.recv_timeout(timeout).unwrap()
                    }
                    written => sent += written,
                }
                if writer.must_wake_peer(&writer_memory) {
                    wake_reader.send(()).unwrap();
                }
            }
        });
        let (mut got, mut due) = (0usize, 0);
        while got < LEN {
            let mut buffer = [0; 61];
            match reader.read(&memory, &mut buffer).unwrap() {
                0 if reader.wait(&memory, &mut due).unwrap() => {
                    reader_wakeups.recv_timeout(timeout).unwrap()
                }
                read => {
                    assert!(
                        buffer[..read]
                            .iter()
                            .enumerate()
                            .all(|(at, byte)| *byte == (got + at) as u8)
                    );
                    got += read;
                }
            }
            if reader.must_wake_peer(&memory).unwrap() {
                let _ = wake_writer.send(());
            }
        }
        writes.join().unwrap();
    }
}
