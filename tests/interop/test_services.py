"""Producers of other projects register with a name router that runs as a service, unchanged."""

import asyncio

from harness import Harness, Skipped, check, equal, test
from ndn import types
from ndn.app import NDNApp as OldApp
from ndn.appv2 import NDNApp, pass_all
from ndn.client_conf import default_face
from ndn.security import DigestSha256Signer, KeychainDigest
from test_python_ndn import RunningApp

# Alone, a name router finds the way back by PIT tokens, which producers must return. Behind a
# backward router it is found by names, so that clients without PIT tokens work as well.
ALONE = """
face near listens unix://{path}
nr = name_router(commands = ["localhost", "localhop"])
faces -> nr.interest -> faces
faces -> nr.data -> faces
faces -> nr.nack -> faces
"""
BEHIND_PIT = """
face near listens unix://{path}
br = backward_router
nr = name_router(commands = ["localhost", "localhop"])
faces -> br.interest -> nr.interest -> faces
faces -> nr.data -> br.data -> faces
faces -> nr.nack -> br.nack -> faces
"""


async def name_router(h, graph=ALONE):
    """Starts the service. Returns a harness whose unix address is the service's."""
    if h.nw is None:
        raise Skipped("no nw binary")
    path, file = h.scratch / "nr.sock", h.scratch / "nr.graph"
    file.write_text(graph.format(path=path))
    args = ["--graph", str(file), "--control", str(h.scratch / "nr.control.sock")]
    service = await h.start(h.nw_command("service", "run", *args))
    await service.wait_line("running")
    at_service = Harness(path, None, None, None, h.scratch, h.cache, h.nw, False)
    return service, at_service


async def fetch(h, name):
    """Returns the content of a Data, or None if there is no route."""
    async with RunningApp(NDNApp(face=default_face(h.uri("unix")))) as consumer:
        try:
            _, content, _ = await consumer.express(name, validator=pass_all, lifetime=2000)
            return bytes(content)
        except types.InterestNack:
            return None


@test("services: python-ndn registers at a name router, is reached, and unregisters")
async def python_ndn(h):
    service, at = await name_router(h)
    try:
        app = NDNApp(face=default_face(at.uri("unix")))
        prefix = h.prefix()
        async with RunningApp(app):
            check(await app.register(prefix), "rib/register was refused")

            @app.route(prefix)
            def on_interest(name, _, reply, __):
                signer = DigestSha256Signer()
                reply(app.make_data(name, content=b"new", signer=signer))

            equal(await fetch(at, prefix + "/1"), b"new", "content by the registered route")
            check(await app.unregister(prefix), "rib/unregister was refused")
            equal(await fetch(at, prefix + "/2"), None, "content after the route was removed")
            check(await app.register(prefix), "the second rib/register was refused")
        # The face is closed: its route is gone with it.
        for _ in range(50):
            if await fetch(at, prefix + "/3") is None:
                break
            await asyncio.sleep(0.05)
        else:
            check(False, "the route stays after its face ended")
    finally:
        await service.stop()


@test("services: the first interface of python-ndn registers at a name router")
async def python_ndn_first_interface(h):
    service, at = await name_router(h, BEHIND_PIT)
    try:
        app = OldApp(face=default_face(at.uri("unix")), keychain=KeychainDigest())
        prefix = h.prefix()
        async with RunningApp(app):

            def on_interest(name, *_):
                app.put_data(name, content=b"old", freshness_period=1000)

            check(await app.register(prefix, on_interest), "rib/register was refused")
            equal(await fetch(at, prefix + "/1"), b"old", "content by the registered route")
    finally:
        await service.stop()


@test("services: NDNts registers at a name router and is reached")
async def ndnts(h):
    service, at = await name_router(h)
    try:
        prefix = h.prefix()
        server = await at.start(at.node("ndnts.mjs", at.uri("unix"), "produce", prefix))
        await server.wait_line("^ready$")
        out = await at.run(at.node("ndnts.mjs", at.uri("unix"), "consume", prefix + "/a"))
        check("ndnts says hello; 0 bytes" in out, out)
    finally:
        await at.stop_processes()
        await service.stop()
