"""The Interest packet, field by field, as a forwarder must read and forward it."""

from kit.case import ALL, PKT, UDP, case, equal, expect
from kit.packets import data, interest, nonce, signed_v3, with_params
from kit.patterns import (
    deep,
    dropped_interests,
    interest_dropped,
    interest_forwarded,
    unchanged_interests,
)
from kit.tlv import (
    APP_PARAMS,
    CAN_BE_PREFIX,
    FORWARDING_HINT,
    HOP_LIMIT,
    INTEREST,
    ISIG_INFO,
    ISIG_VALUE,
    KEYWORD,
    LIFETIME,
    MUST_BE_FRESH,
    NAME,
    NONCE,
    PARAMS_DIGEST,
    comp,
    name_tlv,
    sha256,
    tlv,
    tlv_nni,
)

FORMAT = PKT + "Interest Packet"
NAMES = PKT + "Name"
PARAMS = PKT + "Interest: ApplicationParameters"
DIGEST = PKT + "Name: Parameters Digest Component"
HOP = PKT + "Interest: HopLimit"
WIRE = ("unix", "udp")


def elements(n, *parts):
    return tlv(INTEREST, name_tlv(n) + b"".join(parts))


LIFE = tlv_nni(LIFETIME, 2000)

dropped_interests(
    NAMES,
    [
        (
            "packet/name/component-type-zero",
            "A name component's type is 1 to 65535; 0: drop.",
            lambda n: interest(n + [b"\x00\x01x"]),
        ),
        (
            "packet/name/component-type-65536",
            "A name component's type is 1 to 65535; 65536: drop.",
            lambda n: interest(n + [comp("x", 65536)]),
        ),
        (
            "packet/name/implicit-digest-31-bytes",
            "An ImplicitSha256DigestComponent has 32 bytes; 31: drop.",
            lambda n: interest(n + [comp(bytes(31), 1)]),
        ),
        (
            "packet/name/params-digest-33-bytes",
            "A ParametersSha256DigestComponent has 32 bytes; 33: drop.",
            lambda n: elements(n + [comp(bytes(33), 2)], tlv(NONCE, nonce()), tlv(APP_PARAMS)),
        ),
    ],
    on=WIRE,
)

unchanged_interests(
    NAMES,
    [
        (
            "packet/name/component-type-65535",
            "Component type 65535 is legal.",
            lambda n: interest(n + [comp("x", 65535)]),
        ),
        (
            "packet/name/empty-component",
            "A component of zero length is legal.",
            lambda n: interest(n + [comp(b""), comp("x")]),
        ),
        (
            "packet/name/component-of-300-bytes",
            "A component whose TLV-LENGTH needs three bytes is legal.",
            lambda n: interest(n + [comp(bytes(300))]),
        ),
        (
            "packet/name/60-components",
            "A name of sixty components is forwarded.",
            lambda n: interest(deep(n, 60)),
        ),
        (
            "packet/name/binary-bytes",
            "Bytes of a component are opaque.",
            lambda n: interest(n + [comp(bytes(range(256)))]),
        ),
        (
            "packet/name/typed-components",
            "Keyword, segment, version and unknown component types are opaque.",
            lambda n: interest(
                n + [comp("w", KEYWORD), comp(b"\x01", 50), comp(b"\x02", 54), comp(b"z", 40000)]
            ),
        ),
    ],
    on=WIRE,
)

dropped_interests(
    FORMAT,
    [
        (
            "packet/interest/no-name",
            "An Interest without a Name: drop.",
            lambda n: tlv(INTEREST, tlv(NONCE, nonce()) + LIFE),
        ),
        (
            "packet/interest/empty",
            "An Interest without any element: drop.",
            lambda n: tlv(INTEREST),
        ),
        (
            "packet/interest/empty-name",
            "An Interest's Name has at least one component: drop.",
            lambda n: elements([], tlv(NONCE, nonce())),
        ),
        (
            "packet/interest/two-names",
            "A second Name: drop.",
            lambda n: elements(n, name_tlv(n), tlv(NONCE, nonce())),
        ),
        (
            "packet/interest/can-be-prefix-with-value",
            "CanBePrefix has zero length; 1: drop.",
            lambda n: elements(n, tlv(CAN_BE_PREFIX, b"\x01"), tlv(NONCE, nonce())),
        ),
        (
            "packet/interest/must-be-fresh-with-value",
            "MustBeFresh has zero length; 1: drop.",
            lambda n: elements(n, tlv(MUST_BE_FRESH, b"\x01"), tlv(NONCE, nonce())),
        ),
        (
            "packet/interest/must-be-fresh-before-can-be-prefix",
            "Critical elements out of order: drop.",
            lambda n: elements(n, tlv(MUST_BE_FRESH), tlv(CAN_BE_PREFIX), tlv(NONCE, nonce())),
        ),
        (
            "packet/interest/can-be-prefix-twice",
            "A critical element repeated: drop.",
            lambda n: elements(n, tlv(CAN_BE_PREFIX), tlv(CAN_BE_PREFIX), tlv(NONCE, nonce())),
        ),
        (
            "packet/interest/name-after-nonce",
            "A Name behind the Nonce: drop.",
            lambda n: tlv(INTEREST, tlv(NONCE, nonce()) + name_tlv(n)),
        ),
        (
            "packet/interest/old-selectors",
            "Selectors of format 0.2 (type 9) are critical and unknown: drop.",
            lambda n: elements(n, tlv(9, tlv(18)), tlv(NONCE, nonce())),
        ),
    ],
    on=WIRE,
)

dropped_interests(
    PKT + "Interest: Nonce",
    [
        (
            "packet/interest/nonce-3-bytes",
            "Nonce has four bytes; 3: drop.",
            lambda n: elements(n, tlv(NONCE, b"abc"), LIFE),
        ),
        (
            "packet/interest/nonce-5-bytes",
            "Nonce has four bytes; 5: drop.",
            lambda n: elements(n, tlv(NONCE, b"abcde"), LIFE),
        ),
        (
            "packet/interest/nonce-empty",
            "Nonce has four bytes; none: drop.",
            lambda n: elements(n, tlv(NONCE), LIFE),
        ),
        (
            "packet/interest/nonce-twice",
            "A critical element repeated: drop.",
            lambda n: elements(n, tlv(NONCE, nonce()), tlv(NONCE, nonce()), LIFE),
        ),
        (
            "packet/interest/nonce-after-hop-limit",
            "A critical element behind one that comes later: drop.",
            lambda n: elements(n, tlv(HOP_LIMIT, b"\x05"), tlv(NONCE, nonce()), LIFE),
        ),
        (
            "packet/interest/nonce-after-lifetime",
            "Critical elements out of order: drop.",
            lambda n: elements(n, LIFE, tlv(NONCE, nonce())),
        ),
    ],
    on=WIRE,
)

dropped_interests(
    HOP,
    [
        (
            "packet/interest/hop-limit-zero",
            "HopLimit 0 on arrival: drop.",
            lambda n: interest(n, hop=0),
        ),
        (
            "packet/interest/hop-limit-empty",
            "HopLimit has one byte; none: drop.",
            lambda n: interest(n, tail=tlv(HOP_LIMIT)),
        ),
        (
            "packet/interest/hop-limit-2-bytes",
            "HopLimit has one byte; 2: drop.",
            lambda n: interest(n, tail=tlv(HOP_LIMIT, b"\x00\x40")),
        ),
    ],
    on=ALL,
)

dropped_interests(
    PKT + "Interest: ForwardingHint",
    [
        (
            "packet/interest/forwarding-hint-bad-name",
            "ForwardingHint with a Name cut short: drop.",
            lambda n: elements(n, tlv(FORWARDING_HINT, b"\x07\x05\x08\x09"), tlv(NONCE, nonce())),
        ),
        (
            "packet/interest/forwarding-hint-twice",
            "A critical element repeated: drop.",
            lambda n: elements(
                n,
                tlv(FORWARDING_HINT, name_tlv(n)),
                tlv(FORWARDING_HINT, name_tlv(n)),
                tlv(NONCE, nonce()),
            ),
        ),
    ],
    on=WIRE,
)


def digest_first(n):
    """Digest component in the middle of the name."""
    tail = tlv(APP_PARAMS, b"p")
    return interest(n + [comp(sha256(tail), PARAMS_DIGEST), comp("behind")], tail=tail)


def altered(n):
    return with_params(n, b"changed", digest=sha256(tlv(APP_PARAMS, b"original")))


def two_digests(n):
    tail = tlv(APP_PARAMS, b"p")
    d = comp(sha256(tail), PARAMS_DIGEST)
    return interest(n + [d, d], tail=tail)


dropped_interests(
    DIGEST,
    [
        (
            "packet/params/digest-mismatch",
            "A digest that is not that of the parameters: drop.",
            altered,
        ),
        (
            "packet/params/digest-missing",
            "ApplicationParameters without a digest component: drop.",
            lambda n: interest(n, tail=tlv(APP_PARAMS, b"p")),
        ),
        (
            "packet/params/digest-alone",
            "A digest component without ApplicationParameters: drop.",
            lambda n: interest(n + [comp(sha256(b""), PARAMS_DIGEST)]),
        ),
        ("packet/params/two-digests", "Two digest components: drop.", two_digests),
        (
            "packet/params/signature-outside-digest",
            "The digest covers everything from ApplicationParameters on: drop.",
            lambda n: interest(
                n + [comp(sha256(tlv(APP_PARAMS, b"p")), PARAMS_DIGEST)],
                tail=tlv(APP_PARAMS, b"p")
                + tlv(ISIG_INFO, b"\x1b\x01\x00")
                + tlv(ISIG_VALUE, bytes(32)),
            ),
        ),
    ],
    on=ALL,
)

unchanged_interests(
    PARAMS,
    [
        (
            "packet/params/matching",
            "ApplicationParameters with the right digest are passed on.",
            lambda n: with_params(n, b"hello"),
        ),
        (
            "packet/params/empty",
            "Empty ApplicationParameters are legal.",
            lambda n: with_params(n, b""),
        ),
        (
            "packet/params/digest-in-middle",
            "The digest component may stand anywhere in the name.",
            digest_first,
        ),
        (
            "packet/params/noncritical-behind",
            "A non-critical element behind the parameters is covered and kept.",
            lambda n: with_params(n, b"p", rest=tlv(0xF0, b"more")),
        ),
        (
            "packet/params/signed",
            "A signed Interest is passed on as it is.",
            lambda n: signed_v3(n)[0],
        ),
        (
            "packet/params/signature-not-verified",
            "A forwarder does not verify Interest signatures.",
            lambda n: signed_v3(n, sig_value=bytes(32))[0],
        ),
        (
            "packet/params/unknown-signature-type",
            "An unknown SignatureType is of no concern to a forwarder.",
            lambda n: signed_v3(n, sig_info=b"\x1b\x01\xc9", sig_value=bytes(70))[0],
        ),
    ],
    on=ALL,
)

unchanged_interests(
    FORMAT,
    [
        (
            "packet/interest/plain",
            "An Interest without HopLimit is passed on byte for byte.",
            interest,
        ),
        (
            "packet/interest/no-lifetime",
            "An absent InterestLifetime stays absent.",
            lambda n: interest(n, lifetime=None),
        ),
        (
            "packet/interest/lifetime-huge",
            "An InterestLifetime of 2^64-1 ms is legal and passed on.",
            lambda n: elements(n, tlv(NONCE, nonce()), tlv(LIFETIME, b"\xff" * 8)),
        ),
        (
            "packet/interest/selectors",
            "CanBePrefix and MustBeFresh are passed on.",
            lambda n: interest(n, cbp=True, mbf=True),
        ),
    ],
    on=ALL,
)


@case(
    "packet/interest/nonce-added",
    PKT + "Interest: Nonce",
    "An Interest without Nonce is forwarded with one of four bytes, everything else kept.",
    on=ALL,
)
async def nonce_added(t):
    sent, got, _, _ = await interest_forwarded(
        t, lambda n: interest(n, nonce_=False, cbp=True, hop=9)
    )
    equal(len(got.nonce), 4, "bytes of the Nonce")
    equal(got.order, [NAME, CAN_BE_PREFIX, NONCE, LIFETIME, HOP_LIMIT], "elements in order")


@case(
    "packet/interest/nonce-added-differs",
    PKT + "Interest: Nonce",
    "Two Interests without Nonce are given different ones.",
)
async def nonces_differ(t):
    producer, consumer = await t.producer(), await t.face()
    first = await t.send_interest(consumer, producer, t.name("/1"), nonce_=False)
    second = await t.send_interest(consumer, producer, t.name("/2"), nonce_=False)
    expect(first.nonce != second.nonce, f"both got {first.nonce.hex()}")


@case(
    "packet/interest/hop-limit-decrement",
    HOP,
    "HopLimit is decremented by one in place, nothing else changes.",
    on=ALL,
)
async def hop_decrement(t):
    sent, got, _, _ = await interest_forwarded(
        t, lambda n: interest(n, hop=64, tail=tlv(0xF0, b"keep"))
    )
    at = sent.index(bytes([HOP_LIMIT, 1, 64]))
    equal(got.net, sent[: at + 2] + b"\x3f" + sent[at + 3 :], "Interest bytes")


@case("packet/interest/hop-limit-255", HOP, "HopLimit 255 becomes 254.")
async def hop_255(t):
    _, got, _, _ = await interest_forwarded(t, lambda n: interest(n, hop=255))
    equal(got.hop, b"\xfe", "HopLimit")


@case("packet/interest/hop-limit-absent", HOP, "An absent HopLimit stays absent.", on=ALL)
async def hop_absent(t):
    _, got, _, _ = await interest_forwarded(t, interest)
    expect(HOP_LIMIT not in got.fields, "a HopLimit was added")


@case(
    "packet/interest/hop-limit-one-to-application",
    HOP,
    "HopLimit 1 becomes 0 and the Interest still reaches a local application.",
)
async def hop_one_local(t):
    _, got, _, _ = await interest_forwarded(t, lambda n: interest(n, hop=1))
    equal(got.hop, b"\x00", "HopLimit")


@case(
    "packet/interest/hop-limit-one-to-network",
    HOP,
    "HopLimit 1 becomes 0 and the Interest is not sent over a non-local face.",
    on=(UDP,),
)
async def hop_one_network(t):
    producer, consumer = await t.producer(transport=UDP), await t.face(t.router.local)
    consumer.send(interest(t.name("/t"), hop=1))
    await producer.none(prefix=t.prefix)
    consumer.send(interest(t.name("/t2"), hop=2))
    equal((await producer.interest(t.name("/t2"))).hop, b"\x01", "HopLimit")


@case(
    "packet/interest/hop-limit-out-of-order",
    PKT + "TLV: Considerations for Evolvability of TLV-Based Encoding",
    "A HopLimit behind the ApplicationParameters is out of order and non-critical: it is ignored, even if it is 0.",
)
async def hop_misplaced(t):
    sent, got, _, _ = await interest_forwarded(
        t, lambda n: with_params(n, b"p", rest=tlv(HOP_LIMIT, b"\x00"))
    )
    equal(got.net, sent, "Interest bytes")


@case(
    "packet/interest/cache-hit-checks-first",
    HOP,
    "HopLimit 0 is dropped even if the answer is cached.",
)
async def hop_zero_cached(t):
    producer, consumer = await t.producer(), await t.face()
    target = t.name("/cached")
    await t.exchange(consumer, producer, target, reply=data(target, b"x", fresh=10000))
    consumer.send(interest(target, hop=0))
    await consumer.none("data", target)
    consumer.send(interest(target, hop=1))
    await consumer.data(target)


@case(
    "packet/interest/forwarding-hint",
    PKT + "Interest: ForwardingHint",
    "Without a producer region, an Interest follows its ForwardingHint, and Data comes back by name.",
    on=ALL,
)
async def forwarding_hint(t):
    producer, consumer = await t.producer(t.name("/region")), await t.face()
    target = t.name("/elsewhere/x")
    sent = interest(target, hint=[t.name("/region")])
    consumer.send(sent)
    equal((await producer.interest(target)).net, sent, "Interest bytes")
    packet = data(target, b"by hint")
    producer.send(packet)
    equal((await consumer.data(target)).net, packet, "Data bytes")


@case(
    "packet/interest/forwarding-hint-second",
    PKT + "Interest: ForwardingHint",
    "If no route leads to the first name of a ForwardingHint, the next one is used.",
)
async def forwarding_hint_second(t):
    producer, consumer = await t.producer(t.name("/b")), await t.face()
    target = t.name("/elsewhere/x")
    consumer.send(interest(target, hint=[t.name("/a"), t.name("/b")]))
    await producer.interest(target)


@case("packet/interest/empty-name-no-default-route", FORMAT, "An empty Name draws no Nack either.")
async def empty_name_silent(t):
    consumer = await t.face()
    consumer.send(tlv(INTEREST, tlv(NAME) + tlv(NONCE, nonce())))
    await consumer.none()
    await interest_dropped(t, lambda n: tlv(INTEREST, tlv(NAME) + tlv(NONCE, nonce())))
