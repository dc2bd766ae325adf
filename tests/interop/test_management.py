"""NFD's complete management protocol through python-ndn's models: every command, every dataset,
notifications, refusals."""

import asyncio

from ndn import encoding as enc
from ndn import types
from ndn.app_support import nfd_mgmt as m
from ndn.appv2 import pass_all
from ndn.encoding.tlv_var import parse_tl_num
from ndn.security import DigestSha256Signer

from harness import check, equal, test
from test_python_ndn import RunningApp, v2


async def dataset(app, name):
    """Returns the content of a dataset, from all its segments."""
    found, content, context = await app.express(
        name, validator=pass_all, can_be_prefix=True, must_be_fresh=True, lifetime=4000
    )
    last = enc.Component.to_number(context["meta_info"].final_block_id)
    parts = [bytes(content)]
    for segment in range(1, last + 1):
        _, content, _ = await app.express(
            found[:-1] + [enc.Component.from_segment(segment)], validator=pass_all, lifetime=4000
        )
        parts.append(bytes(content))
    return b"".join(parts)


async def listed(app, what, model, field):
    return getattr(model.parse(await dataset(app, f"/localhost/nfd/{what}")), field)


def elements(wire):
    """Splits bytes into whole TLV elements."""
    wire, found = bytes(wire), []
    while wire:
        typ, type_len = parse_tl_num(wire)
        length, length_len = parse_tl_num(wire, type_len)
        end = type_len + length_len + length
        found.append((typ, wire[:end], wire[type_len + length_len : end]))
        wire = wire[end:]
    return found


def response(reply):
    """The library requires MTU and congestion fields before Flags in an answer; NFD and nw put them
    after Flags, so they are removed here."""
    ((_, _, inner),) = elements(reply)
    parts = []
    for typ, whole, value in elements(inner):
        if typ == 0x68:
            kept = b"".join(w for t, w, _ in elements(value) if t not in (0x87, 0x88, 0x89))
            whole = b"\x68" + bytes([len(kept)]) + kept if len(kept) < 253 else whole
        parts.append(whole)
    body = b"".join(parts)
    head = bytes([len(body)]) if len(body) < 253 else b"\xfd" + len(body).to_bytes(2, "big")
    return m.parse_response(b"\x65" + head + body)


async def completed(app, module, verb, code=200, **parameters):
    _, reply, _ = await app.express(
        m.make_command_v2(module, verb, None, **parameters),
        app_param=b"",
        signer=DigestSha256Signer(for_interest=True),
        validator=pass_all,
        lifetime=2000,
    )
    answer = response(reply)
    equal(answer["status_code"], code, f"{module}/{verb} {parameters}: {answer['status_text']}")
    check(answer["status_text"], f"{module}/{verb} has no status text")
    return answer


async def face_of(app, uri):
    wanted = m.FaceQueryFilter()
    wanted.face_query_filter = m.FaceQueryFilterValue()
    wanted.face_query_filter.uri = uri
    name = enc.Name.from_str("/localhost/nfd/faces/query") + [
        enc.Component.from_bytes(wanted.encode())
    ]
    return m.FaceStatusMsg.parse(await dataset(app, name)).face_status


async def event(app, name, kind, face_id):
    """Returns the notification of this kind about this face, starting with the one named `name`."""
    while True:
        found, content, _ = await app.express(
            name, validator=pass_all, can_be_prefix=True, must_be_fresh=True, lifetime=4000
        )
        what = m.FaceEventNotification.parse(content).event
        if (what.face_event_kind, what.face_id) == (kind, face_id):
            return found, what
        name = found[:-1] + [
            enc.Component.from_sequence_num(enc.Component.to_number(found[-1]) + 1)
        ]


@test("python-ndn management of faces")
async def faces(h):
    uri = "udp4://127.0.0.1:17211"
    async with RunningApp(v2(h, "unix")) as app, RunningApp(v2(h, "unix")) as listener:
        first = asyncio.create_task(
            listener.express(
                "/localhost/nfd/faces/events",
                validator=pass_all,
                can_be_prefix=True,
                must_be_fresh=True,
                lifetime=4000,
            )
        )
        await asyncio.sleep(0.2)
        answer = await completed(app, "faces", "create", uri=uri)
        face = answer["face_id"]
        equal(answer["uri"], uri, "FaceUri")
        found, _, _ = await first
        _, seen = await event(listener, found, m.FaceEventKind.CREATED, face)
        equal((seen.uri, seen.face_scope), (uri, m.FaceScope.NON_LOCAL), "event")
        answer = await completed(app, "faces", "create", code=409, uri=uri)
        equal(answer["face_id"], face, "the face that is in the way")

        statuses = await listed(app, "faces/list", m.FaceStatusMsg, "face_status")
        mine = [status for status in statuses if status.face_id == face]
        equal(
            [(s.uri, s.face_persistency, s.link_type) for s in mine],
            [(uri, m.FacePersistency.PERSISTENT, m.FaceLinkType.POINT_TO_POINT)],
            "faces/list",
        )
        equal([s.face_id for s in await face_of(app, uri)], [face], "faces/query")
        equal(
            [s.face_id for s in await face_of(app, "udp4://127.0.0.1:1")], [], "faces/query of none"
        )

        await completed(
            app, "faces", "update", face_id=face, face_persistency=m.FacePersistency.PERMANENT
        )
        await completed(app, "faces", "update", face_id=face, flags=0, mask=4)
        (status,) = await face_of(app, uri)
        equal(status.face_persistency, m.FacePersistency.PERMANENT, "FacePersistency")
        check(not status.flags & m.FaceFlags.CONGESTION_MARKING_ENABLED, "the flag was not cleared")
        await completed(app, "faces", "update", code=404, face_id=4_000_000_000, flags=0, mask=4)
        await completed(app, "faces", "update", code=409, face_id=face, flags=1, mask=1)
        await completed(app, "faces", "create", code=400, uri="udp4://no-address")
        channels = await dataset(app, "/localhost/nfd/faces/channels")
        check(b"unix://" in channels and b"tcp4://" in channels, f"faces/channels: {channels}")

        await completed(app, "faces", "destroy", face_id=face)
        await event(listener, found, m.FaceEventKind.DESTROYED, face)
        await completed(app, "faces", "destroy", face_id=face)
        equal(await face_of(app, uri), [], "faces after destroy")


@test("python-ndn management of routes")
async def routes(h):
    prefix = h.prefix()
    async with RunningApp(v2(h, "unix")) as app:
        face = (await completed(app, "faces", "create", uri="udp4://127.0.0.1:17212"))["face_id"]

        async def routes_of(name):
            entries = await listed(app, "rib/list", m.RibStatus, "entries")
            return [r for e in entries if enc.Name.to_str(e.name) == name for r in e.routes]

        async def hops_of(name):
            entries = await listed(app, "fib/list", m.FibStatus, "entries")
            return {
                r.face_id: r.cost
                for e in entries
                if enc.Name.to_str(e.name) == name
                for r in e.next_hop_records
            }

        answer = await completed(
            app,
            "rib",
            "register",
            name=prefix,
            face_id=face,
            origin=65,
            cost=7,
            flags=1,
            expiration_period=600_000,
        )
        equal(
            (answer["face_id"], answer["origin"], answer["cost"]),
            (face, 65, 7),
            "rib/register's answer",
        )
        (route,) = await routes_of(prefix)
        equal(
            (route.face_id, route.origin, route.cost, route.flags),
            (face, 65, 7, m.RouteFlags.CHILD_INHERIT),
            "rib/list",
        )
        check(
            590_000 < route.expiration_period <= 600_000,
            f"ExpirationPeriod {route.expiration_period}",
        )
        equal(await hops_of(prefix), {face: 7}, "fib/list")
        # Names below inherit, unless they capture.
        own = (await completed(app, "rib", "register", name=prefix + "/below"))["face_id"]
        equal(await hops_of(prefix + "/below"), {own: 0, face: 7}, "inherited")
        await completed(app, "rib", "register", name=prefix + "/below", flags=2)
        equal(await hops_of(prefix + "/below"), {own: 0}, "captured")
        await completed(app, "rib", "unregister", name=prefix + "/below")
        await completed(app, "rib", "unregister", name=prefix, face_id=face, origin=65)
        equal(await routes_of(prefix), [], "after rib/unregister")
        await completed(app, "rib", "register", name=prefix, face_id=face, expiration_period=300)
        await asyncio.sleep(0.6)
        equal((await routes_of(prefix), await hops_of(prefix)), ([], {}), "after it expired")

        await completed(app, "fib", "add-nexthop", name=prefix, face_id=face, cost=3)
        equal(await hops_of(prefix), {face: 3}, "fib/add-nexthop")
        await completed(app, "fib", "remove-nexthop", name=prefix, face_id=face)
        await completed(app, "fib", "remove-nexthop", name=prefix, face_id=face)
        equal(await hops_of(prefix), {}, "fib/remove-nexthop")
        await completed(app, "fib", "add-nexthop", code=410, name=prefix, face_id=4_000_000_000)
        await completed(app, "fib", "add-nexthop", code=414, name=prefix + "/x" * 33, face_id=face)
        await completed(app, "rib", "register", code=410, name=prefix, face_id=4_000_000_000)
        await completed(app, "rib", "register", code=414, name=prefix + "/x" * 33)
        await completed(app, "rib", "register", code=400, face_id=face)
        # Routes are removed with their face.
        await completed(app, "rib", "register", name=prefix, face_id=face)
        await completed(app, "faces", "destroy", face_id=face)
        await asyncio.sleep(0.3)
        equal(await routes_of(prefix), [], "routes of a face that is gone")


@test("python-ndn announces a prefix")
async def announce(h):
    prefix = h.prefix()
    async with RunningApp(v2(h, "unix")) as app:
        # PrefixAnnouncement: /<prefix>/32=PA/<version>/<segment>, ContentType 5, ExpirationPeriod 1
        # h.
        name = enc.Name.from_str(prefix) + [
            enc.Component.from_bytes(b"PA", 32),
            enc.Component.from_version(1),
            enc.Component.from_segment(0),
        ]
        data = enc.make_data(
            name, enc.MetaInfo(content_type=5), b"\x6d\x04\x00\x36\xee\x80", DigestSha256Signer()
        )
        _, reply, _ = await app.express(
            "/localhost/nfd/rib/announce",
            app_param=bytes(data),
            validator=pass_all,
            signer=DigestSha256Signer(for_interest=True),
            lifetime=2000,
        )
        answer = m.parse_response(reply)
        equal(
            (answer["status_code"], answer["origin"], answer["cost"]),
            (200, 129, 2048),
            "rib/announce",
        )
        entries = await listed(app, "rib/list", m.RibStatus, "entries")
        origins = [r.origin for e in entries if enc.Name.to_str(e.name) == prefix for r in e.routes]
        equal(origins, [129], "rib/list")
        # Refusals of invalid announcements carry a code and a text, too.
        _, reply, _ = await app.express(
            "/localhost/nfd/rib/announce",
            app_param=b"\x06\x00",
            validator=pass_all,
            signer=DigestSha256Signer(for_interest=True),
            lifetime=2000,
        )
        equal(m.parse_response(reply)["status_code"], 400, "an announcement that is none")


@test("python-ndn management of the content store")
async def content_store(h):
    prefix = h.prefix()
    async with RunningApp(v2(h, "unix")) as app, RunningApp(v2(h, "unix")) as other:
        # CsInfo is wrapped in an element of type 0x80.
        async def info():
            content = await dataset(app, "/localhost/nfd/cs/info")
            return m.CsInfo.parse(enc.parse_and_check_tl(memoryview(content), 0x80))

        before = await info()
        try:
            answer = await completed(app, "cs", "config", capacity=1000, flags=0, mask=2)
            equal((answer["capacity"], answer["flags"] & 2), (1000, 0), "cs/config")
            after = await info()
            equal((after.capacity, after.flags & 2), (1000, 0), "cs/info")
        finally:
            await completed(app, "cs", "config", capacity=before.capacity, flags=3, mask=3)
        app.attach_handler(
            prefix,
            lambda name, param, reply, context: reply(
                app.make_data(name, b"kept", signer=DigestSha256Signer(), freshness_period=60_000)
            ),
        )
        await app.register(prefix)
        for i in range(5):
            await other.express(f"{prefix}/{i}", validator=pass_all, lifetime=2000)
        check((await info()).n_cs_entries >= 5, "nothing is kept")
        equal((await completed(app, "cs", "erase", name=prefix, count=2))["count"], 2, "erased")
        equal((await completed(app, "cs", "erase", name=prefix))["count"], 3, "erased")
        await completed(app, "cs", "config", code=400, flags=1)


@test("python-ndn management of strategies, and the router's status")
async def strategies(h):
    prefix = h.prefix()
    async with RunningApp(v2(h, "unix")) as app:

        async def choice():
            choices = await listed(
                app, "strategy-choice/list", m.StrategyChoiceMsg, "strategy_choices"
            )
            return [
                enc.Name.to_str(c.strategy.name)
                for c in choices
                if enc.Name.to_str(c.name) == prefix
            ]

        await completed(
            app, "strategy-choice", "set", name=prefix, strategy="/localhost/nfd/strategy/multicast"
        )
        (found,) = await choice()
        check(found.startswith("/localhost/nfd/strategy/multicast/"), f"strategy {found}")
        await completed(app, "strategy-choice", "unset", name=prefix)
        equal(await choice(), [], "strategies after unset")
        await completed(
            app,
            "strategy-choice",
            "set",
            code=404,
            name=prefix,
            strategy="/localhost/nfd/strategy/none",
        )
        await completed(
            app,
            "strategy-choice",
            "set",
            code=409,
            name=prefix,
            strategy="/localhost/nfd/strategy/multicast/v=5/no-such~1",
        )
        await completed(app, "strategy-choice", "unset", code=400, name="/")
        status = m.GeneralStatus.parse(await dataset(app, "/localhost/nfd/status/general"))
        check(
            status.nfd_version and status.current_timestamp >= status.start_timestamp,
            "status/general",
        )
        check(
            status.n_in_interests > 0 and status.n_fib_entries > 0, "status/general counts nothing"
        )


@test("python-ndn requests one dataset by two names at once")
async def two_names(h):
    async with RunningApp(v2(h, "unix")) as app:
        name = enc.Name.from_str("/localhost/nfd/rib/list")

        async def plain():
            found, _, _ = await app.express(
                name, validator=pass_all, can_be_prefix=True, must_be_fresh=True
            )
            return len(found)

        async def with_parameters():
            found, _, _ = await app.express(
                name,
                app_param=b"",
                signer=DigestSha256Signer(for_interest=True),
                validator=pass_all,
                can_be_prefix=True,
                must_be_fresh=True,
            )
            return len(found)

        # Version and segment, and a digest if one was requested. The library itself accepts any
        # answer below the shorter name.
        for _ in range(20):
            got = await asyncio.gather(with_parameters(), plain(), return_exceptions=True)
            check(not any(isinstance(x, types.InterestTimeout) for x in got), f"{got}")
            equal(got[0], 7, "components of the answer to the longer name")
