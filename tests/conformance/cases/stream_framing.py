"""Packets one after the other on a stream, and the effect of a bad datagram on the next one."""

import asyncio

from kit.case import PKT, STREAM, UDP, case, equal, expect
from kit.packets import data, interest, lp, token
from kit.tlv import INTEREST, num, tlv

SPEC = PKT + "TLV: elements follow each other without separator"
SIZE = PKT + "Packet size limit"


@case("stream/one-byte-at-a-time", SPEC, "A packet that comes byte by byte is a packet.", on=STREAM)
async def dribble(t):
    producer, consumer = await t.producer(), await t.face()
    packet = interest(t.name("/slow"))
    for i in range(len(packet)):
        consumer.send(packet[i : i + 1])
        await asyncio.sleep(0.001)
    equal((await producer.interest(t.name("/slow"))).net, packet, "Interest bytes")


@case(
    "stream/many-in-one-write",
    SPEC,
    "Two hundred packets in one write are two hundred packets, in order.",
    on=STREAM,
)
async def burst(t):
    producer, consumer = await t.producer(), await t.face()
    names = [t.name(f"/{i}") for i in range(200)]
    consumer.send(*(interest(n) for n in names))
    got = [(await producer.interest()).name for _ in names]
    equal(got, names, "names in order of arrival")


@case(
    "stream/every-split",
    SPEC,
    "Two packets arrive whole wherever the stream is cut in two.",
    on=STREAM,
)
async def splits(t):
    producer, consumer = await t.producer(), await t.face()

    def pair(at):
        return interest(t.name(f"/a{at:04}"), lifetime=500) + lp(
            interest(t.name(f"/b{at:04}"), lifetime=500), token(b"tok")
        )

    splits_ = range(1, len(pair(0)))
    for at in splits_:
        stream = pair(at)
        consumer.send(stream[:at])
        await asyncio.sleep(0.0005)
        consumer.send(stream[at:])
    for at in splits_:
        await producer.interest(t.name(f"/a{at:04}"), what=f"cut at byte {at}")
        await producer.interest(t.name(f"/b{at:04}"), what=f"cut at byte {at}")
    expect(not consumer.closed, "the face was closed")


@case(
    "stream/large-and-small-mixed",
    SPEC,
    "Data of 8 KB and of 50 bytes, sent in one go, all arrive.",
    on=STREAM,
)
async def mixed(t):
    producer, consumer = await t.producer(transport=t.transport), await t.face()
    sizes = [8000, 50, 8000, 0, 1, 8500, 100] * 10
    for i, _ in enumerate(sizes):
        consumer.send(interest(t.name(f"/{i}"), lifetime=4000))
    for i, _ in enumerate(sizes):
        await producer.interest(t.name(f"/{i}"))
    packets = [data(t.name(f"/{i}"), bytes(n)) for i, n in enumerate(sizes)]
    producer.send(*packets)
    for i, p in enumerate(packets):
        equal((await consumer.data(t.name(f"/{i}"))).net, p, "Data bytes")


def broken_framing(id_, requirement, junk):
    @case(id_, SIZE, requirement, on=STREAM)
    async def run(t):
        producer, consumer = await t.producer(), await t.face()
        consumer.send(junk)
        await t.quiet(0.1)
        # Closing is correct. Continuing is correct too, once the length announced by the junk has
        # arrived: up to a whole packet.
        for i in range(400):
            if consumer.closed:
                break
            consumer.send(interest(t.name(f"/after/{i}")))
            await asyncio.sleep(0.01)
        expect(
            consumer.closed or any(p.name[:-1] == t.name("/after") for p in producer.inbox),
            "neither closed nor working: a stuck face",
        )
        await t.still_works(await t.face(), producer, "a new connection")


broken_framing(
    "stream/length-2-to-64",
    "A TLV-LENGTH of 2^64-1 closes the stream.",
    num(INTEREST) + b"\xff" * 9,
)
broken_framing(
    "stream/length-2-to-32",
    "A TLV-LENGTH of 2^32-1 closes the stream.",
    num(INTEREST) + b"\xfe" + b"\xff" * 4,
)
broken_framing(
    "stream/length-9000",
    "A TLV-LENGTH beyond the packet limit closes the stream.",
    tlv(INTEREST, bytes(9000)),
)
broken_framing(
    "stream/type-zero", "A packet of TLV-TYPE 0 closes the stream or is skipped.", b"\x00\x04abcd"
)
broken_framing(
    "stream/text",
    "A peer that speaks another protocol is closed or skipped.",
    b"GET / HTTP/1.1\r\nHost: example\r\n\r\n",
)
broken_framing(
    "stream/request-with-a-body",
    "A request whose first letters look like an element is closed or skipped.",
    b"POST /" + b"a" * 75 + b" HTTP/1.1\r\nHost: example\r\n\r\n",
)


@case(
    "stream/ignorable-type",
    SPEC,
    "An element that is no packet closes the stream, whatever its type: what follows may "
    "be the text of another protocol.",
    on=STREAM,
    tags=("differs",),
)
async def ignorable(t):
    producer = await t.producer()
    for junk in (tlv(80, bytes(79)), tlv(0x80, b"ab"), tlv(800, b""), b"PO" + bytes(79)):
        for before in (b"", interest(t.name("/before"))):
            consumer = await t.face()
            consumer.send(before + junk + interest(t.name("/after")))
            await producer.none("interest", t.name("/after"), quiet=0.1)
            for _ in range(200):
                if consumer.closed:
                    break
                await asyncio.sleep(0.01)
            expect(consumer.closed, f"still open after {junk[:2].hex()}")
    await t.still_works(await t.face(), producer)


broken_framing("stream/all-ones", "A thousand bytes FF close the stream.", b"\xff" * 1000)


@case(
    "stream/half-packet-then-close",
    SPEC,
    "A peer that disconnects in the middle of a packet harms no other peer.",
    on=STREAM,
)
async def half(t):
    producer, consumer = await t.producer(), await t.face()
    for _ in range(10):
        leaver = await t.face()
        leaver.send(interest(t.name("/half"))[:-3])
        await leaver.drain()
        leaver.close()
    await producer.none("interest", quiet=0.1)
    await t.still_works(consumer, producer)


@case(
    "datagram/truncated-then-good",
    SPEC,
    "A truncated datagram does not eat the next one.",
    on=(UDP,),
)
async def truncated(t):
    producer, consumer = await t.producer(), await t.face()
    for cut in (1, 2, 3, 10, 20):
        good = t.name(f"/good-{cut}")
        consumer.send(interest(t.name("/bad"))[:-cut], interest(good))
        await producer.interest(good)
    await producer.none("interest", t.name("/bad"), quiet=0.05)


@case(
    "datagram/odd-ones",
    SPEC,
    "An empty datagram, one byte, and a length of 2^64-1 are dropped.",
    on=(UDP,),
)
async def odd(t):
    producer, consumer = await t.producer(), await t.face()
    consumer.send(
        b"",
        b"\x05",
        b"\xfd",
        b"\x05\xff" + b"\xff" * 8,
        b"\x64\xff" + b"\xff" * 8,
        b"\x05\xfe\xff\xff\xff\xff",
    )
    await t.still_works(consumer, producer)


@case("datagram/65000-bytes", SIZE, "A datagram of 60000 bytes is dropped.", on=(UDP,))
async def huge(t):
    producer, consumer = await t.producer(), await t.face()
    consumer.send(tlv(INTEREST, bytes(60000)))
    await producer.none("interest", quiet=0.1)
    await t.still_works(consumer, producer)
