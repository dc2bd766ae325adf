"""Producers of other projects register at any name router of a network that a manager runs, and
consumers at every other one reach them; the routes end with their faces."""

import asyncio
import json

from harness import Harness, check, equal, test
from ndn.app import NDNApp as OldApp
from ndn.appv2 import NDNApp
from ndn.client_conf import default_face
from ndn.security import DigestSha256Signer, KeychainDigest
from test_python_ndn import RunningApp
from test_services import fetch

# Three name routers in a row. Before each is a backward router, so that producers need not return
# PIT tokens.
ROUTERS = 3
KINDS = ("interest", "data", "nack")
WITHIN_S = 20


def document(folder):
    text = []
    for at in range(1, ROUTERS + 1):
        faces = [f"apps{at}"]
        text.append(f"face apps{at} listens unix://{folder}/n{at}.sock")
        for other in (at - 1, at + 1):
            if 1 <= other <= ROUTERS:
                faces.append(f"to{at}{other}")
                text.append(f"face to{at}{other}")
        text.append(f"br{at} = backward_router")
        text.append(f'nr{at} = name_router(commands = ["localhost"])')
        for face in faces:
            text.append(f"{face} -> br{at}.interest")
            text += [f"{face} -> nr{at}.{kind}" for kind in KINDS[1:]]
        text.append(f"br{at}.interest -> nr{at}.interest -> faces")
        text += [f"nr{at}.{kind} -> br{at}.{kind} -> faces" for kind in KINDS[1:]]
        text.append(f"service s{at} {{ br{at}, nr{at}, {', '.join(faces)} }}")
    text += [f"link to{at}{at + 1} -> to{at + 1}{at} over unix" for at in range(1, ROUTERS)]
    return "\n".join(text) + "\n"


class Network:
    """A network of name routers. Its folder has a short path: sockets are below it."""

    def __init__(self, h):
        self.h = h
        self.folder = h.scratch / "net"
        self.folder.mkdir(exist_ok=True)
        self.named = ("--directory", str(self.folder))

    async def __aenter__(self):
        file = self.folder / "m.graph"
        file.write_text(document(self.folder))
        up = self.h.nw_command("network", "up", str(file), "--detach", "--period-ms", "200")
        await self.h.run([*up, *self.named])
        return self

    async def __aexit__(self, *_):
        await self.h.run(self.h.nw_command("network", "down", *self.named))

    def at(self, number):
        """Returns a harness whose unix address is that of a name router."""
        path = self.folder / f"n{number}.sock"
        h = self.h
        return Harness(path, None, None, None, h.scratch, h.cache, h.nw, False)

    async def routers(self, prefix):
        args = self.h.nw_command("network", "route", "list", "--json", *self.named)
        found = [json.loads(line) for line in (await self.h.run(args)).splitlines()]
        return sorted({route["element"] for route in found if route["prefix"] == prefix})

    async def wait(self, prefix, count):
        for _ in range(WITHIN_S * 10):
            routers = await self.routers(prefix)
            if len(routers) == count:
                return
            await asyncio.sleep(0.1)
        check(False, f"{prefix} is known at {routers}, not at {count} name routers")

    async def reached_from_others(self, own, prefix, content):
        await self.wait(prefix, ROUTERS)
        for other in range(1, ROUTERS + 1):
            if other != own:
                got = await fetch(self.at(other), f"{prefix}/{other}")
                equal(got, content, f"content at name router {other}")


@test("networks: python-ndn registers at each name router and is reached from all others")
async def python_ndn(h):
    async with Network(h) as network:
        for at in range(1, ROUTERS + 1):
            app, prefix = NDNApp(face=default_face(network.at(at).uri("unix"))), h.prefix()
            async with RunningApp(app):
                check(await app.register(prefix), "rib/register was refused")

                @app.route(prefix)
                def on_interest(name, _, reply, __, app=app):
                    reply(app.make_data(name, content=b"new", signer=DigestSha256Signer()))

                await network.reached_from_others(at, prefix, b"new")
            await network.wait(prefix, 0)


@test("networks: the first interface of python-ndn registers in the middle")
async def python_ndn_first_interface(h):
    async with Network(h) as network:
        face = default_face(network.at(2).uri("unix"))
        app, prefix = OldApp(face=face, keychain=KeychainDigest()), h.prefix()
        async with RunningApp(app):

            def on_interest(name, *_):
                app.put_data(name, content=b"old", freshness_period=1000)

            check(await app.register(prefix, on_interest), "rib/register was refused")
            await network.reached_from_others(2, prefix, b"old")


@test("networks: NDNts registers at one end and is reached from the other")
async def ndnts(h):
    async with Network(h) as network:
        at, prefix = network.at(1), h.prefix()
        try:
            server = await at.start(at.node("ndnts.mjs", at.uri("unix"), "produce", prefix))
            await server.wait_line("^ready$")
            await network.wait(prefix, ROUTERS)
            far = network.at(3)
            out = await far.run(far.node("ndnts.mjs", far.uri("unix"), "consume", prefix + "/a"))
            check("ndnts says hello; 0 bytes" in out, out)
        finally:
            await at.stop_processes()
        await network.wait(prefix, 0)
