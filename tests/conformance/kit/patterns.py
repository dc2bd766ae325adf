"""Patterns of most wire cases: this packet is dropped, that one is forwarded."""

from .case import case, equal, expect
from .face import QUIET_S
from .packets import data, interest
from .tlv import comp

TARGET = "/t"


async def interest_dropped(t, build, quiet=QUIET_S):
    """Checks that the Interest `build(name)` is not forwarded and not answered, and that the path
    still works."""
    producer, consumer = await t.producer(), await t.face()
    consumer.send(build(t.name(TARGET)))
    await producer.none(prefix=t.prefix, quiet=quiet, what="It had to be dropped.")
    await consumer.none("data", quiet=0)
    return await t.still_works(consumer, producer)


async def interest_forwarded(t, build):
    """Checks that the Interest `build(name)` reaches the producer. Returns the sent and the received
    packet, the consumer and the producer."""
    producer, consumer = await t.producer(), await t.face()
    sent = build(t.name(TARGET))
    consumer.send(sent)
    got = await producer.interest(prefix=t.prefix)
    return sent, got, consumer, producer


async def data_dropped(t, build):
    """Checks that the reply `build(name)` does not satisfy the Interest, and a correct one still
    does."""
    producer, consumer = await t.producer(transport=t.transport), await t.face(t.router.local)
    target = t.name(TARGET)
    await t.send_interest(consumer, producer, target)
    producer.send(build(target))
    await consumer.none("data", what="It had to be dropped.")
    if producer.closed:
        expect(False, "the router closed the face over one well-framed packet")
    good = data(target, b"good")
    producer.send(good)
    equal((await consumer.data()).net, good, "Data bytes after the bad one")


async def data_forwarded(t, build):
    """Checks that the reply `build(name)` arrives byte for byte."""
    producer, consumer = await t.producer(transport=t.transport), await t.face(t.router.local)
    target = t.name(TARGET)
    await t.send_interest(consumer, producer, target)
    packet = build(target)
    producer.send(packet)
    got = await consumer.data()
    equal(got.net, packet, "Data bytes")
    return got


def dropped_interests(spec, rows, on, tags=()):
    """Registers one case per (id, sentence, build)."""
    for id_, requirement, build in rows:

        async def run(t, build=build):
            await interest_dropped(t, build)

        case(id_, spec, requirement, on=on, tags=tags)(run)


def dropped_data(spec, rows, on, tags=()):
    for id_, requirement, build in rows:

        async def run(t, build=build):
            await data_dropped(t, build)

        case(id_, spec, requirement, on=on, tags=tags)(run)


def forwarded_data(spec, rows, on, tags=()):
    for id_, requirement, build in rows:

        async def run(t, build=build):
            await data_forwarded(t, build)

        case(id_, spec, requirement, on=on, tags=tags)(run)


def unchanged_interests(spec, rows, on, tags=()):
    """Interests that must arrive byte for byte."""
    for id_, requirement, build in rows:

        async def run(t, build=build):
            sent, got, _, _ = await interest_forwarded(t, build)
            equal(got.net, sent, "Interest bytes")

        case(id_, spec, requirement, on=on, tags=tags)(run)


def deep(components, count, size=1):
    """A name of `count` more components."""
    return components + [comp(bytes([65 + i % 26]) * size) for i in range(count)]


__all__ = [
    "interest_dropped",
    "interest_forwarded",
    "data_dropped",
    "data_forwarded",
    "dropped_interests",
    "dropped_data",
    "forwarded_data",
    "unchanged_interests",
    "deep",
    "interest",
]
