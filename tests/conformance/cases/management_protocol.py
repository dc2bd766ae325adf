"""Commands and answers in general: formats, signatures, refusals, scope."""

import os
import time

from kit import management as mgmt
from kit.case import MGMT, STREAM, UDP, case, equal, expect
from kit.face import Fail
from kit.management import LOCAL, PARAMETER_ORDER, command, in_order, ok, parameters
from kit.packets import interest, rsa_like_info, signed_v2, signed_v3
from kit.tlv import (
    FRESHNESS,
    META_INFO,
    SIG_INFO,
    SIG_NONCE,
    SIG_TIME,
    SIG_TYPE,
    comp,
    name,
    read_all,
    read_nni,
    tlv,
    tlv_nni,
)

COMMAND = MGMT + "ControlCommand"
ANSWER = MGMT + "ControlCommand: ControlResponse"
SIGNED = MGMT + "ControlCommand: signed Interest"
LEGACY = MGMT + "ControlCommand: command Interest of packet format 0.2"


async def routed(t, prefix, face):
    """Returns whether an Interest from another face reaches `face`."""
    consumer = await t.face(t.router.local)
    target = prefix + name("/probe") + [comp(os.urandom(4))]
    consumer.send(interest(target, lifetime=500))
    try:
        await face.interest(target, within=0.3)
        return True
    except Fail:
        return False


@case(
    "mgmt/command/signed-v3", SIGNED, "A signed Interest of format 0.3 is carried out.", on=STREAM
)
async def v3(t):
    face = await t.face()
    await ok(face, "rib", "register", name=t.prefix)
    expect(await routed(t, t.prefix, face), "answered 200 but not in effect")


@case(
    "mgmt/command/signed-v2",
    LEGACY,
    "A command Interest of format 0.2 is carried out.",
    on=STREAM,
    tags=("clients",),
)
async def v2(t):
    face = await t.face()
    await ok(face, "rib", "register", name=t.prefix, form="v2")
    expect(await routed(t, t.prefix, face), "answered 200 but not in effect")


@case(
    "mgmt/command/v2-rsa-key",
    LEGACY,
    "A command of format 0.2 with a key locator and a 256-byte signature "
    "component (ndn-js, jndn), CanBePrefix and MustBeFresh set, is carried out from a local face.",
    on=STREAM,
    tags=("clients",),
)
async def v2_rsa(t):
    face = await t.face()
    base = LOCAL + name("/rib/register") + [comp(parameters(name=t.prefix))]
    packet, full = signed_v2(
        base, sig_info=rsa_like_info(), sig_value=os.urandom(256), cbp=True, mbf=True
    )
    face.send(packet)
    equal(mgmt.read_answer(await face.data(full)).code, 200, "StatusCode")


@case(
    "mgmt/command/v3-ecdsa-key",
    SIGNED,
    "A command signed by a key unknown to the router is carried out from a local face.",
    on=STREAM,
    tags=("clients",),
)
async def v3_key(t):
    face = await t.face()
    now = time.time_ns() // 1_000_000
    info = (
        tlv(SIG_TYPE, b"\x03")
        + rsa_like_info()[3:]
        + tlv(SIG_NONCE, os.urandom(8))
        + tlv_nni(SIG_TIME, now)
    )
    base = LOCAL + name("/rib/register") + [comp(parameters(name=t.prefix))]
    packet, full = signed_v3(base, sig_info=info, sig_value=os.urandom(71))
    face.send(packet)
    equal(mgmt.read_answer(await face.data(full)).code, 200, "StatusCode")


@case(
    "mgmt/command/with-selectors",
    SIGNED,
    "CanBePrefix and MustBeFresh on a command do no harm.",
    on=STREAM,
    tags=("clients",),
)
async def selectors(t):
    await ok(await t.face(), "rib", "register", name=t.prefix, cbp=True, mbf=True)


@case(
    "mgmt/command/no-nonce",
    SIGNED,
    "A command Interest without Nonce and InterestLifetime is carried out.",
    tags=("clients",),
)
async def no_nonce(t):
    face = await t.face()
    base = LOCAL + name("/rib/register") + [comp(parameters(name=t.prefix))]
    packet, full = signed_v3(base, lifetime=None)
    elements = [tlv(k, v) for k, v in read_all(packet[2 if packet[1] < 253 else 4 :]) if k != 10]
    face.send(tlv(5, b"".join(elements)))
    equal(mgmt.read_answer(await face.data(full)).code, 200, "StatusCode")


@case(
    "mgmt/command/many-at-once",
    COMMAND,
    "Two hundred registrations sent at once are all answered within a second "
    "each of their turn, from several faces in the same millisecond.",
    tags=("clients",),
)
async def at_once(t):
    faces = [await t.face() for _ in range(4)]
    wanted = []
    for i in range(50):
        for k, face in enumerate(faces):
            packet, full = signed_v3(
                LOCAL + name("/rib/register") + [comp(parameters(name=t.name(f"/{k}/{i}")))],
                lifetime=3000,
            )
            face.send(packet)
            wanted.append((face, full))
    for face, full in wanted:
        equal(mgmt.read_answer(await face.data(full)).code, 200, "StatusCode")


@case(
    "mgmt/answer/form",
    ANSWER,
    "The answer is Data of the command's name with StatusCode, StatusText and the "
    "parameters as applied, in the reference's order.",
    on=STREAM,
)
async def answer_form(t):
    a = await ok(await t.face(), "rib", "register", name=t.prefix, cost=7)
    expect(a.has_body and a.text != "", "StatusText or ControlParameters missing")
    in_order(a.order, PARAMETER_ORDER, "ControlParameters")
    equal((a.body["name"], a.body["cost"]), (t.prefix, 7), "name and cost in the answer")


@case(
    "mgmt/answer/freshness",
    ANSWER,
    "The answer has a FreshnessPeriod and decodes with a signature.",
    tags=("nfd",),
)
async def answer_fresh(t):
    a = await ok(await t.face(), "rib", "register", name=t.prefix)
    meta = dict(read_all(a.packet.fields.get(META_INFO, b"")))
    expect(read_nni(meta.get(FRESHNESS, b"\x00")) > 0, "no FreshnessPeriod")
    expect(SIG_INFO in a.packet.fields, "no SignatureInfo")


@case(
    "mgmt/answer/empty-body-on-error",
    ANSWER,
    "An error answer carries ControlParameters, empty if need be: one "
    "client library breaks without them.",
    tags=("clients", "differs"),
)
async def error_body(t):
    a = await command(
        await t.face(), "strategy-choice", "set", name=t.prefix, strategy=name("/no/such/strategy")
    )
    expect(a.code != 200 and a.has_body, f"answer {a.code} without ControlParameters")


@case(
    "mgmt/answer/same-again",
    ANSWER,
    "The same command, freshly signed, is carried out again (not served from the cache).",
    on=STREAM,
)
async def again(t):
    face = await t.face()
    for _ in range(3):
        await ok(face, "rib", "register", name=t.prefix)
        await ok(face, "rib", "unregister", name=t.prefix)
    expect(not await routed(t, t.prefix, face), "still routed after unregister")


async def not_carried_out(t, build, codes=(400, 403)):
    """Checks that the registration `build(base)` has no effect; an answer must have one of `codes`."""
    face = await t.face()
    base = LOCAL + name("/rib/register") + [comp(parameters(name=t.prefix))]
    packet = build(base)
    face.send(packet)
    await t.quiet(0.3)
    for p in face.inbox:
        if p.kind == "data":
            code = mgmt.read_answer(p).code
            expect(code in codes, f"answered {code}")
    expect(not await routed(t, t.prefix, face), "carried out")
    await ok(face, "rib", "register", name=t.prefix)


@case(
    "mgmt/refused/unsigned",
    SIGNED,
    "An unsigned command is not carried out: 403 or silence.",
    on=STREAM,
)
async def unsigned(t):
    await not_carried_out(t, interest, (403,))


@case(
    "mgmt/refused/wrong-digest-v3",
    SIGNED,
    "A command whose DigestSha256 value is wrong is not carried out.",
    on=STREAM,
)
async def wrong_v3(t):
    await not_carried_out(t, lambda b: signed_v3(b, sig_value=bytes(32))[0], (403,))


@case(
    "mgmt/refused/wrong-digest-v2",
    LEGACY,
    "A 0.2 command whose DigestSha256 value is wrong is not carried out.",
    on=STREAM,
)
async def wrong_v2(t):
    await not_carried_out(t, lambda b: signed_v2(b, sig_value=bytes(32))[0], (403,))


@case(
    "mgmt/refused/no-signature-type",
    SIGNED,
    "A command whose signature info lacks the SignatureType is not carried out.",
)
async def no_type(t):
    await not_carried_out(t, lambda b: signed_v3(b, sig_info=tlv(38, bytes(8)))[0], (400, 403))


@case(
    "mgmt/refused/bad-parameters",
    COMMAND,
    "Parameters that do not decode are not answered 200.",
    on=STREAM,
)
async def bad_encoding(t):
    face = await t.face()
    for raw in (
        b"\x68\x05\x07",
        b"hello",
        b"",
        tlv(104, tlv(106, b"\x00\x00\x01")),
        tlv(104, tlv(7, b"\x08\x09a")),
    ):
        packet, full = signed_v3(LOCAL + name("/rib/register") + [comp(raw)], lifetime=400)
        face.send(packet)
        await t.quiet(0.1)
        for p in face.inbox:
            if p.kind == "data" and p.name == full:
                expect(mgmt.read_answer(p).code >= 400, "answered 200")
    await ok(face, "rib", "register", name=t.prefix)


def missing(id_, module, verb, requirement, **fields):
    @case(f"mgmt/refused/{id_}", COMMAND, requirement)
    async def run(t):
        a = await command(await t.face(), module, verb, **fields)
        equal(a.code, 400, f"StatusCode ({a.text})")


missing("register-without-name", "rib", "register", "rib/register without Name: 400.", cost=1)
missing(
    "add-nexthop-without-name", "fib", "add-nexthop", "fib/add-nexthop without Name: 400.", cost=1
)
missing("create-without-uri", "faces", "create", "faces/create without Uri: 400.", cost=1)
missing(
    "strategy-without-strategy",
    "strategy-choice",
    "set",
    "strategy-choice/set without Strategy: 400.",
    name=name("/nwc-x"),
)
missing("erase-without-name", "cs", "erase", "cs/erase without Name: 400.", count=1)
missing("unset-root", "strategy-choice", "unset", "strategy-choice/unset of / : 400.", name=[])


@case(
    "mgmt/refused/unknown-verb",
    COMMAND,
    "An unknown verb or module is not answered 200.",
    on=STREAM,
)
async def unknown_verb(t):
    face = await t.face()
    for module, verb in (("rib", "no-such-verb"), ("no-such-module", "register")):
        packet, full = signed_v3(
            LOCAL + name(f"/{module}/{verb}") + [comp(parameters(name=t.prefix))], lifetime=300
        )
        face.send(packet)
        await t.quiet(0.15)
        for p in face.inbox:
            if p.kind == "data" and p.name == full:
                expect(mgmt.read_answer(p).code >= 400, "answered 200")
    await ok(face, "rib", "register", name=t.prefix)


@case(
    "mgmt/refused/from-network",
    MGMT + "ControlCommand: /localhost/nfd is for local faces",
    "A command or dataset request under /localhost from a non-local face has no effect and no answer.",
    on=(UDP,),
)
async def from_network(t):
    face = await t.face()
    packet, full = signed_v3(LOCAL + name("/rib/register") + [comp(parameters(name=t.prefix))])
    face.send(packet)
    face.send(interest(LOCAL + name("/faces/list"), cbp=True, mbf=True))
    await face.none("data", prefix=LOCAL, quiet=0.3)
    expect(not await routed(t, t.prefix, face), "carried out")


@case(
    "mgmt/refused/face-id-for-nothing",
    MGMT + "RibMgmt: register",
    "A route for a face that does not exist is not answered 200: what is answered 200 is in effect.",
    tags=("differs",),
)
async def no_such_face(t):
    a = await command(await t.face(), "rib", "register", name=t.prefix, face_id=0xFFFFFF0)
    expect(a.code in (404, 410), f"answered {a.code}")


@case(
    "mgmt/parameters/unknown-noncritical",
    COMMAND,
    "An unknown non-critical element in ControlParameters is ignored.",
    tags=("nfd",),
)
async def unknown_element(t):
    raw = tlv(104, parameters(name=t.prefix)[2:] + tlv(0xF0, b"x"))
    await ok(await t.face(), "rib", "register", raw=raw)


@case("mgmt/parameters/wide-numbers", COMMAND, "Numbers in 8 bytes are taken like short ones.")
async def wide(t):
    raw = tlv(104, parameters(name=t.prefix)[2:] + tlv(106, (9).to_bytes(8, "big")))
    a = await ok(await t.face(), "rib", "register", raw=raw)
    equal(a.body["cost"], 9, "cost")
