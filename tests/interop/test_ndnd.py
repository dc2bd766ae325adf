"""NDNd 1.5.3, another project's forwarder: nw's programs with its forwarder, its programs with nw's
router, and both on one path.

NDNd panics on a consumer's PIT token that has not 6 bytes, so every case ends with a check that it
still runs.
"""

import asyncio
import contextlib
import json
import os
import random
import socket

from harness import Skipped, check, equal, sha256, test

SIZE = 700_001

CONFIG = """\
core:
  log_level: INFO
faces:
  udp:
    enabled_unicast: true
    enabled_multicast: false
    port_unicast: {udp}
  tcp:
    enabled: true
    port_unicast: {tcp}
  unix:
    enabled: true
    socket_path: {unix}
  websocket:
    enabled: false
fw:
  threads: 2
"""


def free_port(kind):
    with socket.socket(socket.AF_INET, kind) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def binary(h):
    path = h.cache / "ndnd.bin" if h.cache else None
    if not path or not path.exists():
        raise Skipped(
            "NDNd is not built: it needs Go (apt install golang, or go.dev/dl), then run tests/interop/run again"
        )
    return str(path)


class Ndnd:
    """NDNd in a folder of its own."""

    def __init__(self, h, process, unix, tcp, udp):
        self.h, self.process, self.unix = h, process, unix
        self.tcp, self.udp = f"tcp4://127.0.0.1:{tcp}", f"udp4://127.0.0.1:{udp}"

    async def runs(self, after):
        await asyncio.sleep(0.2)
        check(
            self.process.proc.returncode is None,
            f"NDNd ended after {after}: " + " | ".join(self.process.lines[-8:]),
        )

    @contextlib.contextmanager
    def as_router(self, uri=None):
        """Makes it the router of programs started meanwhile."""
        before = self.h.uris["unix"]
        self.h.uris["unix"] = uri or f"unix://{self.unix}"
        try:
            yield
        finally:
            self.h.uris["unix"] = before


async def start(h):
    program = binary(h)
    folder = h.scratch / f"ndnd{random.randrange(1 << 32):x}"
    folder.mkdir()
    unix, tcp, udp = folder / "s", free_port(socket.SOCK_STREAM), free_port(socket.SOCK_DGRAM)
    (folder / "yanfd.yml").write_text(CONFIG.format(unix=unix, tcp=tcp, udp=udp))
    process = await h.start([program, "fw", "run", str(folder / "yanfd.yml")])
    for _ in range(200):
        with socket.socket(socket.AF_UNIX) as s:
            if s.connect_ex(str(unix)) == 0:
                break
        check(
            process.proc.returncode is None, "NDNd did not start: " + " | ".join(process.lines[-8:])
        )
        await asyncio.sleep(0.05)
    return Ndnd(h, process, unix, tcp, udp)


async def transfer(h, put, get, put_on, get_on):
    prefix, f, got = h.prefix(), h.file("ndnd.bin.in", SIZE, seed=5), h.scratch / "ndnd.out"
    got.unlink(missing_ok=True)
    with put_on:
        await put(h, prefix, f)
    with get_on:
        await get(h, prefix, got)
    equal(sha256(got), sha256(f), "SHA-256")


async def nw_put(h, prefix, f):
    p = await h.start(h.nw_command("put", "--json", prefix, str(f)))
    await p.wait_line('"ready"')


async def nw_get(h, prefix, got):
    await h.run(h.nw_command("cat", "-q", prefix, "-o", str(got)), within=40)


async def ndnd_put(h, prefix, f):
    p = await h.start(["/bin/sh", "-c", f'exec "$0" put {prefix} < "$1"', binary(h), str(f)])
    await asyncio.sleep(1.5)
    check(p.proc.returncode is None, "ndnd put ended: " + " | ".join(p.lines[-4:]))


async def ndnd_get(h, prefix, got):
    await h.run(["/bin/sh", "-c", f'exec "$0" cat {prefix} > "$1"', binary(h), str(got)], within=40)


@test("nw put, cat, poke, peek, ping and ping-server on NDNd", 90)
async def own_programs(h):
    ndnd = await start(h)
    for transport in (None, ndnd.tcp):
        await transfer(h, nw_put, nw_get, ndnd.as_router(transport), ndnd.as_router(transport))
        await ndnd.runs("nw put and cat")
    with ndnd.as_router():
        # NDNd may process the end of a connection before the packets received over it, so one
        # exchange is not enough.
        for _ in range(8):
            prefix = h.prefix()
            await h.start(h.nw_command("poke", prefix, "hello", "--expose"))
            await asyncio.sleep(0.3)
            check("hello" in await h.run(h.nw_command("peek", prefix)), "nw peek")
        await h.start(h.nw_command("ping-server", prefix))
        await asyncio.sleep(0.5)
        lines = (
            await h.run(h.nw_command("ping", "-c", "3", "-i", "50", "--json", prefix))
        ).splitlines()
        equal(json.loads(lines[-1])["answered"], 3, "pings answered")
    await ndnd.runs("nw peek and ping")


for giver, put_fn, taker, get_fn in (
    ("nw", nw_put, "NDNd", ndnd_get),
    ("NDNd", ndnd_put, "nw", nw_get),
):

    @test(f"file from {giver} to {taker} on NDNd", 60)
    async def on_ndnd(h, p=put_fn, g=get_fn):
        ndnd = await start(h)
        await transfer(h, p, g, ndnd.as_router(), ndnd.as_router())
        await ndnd.runs("a file")


@test("file from NDNd through nw's router to nw with its PIT tokens", 60)
async def through_ours(h):
    ndnd = await start(h)
    await h.run(h.nw_command("route", "add", "/nwi", ndnd.udp))
    try:
        await transfer(h, nw_put, nw_get, ndnd.as_router(), contextlib.nullcontext())
    finally:
        await h.run(h.nw_command("route", "remove", "/nwi", ndnd.udp))
    await ndnd.runs("a file through nw's router")


@test("file from NDNd through a service without a table of pending Interests", 60)
async def through_service(h):
    ndnd = await start(h)
    socket_path = h.scratch / f"store{random.randrange(1 << 32):x}.sock"
    service = await h.start(
        h.nw_command(
            "service",
            "run",
            "content_store",
            "mib=16",
            "--listen",
            f"unix://{socket_path}",
            "--to",
            f"next={ndnd.tcp}",
        )
    )
    for _ in range(100):
        if os.path.exists(socket_path):
            break
        await asyncio.sleep(0.05)
    await transfer(h, nw_put, nw_get, ndnd.as_router(), ndnd.as_router(f"unix://{socket_path}"))
    await ndnd.runs("a file through a service")
    check(service.proc.returncode is None, "the service runs")


@test("nw status, top, face, route, strategy and doctor at NDNd's router", 60)
async def management(h):
    """NDNd has fewer datasets than nw and refuses the others with a control response."""
    ndnd = await start(h)
    with ndnd.as_router():
        status = json.loads(await h.run(h.nw_command("status", "--json")))
        check(status["forwarder"]["start_timestamp_ms"] > 0, "status: when it was started")
        equal((status["drops"], status["channels"]), ([], []), "status: datasets that NDNd lacks")
        check("prefixes" in await h.run(h.nw_command("status")), "status as text")
        check("internal://" in await h.run(h.nw_command("top", "--once")), "top")
        face = f"udp4://127.0.0.1:{free_port(socket.SOCK_DGRAM)}"
        prefix = h.prefix()
        await h.run(h.nw_command("route", "add", prefix, face))
        check(prefix in await h.run(h.nw_command("route", "list")), "route list")
        await h.run(h.nw_command("strategy", "set", prefix, "multicast"))
        check("/multicast/" in await h.run(h.nw_command("strategy", "list")), "strategy list")
        check(face in await h.run(h.nw_command("face", "list")), "face list")
        await h.run(h.nw_command("face", "destroy", face))
        check(
            "(501)" in await h.run(h.nw_command("face", "channels"), fails=True),
            "face channels is refused",
        )
        check("up for" in await h.run(h.nw_command("doctor"), fails=True), "doctor")
    await ndnd.runs("management")


@test("nw bench generate against NDNd", 60)
async def generator(h):
    ndnd = await start(h)
    with ndnd.as_router():
        prefix = h.prefix()
        await h.start(h.nw_command("bench", "answer", "--prefix", prefix))
        await asyncio.sleep(1)
        await h.run(
            h.nw_command(
                "bench", "generate", "--prefix", prefix, "--seconds", "1", "--rate", "200"
            ),
            fails=True,
        )
    await ndnd.runs("nw bench generate")
