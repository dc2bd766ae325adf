"""The verbs of fib and rib: a command answered 200 is in effect when the answer arrives."""

import asyncio

from kit import management as mgmt
from kit.case import ALL, MGMT, STREAM, case, equal
from kit.management import command, ok
from kit.packets import data, interest, signed_v3
from kit.patterns import deep
from kit.routes import arrives, fib, not_routed, rib
from kit.tlv import comp, name, tlv_nni

FIB, RIB = MGMT + "FibMgmt: ", MGMT + "RibMgmt: "


@case(
    "mgmt/fib/add-and-remove",
    FIB + "add-nexthop, remove-nexthop",
    "A next hop works when the answer is there, is listed, and is gone after its removal.",
    on=STREAM,
)
async def fib_add(t):
    face = await t.face()
    a = await ok(face, "fib", "add-nexthop", name=t.prefix, cost=3)
    equal((a.body["name"], a.body["cost"]), (t.prefix, 3), "name and cost in the answer")
    await arrives(t, face, t.name("/a"))

    async def listed():
        return await fib(t, t.prefix) == {a.body["face_id"]: 3}

    await t.until(listed, what="the next hop in fib/list")
    await ok(face, "fib", "remove-nexthop", name=t.prefix)
    await not_routed(t, t.name("/b"), face)
    await ok(face, "fib", "remove-nexthop", name=t.prefix)


@case("mgmt/fib/update-cost", FIB + "add-nexthop", "Adding a next hop again changes its cost.")
async def fib_cost(t):
    a, b, consumer = await t.face(), await t.face(), await t.face()
    await ok(a, "fib", "add-nexthop", name=t.prefix, cost=5)
    await ok(b, "fib", "add-nexthop", name=t.prefix, cost=9)
    await arrives(t, a, t.name("/1"), consumer)
    await ok(b, "fib", "add-nexthop", name=t.prefix, cost=1)
    await arrives(t, b, t.name("/2"), consumer)


@case("mgmt/fib/no-such-face", FIB + "add-nexthop", "A face that does not exist: 410.")
async def fib_410(t):
    equal(
        (
            await command(await t.face(), "fib", "add-nexthop", name=t.prefix, face_id=0xFFFFFF1)
        ).code,
        410,
        "code",
    )


@case(
    "mgmt/fib/too-deep",
    FIB + "add-nexthop",
    "A prefix of more than 32 components: 414.",
    tags=("nfd",),
)
async def fib_414(t):
    a = await command(await t.face(), "fib", "add-nexthop", name=deep(t.prefix, 40))
    equal(a.code, 414, f"StatusCode ({a.text})")


@case(
    "mgmt/rib/defaults",
    RIB + "register",
    "FaceId defaults to the face of the request, Origin 0, Cost 0, Flags 1.",
    on=STREAM,
)
async def rib_defaults(t):
    face = await t.face()
    a = await ok(face, "rib", "register", name=t.prefix)
    equal(
        (a.body.get("origin"), a.body.get("cost"), a.body.get("flags")),
        (0, 0, 1),
        "Origin, Cost, Flags",
    )
    zero = await ok(face, "rib", "register", name=t.prefix, face_id=0)
    equal(zero.body["face_id"], a.body["face_id"], "FaceId when 0 was given")


@case(
    "mgmt/rib/in-effect",
    RIB + "register",
    "A hundred Interests sent as soon as the answer is there all find the route.",
    tags=("clients",),
)
async def in_effect(t):
    consumer = await t.face()
    for i in range(100):
        face = await t.manager()
        await ok(face, "rib", "register", name=t.name(f"/{i}"))
        consumer.send(interest(t.name(f"/{i}/x"), lifetime=1000))
        await face.interest(t.name(f"/{i}/x"))
    await consumer.none("nack", quiet=0.05)


@case(
    "mgmt/rib/unregister",
    RIB + "unregister",
    "After unregister the route is gone; unregistering what is not there is answered 200.",
    on=STREAM,
)
async def unregister(t):
    face = await t.producer(transport=t.transport)
    await arrives(t, face, t.name("/a"))
    await ok(face, "rib", "unregister", name=t.prefix)
    await not_routed(t, t.name("/b"), face)
    await ok(face, "rib", "unregister", name=t.prefix)


@case(
    "mgmt/rib/for-another-face",
    RIB + "register",
    "A local face may register for another one.",
    on=ALL,
)
async def for_another(t):
    face = await t.face()
    await ok(await t.manager(), "rib", "register", name=t.prefix, face_id=await t.face_id(face))
    await arrives(t, face, t.name("/a"))


@case(
    "mgmt/rib/origins",
    RIB + "register",
    "Routes of two origins are two; the cheaper counts; unregister takes only the origin it names.",
)
async def origins(t):
    face, other, consumer = await t.face(), await t.producer(cost=10), await t.face()
    await ok(face, "rib", "register", name=t.prefix, origin=255, cost=20)
    await ok(face, "rib", "register", name=t.prefix, origin=65, cost=5)
    await arrives(t, face, t.name("/1"), consumer)
    await ok(face, "rib", "unregister", name=t.prefix, origin=65)
    await arrives(t, other, t.name("/2"), consumer)

    async def listed():
        return {r["origin"] for r in await rib(t, t.prefix)} == {0, 255}

    await t.until(listed, what="origins 0 and 255 in rib/list")


@case(
    "mgmt/rib/child-inherit",
    RIB + "register: CHILD_INHERIT",
    "A longer prefix inherits the shorter one's next hop if that route has the flag.",
)
async def child_inherit(t):
    parent = await t.producer(t.name("/p"), cost=5, flags=1)
    child = await t.producer(t.name("/p/c"), cost=9, flags=1)

    async def inherited():
        return await fib(t, t.name("/p/c")) == {parent.id: 5, child.id: 9}

    await t.until(inherited, what="both next hops at the longer prefix")
    await arrives(t, parent, t.name("/p/c/x"))


@case(
    "mgmt/rib/no-child-inherit",
    RIB + "register: CHILD_INHERIT",
    "A route without CHILD_INHERIT stays at its own prefix.",
)
async def no_inherit(t):
    parent = await t.producer(t.name("/p"), cost=5, flags=0)
    child = await t.producer(t.name("/p/c"), cost=9, flags=1)
    await arrives(t, child, t.name("/p/c/x"))

    async def own():
        return await fib(t, t.name("/p/c")) == {child.id: 9} and await fib(t, t.name("/p")) == {
            parent.id: 5
        }

    await t.until(own, what="one next hop at each prefix")


@case(
    "mgmt/rib/capture",
    RIB + "register: CAPTURE",
    "A route with CAPTURE keeps out what would be inherited.",
)
async def capture(t):
    parent = await t.producer(t.name("/p"), cost=5, flags=1)
    child = await t.producer(t.name("/p/c"), cost=9, flags=2)
    grandchild = await t.producer(t.name("/p/c/g"), cost=20, flags=1)
    await arrives(t, child, t.name("/p/c/x"))
    await arrives(t, grandchild, t.name("/p/c/g/x"))
    await ok(child, "rib", "unregister", name=t.name("/p/c"))
    await arrives(t, parent, t.name("/p/c/g/y"))


@case(
    "mgmt/rib/inherit-later",
    RIB + "register: CHILD_INHERIT",
    "A shorter route that comes later is inherited by longer ones that are there.",
)
async def inherit_later(t):
    child = await t.producer(t.name("/p/c"), cost=9, flags=1)
    parent = await t.producer(t.name("/p"), cost=5, flags=1)
    await arrives(t, parent, t.name("/p/c/x"))
    await ok(parent, "rib", "unregister", name=t.name("/p"))
    await arrives(t, child, t.name("/p/c/y"))


@case(
    "mgmt/rib/expires",
    RIB + "register: ExpirationPeriod",
    "A route ends with its ExpirationPeriod.",
    on=STREAM,
)
async def expires(t):
    face = await t.face()
    a = await ok(face, "rib", "register", name=t.prefix, expiration=700)
    equal(a.body.get("expiration"), 700, "ExpirationPeriod in the answer")
    await arrives(t, face, t.name("/a"))
    await t.quiet(1.2)
    await not_routed(t, t.name("/b"), face)

    async def gone():
        return not await rib(t, t.prefix)

    await t.until(gone, what="the route's absence from rib/list")


@case(
    "mgmt/rib/renewed",
    RIB + "register: ExpirationPeriod",
    "Registering again starts the ExpirationPeriod anew.",
)
async def renewed(t):
    face = await t.face()
    await ok(face, "rib", "register", name=t.prefix, expiration=800)
    await t.quiet(0.5)
    await ok(face, "rib", "register", name=t.prefix, expiration=3000)
    await t.quiet(0.7)
    await arrives(t, face, t.name("/a"))


@case(
    "mgmt/rib/face-gone",
    RIB + "register",
    "Routes of a face that has gone are no longer listed.",
    on=STREAM,
)
async def face_gone(t):
    face = await t.producer(transport=t.transport)

    async def listed():
        return await rib(t, t.prefix)

    await t.until(listed, what="the route in rib/list")
    face.close()

    async def gone():
        return not await rib(t, t.prefix) and not await fib(t, t.prefix)

    await t.until(gone, what="the route's absence from rib/list and fib/list")


@case(
    "mgmt/rib/root-prefix-parameter",
    RIB + "register",
    "The prefix / may be registered and unregistered.",
    exclusive=True,
)
async def root(t):
    face, consumer = await t.face(), await t.face()
    await ok(face, "rib", "register", name=[])
    consumer.send(interest(t.name("/anything")))
    await face.interest(t.name("/anything"))
    await ok(face, "rib", "unregister", name=[])
    await not_routed(t, t.name("/anything-else"), face)


@case(
    "mgmt/rib/storm",
    RIB + "register",
    "Two thousand routes under one prefix come and go within seconds.",
    exclusive=True,
    limit=30,
)
async def storm(t):
    face, consumer = await t.face(), await t.face()
    for verb in ("register", "unregister"):
        for start in range(0, 2000, 100):
            await asyncio.gather(
                *(ok(face, "rib", verb, name=t.name(f"/{i}")) for i in range(start, start + 100))
            )
        if verb == "register":
            await arrives(t, face, t.name("/1999/x"), consumer)
    await not_routed(t, t.name("/0"), face)


@case(
    "mgmt/rib/announce",
    RIB + "announce",
    "A prefix announcement in ApplicationParameters makes a route of origin 129 that expires.",
    tags=("nfd",),
)
async def announce(t):
    face = await t.face()
    announced = data(
        t.prefix + [comp("PA", 32), comp(b"\x01", 54), comp(b"\x00", 50)],
        tlv_nni(109, 600_000),
        ctype=5,
    )
    packet, full = signed_v3(mgmt.LOCAL + name("/rib/announce"), params=announced)
    face.send(packet)
    a = mgmt.read_answer(await face.data(full, what="answer to rib/announce"))
    equal(a.code, 200, f"StatusCode ({a.text})")
    await arrives(t, face, t.name("/a"))

    async def listed():
        return [
            r
            for r in await rib(t, t.prefix)
            if r["origin"] == 129 and r.get("expiration", 0) > 500_000
        ]

    await t.until(listed, what="a route of origin 129 with its expiration in rib/list")
