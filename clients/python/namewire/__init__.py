"""Publish/subscribe of a Namewire node, in pure Python.

>>> from namewire import Publisher, Subscriber
>>> publisher = Publisher("/run/nfd/nfd.pubsub.sock")
>>> item = publisher.announce("/sensors/room1/temperature")
>>> publisher.publish(item, b"21.5")

Publications go through a ring in shared memory, as between programs in Rust. Needs Linux 5.1 and
Python 3.9. Tests: tests/pubsub.
"""

from .connection import NodeError, Refused
from .names import derived_name
from .presence import Presence, PresenceWatcher
from .publisher import STRATEGIES, Publisher
from .subscriber import Lost, Publication, Subscriber

__all__ = [
    "STRATEGIES",
    "Lost",
    "NodeError",
    "Presence",
    "PresenceWatcher",
    "Publication",
    "Publisher",
    "Refused",
    "Subscriber",
    "derived_name",
]
