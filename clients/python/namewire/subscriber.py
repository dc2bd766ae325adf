"""The subscribing end."""

import collections
import os
import struct
import time

from .connection import BY_MESSAGES, Connection, NodeError, text
from .ring import PUBLICATION_BYTES_MAX, RingFault, RingReader

SLICE_S = 0.1

#: A publication; `lost`: publications of the item lost since the one before.
Publication = collections.namedtuple("Publication", "name sequence payload lost is_last_value")
#: Publications that were lost, with no later one yet.
Lost = collections.namedtuple("Lost", "name lost")


class _Source:
    def __init__(self, slot, reader):
        self.slot, self.reader = slot, reader
        self.names, self.ends = {}, {}
        self.delivered = self.lost = 0
        self.has_ended = False


class Subscriber:
    """Receives publications. `delivered` and `lost` count those of all items."""

    def __init__(self, path, program="python", shared_memory=True):
        self.connection = Connection(path, program, shared_memory)
        self.sources, self.relayed = [], {}
        self.pending = collections.deque()
        self.last_subscription = 0
        self.delivered = self.lost = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        while self.sources:
            self.sources.pop().reader.close()
        self.connection.close()

    def subscribe(self, pattern, wants_last=True, history=None, here=False):
        """Subscribes to a name or pattern; returns the number of the subscription. `history`: how
        many earlier publications of each item come first, as far as its ring has them. `here`:
        other nodes are not told, as for items with the strategy "implicit"."""
        self.last_subscription += 1
        history = int(wants_last) if history is None else history
        body = struct.pack("<II", self.last_subscription, history) + text(pattern)
        self.connection.request(12 if here else 10, body)
        return self.last_subscription

    def unsubscribe(self, subscription):
        self.connection.request(6, struct.pack("<I", subscription))

    def receive(self, timeout_s=None):
        """Returns the next Publication or Lost; None if there is none in time."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        failure = None
        while True:
            if self.connection.page and self.connection.has_mail():
                try:
                    self._update()
                except NodeError as error:
                    failure = error
            found = self._next()
            if found:
                return self._count(found)
            if failure:
                raise failure
            left = SLICE_S if deadline is None else min(SLICE_S, deadline - time.monotonic())
            if left <= 0:
                return None
            self._wait(left)

    def __iter__(self):
        while True:
            yield self.receive()

    def _count(self, found):
        self.lost += found.lost
        self.delivered += isinstance(found, Publication)
        return found

    def _wait(self, timeout_s):
        page = self.connection.page
        if not page:
            self.connection.read(timeout_s)
            self._update()
            return
        page.announce_wait()
        has_records = any(source.names and source.reader.has_records() for source in self.sources)
        if has_records or self.connection.has_mail():
            page.end_wait()
            return
        page.wait(timeout_s)
        if not self.connection.has_mail():
            # The end of the node shows at the socket only.
            self.connection.read(0)

    def _next(self):
        if self.pending:
            return self.pending.popleft()
        for source in list(self.sources):
            if not source.names:
                # No item of this ring is subscribed to now: it is not read.
                if source.has_ended:
                    self.sources.remove(source)
                continue
            try:
                found = source.reader.read()
            except RingFault:
                self.sources.remove(source)
                continue
            if found:
                item, sequence, payload, lost = found
                source.lost += lost
                source.delivered += payload is not None
                self._report(source)
                self.sources.append(self.sources.pop(0))
                name = source.names.get(item, "")
                if payload is None:
                    return Lost(name, lost)
                return Publication(name, sequence, payload, lost, False)
            self._settle(source)
            self._report(source)
            if self.pending:
                return self.pending.popleft()
        return None

    def _settle(self, source):
        """Ends the items of which nothing more will come: the ring is read to its end."""
        for item, end in source.ends.items():
            name = source.names.pop(item, "")
            last = source.reader.unfollow(item)
            if last is not None and end > last:
                source.lost += end - last
                self.pending.append(Lost(name, end - last))
        if source.ends:
            source.ends = {}
            self._set_items(source)
        if source.has_ended and not source.names:
            self.sources.remove(source)

    def _set_items(self, source):
        """Says which items wake this subscriber."""
        if self.connection.page and not source.has_ended:
            self.connection.page.set_items(source.slot, source.reader.wake_items())

    def _report(self, source):
        page = self.connection.page
        page.report(source.slot, source.reader.cursor, source.delivered, source.lost)

    def _source(self, slot):
        live = [s for s in self.sources if s.slot == slot and not s.has_ended]
        return live[0] if live else None

    def _update(self):
        for kind, body, file in self.connection.take_events():
            if kind == 3 and file is not None:
                slot, size, items = struct.unpack("<III", body)
                try:
                    self.sources.append(_Source(slot, RingReader(file, size, items)))
                except RingFault:
                    pass
                os.close(file)
            elif kind == 4:
                self._add_item(body)
            elif kind == 5:
                slot, item, last = struct.unpack("<IIQ", body)
                if slot == BY_MESSAGES:
                    self.relayed.pop(item, None)
                elif (source := self._source(slot)) and item in source.names:
                    source.ends[item] = source.reader.ends[item] = last
            elif kind == 6:
                slot = struct.unpack("<I", body)[0]
                if source := self._source(slot):
                    source.has_ended = True
                    # The slot may be that of another ring from now on.
                    self.connection.page.set_items(slot, 0)
            elif kind == 10:
                self._take_fragment(body)
            elif kind == 11:
                item, count = struct.unpack("<IQ", body)
                if item in self.relayed:
                    self.pending.append(Lost(self.relayed[item][0], count))

    def _add_item(self, body):
        slot, item, position, after, reads_last, length = struct.unpack_from("<IIQQ?H", body)
        name = body[27 : 27 + length].decode()
        if slot == BY_MESSAGES:
            self.relayed[item] = (name, bytearray())
            return
        source = self._source(slot)
        if not source:
            return
        source.reader.follow(item, position, after)
        source.names[item] = name
        # It may have ended before, with its ring not read to that end yet.
        source.ends.pop(item, None)
        self._set_items(source)
        self._report(source)
        last = source.reader.read_last(item) if reads_last and after else None
        if last:
            source.delivered += 1
            self.pending.append(Publication(name, last[0], last[1], 0, True))

    def _take_fragment(self, body):
        head = struct.Struct("<I?QQQI")
        item, is_last_value, sequence, total, offset, length = head.unpack_from(body)
        if item not in self.relayed:
            return
        name, parts = self.relayed[item]
        if offset == 0:
            del parts[:]
        if len(parts) == offset and total <= PUBLICATION_BYTES_MAX:
            parts += body[head.size : head.size + length]
        if offset + length == total:
            if len(parts) == total:
                found = Publication(name, sequence, bytes(parts), 0, is_last_value)
            else:
                found = Lost(name, 1)
            self.pending.append(found)
            del parts[:]
