"""What NLSR asks of the router, in the order of its start: a client with NLSR's names, parameters
and signatures. NLSR itself is in no package registry; its sources (0.7) say what it sends.

NLSR signs with a key of its key chain, so these commands have ECDSA signatures and a key locator,
not digests.
"""

import asyncio
import socket

from Cryptodome.PublicKey import ECC
from ndn import encoding as enc
from ndn import types
from ndn.app_support import nfd_mgmt as m
from ndn.appv2 import pass_all
from ndn.security import DigestSha256Signer
from ndn.security.signer.sha256_ecdsa_signer import Sha256WithEcdsaSigner
from ndn.utils import gen_nonce_64, timestamp

from harness import check, equal, test
from test_management import dataset, event, listed, response
from test_python_ndn import RunningApp, v2

MULTICAST = "/localhost/nfd/strategy/multicast"
BEST_ROUTE = "/localhost/nfd/strategy/best-route"
ORIGIN_NLSR = 128
CAPTURE = 2
# ndn-cxx's `milliseconds::max()`: routes to neighbours never expire.
FOREVER_MS = (1 << 63) - 1


class CommandSigner(Sha256WithEcdsaSigner):
    """Signs Interests as NLSR's library does: ECDSA, with nonce and time."""

    def __init__(self, router):
        key = ECC.generate(curve="P-256").export_key(format="DER")
        super().__init__(f"{router}/KEY/1", key)

    def write_signature_info(self, info):
        super().write_signature_info(info)
        info.signature_nonce = gen_nonce_64()
        info.signature_time = timestamp()


class Daemon:
    """NLSR's side of the management protocol."""

    def __init__(self, app, network, router):
        self.app, self.network, self.router = app, network, f"{network}/site/%C1.Router/{router}"
        self.signer = CommandSigner(self.router)
        self.lsas, self.sync = f"/localhop{network}/nlsr/LSA", f"/localhop{network}/nlsr/sync/v=11"

    async def command(self, module, verb, code=200, **parameters):
        _, reply, _ = await self.app.express(
            m.make_command_v2(module, verb, None, **parameters),
            app_param=b"",
            signer=self.signer,
            validator=pass_all,
            lifetime=10_000,
        )
        answer = response(reply)
        equal(answer["status_code"], code, f"{module}/{verb} {parameters}: {answer['status_text']}")
        return answer

    async def route(self, name, face, cost=25):
        answer = await self.command(
            "rib", "register", name=name, face_id=face, origin=ORIGIN_NLSR, cost=cost,
            flags=CAPTURE, expiration_period=FOREVER_MS,
        )  # fmt: skip
        equal((answer["face_id"], answer["origin"]), (face, ORIGIN_NLSR), f"route of {name}")

    async def routes(self, name):
        entries = await listed(self.app, "rib/list", m.RibStatus, "entries")
        return {
            (r.face_id, r.origin, r.cost, r.flags.value)
            for e in entries
            if enc.Name.to_bytes(e.name) == enc.Name.to_bytes(name)
            for r in e.routes
        }

    async def answer(self, prefix, content):
        """Registers a prefix of the daemon's own and answers below it."""
        await self.command("rib", "register", name=prefix, flags=1)
        self.app.attach_handler(
            prefix,
            lambda name, param, reply, context: reply(
                self.app.make_data(name, content, signer=DigestSha256Signer(), freshness_period=500)
            ),
        )


@test("NLSR's commands at its start, with its signatures")
async def start(h):
    network = h.prefix()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.bind(("127.0.0.1", 0))
        uri = f"udp4://127.0.0.1:{peer.getsockname()[1]}"
        async with RunningApp(v2(h, "unix")) as app, RunningApp(v2(h, "unix")) as monitor:
            nlsr = Daemon(app, network, "a")
            events = asyncio.create_task(
                monitor.express(
                    "/localhost/nfd/faces/events", validator=pass_all, can_be_prefix=True,
                    must_be_fresh=True, lifetime=10_000,
                )
            )  # fmt: skip
            for prefix in (nlsr.lsas, nlsr.sync):
                await nlsr.command("strategy-choice", "set", name=prefix, strategy=MULTICAST)
            await nlsr.command("rib", "register", name=f"{nlsr.router}/nlsr", flags=1)
            await nlsr.command("rib", "register", name="/localhost/nlsr", flags=1)
            # The face on which a packet was received is to be told with it.
            await nlsr.command("faces", "update", flags=1, mask=1)
            faces = await listed(app, "faces/list", m.FaceStatusMsg, "face_status")
            check(uri not in [face.uri for face in faces], "the neighbour has no face yet")

            # The face of a neighbour that the operator makes is noticed by the notification.
            face = (await nlsr.command("faces", "create", uri=uri))["face_id"]
            found, _, _ = await events
            _, seen = await event(monitor, found, m.FaceEventKind.CREATED, face)
            equal(seen.uri, uri, "the notification's remote URI, which NLSR compares with its own")
            faces = await listed(app, "faces/list", m.FaceStatusMsg, "face_status")
            equal([f.face_id for f in faces if f.uri == uri], [face], "the face in the dataset")

            neighbour = f"{network}/site/%C1.Router/b"
            for prefix in (neighbour, nlsr.lsas, nlsr.sync):
                await nlsr.route(prefix, face)
            equal(await nlsr.routes(nlsr.lsas), {(face, ORIGIN_NLSR, 25, CAPTURE)}, "its route")
            for prefix in (neighbour, f"{neighbour}/nlsr"):
                await nlsr.command(
                    "strategy-choice", "set", name=f"{prefix}/KEY", strategy=BEST_ROUTE
                )
            # The same route again with another cost, as after a change of the topology.
            await nlsr.route(f"{network}/site/data", face)
            await nlsr.route(f"{network}/site/data", face, cost=40)
            await nlsr.command(
                "rib", "unregister", name=f"{network}/site/data", face_id=face, origin=ORIGIN_NLSR
            )
            equal(await nlsr.routes(f"{network}/site/data"), set(), "after rib/unregister")
            choices = await dataset(app, "/localhost/nfd/strategy-choice/list")
            for prefix in (nlsr.lsas, nlsr.sync):
                check(bytes(enc.Name.to_bytes(prefix)) in choices, f"no strategy for {prefix}")

            await nlsr.command("faces", "destroy", face_id=face)
            await event(monitor, found, m.FaceEventKind.DESTROYED, face)
            equal(await nlsr.routes(neighbour), set(), "routes of a neighbour whose face is gone")
            for prefix in (nlsr.lsas, nlsr.sync, f"{neighbour}/KEY", f"{neighbour}/nlsr/KEY"):
                await nlsr.command("strategy-choice", "unset", name=prefix)


@test("NLSR's sync Interests reach every neighbour, and its hellos the one they name")
async def exchange(h):
    """Two neighbours on local faces: the sync Interest of one is received by both others once."""
    network = h.prefix()
    async with (
        RunningApp(v2(h, "unix")) as app,
        RunningApp(v2(h, "unix")) as first,
        RunningApp(v2(h, "unix")) as second,
    ):
        nlsr = Daemon(app, network, "a")
        neighbours = [Daemon(first, network, "b"), Daemon(second, network, "c")]
        received = []
        for prefix in (nlsr.lsas, nlsr.sync):
            await nlsr.command("strategy-choice", "set", name=prefix, strategy=MULTICAST)
        for other in neighbours:
            await other.command("rib", "register", name=nlsr.sync, flags=CAPTURE)
            other.app.attach_handler(
                nlsr.sync,
                lambda name, param, reply, context, at=other: received.append(at.router),
            )
            await other.answer(f"{other.router}/nlsr", other.router.encode())
        try:
            await app.express(
                f"{nlsr.sync}/digest", validator=pass_all, can_be_prefix=True, must_be_fresh=True,
                lifetime=500,
            )  # fmt: skip
        except types.InterestTimeout:
            pass
        equal(sorted(received), sorted(d.router for d in neighbours), "routers with the Interest")
        # The hello names the neighbour, "INFO" and the router that asks.
        for other in neighbours:
            _, content, _ = await app.express(
                f"{other.router}/nlsr/INFO/{network.strip('/').replace('/', '%2F')}",
                validator=pass_all, must_be_fresh=True, lifetime=4000,
            )  # fmt: skip
            equal(bytes(content), other.router.encode(), "the hello's answer")
        for prefix in (nlsr.lsas, nlsr.sync):
            await nlsr.command("strategy-choice", "unset", name=prefix)
