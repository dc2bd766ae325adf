"""The publishing end."""

import os
import struct
import time

from .connection import WAITS_BY_MESSAGE, Connection, ReaderPage, text
from .ring import FIRST, LAST, RingWriter

FRAGMENT_BYTES_MAX = 256 << 10

#: Which nodes publications reach: all of the domain, this one, those on its links by
#: subscription, all of those, what the scope's strategy is, or those of a given route.
STRATEGIES = ("domain", "node", "link", "broadcast", None, "implicit")
#: Which of several publishers of an item serve a subscriber; None: as the others have chosen.
CHOICES = (None, "all", "nearest", "strongest")


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
        # Readers of each item, and the number of items of each reader. One of no item is not waited
        # for and not woken.
        self.item_readers, self.items_of = {}, {}
        self.wakeups, self.wakes_all_at = 0, 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.connection.close()
        while self.readers:
            self.readers.popitem()[1][0].close()
        ring, self.ring = self.ring, None
        if ring:
            ring.close()
            os.close(ring.file)

    def announce(self, name, keeps_last=True, strategy=None, choice=None, strength=0):
        """Announces an item and returns its number. `strategy`: which nodes its publications
        reach, one of STRATEGIES; None: that of the scope, or else "domain". `choice`: which of
        several publishers of the item serve a subscriber, one of CHOICES; one that stands by has
        no subscribers."""
        item = max(self.sequences, default=-1) + 1
        options = keeps_last | STRATEGIES.index(strategy) << 1 | CHOICES.index(choice) << 4
        body = struct.pack("<IB", item, options | (strength > 0) << 6)
        body += (struct.pack("<I", strength) if strength else b"") + text(name)
        if self.ring and item < self.ring.items:
            self.ring.start_item(item)
        self.connection.request(3, body)
        self.sequences[item] = 0
        self._update()
        return item

    def withdraw(self, item):
        self.connection.request(4, struct.pack("<I", item))
        del self.sequences[item]

    def publish_scope(self, name, strategy=None):
        """Publishes a scope: items announced below it have its strategy."""
        self.connection.request(13, struct.pack("<B", STRATEGIES.index(strategy)) + text(name))

    def withdraw_scope(self, name):
        self.connection.request(14, text(name))

    def add_parent(self, name, parent):
        """Publishes a scope, or an item of this publisher, under a further scope."""
        self.connection.request(15, text(name) + text(parent))

    def remove_parent(self, name, parent):
        """Ends what add_parent did; other parents stay."""
        self.connection.request(16, text(name) + text(parent))

    def set_route(self, item, like=None, path=None):
        """Sets where the publications of an item with the strategy "implicit" go: to the nodes that
        subscribe to the name `like`, along the forwarding identifier `path` (hexadecimal, as `nw
        pubsub trace` shows it), or to no other node."""
        route = b"\0"
        if like is not None:
            route = b"\1" + text(like)
        elif path is not None:
            route = b"\2" + bytes.fromhex(path)
        self.connection.request(17, struct.pack("<I", item) + route)

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
            # None stays a quarter of the ring behind only because it waits for other items.
            is_for_all = self.ring.tail >= self.wakes_all_at
            if is_for_all:
                self.wakes_all_at = self.ring.tail + self.ring.size // 4
            self._wake(None if is_for_all else item)
        return sequence

    def drain(self, timeout_s=1):
        """Waits until all readers have read everything. Returns whether they have."""
        deadline = time.monotonic() + timeout_s
        while self.ring:
            self._update()
            if self._slowest(self.ring.tail) >= self.ring.tail:
                return True
            if time.monotonic() > deadline:
                return False
            self._wake()
            time.sleep(0.001)
        return True

    def _wake(self, item=None):
        """Wakes the readers of an item that wait, or all readers that have not read everything."""
        is_node_told = False
        numbers = self.items_of if item is None else self.item_readers.get(item, ())
        for page, slot in [self.readers[number] for number in numbers]:
            if item is None and page.cursor(slot) >= self.ring.tail:
                continue
            waits = page.wake(slot, item)
            self.wakeups += waits != 0
            is_node_told |= waits == WAITS_BY_MESSAGE
        if is_node_told:
            self.connection.send(8)

    def _wait_for_space(self, length):
        tail, end = self.ring.tail, self.ring.tail_after(length)
        progress, since = None, time.monotonic()
        while True:
            slowest = self._slowest(tail)
            if end - slowest <= self.ring.size:
                return
            if slowest != progress:
                progress, since = slowest, time.monotonic()
            elif time.monotonic() - since > (self.wait_s or 1):
                return
            self._wake()
            time.sleep(0.0001)
            if self.connection.has_mail():
                self._update()

    def _slowest(self, tail):
        """Returns how far all have read; what can't be true counts as all."""
        readers = [self.readers[number] for number in self.items_of]
        return min([tail] + [page.cursor(slot) for page, slot in readers])

    def _add_item_reader(self, item, number, after):
        readers = self.item_readers.setdefault(item, set())
        if number not in self.readers or number in readers:
            return
        readers.add(number)
        self.items_of[number] = self.items_of.get(number, 0) + 1
        # It may wait for what was published before it was known to read the item.
        page, slot = self.readers[number]
        if self.sequences.get(item, 0) > after and page.wake(slot, item) == WAITS_BY_MESSAGE:
            self.connection.send(8)

    def _remove_item_reader(self, item, number):
        readers = self.item_readers.get(item, set())
        if number not in readers:
            return
        readers.remove(number)
        if not readers:
            del self.item_readers[item]
        self.items_of[number] -= 1
        if not self.items_of[number]:
            del self.items_of[number]

    def _update(self):
        for kind, body, file in self.connection.take_events():
            if kind == 7 and file is not None:
                reader, slot = struct.unpack("<II", body)
                self.readers[reader] = (ReaderPage(file), slot)
                if self.readers[reader][0].wake() == WAITS_BY_MESSAGE:
                    self.connection.send(8)
            elif kind == 8:
                reader = self.readers.pop(struct.unpack("<I", body)[0], None)
                if reader:
                    reader[0].close()
            elif kind == 9:
                item, count = struct.unpack("<II", body)
                self.counts[item] = count
            elif kind == 14:
                self._add_item_reader(*struct.unpack("<IIQ", body))
            elif kind == 15:
                self._remove_item_reader(*struct.unpack("<II", body))
