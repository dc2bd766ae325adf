"""Cases, the context that each gets, and the runner."""

import asyncio
import os
import re
import time
import traceback
from dataclasses import dataclass, field

from . import management as mgmt
from .face import TIMEOUT_S, QUIET_S, Face, Fail
from .packets import data, interest, lp
from .tlv import Malformed, comp, name

UNIX, TCP, UDP = "unix", "tcp", "udp"
STREAM, ALL = (UNIX, TCP), (UNIX, TCP, UDP)

# Specifications that the cases cite.
PKT = "NDN Packet Format 0.3, "
LPV2 = "NDNLPv2, "
MGMT = "NFD Management, "
PIPE = "NFD Developer Guide, "

CASES: list = []


@dataclass(eq=False)
class Case:
    id: str
    spec: str
    requirement: str
    on: tuple
    tags: tuple
    exclusive: bool
    limit: float
    run: object


def case(id: str, spec: str, requirement: str, on=(UNIX,), tags=(), exclusive=False, limit=20.0):
    """Registers a case. `exclusive`: it changes router-wide state, so it runs alone. `limit`:
    seconds."""

    def register(fn):
        assert all(c.id != id for c in CASES), id
        CASES.append(Case(id, spec, requirement, tuple(on), tuple(tags), exclusive, limit, fn))
        return fn

    return register


def expect(condition, message: str):
    if not condition:
        raise Fail(message)


def equal(got, expected, what: str):
    if got != expected:
        g = got.hex() if isinstance(got, bytes) else got
        w = expected.hex() if isinstance(expected, bytes) else expected
        raise Fail(f"{what}: got {str(g)[:200]}, want {str(w)[:200]}")


@dataclass
class Router:
    """Addresses of the router under test."""

    unix: str | None
    tcp: tuple | None
    udp: tuple | None
    pid: int | None = None

    def address(self, transport):
        return {UNIX: self.unix, TCP: self.tcp, UDP: self.udp}[transport]

    @property
    def local(self):
        """The transport that management and helpers use."""
        return UNIX if self.unix else TCP

    def rss_kib(self) -> int | None:
        if self.pid is None:
            return None
        with open(f"/proc/{self.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))


class Test:
    """One run of one case on one transport: its own name prefix, its own faces."""

    def __init__(self, router: Router, transport: str, number: int):
        self.router, self.transport = router, transport
        self.prefix = name("/nwc") + [
            comp(f"{os.getpid():x}-{time.time_ns() & 0xFFFFFF:x}"),
            comp(f"{number}"),
        ]
        self.faces: list[Face] = []
        self._manager = None

    def name(self, uri: str) -> list:
        return self.prefix + name(uri)

    async def face(self, transport=None, warm=True) -> Face:
        """Opens a connection. `warm`: a UDP peer first sends an idle packet, so that its face
        exists."""
        t = transport or self.transport
        address = self.router.address(t)
        if not address:
            raise Skip(f"no {t} socket given")
        f = await self.connect(Face(t, address))
        self.faces.append(f)
        if t == UDP and warm:
            f.send(lp(None))
            await asyncio.sleep(0.02)
        return f

    async def connect(self, face: Face) -> Face:
        """Connects; a router restarted by its supervisor after a crash has three seconds to listen."""
        end = time.monotonic() + 3
        while True:
            try:
                return await face.open()
            except (ConnectionRefusedError, FileNotFoundError):
                if time.monotonic() > end:
                    raise
                await asyncio.sleep(0.1)

    async def manager(self) -> Face:
        if self._manager is None:
            self._manager = await self.face(self.router.local)
        return self._manager

    async def face_id(self, face: Face) -> int:
        """Returns the router's FaceId of one of the test's faces."""
        if face.id is None:
            if face.stream:
                # The request has no FaceId: the answer names the face on which it was received.
                a = await mgmt.ok(face, "rib", "register", name=self.name("/whoami"))
                face.id = a.body["face_id"]
                await mgmt.ok(face, "rib", "unregister", name=self.name("/whoami"))
            else:
                face.id = await self.udp_face_id(face)
        return face.id

    async def udp_face_id(self, face: Face) -> int:
        hello = self.name("/hello")
        face.send(interest(hello, lifetime=100))
        await asyncio.sleep(0.03)
        host = self.router.udp[0]
        uri = (
            f"udp6://[{host}]:{face.local_port}"
            if ":" in host
            else f"udp4://{host}:{face.local_port}"
        )
        a = await mgmt.command(await self.manager(), "faces", "create", uri=uri)
        if a.code not in (200, 409) or "face_id" not in a.body:
            raise Fail(f"cannot learn FaceId of {uri}: faces/create answered {a.code} {a.text}")
        face.inbox = [p for p in face.inbox if p.name != hello]
        return a.body["face_id"]

    async def producer(self, prefix=None, transport=None, **route) -> Face:
        """Opens a face with a route for `prefix` (default: the test's whole prefix)."""
        f = await self.face(transport or self.router.local)
        await self.route(f, prefix, **route)
        return f

    async def route(self, face: Face, prefix=None, **route):
        """Adds a route to one of the test's faces."""
        target = self.prefix if prefix is None else prefix
        if face.stream:
            a = await mgmt.ok(face, "rib", "register", name=target, **route)
            face.id = a.body["face_id"]
        else:
            await mgmt.ok(
                await self.manager(),
                "rib",
                "register",
                name=target,
                face_id=await self.face_id(face),
                **route,
            )

    async def send_interest(self, consumer: Face, producer: Face, target, **kw):
        """Sends an Interest from consumer to producer; returns it as the producer received it."""
        consumer.send(interest(target, **kw))
        return await producer.interest(target)

    async def exchange(self, consumer: Face, producer: Face, target, *, reply=None, **kw):
        """Makes an Interest-Data exchange; returns the Data as the consumer received it."""
        await self.send_interest(consumer, producer, target, **kw)
        packet = reply or data(target, b"x")
        producer.send(packet)
        got = await consumer.data()
        equal(got.net, packet, "Data bytes")
        return got

    async def still_works(self, consumer: Face, producer: Face, what="a good Interest afterwards"):
        """Checks that the same path still carries an exchange, so that the silence before is a
        result."""
        if consumer.closed:
            consumer = await self.face(consumer.transport)
        target = self.name("/control") + [comp(os.urandom(4))]
        consumer.send(interest(target))
        await producer.interest(target, what=what)
        producer.send(data(target))
        await consumer.data(target, what=what)
        return consumer

    async def until(self, probe, within=TIMEOUT_S, what="state"):
        """Polls `probe` (async) until it returns a true value."""
        end = time.monotonic() + within
        while True:
            got = await probe()
            if got:
                return got
            if time.monotonic() > end:
                raise Fail(f"{what} did not come about within {within:.1f} s")
            await asyncio.sleep(0.05)

    async def set_strategy(self, prefix, strategy):
        await mgmt.ok(
            await self.manager(), "strategy-choice", "set", name=prefix, strategy=strategy
        )

    async def quiet(self, seconds=QUIET_S):
        await asyncio.sleep(seconds)

    def finish(self):
        for f in self.faces:
            f.close()
        faults = [x for f in self.faces for x in f.faults]
        if faults:
            raise Fail("the router sent malformed bytes: " + faults[0])


class Skip(Exception):
    """The case can't run here."""


@dataclass
class Outcome:
    case: Case
    transport: str
    verdict: str = "passed"  # passed, failed, skipped
    reason: str = ""
    seconds: float = 0.0
    expected: bool = field(default=False)

    @property
    def id(self):
        return f"{self.case.id}@{self.transport}"


async def run_one(router: Router, c: Case, transport: str, number: int) -> Outcome:
    out = Outcome(c, transport)
    if not router.address(transport):
        out.verdict, out.reason = "skipped", f"no {transport} socket given"
        return out
    t = Test(router, transport, number)
    began = time.monotonic()
    try:
        try:
            await asyncio.wait_for(c.run(t), c.limit)
        finally:
            t.finish()
    except Skip as e:
        out.verdict, out.reason = "skipped", str(e)
    except (Fail, Malformed) as e:
        out.verdict, out.reason = "failed", str(e) or type(e).__name__
    except asyncio.TimeoutError:
        out.verdict, out.reason = "failed", f"not done after {c.limit:.0f} s"
    # A case that breaks is a failed case, shown with its place.
    except Exception as e:  # noqa: BLE001
        at = traceback.extract_tb(e.__traceback__)[-1]
        out.verdict, out.reason = (
            "failed",
            f"{type(e).__name__}: {e} at {os.path.basename(at.filename)}:{at.lineno}",
        )
    out.seconds = time.monotonic() - began
    return out


async def run_all(router: Router, picked, report, jobs=24) -> list[Outcome]:
    """Runs shared cases concurrently, then the exclusive ones alone; calls `report` after each."""
    gate = asyncio.Semaphore(jobs)
    outcomes = []

    async def guarded(c, transport, number):
        async with gate:
            o = await run_one(router, c, transport, number)
        outcomes.append(o)
        report(o)

    numbered = [(c, t, i) for i, (c, t) in enumerate(picked)]
    await asyncio.gather(*(guarded(*x) for x in numbered if not x[0].exclusive))
    for x in numbered:
        if x[0].exclusive:
            await guarded(*x)
    return outcomes
