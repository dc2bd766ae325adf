"""Properties of a router's answers that other programs need, beyond the protocol's pages."""

import asyncio

from kit import management as mgmt
from kit.case import MGMT, STREAM, case, equal, expect
from kit.management import command, dataset, dataset_packets, ok
from kit.packets import data, interest, signed_v3
from kit.routes import arrives, fib
from kit.tlv import SIG_INFO, SIG_TYPE, SIG_VALUE, comp, name, read_all, read_nni, tlv, tlv_nni

FACES = MGMT + "FaceMgmt: "
RIB = MGMT + "RibMgmt: "
LINK = ("mark_interval", "mark_threshold", "mtu")
NULL_FACE = 255


@case(
    "mgmt/faces/answers-say-link",
    FACES + "create, update",
    "The answers to faces/create and faces/update say Mtu, "
    "BaseCongestionMarkingInterval and DefaultCongestionThreshold, behind Flags and FacePersistency.",
    tags=("nfd",),
)
async def answers_say_link(t):
    manager = await t.manager()
    a = await ok(manager, "faces", "create", uri="udp4://127.0.0.1:19011")
    try:
        b = await ok(manager, "faces", "update", face_id=a.body["face_id"])
        for answer in (a, b):
            equal(
                [typ for typ in (135, 136, 137) if typ in answer.order],
                [135, 136, 137],
                "link properties",
            )
            mgmt.in_order(answer.order, mgmt.PARAMETER_ORDER, "ControlParameters")
    finally:
        await ok(manager, "faces", "destroy", face_id=a.body["face_id"])


@case(
    "mgmt/faces/mtu-of-streams",
    FACES + "Face Dataset",
    "A face without a limit of its own shows the size of the largest packet as its Mtu.",
    tags=("nfd",),
    on=STREAM,
)
async def mtu_of_streams(t):
    face = await t.face()
    own = await t.face_id(face)
    statuses = mgmt.face_statuses(await dataset(face, "faces/list"))
    equal([f.get("mtu") for f in statuses if f["face_id"] == own], [8800], "Mtu of the own face")


for verb, slug, fields in (
    ("faces/destroy", "destroy-absent", {"face_id": 999_999}),
    ("rib/unregister", "unregister-absent", {"face_id": 999_999}),
    ("fib/remove-nexthop", "remove-nexthop-absent", {"face_id": 999_999}),
    ("strategy-choice/unset", "unset-absent", {}),
):
    module, word = verb.split("/")

    @case(
        f"mgmt/{module}/{slug}",
        MGMT + verb,
        f"{verb} of what is not there: 200, so that removing twice is no error.",
        tags=("nfd",),
    )
    async def remove_absent(t, module=module, word=word, fields=fields):
        named = {} if module == "faces" else {"name": t.prefix}
        await ok(await t.manager(), module, word, **named, **fields)


@case(
    "mgmt/faces/update-absent", FACES + "update", "faces/update of a face that is not there: 404."
)
async def update_absent(t):
    a = await command(await t.manager(), "faces", "update", face_id=999_999, mtu=1400)
    equal(a.code, 404, "StatusCode")


for length in (300, 3000, 5000, 7000, 8000):

    @case(
        f"mgmt/faces/create-long-uri-{length}",
        FACES + "create",
        f"A Uri of {length} bytes that is none is refused by an answer that fits a packet.",
        tags=("hostile",),
    )
    async def long_uri(t, length=length):
        a = await command(await t.manager(), "faces", "create", uri="udp4://" + "x" * (length - 7))
        expect(400 <= a.code < 500, f"StatusCode {a.code}")
        expect(len(a.packet.raw) <= 8800, f"an answer of {len(a.packet.raw)} bytes")


@case(
    "mgmt/faces/null",
    FACES + "null face",
    "A face of Uri null:// takes routes, and drops what is sent to it.",
    tags=("nfd",),
)
async def null_face(t):
    manager = await t.manager()
    null = [
        f for f in mgmt.face_statuses(await dataset(manager, "faces/list")) if f["uri"] == "null://"
    ]
    equal([f["face_id"] for f in null], [NULL_FACE], "FaceId of null://")
    await ok(manager, "rib", "register", name=t.prefix, face_id=NULL_FACE, flags=0)
    consumer = await t.face(t.router.local)
    consumer.send(interest(t.name("/a"), lifetime=500))
    await t.quiet()
    equal([p.kind for p in consumer.inbox], [], "what came back")
    # Other routes are unaffected, also longer ones.
    producer = await t.producer(t.name("/below"))
    await t.exchange(consumer, producer, t.name("/below/x"))
    a = await command(manager, "faces", "destroy", face_id=NULL_FACE)
    left = [
        f["face_id"]
        for f in mgmt.face_statuses(await dataset(manager, "faces/list"))
        if f["uri"] == "null://"
    ]
    equal(left, [NULL_FACE], f"null:// after faces/destroy ({a.code})")
    await ok(manager, "rib", "unregister", name=t.prefix, face_id=NULL_FACE)


@case(
    "mgmt/dataset/general-fib-count",
    MGMT + "ForwarderStatus",
    "nFibEntries counts what fib/list lists.",
    tags=("nfd",),
    exclusive=True,
)
async def fib_count(t):
    manager = await t.manager()

    async def counts():
        general = dict(read_all(await dataset(manager, "status/general")))
        return read_nni(general[132]), len(mgmt.fib_entries(await dataset(manager, "fib/list")))

    await t.set_strategy(t.name("/only-a-strategy"), name("/localhost/nfd/strategy/multicast"))
    await ok(manager, "rib", "register", name=t.name("/a"))
    expect(await fib(t, t.name("/a")), "the route is in fib/list")

    async def agree():
        count, listed = await counts()
        return count == listed

    await t.until(agree, what="a count that agrees with the list")
    await ok(manager, "strategy-choice", "unset", name=t.name("/only-a-strategy"))


for slug, prefix in (("localhost", "/localhost"), ("localhost-nfd", "/localhost/nfd")):

    @case(
        f"mgmt/discovery/{slug}",
        MGMT + "namespace",
        f"An Interest with CanBePrefix for {prefix} alone gets some management Data.",
        tags=("clients",),
        on=STREAM,
    )
    async def discovery(t, prefix=prefix):
        face = await t.face()
        face.send(interest(name(prefix), cbp=True))
        got = await face.get("data", prefix=name("/localhost/nfd"))
        expect(len(got.name) > 2, "Data of a longer name")


@case(
    "mgmt/dataset/version-kept",
    MGMT + "StatusDataset",
    "A version is kept for clients that repeat a request after seconds, as "
    "with a segment that was lost.",
    tags=("nfd",),
    limit=30.0,
)
async def version_kept(t):
    face = await t.face()
    first = (await dataset_packets(face, "faces/list"))[0]
    await asyncio.sleep(4.5)
    face.send(interest(first.name))
    repeated = await face.data(first.name, what="the same segment after 4.5 s")
    equal(repeated.content, first.content, "content")


def announcement(prefix, *, content=None, tail=None):
    return data(
        prefix + [comp("PA", 32), comp(b"\x01", 54), comp(b"\x00", 50)],
        content or tlv_nni(109, 600_000),
        ctype=5,
        tail=tail,
    )


async def announce(t, face, announced):
    packet, full = signed_v3(mgmt.LOCAL + name("/rib/announce"), params=announced)
    face.send(packet)
    return mgmt.read_answer(await face.data(full, what="answer to rib/announce"))


@case(
    "mgmt/rib/announce-null-signature",
    RIB + "announce",
    "A prefix announcement with a Null signature, inside a signed command "
    "of a local face, as one library makes it.",
    tags=("clients",),
)
async def announce_null(t):
    face = await t.face()
    tail = tlv(SIG_INFO, tlv(SIG_TYPE, b"\xc8")) + tlv(SIG_VALUE, b"")
    a = await announce(t, face, announcement(t.prefix, tail=tail))
    equal(a.code, 200, f"StatusCode ({a.text})")
    await arrives(t, face, t.name("/a"))


for slug, first, last in (
    ("february-31", b"20200101T000000", b"20990231T000000"),
    ("no-leap-year", b"20200101T000000", b"20990229T000000"),
    ("month-13", b"20200101T000000", b"20991301T000000"),
    ("sign-in-digits", b"20200101T000000", b"2099+101T000000"),
):

    @case(
        f"mgmt/rib/announce-{slug}",
        RIB + "announce",
        "A ValidityPeriod that is on no calendar: an error.",
        tags=("hostile",),
    )
    async def announce_date(t, first=first, last=last):
        content = tlv_nni(109, 600_000) + tlv(253, tlv(254, first) + tlv(255, last))
        a = await announce(t, await t.face(), announcement(t.prefix, content=content))
        expect(400 <= a.code < 500, f"StatusCode {a.code}")
        equal(await fib(t, t.prefix), {}, "a route")
