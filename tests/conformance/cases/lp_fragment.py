"""Indexed fragmentation and reassembly, in both directions."""

from kit import management as mgmt
from kit.case import LPV2, UDP, case, equal, expect
from kit.packets import data, interest, lp, token, with_params
from kit.patterns import interest_dropped
from kit.tlv import FRAG_COUNT, FRAG_INDEX, LP_SEQUENCE, tlv, tlv_nni

SPEC = LPV2 + "Indexed Fragmentation"


def cut(packet: bytes, count: int) -> list[bytes]:
    size = -(-len(packet) // count)
    return [packet[i * size : (i + 1) * size] for i in range(count)]


def piece(payload, seq, index, count, *headers, seq_bytes=8):
    seq_value = (seq % (1 << 64)).to_bytes(8, "big")[-seq_bytes:] if seq is not None else None
    fields = [tlv(LP_SEQUENCE, seq_value)] if seq_value is not None else []
    if index is not None:
        fields.append(tlv_nni(FRAG_INDEX, index))
    if count is not None:
        fields.append(tlv_nni(FRAG_COUNT, count))
    return lp(payload, *fields, *headers)


def pieces(packet, count, first=1000, *headers):
    """`count` LpPackets; extra headers on the first."""
    return [
        piece(p, first + i, i, count, *(headers if i == 0 else ()))
        for i, p in enumerate(cut(packet, count))
    ]


def big(n):
    return with_params(n, bytes(range(256)) * 4)


async def arrives(t, order, count=3, first=1000):
    producer, consumer = await t.producer(), await t.face()
    packet = big(t.name("/t"))
    parts = pieces(packet, count, first)
    for i in order:
        consumer.send(parts[i])
    equal((await producer.interest(prefix=t.prefix)).net, packet, "reassembled bytes")
    await t.still_works(consumer, producer)


@case("lp/reassembly/two", SPEC, "An Interest in two fragments is reassembled.", on=(UDP,))
async def two(t):
    await arrives(t, [0, 1], 2)


@case("lp/reassembly/reversed", SPEC, "Fragments may come in any order.", on=(UDP,))
async def reverse(t):
    await arrives(t, [2, 1, 0])


@case("lp/reassembly/duplicate", SPEC, "A fragment that comes twice does no harm.", on=(UDP,))
async def duplicate(t):
    await arrives(t, [0, 0, 1, 1, 2])


@case(
    "lp/reassembly/sequence-wraps",
    SPEC,
    "Sequence counts modulo 2^64: a first fragment of 2^64-1 works.",
    on=(UDP,),
    tags=("clients",),
)
async def wraps(t):
    await arrives(t, [0, 1, 2], 3, (1 << 64) - 1)


@case(
    "lp/reassembly/sequence-zero-first", SPEC, "A first fragment with Sequence 0 works.", on=(UDP,)
)
async def zero(t):
    await arrives(t, [1, 0, 2], 3, 0)


@case(
    "lp/reassembly/forty", SPEC, "An Interest in forty small fragments is reassembled.", on=(UDP,)
)
async def forty(t):
    await arrives(t, list(range(40)), 40)


@case("lp/reassembly/interleaved", SPEC, "Fragments of two packets may be interleaved.", on=(UDP,))
async def interleaved(t):
    producer, consumer = await t.producer(), await t.face()
    a, b = big(t.name("/a")), big(t.name("/b"))
    for x, y in zip(pieces(a, 3, 100), pieces(b, 3, 200)):
        consumer.send(x, y)
    got = {
        (await producer.interest(prefix=t.prefix)).net,
        (await producer.interest(prefix=t.prefix)).net,
    }
    expect(got == {a, b}, "the two packets did not come out as they went in")


@case(
    "lp/reassembly/two-peers",
    SPEC,
    "The same Sequence from two peers belongs to two packets.",
    on=(UDP,),
)
async def two_peers(t):
    producer, first_sender, second_sender = await t.producer(), await t.face(), await t.face()
    a, b = big(t.name("/a")), big(t.name("/b"))
    for x, y in zip(pieces(a, 3, 100), pieces(b, 3, 100)):
        first_sender.send(x)
        second_sender.send(y)
    got = {
        (await producer.interest(prefix=t.prefix)).net,
        (await producer.interest(prefix=t.prefix)).net,
    }
    expect(got == {a, b}, "the two packets did not come out as they went in")


@case(
    "lp/reassembly/headers-of-first",
    SPEC,
    "Header fields of the first fragment belong to the whole packet.",
    on=(UDP,),
)
async def headers(t):
    producer, consumer = await t.producer(), await t.face()
    packet = big(t.name("/t"))
    consumer.send(*pieces(packet, 3, 7, token(b"first")))
    got = await producer.interest(prefix=t.prefix)
    equal(got.net, packet, "reassembled bytes")
    producer.send(data(got.name))
    equal((await consumer.data(got.name)).token, b"first", "PIT token")


@case("lp/reassembly/data", SPEC, "A producer's Data in fragments is reassembled.", on=(UDP,))
async def fragmented_data(t):
    producer, consumer = await t.producer(transport=UDP), await t.face(t.router.local)
    target = t.name("/t")
    await t.send_interest(consumer, producer, target)
    packet = data(target, bytes(5000))
    producer.send(*pieces(packet, 5, 77))
    equal((await consumer.data(target)).net, packet, "reassembled bytes")


def broken(id_, requirement, make):
    @case("lp/reassembly/" + id_, SPEC, requirement, on=(UDP,))
    async def run(t):
        producer, consumer = await t.producer(), await t.face()
        consumer.send(*make(big(t.name("/t"))))
        await producer.none(prefix=t.prefix, what="It had to be dropped.")
        await arrives_again(t, consumer, producer)


async def arrives_again(t, consumer, producer):
    """The same face still reassembles."""
    packet = big(t.name("/again"))
    consumer.send(*pieces(packet, 2, 5_000_000))
    equal(
        (await producer.interest(prefix=t.name("/again"))).net,
        packet,
        "reassembled bytes afterwards",
    )


broken(
    "missing-fragment",
    "A packet with a fragment missing is not delivered.",
    lambda p: [pieces(p, 3)[0], pieces(p, 3)[2]],
)
broken(
    "index-beyond-count",
    "FragIndex not below FragCount: drop.",
    lambda p: [piece(x, 50 + i, i + 1, 2) for i, x in enumerate(cut(p, 2))],
)
broken(
    "count-changes",
    "A FragCount that differs from the first fragment's: drop.",
    lambda p: [piece(cut(p, 2)[0], 50, 0, 2), piece(cut(p, 2)[1], 51, 1, 3)],
)
broken(
    "no-sequence",
    "Fragments without Sequence: drop.",
    lambda p: [piece(x, None, i, 2) for i, x in enumerate(cut(p, 2))],
)
broken(
    "sequence-4-bytes",
    "Sequence has eight bytes; 4: drop.",
    lambda p: [piece(x, 50 + i, i, 2, seq_bytes=4) for i, x in enumerate(cut(p, 2))],
)
broken(
    "count-2-to-60",
    "A FragCount of 2^60 is refused without reserving memory.",
    lambda p: [piece(x, 50 + i, i, 1 << 60) for i, x in enumerate(cut(p, 2))],
)
broken(
    "index-2-to-60",
    "A FragIndex of 2^60: drop.",
    lambda p: [piece(cut(p, 2)[0], 50, 1 << 60, (1 << 60) + 1)],
)
broken(
    "count-zero",
    "A FragCount of 0: drop.",
    lambda p: [piece(x, 50 + i, i, 0) for i, x in enumerate(cut(p, 2))],
)
broken(
    "whole-too-large",
    "Fragments that add up to more than 8800 bytes: drop.",
    lambda p: pieces(with_params([*_name_of(p)], bytes(9000)), 3),
)
broken(
    "index-3-bytes",
    "FragIndex of three bytes is not a NonNegativeInteger: drop.",
    lambda p: [
        lp(
            cut(p, 2)[0],
            tlv(LP_SEQUENCE, bytes(8)),
            tlv(FRAG_INDEX, bytes(3)),
            tlv_nni(FRAG_COUNT, 2),
        )
    ],
)


def _name_of(packet):
    from kit.tlv import read_all, read_name, read_tlv

    return read_name(read_all(read_tlv(packet)[1])[0][1])[:-1]


@case(
    "lp/reassembly/times-out",
    SPEC,
    "A fragment that comes more than a second after the first is too late.",
    on=(UDP,),
    tags=("nfd",),
)
async def too_late(t):
    producer, consumer = await t.producer(), await t.face()
    first, second = pieces(big(t.name("/t")), 2, 40)
    consumer.send(first)
    await t.quiet(1.2)
    consumer.send(second)
    await producer.none(prefix=t.prefix)
    await arrives_again(t, consumer, producer)


@case(
    "lp/reassembly/partials-are-bounded",
    SPEC,
    "Two thousand packets that never become whole do not stop the one that does.",
    on=(UDP,),
)
async def partials(t):
    producer, consumer = await t.producer(), await t.face()
    for i in range(2000):
        consumer.send(piece(bytes(100), 10_000 + 2 * i, 0, 2))
        if i % 50 == 49:
            await t.quiet(0.002)
    await t.quiet(0.7)
    await arrives_again(t, consumer, producer)


@case(
    "lp/fragmentation/at-mtu",
    SPEC,
    "Data beyond a face's MTU is sent in fragments within it, Sequences consecutive, token on the first.",
    on=(UDP,),
)
async def fragments_out(t):
    producer, consumer = await t.producer(), await t.face()
    manager = await t.manager()
    await mgmt.ok(manager, "faces", "update", face_id=await t.face_id(consumer), mtu=1400)
    target = t.name("/t")
    consumer.send(lp(interest(target), token(b"tokens")))
    await producer.interest(target)
    packet = data(target, bytes(range(256)) * 20)
    producer.send(packet)
    got = await consumer.data(target)
    equal(got.net, packet, "reassembled bytes")
    expect(got.pieces >= 4, f"came in {got.pieces} pieces")
    expect(max(got.sizes) <= 1400, f"a fragment of {max(got.sizes)} bytes")
    equal(got.token, b"tokens", "PIT token")
    small = data(t.name("/small"), bytes(100))
    await t.send_interest(consumer, producer, t.name("/small"))
    producer.send(small)
    equal((await consumer.data(t.name("/small"))).pieces, 1, "pieces of a small packet")


@case(
    "lp/fragmentation/not-on-udp-by-default",
    SPEC,
    "An 8000-byte Data goes out over UDP in one datagram by default: three client libraries cannot "
    "reassemble.",
    on=(UDP,),
    tags=("clients",),
)
async def udp_whole(t):
    producer, consumer = await t.producer(), await t.face()
    target = t.name("/t")
    got = await t.exchange(consumer, producer, target, reply=data(target, bytes(8000)))
    equal(got.pieces, 1, "pieces")


@case(
    "lp/fragmentation/not-on-streams",
    SPEC,
    "Nothing is fragmented on a stream face.",
    on=("unix", "tcp"),
    tags=("clients",),
)
async def stream_whole(t):
    producer, consumer = await t.producer(), await t.face()
    target = t.name("/t")
    got = await t.exchange(consumer, producer, target, reply=data(target, bytes(8600)))
    equal(got.pieces, 1, "pieces")


@case(
    "lp/fragmentation/lp-nested-in-fragments",
    SPEC,
    "Fragments that add up to an LpPacket: drop.",
    on=(UDP,),
)
async def nested(t):
    await interest_dropped(t, lambda n: b"".join(pieces(lp(interest(n)), 1)))
    # CAPTURE keeps the first producer's route out.
    producer, consumer = await t.producer(t.name("/n"), flags=2), await t.face()
    consumer.send(*pieces(lp(big(t.name("/n"))), 2, 900))
    await producer.none(prefix=t.name("/n"))
    await arrives_again_at(t, consumer, producer)


async def arrives_again_at(t, consumer, producer):
    packet = big(t.name("/n/again"))
    consumer.send(*pieces(packet, 2, 7_000_000))
    equal(
        (await producer.interest(prefix=t.name("/n/again"))).net,
        packet,
        "reassembled bytes afterwards",
    )
