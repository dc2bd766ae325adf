"""Files between clients of different projects, and between them and `nw put` / `nw cat`."""

import asyncio

from harness import check, equal, sha256, test

SIZE = 2_500_007


async def python_put(h, prefix, f, transport="unix"):
    p = await h.start([h.script("pyndntools"), "putchunks", prefix, str(f)], transport)
    await p.wait_line("Start serving")
    await asyncio.sleep(0.3)


async def python_get(h, prefix, out, transport="unix"):
    # MustBeFresh (-f): other producers answer a discovery Interest only with it.
    text = await h.run(
        [
            h.script("pyndntools"),
            "catchunks",
            "-f",
            "-l",
            "2000",
            "-o",
            str(out),
            prefix + "/32=metadata",
        ],
        transport,
    )
    check(out.exists(), f"catchunks wrote nothing: {text[-300:]}")


async def ndnts_put(h, prefix, f, transport="unix"):
    p = await h.start(h.node("ndnts.mjs", h.uri(transport), "put", prefix, str(f)), transport)
    await p.wait_line("^ready$")


async def ndnts_get(h, prefix, out, transport="unix"):
    await h.run(h.node("ndnts.mjs", h.uri(transport), "get", prefix, str(out)), transport)


async def nw_put(h, prefix, f, transport="unix"):
    # The program uses NDN_CLIENT_TRANSPORT too, and prints a line once it is registered.
    p = await h.start(h.nw_command("put", "--json", prefix, str(f)), transport)
    await p.wait_line('"ready"')


async def nw_get(h, prefix, out, transport="unix"):
    await h.run(h.nw_command("cat", prefix, "-o", str(out)), transport)


async def transfer(h, put, get, put_over="unix", get_over="unix"):
    prefix, f = h.prefix(), h.file("transfer.bin", SIZE, seed=3)
    await put(h, prefix, f, put_over)
    got = h.scratch / "transfer.out"
    got.unlink(missing_ok=True)
    await get(h, prefix, got, get_over)
    equal(sha256(got), sha256(f), "SHA-256")


PUTS = {"python-ndn": python_put, "NDNts": ndnts_put, "nw": nw_put}
GETS = {"python-ndn": python_get, "NDNts": ndnts_get, "nw": nw_get}

for giver, put_fn in PUTS.items():
    for taker, get_fn in GETS.items():
        if giver == taker != "nw":
            continue  # tested with the library itself

        @test(f"file from {giver} to {taker} over unix", 40)
        async def over_unix(h, p=put_fn, g=get_fn):
            await transfer(h, p, g)

        @test(f"file from {giver} over tcp to {taker} over unix", 40)
        async def tcp_to_unix(h, p=put_fn, g=get_fn):
            await transfer(h, p, g, "tcp", "unix")


for taker in ("python-ndn", "NDNts"):

    @test(f"file from nw over unix to {taker} over udp", 40)
    async def to_udp(h, g=GETS[taker]):
        await transfer(h, nw_put, g, "unix", "udp")
