"""The verbs of faces: a command answered 200 is in effect when the answer arrives."""

import asyncio
import socket

from kit import management as mgmt
from kit.case import MGMT, STREAM, UDP, case, equal, expect
from kit.management import command, dataset, ok
from kit.packets import data, interest
from kit.routes import fib, joined

FACES = MGMT + "FaceMgmt: "


@case(
    "mgmt/faces/create-udp",
    FACES + "create",
    "A UDP face is created, sends what is routed to it, and shows its properties in the answer.",
    on=(UDP,),
)
async def create_udp(t):
    peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    peer.setblocking(False)
    peer.bind(("127.0.0.1", 0))
    manager = await t.manager()
    uri = f"udp4://127.0.0.1:{peer.getsockname()[1]}"
    a = await ok(manager, "faces", "create", uri=uri)
    try:
        mgmt.in_order(a.order, mgmt.PARAMETER_ORDER, "ControlParameters")
        for key in ("face_id", "uri", "local_uri", "persistency", "flags"):
            expect(key in a.body, f"no {key} in the answer")
        equal((a.body["uri"], a.body["persistency"]), (uri, 0), "Uri and persistency (persistent)")
        await ok(manager, "rib", "register", name=t.prefix, face_id=a.body["face_id"])
        consumer = await t.face(t.router.local)
        consumer.send(interest(t.name("/a")))
        got = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(peer, 9000), 3)
        expect(joined(t.name("/a")) in got, "the Interest did not reach the new face's peer")
        await ok(manager, "faces", "destroy", face_id=a.body["face_id"])
        consumer.send(interest(t.name("/b")))
        await t.quiet()
        try:
            expect(joined(t.name("/b")) not in peer.recv(9000), "the destroyed face still sends")
        except BlockingIOError:
            pass
    finally:
        peer.close()


@case(
    "mgmt/faces/create-tcp",
    FACES + "create",
    "A TCP face connects to its peer and carries packets both ways.",
)
async def create_tcp(t):
    connected = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(lambda r, w: connected.set_result((r, w)), "127.0.0.1", 0)
    manager = await t.manager()
    uri = "tcp4://127.0.0.1:%d" % server.sockets[0].getsockname()[1]
    a = await ok(manager, "faces", "create", uri=uri)
    reader, writer = await asyncio.wait_for(connected, 3)
    await ok(manager, "rib", "register", name=t.prefix, face_id=a.body["face_id"])
    consumer = await t.face(t.router.local)
    consumer.send(interest(t.name("/a")))
    got = await asyncio.wait_for(reader.read(9000), 3)
    expect(joined(t.name("/a")) in got, "the Interest did not arrive")
    packet = data(t.name("/a"), b"over tcp")
    writer.write(packet)
    equal((await consumer.data(t.name("/a"))).net, packet, "Data bytes")
    await ok(manager, "faces", "destroy", face_id=a.body["face_id"])
    equal(await asyncio.wait_for(reader.read(1), 3), b"", "the connection after faces/destroy")
    writer.close()
    server.close()


@case(
    "mgmt/faces/create-twice",
    FACES + "create",
    "A face that exists: 409 with its FaceId, Uri, LocalUri, persistency and flags.",
    tags=("clients",),
)
async def create_twice(t):
    manager = await t.manager()
    uri = "udp4://127.0.0.1:19001"
    a = await ok(manager, "faces", "create", uri=uri)
    b = await command(manager, "faces", "create", uri=uri)
    await ok(manager, "faces", "destroy", face_id=a.body["face_id"])
    equal(
        (b.code, b.body.get("face_id"), b.body.get("uri")),
        (409, a.body["face_id"], uri),
        "code, FaceId, Uri",
    )
    for key in ("local_uri", "persistency", "flags"):
        expect(key in b.body, f"no {key} in the 409 answer")


@case(
    "mgmt/faces/create-with-mtu",
    FACES + "create",
    "Mtu and persistency given at creation are in effect.",
)
async def create_mtu(t):
    manager = await t.manager()
    a = await ok(manager, "faces", "create", uri="udp4://127.0.0.1:19002", mtu=1300, persistency=2)

    async def listed():
        return [
            f
            for f in mgmt.face_statuses(await dataset(manager, "faces/list"))
            if f["face_id"] == a.body["face_id"]
        ]

    status = (await t.until(listed, what="the new face in faces/list"))[0]
    await ok(manager, "faces", "destroy", face_id=a.body["face_id"])
    equal((status.get("mtu"), status["persistency"]), (1300, 2), "Mtu and persistency")


def create_refused(id_, requirement, codes, **fields):
    @case(f"mgmt/faces/create-{id_}", FACES + "create", requirement)
    async def run(t):
        manager = await t.manager()
        a = await command(manager, "faces", "create", **fields)
        if a.code == 200 and "face_id" in a.body:
            await ok(manager, "faces", "destroy", face_id=a.body["face_id"])
        expect(a.code in codes, f"answered {a.code} {a.text}, wanted one of {codes}")


create_refused("garbage-uri", "A Uri that is none: 400.", (400,), uri="hello")
create_refused(
    "unknown-scheme", "An unknown scheme: 406 (or 400).", (400, 406), uri="carrier-pigeon://loft"
)
create_refused(
    "host-name", "A Uri that is not canonical: 400.", (400,), uri="udp4://router.example:6363"
)
create_refused(
    "on-demand",
    "On-demand faces are not made by command: 406.",
    (406,),
    uri="udp4://127.0.0.1:19003",
    persistency=1,
)
create_refused(
    "multicast-address",
    "A multicast address as unicast peer: 406.",
    (400, 406),
    uri="udp4://224.0.23.171:6363",
)
create_refused(
    "flags-without-mask",
    "Flags without Mask: 400 (or 409).",
    (400, 409),
    uri="udp4://127.0.0.1:19004",
    flags=4,
)
create_refused(
    "tcp-refused",
    "A TCP peer that does not listen: an error, no face.",
    (406, 408, 500, 504),
    uri="tcp4://127.0.0.1:1",
)


@case(
    "mgmt/faces/destroy",
    FACES + "destroy",
    "A destroyed stream face is closed, its routes are gone; destroying "
    "what does not exist is answered 200.",
    on=STREAM,
)
async def destroy(t):
    face = await t.producer(transport=t.transport)
    manager = await t.manager()
    await ok(manager, "faces", "destroy", face_id=face.id)
    expect(await face.wait_closed(), "connection still open")

    async def gone():
        return not await fib(t, t.prefix)

    await t.until(gone, what="the next hop's absence from fib/list")
    await ok(manager, "faces", "destroy", face_id=face.id)
    await ok(manager, "faces", "destroy", face_id=0xFFFFFF1)


@case(
    "mgmt/faces/update-self",
    FACES + "update",
    "Without FaceId, faces/update changes the face of the request.",
    on=STREAM,
)
async def update_self(t):
    face = await t.face()
    mine = await t.face_id(face)
    a = await ok(face, "faces", "update", flags=1, mask=1)
    equal((a.body.get("face_id"), a.body.get("flags", 0) & 1), (mine, 1), "FaceId and flag")
    b = await ok(face, "faces", "update", flags=0, mask=1)
    equal(b.body.get("flags", 1) & 1, 0, "flag")


@case("mgmt/faces/update-unknown", FACES + "update", "A FaceId that does not exist: 404.")
async def update_unknown(t):
    a = await command(await t.face(), "faces", "update", face_id=0xFFFFFF1, flags=1, mask=1)
    equal(a.code, 404, f"StatusCode ({a.text})")


@case("mgmt/faces/update-flags-without-mask", FACES + "update", "Flags without Mask: 400 (or 409).")
async def update_mask(t):
    a = await command(await t.face(), "faces", "update", flags=1)
    expect(a.code in (400, 409), f"answered {a.code} {a.text}")
