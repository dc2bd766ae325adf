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
MAGIC_AT, SIZE_AT, ITEMS_AT, INTENT_AT, TAIL_AT, RESTARTS_AT = 0, 8, 16, 64, 72, 80
MARK_AT, EARLIER_MARK_AT = 192, 200
FIRST, LAST, PAD, MISSING, ELSEWHERE = 1, 2, 4, 8, 16
#: Records in a row without a result after which the table of items is read, and followed items up
#: to which it is.
OTHERS_MAX, SKIP_ITEMS_MAX = 8, 16
#: Largest publication that is received, bytes. Larger ones count as lost.
PUBLICATION_BYTES_MAX = 256 << 20


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

    def start_item(self, item):
        """Begins an item, whose number may have been that of an earlier one."""
        entry = HEAD_LEN + item * ITEM_LEN
        if self.load(entry) or self.load(entry + 8):
            # Records of the earlier item may be unread, and the entry no longer shows them.
            self.store(RESTARTS_AT, self.load(RESTARTS_AT) + 1)
        self.store(entry + 8, 0)
        self.store(entry, 0)

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
        # Restarts of items that are known here, and the position up to which all records are read
        # because of them.
        self.restarts, self.reads_all_until = self.load(RESTARTS_AT), 0
        self.cursor, self.followed, self.ends = self.load(TAIL_AT), {}, {}
        self.partial, self.is_gapped = None, False
        self.publication_bytes_max = PUBLICATION_BYTES_MAX
        self.items_by_bit = [0] * 64

    def follow(self, item, position, after):
        """Follows an item from the publication after `after` on, which is at `position` or later.
        A reader that follows no other item leaves out what is before."""
        if not self.followed:
            self.cursor, self.partial, self.is_gapped = position, None, False
        if item not in self.followed:
            self.items_by_bit[item % 64] += 1
            self.followed[item] = after
        self.ends.pop(item, None)
        # The records of a publication follow each other: within one nothing is read again.
        is_within = self.partial and self.partial[2] < position
        if position < self.cursor and not is_within:
            self.cursor, self.partial = position, None

    def unfollow(self, item):
        """Ends following an item. Returns the number up to which it is accounted for."""
        self.ends.pop(item, None)
        self.items_by_bit[item % 64] -= item in self.followed
        return self.followed.pop(item, None)

    def wake_items(self):
        """Returns the followed items as ReaderPage.set_items takes them."""
        return sum(1 << bit for bit, count in enumerate(self.items_by_bit) if count)

    def has_records(self):
        return self.load(TAIL_AT) != self.cursor

    def read(self):
        """Returns (item, sequence, payload, lost), with payload None for a loss; None at the
        end."""
        others = 0
        while True:
            tail = self.load(TAIL_AT)
            if tail == self.cursor:
                return self._lost_at_end()
            is_overrun = not 0 < tail - self.cursor <= self.size
            if is_overrun or others == OTHERS_MAX:
                others = 0
                if self._skip_others(tail):
                    continue
            if is_overrun or not self._header(self.cursor, tail):
                self._skip(tail)
                continue
            found = self._take(*self.header)
            others += 1
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
        while self.cursor < tail and self._header(self.cursor, tail):
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

    def _next_of(self, item, last, tail):
        """Returns a position at most at `tail` before which no record of an item is of interest;
        None if its entry in the table does not tell."""
        if last >= self.ends.get(item, last + 1):
            return tail
        # In this order: the number before a start is visible before it.
        entry = HEAD_LEN + item * ITEM_LEN
        start = self.load(entry + 8) - 1
        sequence = self.load(entry)
        if sequence == last:
            # One that starts after the cursor is known, or its last parts are to come.
            return start if self.cursor <= start < tail else tail
        if sequence != last + 1 or not self.cursor <= start < tail:
            return None
        if not self._header(start, tail):
            return None
        is_next = self.header[1:3] == (item, sequence) and self.header[4] & FIRST
        return start if is_next else None

    def _skip_others(self, tail):
        """Moves past records of other items by the table of items, at most to `tail`, which was
        read before. Returns whether it moved."""
        if self.partial or len(self.followed) > SKIP_ITEMS_MAX:
            return False
        if self.cursor < self.reads_all_until:
            return False
        target = tail
        for item, last in self.followed.items():
            position = self._next_of(item, last, tail)
            if position is None:
                return False
            target = min(target, position)
        # After the entries: one that starts again is visible after the number of restarts.
        if self.load(RESTARTS_AT) != self.restarts:
            self.restarts = self.load(RESTARTS_AT)
            self.reads_all_until = self.load(TAIL_AT)
            return False
        if target <= self.cursor or target % RECORD_LEN:
            return False
        self.cursor = target
        return True

    def _header(self, position, tail):
        """Reads the header at a position. Returns whether it is intact."""
        if position % RECORD_LEN:
            raise RingFault("a record does not lie within the ring")
        self.header = struct.unpack_from("<IIQQQ", self.memory, self.offset(position))
        if self._is_overwritten(position):
            return False
        record = padded(RECORD_LEN + self.header[0])
        if record > tail - position or (position & (self.size - 1)) + record > self.size:
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
        if total > self.publication_bytes_max or offset + length > total:
            self.partial = None
            return ()
        if flags & FIRST:
            parts, start = bytearray(), position
        elif self.partial and self.partial[0] == key and len(self.partial[1]) == offset:
            _, parts, start = self.partial
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
            self.partial = (key, parts, start)
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
