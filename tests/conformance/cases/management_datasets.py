"""Status datasets and the face event stream."""

import time

from kit import management as mgmt
from kit.case import MGMT, STREAM, TCP, UDP, UNIX, case, equal, expect
from kit.management import LOCAL, dataset, dataset_packets, in_order, ok, parameters
from kit.packets import interest, signed_v3
from kit.tlv import (
    FRESHNESS,
    META_INFO,
    NAME,
    PARAMS_DIGEST,
    comp,
    name,
    read_all,
    read_nni,
    read_tlv,
    tlv,
    tlv_nni,
)

SET = MGMT + "StatusDataset"
EVENTS = MGMT + "FaceMgmt: Face Status Change Notification"
ALL_SETS = (
    "status/general",
    "faces/list",
    "faces/channels",
    "fib/list",
    "rib/list",
    "cs/info",
    "strategy-choice/list",
)


def joined(components):
    return b"".join(components)


def each_set(what):
    slug = what.replace("/", "-")

    @case(
        f"mgmt/dataset/{slug}",
        SET,
        f"{what} answers under <prefix>/<version>/<segment>, with FinalBlockId in the "
        "first segment and a FreshnessPeriod.",
        on=STREAM,
    )
    async def run(t):
        packets = await dataset_packets(await t.face(), what)
        for p in packets:
            meta = dict(read_all(p.fields.get(META_INFO, b"")))
            expect(read_nni(meta.get(FRESHNESS, b"\x00")) > 0, "no FreshnessPeriod")
        expect(mgmt.final_block(packets[0]) is not None, "no FinalBlockId in the first segment")
        equal(
            mgmt.final_block(packets[-1]), packets[-1].name[-1], "FinalBlockId of the last segment"
        )

    # Runs alone: otherwise one Data may answer both the longer and the shorter name if both are
    # pending.
    @case(
        f"mgmt/dataset/{slug}-with-digest",
        SET,
        f"{what} requested by a signed Interest (parameters digest at the end, "
        "as one command line tool does) answers under that longer name, and that answer does not serve the next "
        "request for the plain name.",
        tags=("clients",),
        exclusive=True,
    )
    async def run_digest(t):
        face = await t.face()
        packet, full = signed_v3(LOCAL + name("/" + what), cbp=True, mbf=True)
        face.send(packet)
        got = await face.get("data", prefix=full)
        equal(len(got.name), len(full) + 2, "components of the Data name")
        equal(
            read_tlv(got.name[len(LOCAL) + 2])[0],
            PARAMS_DIGEST,
            "component type behind the dataset's name",
        )
        await dataset_packets(face, what)


for each in ALL_SETS:
    each_set(each)


@case(
    "mgmt/dataset/general-status",
    MGMT + "ForwarderStatus",
    "status/general holds its fields unwrapped, in order, "
    "with times in milliseconds that make sense.",
    on=STREAM,
)
async def general(t):
    elements = read_all(await dataset(await t.face(), "status/general"))
    order = [k for k, _ in elements]
    in_order(order, [*range(128, 136), 144, 145, 151, 146, 147, 152, 153, 154], "ForwarderStatus")
    equal(
        order,
        [*range(128, 136), 144, 145, 151, 146, 147, 152, 153, 154],
        "ForwarderStatus elements",
    )
    fields = dict(elements)
    expect(fields[128].decode() != "", "empty version")
    started, now = read_nni(fields[129]), read_nni(fields[130])
    expect(
        started <= now and abs(now - time.time() * 1000) < 60_000, f"started {started}, now {now}"
    )


@case(
    "mgmt/dataset/general-counts",
    MGMT + "ForwarderStatus",
    "The packet counters grow with traffic.",
)
async def counts(t):
    producer, consumer = await t.producer(), await t.face()
    before = dict(read_all(await dataset(await t.manager(), "status/general")))
    for i in range(10):
        await t.exchange(consumer, producer, t.name(f"/{i}"))

    async def grown():
        after = dict(read_all(await dataset(await t.manager(), "status/general")))
        return all(read_nni(after[k]) >= read_nni(before[k]) + 10 for k in (144, 145, 146, 147))

    await t.until(grown, what="counters that have grown by the ten exchanges")


@case(
    "mgmt/dataset/cs-info-fields",
    MGMT + "CsMgmt: info",
    "cs/info is one CsInfo with its five fields in order.",
    on=STREAM,
)
async def cs_info(t):
    items = mgmt.items(await dataset(await t.face(), "cs/info"))
    equal(len(items), 1, "CsInfo elements")
    equal([k for k, _ in read_all(items[0])], [131, 108, 135, 129, 130], "fields")


@case(
    "mgmt/dataset/faces-list-own-face",
    MGMT + "FaceMgmt: list",
    "faces/list shows our own face with all its fields.",
    on=STREAM,
)
async def faces_list(t):
    face = await t.face()
    mine = await t.face_id(face)

    async def listed():
        return [
            f
            for f in mgmt.face_statuses(await dataset(await t.manager(), "faces/list"))
            if f["face_id"] == mine
        ]

    status = (await t.until(listed, what="our face in faces/list"))[0]
    for key in (
        "uri",
        "local_uri",
        "scope",
        "persistency",
        "link_type",
        "in_interests",
        "in_data",
        "in_nacks",
        "out_interests",
        "out_data",
        "out_nacks",
        "in_bytes",
        "out_bytes",
        "flags",
    ):
        expect(key in status, f"no {key}")
    equal(
        (status["scope"], status["persistency"], status["link_type"]),
        (1, 1, 0),
        "scope, persistency, link type",
    )
    scheme = status["local_uri"].split(":")[0]
    expect(
        scheme in (("unix",) if t.transport == UNIX else ("tcp4", "tcp6")),
        f"LocalUri {status['local_uri']}",
    )


@case(
    "mgmt/dataset/faces-list-udp",
    MGMT + "FaceMgmt: list",
    "An on-demand UDP face is listed as non-local.",
    on=(UDP,),
)
async def faces_list_udp(t):
    face = await t.face()
    mine = await t.face_id(face)

    async def listed():
        return [
            f
            for f in mgmt.face_statuses(await dataset(await t.manager(), "faces/list"))
            if f["face_id"] == mine
        ]

    status = (await t.until(listed, what="our face in faces/list"))[0]
    expect(
        status["uri"].startswith("udp") and status["uri"].endswith(f":{face.local_port}"),
        status["uri"],
    )
    equal(
        (status["scope"], status["persistency"], status["link_type"]),
        (0, 1, 0),
        "scope, persistency, link type",
    )


@case(
    "mgmt/dataset/face-counters",
    MGMT + "FaceMgmt: list",
    "A face's counters count its Interests and Data.",
)
async def face_counters(t):
    producer, consumer = await t.producer(), await t.face()
    mine = await t.face_id(consumer)
    for i in range(7):
        await t.exchange(consumer, producer, t.name(f"/{i}"))

    async def counted():
        return [
            f
            for f in mgmt.face_statuses(await dataset(await t.manager(), "faces/list"))
            if f["face_id"] == mine
            and f["in_interests"] >= 7
            and f["out_data"] >= 7
            and f["in_bytes"] > 100
        ]

    await t.until(counted, what="seven Interests in and Data out on our face")


@case(
    "mgmt/dataset/faces-channels-listeners",
    MGMT + "FaceMgmt: channels",
    "faces/channels lists a local URI per listener.",
)
async def channels(t):
    uris = []
    for v in mgmt.items(await dataset(await t.face(), "faces/channels"), 130):
        elements = read_all(v)
        equal([k for k, _ in elements], [129], "fields of a ChannelStatus")
        uris.append(elements[0][1].decode())
    schemes = {u.split(":")[0] for u in uris}
    for transport, wanted in ((UNIX, {"unix"}), (TCP, {"tcp4", "tcp6"}), (UDP, {"udp4", "udp6"})):
        if t.router.address(transport):
            expect(schemes & wanted, f"no {transport} listener among {uris}")


def query(id_, requirement, build):
    @case(f"mgmt/dataset/query-{id_}", MGMT + "FaceMgmt: query", requirement, on=STREAM)
    async def run(t):
        face = await t.face()
        mine = await t.face_id(face)
        face_filter, check = await build(t, face, mine)
        content = await dataset(face, "faces/query", suffix=[comp(tlv(150, face_filter))])
        check(mgmt.face_statuses(content), mine)


async def _by_id(t, face, mine):
    def check(found, mine):
        equal([f["face_id"] for f in found], [mine], "faces found")

    return tlv_nni(105, mine), check


async def _by_scheme(t, face, mine):
    def check(found, mine):
        expect(mine in [f["face_id"] for f in found], "our face is not among them")
        for f in found:
            expect(
                any(f[k].startswith(prefix) for k in ("uri", "local_uri")),
                f"{f['uri']} {f['local_uri']}",
            )

    prefix = "unix" if t.transport == UNIX else "tcp4"
    return tlv(131, prefix.encode()), check


async def _none(t, face, mine):
    def check(found, mine):
        equal(found, [], "faces found")

    return tlv(114, b"udp4://192.0.2.1:9"), check


query("by-face-id", "A FaceQueryFilter with a FaceId finds that face alone.", _by_id)
query(
    "by-scheme", "A FaceQueryFilter with a UriScheme finds faces of that scheme only.", _by_scheme
)
query("nothing", "A FaceQueryFilter that fits nothing is answered with an empty dataset.", _none)


@case(
    "mgmt/dataset/strategy-defaults",
    MGMT + "StrategyChoice: list",
    "Out of the box: / has best-route, /localhost and /ndn/broadcast multicast, /localhost/nfd best-route; versions "
    "are shown.",
    tags=("clients",),
)
async def strategy_defaults(t):
    table = mgmt.strategies(await dataset(await t.face(), "strategy-choice/list"))
    for prefix, wanted in (
        ("/", mgmt.BEST_ROUTE),
        ("/localhost", mgmt.MULTICAST),
        ("/localhost/nfd", mgmt.BEST_ROUTE),
        ("/ndn/broadcast", mgmt.MULTICAST),
    ):
        chosen = table.get(joined(name(prefix)))
        expect(chosen is not None, f"no choice for {prefix}")
        equal(chosen[:-1], wanted, f"strategy of {prefix}")
        equal(read_tlv(chosen[-1])[0], 54, "type of the last component (version)")


@case("mgmt/dataset/fib-defaults", MGMT + "FibMgmt: list", "fib/list has /localhost/nfd.")
async def fib_defaults(t):
    expect(
        joined(LOCAL) in mgmt.fib_entries(await dataset(await t.face(), "fib/list")),
        "no /localhost/nfd",
    )


@case(
    "mgmt/dataset/many-segments",
    SET,
    "A dataset beyond one segment comes in several that fit together.",
    on=STREAM,
)
async def many_segments(t):
    face = await t.face()
    wanted = set()
    for i in range(400):
        prefix = t.name(f"/a-fairly-long-component/{i}")
        packet, full = signed_v3(
            LOCAL + name("/rib/register") + [comp(parameters(name=prefix))], lifetime=4000
        )
        face.send(packet)
        wanted.add((joined(prefix), tuple(full)))
    for _, full in wanted:
        await face.data(list(full))

    async def complete():
        packets = await dataset_packets(face, "rib/list")
        entries = mgmt.rib_entries(b"".join(p.content for p in packets))
        return len(packets) > 2 and all(p in entries for p, _ in wanted) and packets

    packets = await t.until(complete, what="all 400 routes in rib/list")
    expect(len({p.name[-2] for p in packets}) == 1, "segments of different versions")
    for p in packets[:-1]:
        equal(mgmt.final_block(p), packets[-1].name[-1], "FinalBlockId (wanted in every segment)")


@case(
    "mgmt/dataset/not-cached-for-long",
    SET,
    "A change shows up in a dataset within one and a half seconds.",
)
async def shows_up(t):
    face = await t.face()
    await dataset(face, "rib/list")
    await ok(face, "rib", "register", name=t.prefix)

    async def shown():
        return joined(t.prefix) in mgmt.rib_entries(await dataset(face, "rib/list"))

    await t.until(shown, within=1.5, what="the new route in rib/list")


def read_event(p):
    typ, value, end = read_tlv(p.content)
    equal((typ, end), (192, len(p.content)), "FaceEventNotification")
    elements = read_all(value)
    in_order(
        [k for k, _ in elements], [193, 105, 114, 129, 132, 133, 134, 108], "FaceEventNotification"
    )
    f = dict(elements)
    return read_nni(f[193]), read_nni(f[105]), f[114].decode()


@case(
    "mgmt/events/created-and-destroyed",
    EVENTS,
    "A pending request for events is answered by the next one; sequence number + 1 brings the one after it.",
    exclusive=True,
)
async def events(t):
    watcher, new_face = await t.face(), await t.face()
    prefix = LOCAL + name("/faces/events")
    await t.quiet(0.3)  # faces of earlier cases may still be going
    watcher.send(interest(prefix, cbp=True, mbf=True, lifetime=8000))
    await t.quiet(0.1)
    a = await ok(new_face, "faces", "create", uri="udp4://127.0.0.1:9")
    target, seen = a.body["face_id"], []
    p = await watcher.get("data", prefix=prefix)
    destroyed = False
    for _ in range(40):
        equal(len(p.name), len(prefix) + 1, "components of the event's name")
        typ, value, _ = read_tlv(p.name[-1])
        equal(typ, 58, "component type of a sequence number")
        kind, face_id, uri = read_event(p)
        if face_id == target:
            seen.append(kind)
            equal(uri, "udp4://127.0.0.1:9", "Uri")
        if kind == 2 and face_id == target:
            break
        following = prefix + [comp(mgmt.nni(read_nni(value) + 1), 58)]
        watcher.send(interest(following, lifetime=8000))
        if seen and not destroyed:
            await ok(new_face, "faces", "destroy", face_id=target)
            destroyed = True
        p = await watcher.data(following)
    expect(seen[:1] == [1] and seen[-1:] == [2], f"kinds of event seen for our face: {seen}")


@case(
    "mgmt/events/burst-is-kept",
    EVENTS,
    "In a burst of fifty events, none is lost to a client that follows the sequence numbers.",
    exclusive=True,
    tags=("clients",),
)
async def burst(t):
    watcher, new_face = await t.face(), await t.face()
    prefix = LOCAL + name("/faces/events")
    await t.quiet(0.3)
    watcher.send(interest(prefix, cbp=True, mbf=True, lifetime=8000))
    await t.quiet(0.1)
    ids = set()
    for i in range(25):
        ids.add(
            (await ok(new_face, "faces", "create", uri=f"udp4://127.0.0.1:{20000 + i}")).body[
                "face_id"
            ]
        )
    for i in ids:
        await ok(new_face, "faces", "destroy", face_id=i)
    seen, p = set(), await watcher.get("data", prefix=prefix)
    for _ in range(120):
        kind, face_id, _uri = read_event(p)
        if face_id in ids:
            seen.add((kind, face_id))
        if len(seen) == 50:
            break
        following = prefix + [comp(mgmt.nni(read_nni(read_tlv(p.name[-1])[1]) + 1), 58)]
        watcher.send(interest(following, lifetime=3000))
        p = await watcher.data(following, what=f"{len(seen)} of 50 events so far")
    equal(len(seen), 50, "events seen")


@case("mgmt/dataset/name-type", SET, "Names in datasets are Name elements.", tags=("nfd",))
async def name_type(t):
    face = await t.producer()
    content = await dataset(face, "fib/list")
    for v in mgmt.items(content):
        equal(read_all(v)[0][0], NAME, "first element of a FibEntry")


@case(
    "mgmt/dataset/two-names-at-once",
    SET,
    "Requested by the plain name and by the longer one with a parameters digest at the same time, each "
    "gets the answer to its own.",
    tags=("differs",),
    on=STREAM,
    exclusive=True,
)
async def two_names(t):
    plain = LOCAL + name("/faces/list")
    first_face, second_face = await t.face(), await t.face()
    for _ in range(5):
        packet, full = signed_v3(plain, cbp=True, mbf=True)
        first_face.send(packet)
        second_face.send(interest(plain, cbp=True, mbf=True))
        longer = await first_face.get("data", prefix=full, what="the answer to the longer name")
        shorter = await second_face.get("data", prefix=plain, what="the answer to the plain name")
        equal(
            (len(longer.name), len(shorter.name)),
            (len(full) + 2, len(plain) + 2),
            "components of the answers",
        )


@case(
    "mgmt/rib/import",
    MGMT + "none: a command of this router's own",
    "Routes in ApplicationParameters, one behind the other, are all "
    "registered; the answer counts them, and names the first that can't be.",
    tags=("differs",),
    on=STREAM,
)
async def rib_import(t):
    face = await t.face()
    routes = b"".join(parameters(name=t.name(f"/{n}"), cost=n) for n in range(40))
    packet, full = signed_v3(LOCAL + name("/rib/import"), params=routes)
    face.send(packet)
    answer = mgmt.read_answer(await face.data(full, what="the answer to rib/import"))
    equal((answer.code, answer.body["count"]), (200, 40), "code and Count")
    hops = mgmt.fib_entries(await dataset(face, "fib/list"))
    equal(
        [n for n in range(40) if joined(t.name(f"/{n}")) not in hops],
        [],
        "prefixes that are not in fib/list",
    )
    packet, full = signed_v3(
        LOCAL + name("/rib/import"), params=parameters(name=t.name("/x"), face_id=0xFFFFFF1)
    )
    face.send(packet)
    answer = mgmt.read_answer(await face.data(full, what="the answer to rib/import"))
    equal(
        (answer.code, answer.body["count"]), (410, 0), "code and Count for a face that is not there"
    )
    expect(answer.text, "no sentence")
