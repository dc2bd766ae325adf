"""NDNts (@ndn/* from npm) and ndn-js: producers, consumers, registration, status, segmented
objects."""

import json

from harness import Skipped, check, equal, sha256, test

TRANSPORTS = ("unix", "tcp", "udp", "ws")


def ndnts(h, transport, *args):
    return h.node("ndnts.mjs", h.uri(transport), *args)


def needs_localhop(h, transport):
    """NDNts registers under /localhop/nfd over UDP and WebSocket."""
    if transport in ("udp", "ws") and not h.localhop:
        raise Skipped("the router does not serve /localhop/nfd")


def each_transport(name, limit=25.0):
    def wrap(fn):
        for transport in TRANSPORTS:

            async def run(h, transport=transport):
                await fn(h, transport)

            test(f"NDNts {name} over {transport}", limit)(run)
        return fn

    return wrap


@each_transport("producer, consumer, signed Interest")
async def echo(h, transport):
    needs_localhop(h, transport)
    prefix = h.prefix()
    server = await h.start(ndnts(h, transport, "produce", prefix), transport)
    await server.wait_line("^ready$")
    out = await h.run(ndnts(h, transport, "consume", prefix + "/a"), transport)
    check("ndnts says hello; 0 bytes" in out, out)
    out = await h.run(ndnts(h, transport, "signed", prefix + "/b"), transport)
    check("ndnts says hello; 10 bytes" in out, out)


@test("NDNts registers by a prefix announcement without a signature", 25.0)
async def announce(h):
    prefix = h.prefix()
    server = await h.start(ndnts(h, "unix", "announce", prefix))
    await server.wait_line("^ready$")
    out = await h.run(ndnts(h, "unix", "consume", prefix + "/a"))
    check("announced" in out, out)


@each_transport("publishes and fetches a 3 MB file", 40)
async def file(h, transport):
    needs_localhop(h, transport)
    prefix, f = h.prefix(), h.file("ndnts.bin", 3_000_001, seed=2)
    server = await h.start(ndnts(h, transport, "put", prefix, str(f)), transport)
    await server.wait_line("^ready$")
    got = h.scratch / f"ndnts-{transport}"
    out = await h.run(ndnts(h, transport, "get", prefix, str(got)), transport, within=30)
    equal(out.split(), ["3000001", sha256(f)], "bytes and SHA-256")


@test("NDNts in a page: local names only for pages of listed origins")
async def page(h):
    command = ndnts(h, "ws", "consume", "/localhost/nfd/status/general")
    for origin, answered in (("http://localhost:8080", True), ("http://elsewhere.example", False)):
        out = await h.run(["env", f"NDNTS_ORIGIN={origin}", *command], "ws", fails=True)
        equal("Error" not in out, answered, f"a page of {origin}")
    prefix = h.prefix()
    server = await h.start(ndnts(h, "unix", "produce", prefix))
    await server.wait_line("^ready$")
    out = await h.run(
        ["env", "NDNTS_ORIGIN=http://elsewhere.example", *ndnts(h, "ws", "consume", prefix + "/a")],
        "ws",
    )
    check("ndnts says hello" in out, out)


for management_transport in ("unix", "tcp", "ws"):

    @test(f"NDNts reads every status dataset over {management_transport}")
    async def status(h, transport=management_transport):
        got = json.loads(await h.run(ndnts(h, transport, "status"), transport))
        equal(got["general"], 1, "general status")
        equal(got["cs"], 1, "CsInfo")
        check(
            got["faces"] >= 1 and got["channels"] >= 1 and got["strategies"] >= 4 and got["query"],
            str(got),
        )

    @test(f"NDNts commands every module over {management_transport}")
    async def manage(h, transport=management_transport):
        got = json.loads(await h.run(ndnts(h, transport, "manage", h.prefix()), transport))
        equal(
            got,
            {
                "faces/create": 200,
                "faces/create again": 409,
                "same face": True,
                "faces/update": 200,
                "rib/register": 200,
                "route": [5, True, False],
                "rib/unregister": 200,
                "strategy-choice/set": 200,
                "strategy-choice/unset": 200,
                "cs/config": 200,
                "cs/erase": 0,
                "faces/destroy": 200,
            },
            "answers",
        )


for old_transport in ("unix", "tcp"):

    @test(f"ndn-js producer and consumer over {old_transport}")
    async def ndn_js(h, transport=old_transport):
        prefix = h.prefix()
        out = await h.run(h.node("ndnjs.cjs", h.uri(transport), prefix), transport)
        check("ndn-js got: hello from ndn-js" in out, out)
