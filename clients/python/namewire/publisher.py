"""The publishing end."""

import os
import struct
import time

from .connection import Connection, ReaderPage, text
from .ring import FIRST, LAST, RingWriter

FRAGMENT_BYTES_MAX = 256 << 10


class Publisher:
    """Publishes items. `wait_s`: how long a subscriber that reads nothing is waited for; 0:
    publications that were not read are overwritten, and the subscriber is told how many it lost."""

    def __init__(self, path, program="python", ring_bytes=1 << 20, wait_s=0, shared_memory=True):
        self.connection = Connection(path, program)
        self.ring = None
        if shared_memory:
            size = 1 << max(16, (min(ring_bytes, self.connection.ring_bytes_max) - 1).bit_length())
            self.ring = RingWriter(size, self.connection.items_max)
            sizes = struct.pack("<II", size, self.connection.items_max)
            self.connection.send(2, sizes, self.ring.file)
        self.wait_s, self.sequences, self.counts, self.readers = wait_s, {}, {}, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.connection.close()
        for page, _ in self.readers.values():
            page.close()
        if self.ring:
            self.ring.close()
            os.close(self.ring.file)

    def announce(self, name, keeps_last=True):
        """Announces an item and returns its number."""
        item = max(self.sequences, default=-1) + 1
        body = struct.pack("<I?", item, keeps_last) + text(name)
        self.connection.request(3, body)
        self.sequences[item] = 0
        self._update()
        return item

    def withdraw(self, item):
        self.connection.request(4, struct.pack("<I", item))
        del self.sequences[item]

    def subscribers(self, item):
        """Returns the number of subscribers: applications of this node, and other nodes."""
        self._update()
        return self.counts.get(item, 0)

    def publish(self, item, payload):
        """Publishes, and returns the sequence number."""
        if self.connection.has_mail():
            self._update()
        self.sequences[item] += 1
        sequence = self.sequences[item]
        limit = self.ring.record_bytes_max if self.ring else FRAGMENT_BYTES_MAX
        for start in range(0, max(len(payload), 1), limit):
            part = payload[start : start + limit]
            if not self.ring:
                head = struct.pack("<IQQQI", item, sequence, len(payload), start, len(part))
                self.connection.send(7, head + part)
                continue
            is_last = start + len(part) == len(payload)
            flags = (FIRST if start == 0 else 0) | (LAST if is_last else 0)
            if self.wait_s or len(payload) > limit:
                self._wait_for_space(len(part))
            self.ring.write(item, sequence, len(payload), start, flags, part)
            # Each page is woken, so this is no generator.
            wakeups = [page.wake() for page, _ in self.readers.values()]
            if any(wakeups):
                self.connection.send(8)
        return sequence

    def drain(self, timeout_s=1):
        """Waits until all readers have read everything. Returns whether they have."""
        deadline = time.monotonic() + timeout_s
        while self.ring:
            self._update()
            cursors = [page.cursor(slot) for page, slot in self.readers.values()]
            if all(cursor >= self.ring.tail for cursor in cursors):
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.001)
        return True

    def _wait_for_space(self, length):
        tail, end = self.ring.tail, self.ring.tail_after(length)
        progress, since = None, time.monotonic()
        while True:
            cursors = [min(page.cursor(slot), tail) for page, slot in self.readers.values()]
            slowest = min(cursors, default=tail)
            if end - slowest <= self.ring.size:
                return
            if slowest != progress:
                progress, since = slowest, time.monotonic()
            elif time.monotonic() - since > (self.wait_s or 1):
                return
            time.sleep(0.0001)
            if self.connection.has_mail():
                self._update()

    def _update(self):
        for kind, body, file in self.connection.take_events():
            if kind == 7 and file is not None:
                reader, slot = struct.unpack("<II", body)
                self.readers[reader] = (ReaderPage(file), slot)
                if self.readers[reader][0].wake():
                    self.connection.send(8)
            elif kind == 8:
                reader = self.readers.pop(struct.unpack("<I", body)[0], None)
                if reader:
                    reader[0].close()
            elif kind == 9:
                item, count = struct.unpack("<II", body)
                self.counts[item] = count
