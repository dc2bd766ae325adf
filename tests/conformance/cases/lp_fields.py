"""NDNLPv2 header fields: accepted, ignored, or a reason to drop the packet."""

import asyncio

from kit import management as mgmt
from kit.case import ALL, LPV2, STREAM, UDP, case, equal, expect
from kit.packets import data, interest, lp, nack, token
from kit.patterns import dropped_interests, interest_dropped
from kit.tlv import (
    ACK,
    CACHE_POLICY,
    CACHE_POLICY_TYPE,
    CONGESTION_MARK,
    FRAGMENT,
    INCOMING_FACE,
    LP,
    LP_SEQUENCE,
    NACK,
    NACK_REASON,
    NEXT_HOP_FACE,
    NON_DISCOVERY,
    PREFIX_ANNOUNCEMENT,
    REASON_CONGESTION,
    REASON_NO_ROUTE,
    TX_SEQUENCE,
    name,
    name_tlv,
    tlv,
    tlv_nni,
)

FORMAT = LPV2 + "NDNLP Packet Format"
TOKEN = LPV2 + "PIT Token"
NEXT_HOP = LPV2 + "Consumer Controlled Forwarding"
POLICY = LPV2 + "Local Cache Policy"
INCOMING = LPV2 + "Incoming Face Indication"
CONGESTION = LPV2 + "Congestion Marking"
RELIABLE = LPV2 + "Link Layer Reliability"
SEQ = bytes(7) + b"\x05"
NO_CACHE = tlv(CACHE_POLICY, tlv_nni(CACHE_POLICY_TYPE, 1))
MARK = tlv_nni(CONGESTION_MARK, 1)


def accepted(rows, spec=FORMAT, on=ALL):
    """Registers cases with LpPackets whose Interest must arrive."""
    for id_, requirement, build in rows:

        async def run(t, build=build):
            inner = interest(t.name("/t"))
            producer, consumer = await t.producer(), await t.face()
            consumer.send(build(inner))
            equal((await producer.interest(t.name("/t"))).net, inner, "Interest bytes")

        case(id_, spec, requirement, on=on)(run)


accepted(
    [
        (
            "lp/format/fragment-only",
            "An LpPacket with nothing but a Fragment is the packet in it.",
            lp,
        ),
        (
            "lp/format/unknown-ignorable",
            "An unknown field of 800..959 whose two low bits are zero is ignored.",
            lambda i: lp(i, tlv(952, b"x")),
        ),
        (
            "lp/format/unknown-ignorable-two",
            "Two such fields of different types are ignored, in front and behind others.",
            lambda i: lp(i, token(b"t"), tlv(804, b"x"), MARK, tlv(956)),
        ),
        (
            "lp/format/sequence-alone",
            "A Sequence on an unfragmented packet changes nothing.",
            lambda i: lp(i, tlv(LP_SEQUENCE, SEQ)),
        ),
        (
            "lp/format/one-of-one",
            "FragIndex 0 of FragCount 1 is an unfragmented packet.",
            lambda i: lp(i, tlv(LP_SEQUENCE, SEQ), tlv(82, b"\x00"), tlv(83, b"\x01")),
        ),
    ]
)
accepted(
    [
        (
            "lp/reliability/tx-sequence-when-off",
            "A TxSequence on a face without reliability is ignored.",
            lambda i: lp(i, tlv(TX_SEQUENCE, SEQ)),
        ),
        (
            "lp/reliability/acks-when-off",
            "Acks (repeatable) on a face without reliability are ignored.",
            lambda i: lp(i, tlv(ACK, SEQ), tlv(ACK, bytes(8))),
        ),
    ],
    spec=RELIABLE,
)
accepted(
    [
        (
            "lp/incoming-face/from-peer",
            "An IncomingFaceId in a received packet is ignored.",
            lambda i: lp(i, tlv(INCOMING_FACE, b"\x07")),
        ),
    ],
    spec=INCOMING,
)
accepted(
    [
        (
            "lp/self-learning/non-discovery",
            "NonDiscovery on an Interest is accepted.",
            lambda i: lp(i, tlv(NON_DISCOVERY)),
        ),
    ],
    spec=LPV2 + "Self-Learning",
)


def inside(build):
    return lambda n: build(interest(n))


dropped_interests(
    FORMAT,
    [
        (
            "lp/format/unknown-refusing",
            "An unknown field of 800..959 with a low bit set: drop.",
            inside(lambda i: lp(i, tlv(953, b"x"))),
        ),
        (
            "lp/format/unknown-refusing-even",
            "An unknown field of 800..959 with only bit 1 set is not ignorable: drop.",
            inside(lambda i: lp(i, tlv(954, b"x"))),
        ),
        (
            "lp/format/unknown-1-byte",
            "An unknown field of the one-byte range 81..99: drop.",
            inside(lambda i: lp(i, tlv(99, b"x"))),
        ),
        (
            "lp/format/unknown-outside",
            "A field outside both ranges: drop.",
            inside(lambda i: lp(i, tlv(0xF0, b"x"))),
        ),
        (
            "lp/format/descending",
            "Fields not in increasing order of TLV-TYPE: drop.",
            inside(lambda i: lp(i, MARK, token(b"abcd"))),
        ),
        (
            "lp/format/fragment-not-last",
            "A field behind the Fragment: drop.",
            inside(lambda i: tlv(LP, tlv(FRAGMENT, i) + token(b"abcd"))),
        ),
        (
            "lp/format/two-fragments",
            "Two Fragments: drop.",
            inside(lambda i: tlv(LP, tlv(FRAGMENT, i) + tlv(FRAGMENT, i))),
        ),
        (
            "lp/format/field-twice",
            "A field that is not repeatable, repeated: drop.",
            inside(lambda i: lp(i, token(b"abcd"), token(b"abcd"))),
        ),
        (
            "lp/format/mark-twice",
            "A CongestionMark repeated: drop.",
            inside(lambda i: lp(i, MARK, MARK)),
        ),
        (
            "lp/format/nested",
            "An LpPacket as Fragment of an LpPacket: drop.",
            inside(lambda i: lp(lp(i))),
        ),
        (
            "lp/format/bytes-behind-fragment",
            "Bytes behind the network packet within the Fragment: drop.",
            inside(lambda i: lp(i + tlv(0xF0, b"x"))),
        ),
        (
            "lp/format/bare-name-inside",
            "A Fragment that is no network packet: drop.",
            lambda n: lp(name_tlv(n)),
        ),
        (
            "lp/format/congestion-mark-3-bytes",
            "CongestionMark is a NonNegativeInteger; three bytes: drop.",
            inside(lambda i: lp(i, tlv(CONGESTION_MARK, b"\x00\x00\x01"))),
        ),
    ],
    on=ALL,
)

dropped_interests(
    TOKEN,
    [
        (
            "lp/token/empty",
            "A PIT token has 1 to 32 bytes; none: drop.",
            inside(lambda i: lp(i, token(b""))),
        ),
        (
            "lp/token/33-bytes",
            "A PIT token has 1 to 32 bytes; 33: drop.",
            inside(lambda i: lp(i, token(bytes(33)))),
        ),
    ],
    on=ALL,
)

dropped_interests(
    NEXT_HOP,
    [
        (
            "lp/next-hop/disabled",
            "NextHopFaceId on a face where local fields are off: drop.",
            inside(lambda i: lp(i, tlv_nni(NEXT_HOP_FACE, 300))),
        ),
    ],
    on=ALL,
)
dropped_interests(
    POLICY,
    [
        (
            "lp/cache-policy/on-interest",
            "CachePolicy belongs to Data; on an Interest: drop.",
            inside(lambda i: lp(i, NO_CACHE)),
        ),
    ],
    on=("unix", "udp"),
)
dropped_interests(
    LPV2 + "Self-Learning",
    [
        (
            "lp/self-learning/announcement-on-interest",
            "PrefixAnnouncement belongs to Data; on an Interest: drop.",
            lambda n: lp(interest(n), tlv(PREFIX_ANNOUNCEMENT, data(n))),
        ),
    ],
    on=("unix", "udp"),
)


@case(
    "lp/format/idle",
    FORMAT,
    "A packet without Fragment carries nothing to forward and the face lives on.",
    on=ALL,
)
async def idle(t):
    producer, consumer = await t.producer(), await t.face()
    consumer.send(lp(None), lp(None, tlv(ACK, SEQ)), lp(None, token(b"abcd")))
    await consumer.none(quiet=0.1)
    await t.still_works(consumer, producer)
    expect(not consumer.closed, "the face was closed")


@case(
    "lp/format/bare-when-possible",
    FORMAT,
    "Data that needs no header is sent bare.",
    on=ALL,
    tags=("clients",),
)
async def bare(t):
    producer, consumer = await t.producer(), await t.face()
    got = await t.exchange(consumer, producer, t.name("/t"))
    expect(got.bare, f"wrapped with headers {sorted(got.lp)}")


@case(
    "lp/format/nested-1000",
    FORMAT,
    "LpPackets nested a thousand deep are dropped and nothing breaks.",
    on=ALL,
)
async def nested_deep(t):
    def build(n):
        p = interest(n)
        for _ in range(1000):
            p = lp(p)
        return p

    await interest_dropped(t, build)


def token_lengths(n, on):
    @case(
        f"lp/token/echo-{n}-bytes",
        TOKEN,
        f"A PIT token of {n} bytes comes back unchanged on Data.",
        on=on,
    )
    async def run(t):
        producer, consumer = await t.producer(), await t.face()
        mine = bytes(range(1, n + 1))
        target = t.name("/t")
        consumer.send(lp(interest(target), token(mine)))
        await producer.interest(target)
        producer.send(data(target, b"x"))
        equal((await consumer.data(target)).token, mine, "PIT token")


for size in (1, 4, 6, 8, 32):
    token_lengths(size, ALL)


@case(
    "lp/token/echo-every-length",
    TOKEN,
    "PIT tokens of every length from 1 to 32 come back, each with its Data.",
)
async def token_sweep(t):
    producer, consumer = await t.producer(), await t.face()
    for n in range(1, 33):
        consumer.send(lp(interest(t.name(f"/{n}")), token(bytes([n]) * n)))
    for n in range(1, 33):
        await producer.interest(t.name(f"/{n}"))
    for n in range(32, 0, -1):
        producer.send(data(t.name(f"/{n}")))
    for n in range(1, 33):
        equal(
            (await consumer.data(t.name(f"/{n}"))).token, bytes([n]) * n, f"PIT token of {n} bytes"
        )


@case(
    "lp/token/each-downstream-its-own",
    TOKEN,
    "Aggregated downstreams each get their own token, or none.",
)
async def token_each(t):
    producer = await t.producer()
    a, b, c = await t.face(), await t.face(), await t.face()
    target = t.name("/t")
    a.send(lp(interest(target), token(b"aaaa")))
    await producer.interest(target)
    b.send(lp(interest(target), token(b"bbbbbbbb")))
    c.send(interest(target))
    await t.quiet(0.1)
    producer.send(data(target))
    equal((await a.data(target)).token, b"aaaa", "first token")
    equal((await b.data(target)).token, b"bbbbbbbb", "second token")
    equal((await c.data(target)).token, None, "token where none was given")


@case(
    "lp/token/cache-hit",
    TOKEN,
    "An answer from the cache carries the token of the Interest it answers.",
    on=ALL,
)
async def token_cache(t):
    producer, consumer = await t.producer(), await t.face()
    target = t.name("/t")
    await t.exchange(consumer, producer, target, reply=data(target, b"x", fresh=10000))
    consumer.send(lp(interest(target), token(b"second")))
    equal((await consumer.data(target)).token, b"second", "PIT token")


@case("lp/token/nack-no-route", TOKEN, "A Nack made by the router carries the token.", on=ALL)
async def token_nack(t):
    consumer = await t.face()
    consumer.send(lp(interest(t.name("/none")), token(b"n" * 20)))
    got = await consumer.nack(t.name("/none"))
    equal((got.token, got.reason), (b"n" * 20, REASON_NO_ROUTE), "PIT token and reason")


@case(
    "lp/token/nack-from-upstream",
    TOKEN,
    "A Nack that came from upstream carries the downstream's token.",
)
async def token_nack_upstream(t):
    producer, consumer = await t.producer(), await t.face()
    target = t.name("/t")
    consumer.send(lp(interest(target), token(b"mine")))
    up = await producer.interest(target)
    headers = [token(up.token)] if up.token else []
    producer.send(nack(up.net, REASON_CONGESTION, *headers))
    got = await consumer.nack(target)
    equal((got.token, got.reason), (b"mine", REASON_CONGESTION), "PIT token and reason")


@case("lp/token/retransmission-renews", TOKEN, "A retransmission's token replaces the earlier one.")
async def token_renewed(t):
    producer, consumer = await t.producer(), await t.face()
    target = t.name("/t")
    consumer.send(lp(interest(target), token(b"old")))
    await producer.interest(target)
    await t.quiet(0.3)
    consumer.send(lp(interest(target), token(b"newer")))
    await producer.interest(target)
    producer.send(data(target))
    equal((await consumer.data(target)).token, b"newer", "PIT token")


@case(
    "lp/token/not-passed-through",
    TOKEN,
    "A downstream's token is not what the upstream gets to see.",
    on=ALL,
)
async def token_private(t):
    producer, consumer = await t.producer(), await t.face()
    consumer.send(lp(interest(t.name("/t")), token(b"private")))
    got = await producer.interest(t.name("/t"))
    expect(got.token != b"private", "the downstream's token was sent upstream")


@case(
    "lp/token/upstream-6-bytes",
    TOKEN,
    "The router's own token upstream has 6 bytes, the only length that one "
    "widespread peer survives, or there is none.",
    on=ALL,
    tags=("clients",),
)
async def token_upstream(t):
    producer, consumer = await t.producer(transport=t.transport), await t.face(t.router.local)
    consumer.send(interest(t.name("/t")))
    got = await producer.interest(t.name("/t"))
    expect(got.token is None or len(got.token) == 6, f"token {got.token!r}")


@case(
    "lp/token/none-to-plain-local-producer",
    TOKEN,
    "A local producer that never used a token itself is sent none: "
    "ndn-js and jndn take the field for an error and drop the Interest.",
    on=STREAM,
    tags=("clients",),
)
async def token_plain(t):
    producer, consumer = await t.producer(transport=t.transport), await t.face(t.router.local)
    consumer.send(lp(interest(t.name("/t")), token(b"mine")))
    got = await producer.interest(t.name("/t"))
    equal(got.token, None, "PIT token")


@case(
    "lp/token/upstream-echoed",
    TOKEN,
    "Data that brings the router's own token back is delivered.",
    on=ALL,
)
async def token_echoed(t):
    producer, consumer = await t.producer(transport=t.transport), await t.face(t.router.local)
    target = t.name("/t")
    got = await t.send_interest(consumer, producer, target)
    packet = data(target, b"x")
    producer.send(lp(packet, token(got.token)) if got.token else lp(packet))
    equal((await consumer.data(target)).net, packet, "Data bytes")


@case(
    "lp/token/upstream-not-echoed",
    TOKEN,
    "Data without the router's token is delivered just as well.",
    on=ALL,
    tags=("clients",),
)
async def token_not_echoed(t):
    producer, consumer = await t.producer(transport=t.transport), await t.face(t.router.local)
    await t.exchange(consumer, producer, t.name("/t"))


@case(
    "lp/token/upstream-not-echoed-prefix",
    TOKEN,
    "Data without the router's token is delivered to a CanBePrefix Interest too.",
    on=ALL,
    tags=("clients",),
)
async def token_not_echoed_prefix(t):
    producer, consumer = await t.producer(transport=t.transport), await t.face(t.router.local)
    consumer.send(interest(t.name("/t"), cbp=True))
    await producer.interest(t.name("/t"))
    packet = data(t.name("/t/v/0"), b"x")
    producer.send(packet)
    equal((await consumer.data(t.name("/t/v/0"))).net, packet, "Data bytes")


@case(
    "lp/token/wrong-token-wrong-name",
    TOKEN,
    "A token that points at one pending Interest does not let Data of another name through to it.",
)
async def token_foreign(t):
    producer, consumer = await t.producer(), await t.face()
    got = await t.send_interest(consumer, producer, t.name("/asked"))
    producer.send(lp(data(t.name("/other"), b"x"), token(got.token or b"abcdef")))
    await consumer.none("data")
    producer.send(data(t.name("/asked"), b"x"))
    await consumer.data(t.name("/asked"))


@case(
    "lp/congestion/from-upstream",
    CONGESTION,
    "A CongestionMark on Data travels on to the consumer.",
    on=ALL,
)
async def mark_down(t):
    producer, consumer = await t.producer(), await t.face()
    target = t.name("/t")
    await t.send_interest(consumer, producer, target)
    producer.send(lp(data(target), MARK))
    equal((await consumer.data(target)).lp.get(CONGESTION_MARK), b"\x01", "CongestionMark")


@case(
    "lp/congestion/from-downstream",
    CONGESTION,
    "A CongestionMark on an Interest travels on to the producer.",
    on=ALL,
)
async def mark_up(t):
    producer, consumer = await t.producer(), await t.face()
    consumer.send(lp(interest(t.name("/t")), MARK))
    equal(
        (await producer.interest(t.name("/t"))).lp.get(CONGESTION_MARK), b"\x01", "CongestionMark"
    )


@case(
    "lp/congestion/not-cached",
    CONGESTION,
    "A CongestionMark belongs to one passage: the cached Data has none.",
)
async def mark_not_cached(t):
    producer, consumer = await t.producer(), await t.face()
    target = t.name("/t")
    await t.send_interest(consumer, producer, target)
    producer.send(lp(data(target, fresh=10000), MARK))
    await consumer.data(target)
    consumer.send(interest(target))
    equal((await consumer.data(target)).lp.get(CONGESTION_MARK), None, "CongestionMark")


@case("lp/congestion/none-without-cause", CONGESTION, "An idle router adds no marks.", on=ALL)
async def mark_none(t):
    producer, consumer = await t.producer(), await t.face()
    got = await t.exchange(consumer, producer, t.name("/t"))
    expect(CONGESTION_MARK not in got.lp, "marked")


@case(
    "lp/cache-policy/no-cache",
    POLICY,
    "Data with CachePolicy NoCache is delivered and not cached.",
    on=ALL,
)
async def no_cache(t):
    producer, consumer = await t.producer(transport=t.transport), await t.face(t.router.local)
    target = t.name("/t")
    await t.send_interest(consumer, producer, target)
    producer.send(lp(data(target, b"1", fresh=10000), NO_CACHE))
    await consumer.data(target)
    await t.exchange(consumer, producer, target, reply=data(target, b"2"))


@case("lp/cache-policy/not-passed-on", POLICY, "CachePolicy is not sent on to the consumer.")
async def policy_hop(t):
    producer, consumer = await t.producer(), await t.face()
    target = t.name("/t")
    await t.send_interest(consumer, producer, target)
    producer.send(lp(data(target, b"1"), NO_CACHE))
    expect(CACHE_POLICY not in (await consumer.data(target)).lp, "CachePolicy was sent on")


def refused_on_data(id_, spec, requirement, *headers):
    @case(id_, spec, requirement, on=("unix", "udp"))
    async def run(t):
        producer, consumer = await t.producer(transport=t.transport), await t.face(t.router.local)
        target = t.name("/t")
        await t.send_interest(consumer, producer, target)
        producer.send(lp(data(target, b"bad"), *headers))
        await consumer.none("data")
        producer.send(data(target, b"good"))
        equal((await consumer.data(target)).content, b"good", "content")


refused_on_data(
    "lp/next-hop/on-data", NEXT_HOP, "NextHopFaceId on Data: drop.", tlv_nni(NEXT_HOP_FACE, 300)
)
refused_on_data(
    "lp/self-learning/non-discovery-on-data",
    LPV2 + "Self-Learning",
    "NonDiscovery on Data: drop.",
    tlv(NON_DISCOVERY),
)
refused_on_data(
    "lp/nack/on-data",
    LPV2 + "Network Nack",
    "A Nack header on Data: drop.",
    tlv(NACK, tlv_nni(NACK_REASON, REASON_NO_ROUTE)),
)
refused_on_data(
    "lp/format/data-unknown-refusing",
    FORMAT,
    "Data with an unknown field that is not ignorable: drop.",
    tlv(953),
)


@case(
    "lp/self-learning/announcement-on-data",
    LPV2 + "Self-Learning",
    "Data with a PrefixAnnouncement is accepted.",
    on=("unix", "udp"),
)
async def announced(t):
    producer, consumer = await t.producer(transport=t.transport), await t.face(t.router.local)
    target = t.name("/t")
    await t.send_interest(consumer, producer, target)
    producer.send(lp(data(target, b"x"), tlv(PREFIX_ANNOUNCEMENT, data(t.name("/pa")))))
    equal((await consumer.data(target)).content, b"x", "content")


@case(
    "lp/self-learning/marked",
    LPV2 + "Self-Learning",
    "Where a route is known, the self-learning strategy sends an "
    "Interest on with NonDiscovery; without a route it refuses one that has it.",
    on=("unix", "udp"),
    tags=("nfd",),
)
async def marked(t):
    await t.set_strategy(t.prefix, name("/localhost/nfd/strategy/self-learning"))
    consumer = await t.face(t.router.local)
    consumer.send(lp(interest(t.name("/0")), tlv(NON_DISCOVERY)))
    equal((await consumer.nack(t.name("/0"))).reason, REASON_NO_ROUTE, "reason")
    producer = await t.producer(transport=t.transport)
    consumer.send(interest(t.name("/1")))
    expect(NON_DISCOVERY in (await producer.interest(t.name("/1"))).lp, "NonDiscovery is missing")
    producer.send(data(t.name("/1"), b"x"))
    await consumer.data(t.name("/1"))


async def enable_local_fields(face):
    a = await mgmt.ok(face, "faces", "update", flags=1, mask=1)
    expect(a.body.get("flags", 0) & 1, f"flags in the answer: {a.body.get('flags')}")


@case(
    "lp/incoming-face/enabled",
    INCOMING,
    "With local fields on, each packet to that face names the face it came from.",
    on=STREAM,
)
async def incoming_face(t):
    producer, consumer = await t.producer(transport=t.transport), await t.face(t.router.local)
    await enable_local_fields(producer)
    consumer_id = await t.face_id(consumer)
    consumer.send(interest(t.name("/t")))
    got = await producer.interest(t.name("/t"))
    expect(INCOMING_FACE in got.lp, f"headers are {sorted(got.lp)}")
    equal(int.from_bytes(got.lp[INCOMING_FACE], "big"), consumer_id, "IncomingFaceId")


@case(
    "lp/incoming-face/on-data",
    INCOMING,
    "With local fields on, Data names the face it came from.",
    on=STREAM,
)
async def incoming_face_data(t):
    producer, consumer = await t.producer(), await t.face()
    await enable_local_fields(consumer)
    got = await t.exchange(consumer, producer, t.name("/t"))
    expect(INCOMING_FACE in got.lp, f"headers are {sorted(got.lp)}")
    equal(int.from_bytes(got.lp[INCOMING_FACE], "big"), producer.id, "IncomingFaceId")


@case(
    "lp/incoming-face/cache-hit",
    INCOMING,
    "With local fields on, Data from the cache names face 254.",
    tags=("nfd",),
)
async def incoming_face_cache(t):
    producer, consumer = await t.producer(), await t.face()
    await enable_local_fields(consumer)
    target = t.name("/t")
    await t.exchange(consumer, producer, target, reply=data(target, fresh=10000))
    consumer.send(interest(target))
    got = await consumer.data(target)
    equal(got.lp.get(INCOMING_FACE), b"\xfe", "IncomingFaceId")


@case(
    "lp/incoming-face/off-by-default",
    INCOMING,
    "By default the router sends no IncomingFaceId.",
    on=ALL,
)
async def incoming_face_off(t):
    producer, consumer = await t.producer(), await t.face()
    got = await t.exchange(consumer, producer, t.name("/t"))
    expect(INCOMING_FACE not in got.lp, "IncomingFaceId sent")


@case(
    "lp/next-hop/enabled",
    NEXT_HOP,
    "With local fields on, NextHopFaceId decides where the Interest goes.",
    on=STREAM,
)
async def next_hop(t):
    routed, other = await t.producer(), await t.face(t.router.local)
    consumer = await t.face()
    await enable_local_fields(consumer)
    target = t.name("/t")
    consumer.send(lp(interest(target), tlv_nni(NEXT_HOP_FACE, await t.face_id(other))))
    await other.interest(target)
    await routed.none("interest", target)
    packet = data(target, b"from the chosen face")
    other.send(packet)
    equal((await consumer.data(target)).net, packet, "Data bytes")


@case(
    "lp/next-hop/no-such-face",
    NEXT_HOP,
    "NextHopFaceId of a face that does not exist: drop, no fallback.",
    on=STREAM,
)
async def next_hop_none(t):
    routed, consumer = await t.producer(), await t.face()
    await enable_local_fields(consumer)
    consumer.send(lp(interest(t.name("/t")), tlv_nni(NEXT_HOP_FACE, 0xFFFFFFF0)))
    await routed.none("interest", t.name("/t"))
    await t.still_works(consumer, routed)


@case(
    "lp/local-fields/not-on-network-face",
    "NFD Management, FaceMgmt: update",
    "Local fields cannot be switched on for a non-local face.",
    on=(UDP,),
)
async def local_fields_refused(t):
    face = await t.face()
    a = await mgmt.command(
        await t.manager(), "faces", "update", face_id=await t.face_id(face), flags=1, mask=1
    )
    expect(a.code == 409, f"answered {a.code} {a.text}")


@case(
    "lp/nack/bare-data-type",
    LPV2 + "Network Nack",
    "A Nack without Fragment is ignored and the face lives on.",
    on=ALL,
)
async def nack_without_fragment(t):
    producer, consumer = await t.producer(), await t.face()
    consumer.send(lp(None, tlv(NACK, tlv_nni(NACK_REASON, 50))))
    await asyncio.sleep(0.05)
    await t.still_works(consumer, producer)
