"""Events about publishers and subscribers that come and go."""

import collections
import struct
import time

from .connection import Connection, text

PRESENCE = 13

#: A publisher or subscriber that is here, or is no longer. `name` is that of the item, or the
#: pattern of the subscription; `node` is 0 for the node that is asked.
Presence = collections.namedtuple("Presence", "is_publisher is_here name node session program")


class PresenceWatcher:
    """Receives events about publishers and subscribers, first about those that are here."""

    def __init__(self, path, program="python"):
        self.connection = Connection(path, program, shared_memory=False)
        self.pending = collections.deque()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.connection.close()

    def watch(self, pattern):
        self.connection.request(11, text(pattern))

    def receive(self, timeout_s):
        """Returns the next Presence; None if there is none in time."""
        deadline = time.monotonic() + timeout_s
        while not self.pending:
            left = deadline - time.monotonic()
            events = self.connection.take_events()
            self.pending.extend(_decode(body) for kind, body, _ in events if kind == PRESENCE)
            if left <= 0 or self.pending:
                break
            self.connection.read(left)
        return self.pending.popleft() if self.pending else None


def _decode(body):
    is_publisher, is_here, node, session = struct.unpack_from("<??QQ", body)
    texts, at = [], 18
    for _ in range(2):
        (length,) = struct.unpack_from("<H", body, at)
        texts.append(bytes(body[at + 2 : at + 2 + length]).decode())
        at += 2 + length
    return Presence(is_publisher, is_here, texts[0], node, session, texts[1])
