"""python-ndn from PyPI: both application interfaces, its segment fetcher and its command line
programs."""

import asyncio
import os
import time

from ndn import encoding as enc
from ndn import types
from ndn.app import NDNApp as OldApp
from ndn.app_support.nfd_mgmt import (
    FaceQueryFilter,
    FaceQueryFilterValue,
    FaceStatusMsg,
    make_command_v2,
    parse_response,
)
from ndn.app_support.segment_fetcher import segment_fetcher
from ndn.appv2 import NDNApp, pass_all
from ndn.client_conf import default_face
from ndn.security import DigestSha256Signer, KeychainDigest
from ndn.security.signer.sha256_ecdsa_signer import Sha256WithEcdsaSigner

from harness import Failed, check, equal, sha256, test

TRANSPORTS = ("unix", "tcp", "udp")


class RunningApp:
    """`async with RunningApp(app)`: runs the application's main loop during the test."""

    def __init__(self, app):
        self.app = app

    async def __aenter__(self):
        self.task = asyncio.create_task(self.app.main_loop())
        for _ in range(200):
            if self.app.face.running:
                return self.app
            if self.task.done():
                self.task.result()
            await asyncio.sleep(0.01)
        raise Failed("face did not open")

    async def __aexit__(self, *_):
        self.app.shutdown()
        await asyncio.wait([self.task], timeout=3)


def v2(h, transport):
    return NDNApp(face=default_face(h.uri(transport)))


def old(h, transport):
    return OldApp(face=default_face(h.uri(transport)), keychain=KeychainDigest())


async def register(h, app, transport, prefix):
    """The library registers itself on local faces. Over UDP, which is not local, a local face adds
    the route."""
    if transport != "udp":
        check(await app.register(prefix), f"register({prefix}) over {transport} was refused")
        return
    port = app.face.transport.get_extra_info("sockname")[1]
    try:
        # Creates the on-demand face; the Interest is not answered.
        await app.express(prefix + "/hello", validator=pass_all, lifetime=50)
    except (types.InterestTimeout, types.InterestNack):
        pass
    async with RunningApp(v2(h, "unix")) as manager:
        wanted = FaceQueryFilter()
        wanted.face_query_filter = FaceQueryFilterValue()
        wanted.face_query_filter.uri = f"udp4://127.0.0.1:{port}"
        name = enc.Name.from_str("/localhost/nfd/faces/query") + [
            enc.Component.from_bytes(wanted.encode())
        ]
        _, found, _ = await manager.express(
            name, validator=pass_all, can_be_prefix=True, must_be_fresh=True
        )
        faces = FaceStatusMsg.parse(found).face_status
        equal(len(faces), 1, f"faces to {wanted.face_query_filter.uri}")
        route = await command(manager, "rib", "register", name=prefix, face_id=faces[0].face_id)
        equal(route["status_code"], 200, "rib/register")


async def command(app, module, verb, **kw):
    _, reply, _ = await app.express(
        make_command_v2(module, verb, None, **kw),
        app_param=b"",
        signer=DigestSha256Signer(for_interest=True),
        validator=pass_all,
        lifetime=1000,
    )
    return parse_response(reply)


class TimestampedSigner:
    """A signer that adds a timestamp: the library does so for digests only, and a command signed by
    a key needs it."""

    def __init__(self, signer):
        self.signer = signer

    def write_signature_info(self, info):
        self.signer.write_signature_info(info)
        info.signature_time = time.time_ns() // 1_000_000
        info.signature_nonce = time.time_ns()

    def __getattr__(self, name):
        return getattr(self.signer, name)


def each_transport(name):
    def wrap(fn):
        for transport in TRANSPORTS:

            async def run(h, transport=transport):
                await fn(h, transport)

            test(f"python-ndn {name} over {transport}")(run)
        return fn

    return wrap


@each_transport("appv2 producer and consumer")
async def appv2_exchange(h, transport):
    prefix = h.prefix()
    async with RunningApp(v2(h, transport)) as producer, RunningApp(v2(h, transport)) as consumer:

        def on_interest(name, param, reply, context):
            reply(
                producer.make_data(
                    name, b"hello from appv2", signer=DigestSha256Signer(), freshness_period=1000
                )
            )

        producer.attach_handler(prefix, on_interest)
        await register(h, producer, transport, prefix)
        for i in range(20):
            _, content, context = await consumer.express(
                f"{prefix}/{i}", validator=pass_all, lifetime=2000
            )
            equal(bytes(content), b"hello from appv2", "content")
        _, content, context = await consumer.express(
            f"{prefix}/prefix",
            validator=pass_all,
            can_be_prefix=True,
            must_be_fresh=True,
            lifetime=2000,
        )
        equal(context["meta_info"].freshness_period, 1000, "FreshnessPeriod")


for old_transport in ("unix", "tcp"):

    @test(f"python-ndn old API producer and consumer over {old_transport}")
    async def old_exchange(h, transport=old_transport):
        prefix = h.prefix()
        async with (
            RunningApp(old(h, transport)) as producer,
            RunningApp(old(h, transport)) as consumer,
        ):
            # Registers with a command Interest of packet format 0.2.
            check(
                await producer.register(
                    prefix,
                    lambda name, param, app_param: producer.put_data(
                        name, b"hello from the old API", freshness_period=1000
                    ),
                ),
                "register was refused",
            )
            for i in range(20):
                _, meta, content = await consumer.express_interest(f"{prefix}/{i}", lifetime=2000)
                equal(bytes(content), b"hello from the old API", "content")
            check(await producer.unregister(prefix), "unregister was refused")
            try:
                await consumer.express_interest(f"{prefix}/gone", lifetime=500)
                raise Failed("answered after unregister")
            except (types.InterestNack, types.InterestTimeout):
                pass


@test("python-ndn old API consumer over udp")
async def old_udp(h):
    prefix = h.prefix()
    async with RunningApp(v2(h, "unix")) as producer, RunningApp(old(h, "udp")) as consumer:

        def on_interest(name, param, reply, context):
            reply(producer.make_data(name, bytes(8000), signer=DigestSha256Signer()))

        producer.attach_handler(prefix, on_interest)
        await register(h, producer, "unix", prefix)
        _, _, content = await consumer.express_interest(f"{prefix}/large", lifetime=2000)
        equal(len(content), 8000, "bytes (this library cannot reassemble fragments)")


@each_transport("signed Interest")
async def signed_interest(h, transport):
    prefix, seen = h.prefix(), []
    async with RunningApp(v2(h, "unix")) as producer, RunningApp(v2(h, transport)) as consumer:

        async def validator(name, sig, context):
            seen.append((sig.signature_info.signature_type, bytes(sig.signature_value_buf)))
            return types.ValidResult.PASS

        def on_interest(name, param, reply, context):
            reply(producer.make_data(name, b"params: " + bytes(param), signer=DigestSha256Signer()))

        producer.attach_handler(prefix, on_interest, validator)
        await register(h, producer, "unix", prefix)
        from Cryptodome.PublicKey import ECC

        key = ECC.generate(curve="P-256").export_key(format="DER")
        for signer in (
            DigestSha256Signer(for_interest=True),
            Sha256WithEcdsaSigner("/nwi/KEY/1", key),
        ):
            _, content, _ = await consumer.express(
                f"{prefix}/call",
                app_param=b"x" * 1000,
                signer=signer,
                validator=pass_all,
                lifetime=2000,
            )
            equal(bytes(content), b"params: " + b"x" * 1000, "content")
    equal([t for t, _ in seen], [0, 3], "signature types seen by the producer")


@each_transport("Nack and timeout")
async def nack_and_timeout(h, transport):
    prefix = h.prefix()
    async with RunningApp(v2(h, "unix")) as silent, RunningApp(v2(h, transport)) as consumer:
        try:
            await consumer.express(f"{prefix}/nowhere", validator=pass_all, lifetime=1500)
            raise Failed("the Interest was answered")
        except types.InterestNack as e:
            equal(e.reason, 150, "Nack reason")
        silent.attach_handler(prefix, lambda *_: None)
        await register(h, silent, "unix", prefix)
        try:
            await consumer.express(f"{prefix}/silence", validator=pass_all, lifetime=300)
            raise Failed("the Interest was answered")
        except types.InterestTimeout:
            pass


@test("python-ndn fifty registrations at once from three applications")
async def registrations(h):
    apps = [v2(h, t) for t in ("unix", "unix", "tcp")]
    async with RunningApp(apps[0]), RunningApp(apps[1]), RunningApp(apps[2]):
        wanted = [(a, f"{h.prefix()}/{i}") for a in apps for i in range(17)]
        got = await asyncio.gather(*(a.register(p) for a, p in wanted))
        equal(got.count(True), len(wanted), "registrations granted")
        got = await asyncio.gather(*(a.unregister(p) for a, p in wanted))
        equal(got.count(True), len(wanted), "registrations taken back")


@each_transport("segmented fetch of 2 MB")
async def segmented(h, transport):
    prefix = h.prefix()
    body = os.urandom(2_000_000)
    count = -(-len(body) // 8000)
    async with RunningApp(v2(h, "unix")) as producer, RunningApp(old(h, transport)) as consumer:
        final = enc.Component.from_segment(count - 1)

        def on_interest(name, param, reply, context):
            at = enc.Component.to_number(name[-1]) if enc.Component.get_type(name[-1]) == 50 else 0
            reply(
                producer.make_data(
                    enc.Name.normalize(prefix) + [enc.Component.from_segment(at)],
                    body[at * 8000 : (at + 1) * 8000],
                    signer=DigestSha256Signer(),
                    freshness_period=10000,
                    final_block_id=final,
                )
            )

        producer.attach_handler(prefix, on_interest)
        await register(h, producer, "unix", prefix)
        parts = [bytes(p) async for p in segment_fetcher(consumer, prefix)]
    check(
        b"".join(parts) == body,
        f"{sum(map(len, parts))} bytes in {len(parts)} segments differ from what was sent",
    )


@test("python-ndn 200 Interests in flight, answered out of order")
async def in_flight(h):
    prefix, held = h.prefix(), []
    async with RunningApp(v2(h, "unix")) as producer, RunningApp(v2(h, "tcp")) as consumer:

        def on_interest(name, param, reply, context):
            held.append((name, reply))
            if len(held) == 200:
                for n, r in reversed(held):
                    r(producer.make_data(n, bytes(n[-1]), signer=DigestSha256Signer()))

        producer.attach_handler(prefix, on_interest)
        await register(h, producer, "unix", prefix)
        got = await asyncio.gather(
            *(
                consumer.express(f"{prefix}/n{i}", validator=pass_all, lifetime=4000)
                for i in range(200)
            )
        )
        for name, content, _ in got:
            equal(bytes(content), bytes(name[-1]), "content")


@test("pynfdc status, faces, routes, strategies")
async def pynfdc_reading(h):
    for transport in ("unix", "tcp"):
        out = await h.run([h.script("pynfdc"), "status"], transport)
        for word in ("version", "startTime", "nPitEntries", "nUnsatisfiedInterests"):
            check(word in out, f"no {word} in: {out}")
    check("unix" in await h.run([h.script("pynfdc"), "face"]), "faces without a unix face")
    out = await h.run([h.script("pynfdc"), "route"])
    check("/localhost/nfd" in out and "Routing Table" in out, out)
    out = await h.run([h.script("pynfdc"), "strategy"])
    check(
        "/localhost/nfd/strategy/best-route" in out and "/localhost/nfd/strategy/multicast" in out,
        out,
    )


@test("pynfdc makes and removes faces, routes and strategy choices")
async def pynfdc_writing(h):
    prefix = h.prefix()
    uri = "udp4://127.0.0.1:17101"
    # The program can't decode an answer with the congestion fields after Flags, the reference's
    # order.
    out = await h.run([h.script("pynfdc"), "nf", uri], fails=True)
    check(out.startswith("200") or "critical field of type 135" in out, f"New-Face: {out[-300:]}")
    out = await h.run([h.script("pynfdc"), "face", uri])
    check("Face ID" in out and "NON_LOCAL" in out and "PERSISTENT" in out, f"Get-Face {uri}: {out}")
    face = out.split("Face ID")[1].split()[0]
    out = await h.run([h.script("pynfdc"), "face", face])
    check(uri in out, f"Get-Face {face}: {out}")
    out = await h.run([h.script("pynfdc"), "nr", prefix, face])
    check(out.startswith("200"), f"New-Route: {out}")
    out = await h.run([h.script("pynfdc"), "route", prefix])
    check(out.count(f"FaceID={face}") == 2, f"Get-Route: {out}")
    out = await h.run([h.script("pynfdc"), "rr", prefix, face])
    check(out.startswith("200"), f"Remove-Route: {out}")
    out = await h.run([h.script("pynfdc"), "ss", prefix, "multicast"])
    check(out.startswith("200"), f"Set-Strategy: {out}")
    check(
        "multicast" in await h.run([h.script("pynfdc"), "strategy", prefix]), "strategy not listed"
    )
    out = await h.run([h.script("pynfdc"), "rs", prefix])
    check(out.startswith("200"), f"Remove-Strategy: {out}")
    out = await h.run([h.script("pynfdc"), "ss", prefix, "/no/such/strategy"])
    check(out.startswith("404"), f"Set-Strategy with an unknown one: {out}")
    out = await h.run([h.script("pynfdc"), "rf", face])
    check("200" in out, f"Remove-Face: {out}")


@test("pyndntools poke and peek")
async def poke(h):
    prefix = h.prefix()
    f = h.scratch / "poke.txt"
    f.write_text("poked")
    server = await h.start([h.script("pyndntools"), "poke", prefix, str(f)])
    await server.wait_line("Start serving")
    await asyncio.sleep(0.3)
    for transport in TRANSPORTS:
        got = h.scratch / f"peeked-{transport}"
        await h.run(
            [h.script("pyndntools"), "peek", "-l", "2000", "-o", str(got), prefix], transport
        )
        equal(got.read_text(), "poked", f"content over {transport}")


@test("pyndntools putchunks and catchunks")
async def chunks(h):
    prefix, f = h.prefix(), h.file("chunks.bin", 1_000_003)
    server = await h.start([h.script("pyndntools"), "putchunks", prefix, str(f)])
    await server.wait_line("Start serving")
    await asyncio.sleep(0.3)
    for transport in TRANSPORTS:
        got = h.scratch / f"chunks-{transport}"
        await h.run(
            [
                h.script("pyndntools"),
                "catchunks",
                "-l",
                "2000",
                "-o",
                str(got),
                prefix + "/32=metadata",
            ],
            transport,
        )
        equal(sha256(got), sha256(f), f"SHA-256 over {transport}")


@test("pyndnsec keys sign Data and a registration")
async def pyndnsec(h):
    prefix = h.prefix()
    await h.run([h.script("pyndnsec"), "init"])
    await h.run([h.script("pyndnsec"), "key-gen", prefix + "/identity"])
    out = await h.run([h.script("pyndnsec"), "list"])
    check("identity" in out, f"pyndnsec list: {out}")
    keychain = NDNApp.default_keychain(
        {"pib": f"pib-sqlite3:{h.home}/.ndn", "tpm": f"tpm-file:{h.home}/.ndn/ndnsec-key-file"}
    )
    signer = keychain.get_signer({"identity": prefix + "/identity"})
    async with RunningApp(v2(h, "unix")) as producer, RunningApp(v2(h, "tcp")) as consumer:

        def on_interest(name, param, reply, context):
            reply(producer.make_data(name, b"signed by a real key", signer=signer))

        producer.attach_handler(prefix, on_interest)
        # The registration is signed by that key too, instead of a digest.
        _, answer, _ = await producer.express(
            make_command_v2("rib", "register", None, name=prefix),
            app_param=b"",
            signer=TimestampedSigner(signer),
            validator=pass_all,
            lifetime=1000,
        )
        equal(parse_response(answer)["status_code"], 200, "rib/register signed by an ECDSA key")
        _, content, context = await consumer.express(
            prefix + "/x", validator=pass_all, lifetime=2000
        )
        equal(bytes(content), b"signed by a real key", "content")
        equal(context["sig_ptrs"].signature_info.signature_type, 3, "signature type")
