"""The Data packet, field by field, as a forwarder must read and forward it."""

from kit.case import ALL, PKT, STREAM, case, equal
from kit.packets import data, interest, rsa_like_info
from kit.patterns import dropped_data, forwarded_data
from kit.tlv import CONTENT, DATA, META_INFO, SIG_INFO, SIG_VALUE, comp, name_tlv, tlv

FORMAT = PKT + "Data Packet"
SIGNATURE = PKT + "Signature"
META = PKT + "Data: MetaInfo"
INFO = tlv(SIG_INFO, b"\x1b\x01\x00")
VALUE = tlv(SIG_VALUE, bytes(32))

dropped_data(
    SIGNATURE,
    [
        (
            "packet/data/no-signature-info",
            "SignatureInfo is mandatory: drop.",
            lambda n: data(n, b"x", tail=VALUE),
        ),
        (
            "packet/data/no-signature-value",
            "SignatureValue is mandatory: drop.",
            lambda n: data(n, b"x", tail=INFO),
        ),
        (
            "packet/data/no-signature",
            "Both signature elements are mandatory: drop.",
            lambda n: data(n, b"x", tail=b""),
        ),
        (
            "packet/data/signature-swapped",
            "SignatureValue before SignatureInfo: drop.",
            lambda n: data(n, b"x", tail=VALUE + INFO),
        ),
    ],
    on=ALL,
)

dropped_data(
    FORMAT,
    [
        (
            "packet/data/no-name",
            "Data without a Name: drop.",
            lambda n: tlv(DATA, tlv(CONTENT, b"x") + INFO + VALUE),
        ),
        (
            "packet/data/content-before-metainfo",
            "Critical elements out of order: drop.",
            lambda n: tlv(
                DATA,
                name_tlv(n) + tlv(CONTENT, b"x") + tlv(META_INFO, b"\x19\x01\x05") + INFO + VALUE,
            ),
        ),
        (
            "packet/data/two-contents",
            "A critical element repeated: drop.",
            lambda n: tlv(
                DATA, name_tlv(n) + tlv(CONTENT, b"x") + tlv(CONTENT, b"y") + INFO + VALUE
            ),
        ),
        (
            "packet/data/two-names",
            "A second Name: drop.",
            lambda n: tlv(DATA, name_tlv(n) + name_tlv(n) + INFO + VALUE),
        ),
        (
            "packet/data/name-behind-content",
            "A Name behind the Content: drop.",
            lambda n: tlv(DATA, tlv(CONTENT, b"x") + name_tlv(n) + INFO + VALUE),
        ),
        ("packet/data/empty", "Data without any element: drop.", lambda n: tlv(DATA)),
    ],
    on=("unix", "udp"),
)

dropped_data(
    META,
    [
        (
            "packet/data/freshness-empty",
            "FreshnessPeriod without bytes: drop.",
            lambda n: data(n, meta=tlv(25)),
        ),
        (
            "packet/data/content-type-3-bytes",
            "ContentType of three bytes: drop.",
            lambda n: data(n, meta=tlv(24, b"\x00\x00\x01")),
        ),
        (
            "packet/data/freshness-twice",
            "A critical element of MetaInfo repeated: drop.",
            lambda n: data(n, meta=tlv(25, b"\x01") + tlv(25, b"\x02")),
        ),
    ],
    on=("unix", "udp"),
)

forwarded_data(
    FORMAT,
    [
        (
            "packet/data/plain",
            "Data is passed on byte for byte.",
            lambda n: data(n, b"content", fresh=1000),
        ),
        ("packet/data/no-content", "Content is optional.", lambda n: data(n, None)),
        ("packet/data/empty-content", "Content may be empty.", lambda n: data(n, b"")),
        (
            "packet/data/all-of-metainfo",
            "ContentType, FreshnessPeriod and FinalBlockId are passed on.",
            lambda n: data(n, b"x", ctype=2, fresh=5, final=comp(b"\x09", 50)),
        ),
        (
            "packet/data/unknown-content-type",
            "An unknown ContentType is of no concern to a forwarder.",
            lambda n: data(n, b"x", ctype=60000),
        ),
        (
            "packet/data/empty-metainfo",
            "MetaInfo may be empty.",
            lambda n: tlv(DATA, name_tlv(n) + tlv(META_INFO) + tlv(CONTENT, b"x") + INFO + VALUE),
        ),
        (
            "packet/data/8000-bytes",
            "A segment of the usual size is passed on.",
            lambda n: data(n, bytes(8000)),
        ),
    ],
    on=ALL,
)

forwarded_data(
    SIGNATURE,
    [
        (
            "packet/data/signature-not-verified",
            "A forwarder does not verify signatures.",
            lambda n: data(n, b"x", sign=False),
        ),
        (
            "packet/data/unknown-signature-type",
            "An unknown SignatureType is of no concern to a forwarder.",
            lambda n: data(n, b"x", tail=tlv(SIG_INFO, b"\x1b\x01\xc8") + tlv(SIG_VALUE)),
        ),
        (
            "packet/data/rsa-with-key-locator",
            "A key locator and a signature of 256 bytes are passed on.",
            lambda n: data(
                n, b"x", tail=tlv(SIG_INFO, rsa_like_info()) + tlv(SIG_VALUE, bytes(256))
            ),
        ),
    ],
    on=("unix", "udp"),
)


@case(
    "packet/data/freshness-huge",
    META,
    "A FreshnessPeriod of 2^64-1 ms is legal and means fresh.",
    on=STREAM,
)
async def freshness_huge(t):
    producer, consumer = await t.producer(), await t.face()
    target = t.name("/t")
    packet = data(target, b"x", meta=tlv(25, b"\xff" * 8))
    await t.exchange(consumer, producer, target, reply=packet)
    consumer.send(interest(target, mbf=True))
    equal((await consumer.data(target)).net, packet, "Data from the cache")
