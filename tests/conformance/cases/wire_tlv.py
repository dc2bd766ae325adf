"""Numbers, lengths, order and evolvability of TLV elements, tried on Interests and Data."""

from kit.case import ALL, PKT, STREAM, UDP, case, equal, expect
from kit.packets import data, interest, nonce
from kit.patterns import (
    dropped_data,
    dropped_interests,
    forwarded_data,
    interest_dropped,
    unchanged_interests,
)
from kit.tlv import (
    DATA,
    INTEREST,
    LIFETIME,
    META_INFO,
    NAME,
    NONCE,
    SIG_INFO,
    SIG_VALUE,
    name_tlv,
    num,
    num_wide,
    tlv,
)

NUMBERS = PKT + "TLV: Variable-Size Encoding for Type and Length"
NNI = PKT + "TLV: Non-Negative Integer Encoding"
EVOLVE = PKT + "TLV: Considerations for Evolvability of TLV-Based Encoding"


def body(n):
    return name_tlv(n) + tlv(NONCE, nonce())


def raw_name(n):
    return b"".join(n)


dropped_interests(
    NUMBERS,
    [
        (
            "tlv/number/inner-length-in-3-bytes",
            "A TLV-LENGTH below 253 in three bytes is not shortest: drop.",
            lambda n: tlv(INTEREST, name_tlv(n) + num(NONCE) + num_wide(4, 3) + nonce()),
        ),
        (
            "tlv/number/inner-length-in-5-bytes",
            "A TLV-LENGTH below 65536 in five bytes is not shortest: drop.",
            lambda n: tlv(INTEREST, name_tlv(n) + num(NONCE) + num_wide(4, 5) + nonce()),
        ),
        (
            "tlv/number/inner-length-in-9-bytes",
            "A TLV-LENGTH below 2^32 in nine bytes is not shortest: drop.",
            lambda n: tlv(INTEREST, name_tlv(n) + num(NONCE) + num_wide(4, 9) + nonce()),
        ),
        (
            "tlv/number/inner-type-in-3-bytes",
            "A TLV-TYPE below 253 in three bytes is not shortest: drop.",
            lambda n: tlv(INTEREST, name_tlv(n) + num_wide(NONCE, 3) + num(4) + nonce()),
        ),
        (
            "tlv/number/name-length-in-3-bytes",
            "The Name's TLV-LENGTH in a longer form than needed: drop.",
            lambda n: tlv(
                INTEREST,
                num(NAME) + num_wide(len(raw_name(n)), 3) + raw_name(n) + tlv(NONCE, nonce()),
            ),
        ),
        (
            "tlv/number/component-length-in-3-bytes",
            "A component's TLV-LENGTH in a longer form than needed: drop.",
            lambda n: tlv(
                INTEREST,
                tlv(NAME, raw_name(n) + num(8) + num_wide(1, 3) + b"x") + tlv(NONCE, nonce()),
            ),
        ),
        (
            "tlv/number/component-type-in-5-bytes",
            "A component's TLV-TYPE in a longer form than needed: drop.",
            lambda n: tlv(
                INTEREST,
                tlv(NAME, raw_name(n) + num_wide(8, 5) + num(1) + b"x") + tlv(NONCE, nonce()),
            ),
        ),
        (
            "tlv/number/type-zero",
            "TLV-TYPE zero is invalid: drop.",
            lambda n: tlv(INTEREST, body(n) + b"\x00\x00"),
        ),
        (
            "tlv/number/type-beyond-32-bits",
            "TLV-TYPE is at most 2^32-1: drop.",
            lambda n: tlv(INTEREST, body(n) + b"\xff" + (1 << 32).to_bytes(8, "big") + b"\x00"),
        ),
        (
            "tlv/nested/longer-than-parent",
            "An element that reaches beyond its parent: drop.",
            lambda n: tlv(INTEREST, name_tlv(n) + num(NONCE) + num(5) + nonce()),
        ),
        (
            "tlv/nested/component-longer-than-name",
            "A component that reaches beyond its Name: drop.",
            lambda n: tlv(INTEREST, tlv(NAME, raw_name(n) + b"\x08\x09x") + tlv(NONCE, nonce())),
        ),
        (
            "tlv/nested/cut-in-type",
            "An element whose TLV-TYPE is cut short: drop.",
            lambda n: tlv(INTEREST, body(n) + b"\xfd\x01"),
        ),
        (
            "tlv/nested/cut-in-length",
            "An element whose TLV-LENGTH is cut short: drop.",
            lambda n: tlv(INTEREST, body(n) + b"\xf0\xfd\x01"),
        ),
        (
            "tlv/nested/length-2-to-64",
            "An inner TLV-LENGTH of 2^64-1: drop.",
            lambda n: tlv(INTEREST, body(n) + b"\xf0\xff" + b"\xff" * 8),
        ),
    ],
    on=ALL,
)

dropped_interests(
    NNI,
    [
        (
            "tlv/nni/3-bytes",
            "A NonNegativeInteger has 1, 2, 4 or 8 bytes; 3: drop.",
            lambda n: tlv(INTEREST, body(n) + tlv(LIFETIME, b"\x00\x07\xd0")),
        ),
        (
            "tlv/nni/empty",
            "A NonNegativeInteger has 1, 2, 4 or 8 bytes; none: drop.",
            lambda n: tlv(INTEREST, body(n) + tlv(LIFETIME, b"")),
        ),
        (
            "tlv/nni/16-bytes",
            "A NonNegativeInteger has 1, 2, 4 or 8 bytes; 16: drop.",
            lambda n: tlv(INTEREST, body(n) + tlv(LIFETIME, bytes(14) + b"\x07\xd0")),
        ),
    ],
    on=ALL,
)

dropped_interests(
    EVOLVE,
    [
        (
            "tlv/evolve/interest-critical-unknown",
            "An unknown element of odd TLV-TYPE is critical: drop.",
            lambda n: tlv(INTEREST, body(n) + tlv(LIFETIME, b"\x07\xd0") + tlv(0xF1, b"x")),
        ),
        (
            "tlv/evolve/interest-critical-unknown-below-32",
            "An unknown element of TLV-TYPE up to 31 is critical: drop.",
            lambda n: tlv(INTEREST, body(n) + tlv(16, b"x")),
        ),
        (
            "tlv/evolve/interest-critical-before-name",
            "A critical unknown element before the Name: drop.",
            lambda n: tlv(INTEREST, tlv(0xF1, b"") + body(n)),
        ),
        (
            "tlv/evolve/interest-critical-3-byte-type",
            "An unknown odd TLV-TYPE of three bytes is critical too: drop.",
            lambda n: tlv(INTEREST, body(n) + tlv(1001, b"")),
        ),
    ],
    on=ALL,
)

unchanged_interests(
    EVOLVE,
    [
        (
            "tlv/evolve/interest-noncritical-at-end",
            "An unknown even TLV-TYPE above 31 is ignored and passed on as it is.",
            lambda n: interest(n, tail=tlv(0xF0, b"keep")),
        ),
        (
            "tlv/evolve/interest-noncritical-between",
            "A non-critical element between two known ones is ignored and kept.",
            lambda n: tlv(
                INTEREST,
                name_tlv(n) + tlv(1000, b"keep") + tlv(NONCE, nonce()) + tlv(LIFETIME, b"\x07\xd0"),
            ),
        ),
        (
            "tlv/evolve/interest-noncritical-empty",
            "A non-critical element may be empty.",
            lambda n: interest(n, tail=tlv(0xFC)),
        ),
    ],
    on=ALL,
)

unchanged_interests(
    NNI,
    [
        (
            "tlv/nni/wide-lifetime",
            "InterestLifetime in 8 bytes is a legal NonNegativeInteger and is passed on as it is.",
            lambda n: tlv(INTEREST, body(n) + tlv(LIFETIME, (2000).to_bytes(8, "big"))),
        ),
    ],
    on=("unix", "udp"),
)

dropped_data(
    EVOLVE,
    [
        (
            "tlv/evolve/data-critical-unknown",
            "An unknown critical element in a Data packet: drop.",
            lambda n: tlv(DATA, data(n)[2:] + tlv(0xF1, b"x")) if len(data(n)) < 255 else None,
        ),
        (
            "tlv/evolve/data-critical-in-metainfo",
            "An unknown critical element in MetaInfo: drop.",
            lambda n: data(n, meta=tlv(0xF1, b"")),
        ),
    ],
    on=("unix", "udp"),
)

forwarded_data(
    EVOLVE,
    [
        (
            "tlv/evolve/data-noncritical-unknown",
            "An unknown non-critical element in a Data packet is passed on.",
            lambda n: tlv(DATA, data(n)[2:] + tlv(0xF0, b"keep")),
        ),
        (
            "tlv/evolve/data-noncritical-in-metainfo",
            "An unknown non-critical element in MetaInfo is passed on.",
            lambda n: data(n, meta=tlv(1000, b"keep")),
        ),
    ],
    on=("unix", "udp"),
)

dropped_data(
    NUMBERS,
    [
        (
            "tlv/number/data-length-not-shortest",
            "Data with an inner TLV-LENGTH in a longer form than needed: drop.",
            lambda n: tlv(
                DATA,
                name_tlv(n)
                + num(21)
                + num_wide(1, 3)
                + b"x"
                + tlv(SIG_INFO, b"\x1b\x01\x00")
                + tlv(SIG_VALUE, bytes(32)),
            ),
        ),
        (
            "tlv/number/data-inner-beyond-end",
            "Data whose last element reaches beyond the packet: drop.",
            lambda n: tlv(
                DATA,
                name_tlv(n) + tlv(SIG_INFO, b"\x1b\x01\x00") + num(SIG_VALUE) + num(40) + bytes(32),
            ),
        ),
        (
            "tlv/nni/data-freshness-3-bytes",
            "FreshnessPeriod of three bytes is not a NonNegativeInteger: drop.",
            lambda n: data(n, meta=tlv(25, b"\x00\x00\x01")),
        ),
        (
            "tlv/nested/metainfo-cut",
            "MetaInfo with an element cut short: drop.",
            lambda n: tlv(
                DATA,
                name_tlv(n)
                + tlv(META_INFO, b"\x19\x04\x01")
                + tlv(SIG_INFO, b"\x1b\x01\x00")
                + tlv(SIG_VALUE, bytes(32)),
            ),
        ),
    ],
    on=("unix", "udp"),
)


@case(
    "tlv/number/outer-type-in-3-bytes",
    NUMBERS,
    "An Interest whose own TLV-TYPE is not in shortest form: drop.",
    on=ALL,
)
async def outer_type(t):
    await interest_dropped(t, lambda n: num_wide(INTEREST, 3) + num(len(body(n))) + body(n))


@case(
    "tlv/number/outer-length-in-9-bytes",
    NUMBERS,
    "An Interest whose own TLV-LENGTH is not in shortest form: drop.",
    on=ALL,
)
async def outer_length(t):
    await interest_dropped(t, lambda n: num(INTEREST) + num_wide(len(body(n)), 9) + body(n))


@case(
    "tlv/outer/unknown-type",
    PKT + "Packet types",
    "A datagram that is neither Interest, Data nor LpPacket is ignored and the face lives on; for streams see "
    "stream/ignorable-type.",
    on=(UDP,),
)
async def unknown_outer(t):
    producer, consumer = await t.producer(), await t.face()
    consumer.send(tlv(200, b"hello"), tlv(1000, bytes(300)))
    await t.quiet(0.05)
    await t.still_works(consumer, producer)
    expect(not consumer.closed, "the face was closed")


@case(
    "tlv/size/interest-8800",
    PKT + "Packet size limit",
    "An Interest of exactly 8800 bytes is forwarded.",
    on=ALL,
)
async def interest_8800(t):
    producer, consumer = await t.producer(), await t.face()
    packet = sized(t.name("/big"), 8800)
    consumer.send(packet)
    equal((await producer.interest(prefix=t.prefix)).net, packet, "Interest bytes")


@case(
    "tlv/size/interest-8801-datagram",
    PKT + "Packet size limit",
    "A datagram of 8801 bytes is dropped and the next one is not affected.",
    on=(UDP,),
)
async def interest_8801(t):
    await interest_dropped(t, lambda n: sized(n, 8801))


@case(
    "tlv/size/interest-8801-stream",
    PKT + "Packet size limit",
    "A packet of 8801 bytes on a stream is not forwarded; the router lives on, here or on a new connection.",
    on=STREAM,
)
async def interest_8801_stream(t):
    await interest_dropped(t, lambda n: sized(n, 8801))


@case(
    "tlv/size/data-8800",
    PKT + "Packet size limit",
    "Data of exactly 8800 bytes travels both ways over any face.",
    on=ALL,
)
async def data_8800(t):
    consumer, producer = await t.face(), await t.producer()
    target = t.name("/big")
    await t.send_interest(consumer, producer, target)
    packet = data(target, bytes(8800 - len(data(target, bytes(8000))) + 8000))
    equal(len(packet), 8800, "size of the test's own packet")
    producer.send(packet)
    equal((await consumer.data(target)).net, packet, "Data bytes")


@case(
    "tlv/size/data-8800-from-producer",
    PKT + "Packet size limit",
    "Data of exactly 8800 bytes is taken from a producer on any face.",
    on=ALL,
)
async def data_8800_up(t):
    consumer, producer = await t.face(t.router.local), await t.producer(transport=t.transport)
    target = t.name("/big")
    await t.send_interest(consumer, producer, target)
    packet = data(target, bytes(8800 - len(data(target, bytes(8000))) + 8000))
    producer.send(packet)
    equal((await consumer.data(target)).net, packet, "Data bytes")


def sized(n, size):
    """A parameterized Interest of exactly `size` bytes."""
    from kit.packets import with_params

    short = len(with_params(n, bytes(8000), lifetime=2000))
    return with_params(n, bytes(8000 + size - short), lifetime=2000)
