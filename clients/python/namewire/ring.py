"""The ring in shared memory: layout as in crates/faces/src/local_pubsub/ring.rs."""

import fcntl
import mmap
import os
import struct

from .connection import (
    F_ADD_SEALS,
    F_GET_SEALS,
    SEAL_FUTURE_WRITE,
    SEAL_GROW,
    SEAL_SEAL,
    SEAL_SHRINK,
    shared_words,
)

HEAD_LEN, ITEM_LEN, RECORD_LEN = 4096, 16, 32
MAGIC = int.from_bytes(b"nw-ring1", "little")
MAGIC_AT, SIZE_AT, ITEMS_AT, INTENT_AT, TAIL_AT = 0, 8, 16, 64, 72
MARK_AT, EARLIER_MARK_AT = 192, 200
FIRST, LAST, PAD, MISSING, ELSEWHERE = 1, 2, 4, 8, 16


class RingFault(Exception):
    """A ring is not laid out as it must be."""


class Ring:
    """What both ends share: sizes and words."""

    def __init__(self, size, items, memory):
        self.size, self.items, self.memory = size, items, memory
        self.words = shared_words(memory)
        self.data_at = data_at(items)
        self.record_bytes_max = size // 4 - RECORD_LEN

    def close(self):
        self.words.release()
        self.memory.close()

    def load(self, at):
        return self.words[at // 8]

    def offset(self, position):
        return self.data_at + (position & (self.size - 1))

    def sequence(self, item):
        return self.load(HEAD_LEN + item * ITEM_LEN)


def data_at(items):
    return (HEAD_LEN + items * ITEM_LEN + 4095) // 4096 * 4096


def padded(length):
    return (length + RECORD_LEN - 1) // RECORD_LEN * RECORD_LEN


class RingWriter(Ring):
    """The writing end. `file` is for readers."""

    def __init__(self, size, items):
        length = data_at(items) + size
        self.file = os.memfd_create("nw-shm", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.file, length)
        fcntl.fcntl(self.file, F_ADD_SEALS, SEAL_SHRINK | SEAL_GROW)
        super().__init__(size, items, mmap.mmap(self.file, length))
        fcntl.fcntl(self.file, F_ADD_SEALS, SEAL_FUTURE_WRITE | SEAL_SEAL)
        self.tail = self.mark = 0
        self.store(SIZE_AT, size)
        self.store(ITEMS_AT, items)
        self.store(MAGIC_AT, MAGIC)

    def store(self, at, value):
        self.words[at // 8] = value

    def tail_after(self, length):
        record = padded(RECORD_LEN + length)
        left = self.size - (self.tail & (self.size - 1))
        return self.tail + (left if record > left else 0) + record

    def write(self, item, sequence, total, offset, flags, payload):
        end = self.tail_after(len(payload))
        start = end - padded(RECORD_LEN + len(payload))
        self.store(INTENT_AT, end)
        if start > self.tail:
            filler = struct.pack("<IIQQQ", start - self.tail - RECORD_LEN, 0, 0, 0, PAD)
            at = self.offset(self.tail)
            self.memory[at : at + RECORD_LEN] = filler
        at = self.offset(start)
        header = struct.pack("<IIQQQ", len(payload), item, sequence, total, offset << 8 | flags)
        self.memory[at : at + RECORD_LEN] = header
        self.memory[at + RECORD_LEN : at + RECORD_LEN + len(payload)] = payload
        entry = HEAD_LEN + item * ITEM_LEN
        if flags & FIRST:
            self.store(entry + 8, start + 1)
        if flags & LAST:
            self.store(entry, sequence)
        self.store(TAIL_AT, end)
        self.tail = end
        if end - self.mark >= self.size // 4:
            self.store(EARLIER_MARK_AT, self.mark)
            self.store(MARK_AT, end)
            self.mark = end


class RingReader(Ring):
    """A reading end. `followed` has the last sequence number of each followed item."""

    def __init__(self, file, size, items):
        length = data_at(items) + size
        required = SEAL_SHRINK | SEAL_GROW | SEAL_FUTURE_WRITE
        is_sealed = fcntl.fcntl(file, F_GET_SEALS) & required == required
        if not is_sealed or os.fstat(file).st_size != length or size & (size - 1):
            raise RingFault("the ring's memory file is not sealed, or has another length")
        super().__init__(size, items, mmap.mmap(file, length, prot=mmap.PROT_READ))
        if [self.load(at) for at in (MAGIC_AT, SIZE_AT, ITEMS_AT)] != [MAGIC, size, items]:
            raise RingFault("the ring's sizes are not those announced")
        self.cursor, self.followed, self.ends = self.load(TAIL_AT), {}, {}
        self.partial, self.is_gapped = None, False

    def follow(self, item, position, after):
        self.followed.setdefault(item, after)
        if position < self.cursor:
            self.cursor, self.partial = position, None

    def has_records(self):
        return self.load(TAIL_AT) != self.cursor

    def read(self):
        """Returns (item, sequence, payload, lost), with payload None for a loss; None at the
        end."""
        while True:
            tail = self.load(TAIL_AT)
            if tail == self.cursor:
                return self._lost_at_end()
            if not 0 < tail - self.cursor <= self.size or not self._header(tail):
                self._skip(tail)
                continue
            found = self._take(*self.header)
            if found is None:
                self._skip(tail)
            elif found:
                return found

    def read_last(self, item):
        """Returns (sequence, payload) of an item's last publication, if it is in the ring."""
        start = self.load(HEAD_LEN + item * ITEM_LEN + 8) - 1
        tail = self.load(TAIL_AT)
        if start < 0 or not 0 < tail - start <= self.size:
            return None
        state = (self.cursor, self.partial, self.followed.get(item))
        self.cursor, self.partial, self.followed[item] = start, None, 0
        found = None
        while self.cursor < tail and self._header(tail):
            taken = self._take(*self.header)
            if taken is None or taken:
                found = taken
                break
        self.cursor, self.partial, self.followed[item] = state
        if not found or found[0] != item or found[2] is None:
            return None
        self.followed[item] = max(found[1], state[2])
        return found[1], found[2]

    def _is_overwritten(self, position):
        return self.load(INTENT_AT) - position > self.size

    def _header(self, tail):
        """Reads the header at the cursor. Returns whether it is intact."""
        if self.cursor % RECORD_LEN:
            raise RingFault("a record does not lie within the ring")
        self.header = struct.unpack_from("<IIQQQ", self.memory, self.offset(self.cursor))
        if self._is_overwritten(self.cursor):
            return False
        record = padded(RECORD_LEN + self.header[0])
        if record > tail - self.cursor or (self.cursor & (self.size - 1)) + record > self.size:
            raise RingFault("a record does not lie within the ring")
        return True

    def _take(self, length, item, sequence, total, last_word):
        """Takes the record at the cursor: a result, an empty tuple, or None if overwritten."""
        position, flags, offset = self.cursor, last_word & 0xFF, last_word >> 8
        self.cursor += padded(RECORD_LEN + length)
        last = self.followed.get(item)
        is_wanted = last is not None and last < sequence <= self.ends.get(item, sequence)
        if flags & PAD or not is_wanted:
            return ()
        if flags & MISSING:
            self.followed[item] = sequence
            return item, sequence, None, sequence - last
        if flags & ELSEWHERE:
            self.followed[item] = sequence
            lost = sequence - last - 1
            return (item, sequence, None, lost) if lost else ()
        key = (item, sequence, total)
        if flags & FIRST:
            parts = bytearray()
        elif self.partial and self.partial[0] == key and len(self.partial[1]) == offset:
            parts = self.partial[1]
        else:
            self.partial = None
            return ()
        at = self.offset(position) + RECORD_LEN
        parts += self.memory[at : at + length]
        self.partial = None
        if self._is_overwritten(position):
            self.cursor = position
            return None
        if not flags & LAST:
            self.partial = (key, parts)
            return ()
        if len(parts) != total:
            return ()
        self.followed[item] = sequence
        return item, sequence, bytes(parts), sequence - last - 1

    def _skip(self, tail):
        self.is_gapped, self.partial = True, None
        mark = self.load(EARLIER_MARK_AT)
        is_usable = self.cursor < mark <= tail and tail - mark <= self.size // 4 * 3
        target = mark if is_usable else tail
        if target <= self.cursor:
            raise RingFault("a record does not lie within the ring")
        self.cursor = target

    def _lost_at_end(self):
        if not self.is_gapped:
            return None
        for item, last in self.followed.items():
            sequence = self.sequence(item)
            sequence = min(sequence, self.ends.get(item, sequence))
            if self.load(INTENT_AT) != self.cursor:
                return None
            if sequence > last:
                self.followed[item] = sequence
                return item, sequence, None, sequence - last
        self.is_gapped = False
        return None
