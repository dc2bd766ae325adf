"""Sync groups with python-ndn: members on it (svs3.py), its own SVS beside them, and packets that
it sends to disturb a group."""

import asyncio
import base64
import logging
import sys

from ndn.app_support.svs import SvsInst
from ndn.appv2 import NDNApp, pass_all
from ndn.client_conf import default_face
from ndn.encoding import InterestParam, MetaInfo, Name, make_data, make_interest, parse_data
from ndn.security import DigestSha256Signer, HmacSha256Signer
from ndn.utils import gen_nonce

from harness import HERE, check, equal, test
from test_python_ndn import RunningApp
from test_sync import bridge, member, publish, pubsub_command, say, subscriber


async def python_member(h, group, name, *options):
    command = [sys.executable, str(HERE / "svs3.py"), group, name, *map(str, options)]
    process = await h.start(command)
    await process.wait_line("^ready")
    return process


def secret(h, name):
    """Returns options of both programs for a secret."""
    path = h.scratch / f"secret-{name}"
    path.write_bytes(name.encode() * 32)
    return ["--hmac", str(path), "--key-name", f"/key/{name}"]


def app(h):
    return RunningApp(NDNApp(face=default_face(h.uri("unix"))))


def count(process, line):
    return process.lines.count(line)


@test("sync: a member on python-ndn and nw read each other's publications")
async def members(h):
    group = h.prefix()
    ours = await member(h, "/a", group)
    theirs = await python_member(h, group, "/p")
    await say(ours, "one")
    await theirs.wait_line("^snapshot of /a: one$")
    await theirs.wait_line("^publication 1 of /a: one$")
    for text in ("two", "three"):
        await say(ours, text)
        await say(theirs, f"{text} of python-ndn")
    await theirs.wait_line("^publication 3 of /a: three$")
    await ours.wait_line("^/p three of python-ndn$")
    # Members that come late, of either kind, get all of both.
    late = await member(h, "/late", group)
    await late.wait_line("^/a three$")
    await late.wait_line("^/p three of python-ndn$")
    theirs = await python_member(h, group, "/q")
    await theirs.wait_line("^snapshot of /a: three$")
    await theirs.wait_line("^publication 3 of /a: three$")
    await theirs.wait_line("^publication 2 of /p: three of python-ndn$")
    refused = [x for p in (ours, theirs) for x in p.lines if "refused" in x or "missing" in x]
    # python-ndn's members have no snapshots.
    equal([x for x in refused if "snapshot of /p missing" not in x], [], "faults")


@test("sync: a scope and a member on python-ndn reach each other, large publications too")
async def scope(h):
    group = h.prefix()
    chat = f"/chat{group}"
    reader = await subscriber(h, f"{chat}/@group/**")
    await bridge(h, chat, group, "/n")
    theirs = await python_member(h, group, "/p")
    await say(theirs, "hello to a scope")
    await reader.wait_line(f"^{chat}/@group/p hello to a scope$")
    large = h.scratch / "large.txt"
    large.write_text("x" * 20_000)
    await publish(h, f"{chat}/alice", "--file", str(large))
    await theirs.wait_line("^publication 1 of /n/alice: 20000 bytes$")
    await publish(h, chat, "small")
    await theirs.wait_line("^publication 1 of /n: small$")


@test("sync: nw and python-ndn verify each other's vectors, publications and snapshots")
async def signed(h):
    group = h.prefix()
    right, wrong = secret(h, "right"), secret(h, "wrong")
    ours = await member(h, "/a", group, *right, "--verify")
    theirs = await python_member(h, group, "/p", *right)
    await say(ours, "signed by nw")
    await theirs.wait_line("^snapshot of /a: signed by nw$")
    await theirs.wait_line("^publication 1 of /a: signed by nw$")
    await say(theirs, "signed by python-ndn")
    await ours.wait_line("^/p signed by python-ndn$")
    # One that has another secret is told nothing by either, and tells them nothing.
    stranger = await python_member(h, group, "/x", *wrong)
    await say(stranger, "not of the group")
    await ours.wait_line("Sync Interest refused: .*/32=svs/v=3")
    await theirs.wait_line("^refused .*/32=svs/v=3: not signed by the trusted key$")
    await say(ours, "again")
    await theirs.wait_line("^publication 2 of /a: again$")
    await stranger.wait_line("^refused .*: not signed by the trusted key$")
    check(not any("of /a" in line for line in stranger.lines), "told to a stranger")
    # One whose vectors are right and whose publications are not.
    forger = await python_member(h, group, "/f", *right, "--forge")
    await say(forger, "forged")
    await ours.wait_line("publication 1 of /f is refused: .*/seq=1/v=0/seg=0 is not accepted")
    await theirs.wait_line("^publication 1 of /f refused$")
    check(not any("forged" in line or "not of" in line for line in ours.lines), str(ours.lines))


@test("sync: a scope accepts a member on python-ndn by its certificate, and no forgery")
async def certificates(h):
    group = h.prefix()
    chat = f"/chat{group}"
    store, ours = ["--store", str(h.scratch / "store-of-ours")], h.scratch / "cert"
    await h.run(h.nw_command("key", "generate", "--type", "ed25519", "/ours", *store))
    exported = await h.run(h.nw_command("cert", "export", "/ours", *store))
    ours.write_bytes(base64.b64decode(exported))
    certificate = h.scratch / "python.cert"
    options = ["--key-name", "/theirs/KEY/1", "--write-certificate", certificate, "--trust", ours]
    theirs = await python_member(h, group, "/p", *options)
    reader = await subscriber(h, f"{chat}/@group/**")
    command = ["pubsub", "group", chat, group, "--name", "/n", "--key", "/ours", *store]
    process = await h.start(pubsub_command(h, *command, "--anchor", str(certificate)))
    await process.wait_line("is connected to")
    await say(theirs, "certified")
    await reader.wait_line(f"^{chat}/@group/p certified$")
    await publish(h, f"{chat}/alice", "signed by the key of nw")
    await theirs.wait_line("^publication 1 of /n/alice: signed by the key of nw$")
    stranger = await python_member(h, group, "/x")
    await say(stranger, "forged")
    await process.wait_line("Sync Interest refused")
    await say(theirs, "two")
    await reader.wait_line(f"^{chat}/@group/p two$")
    check(not any("forged" in line for line in reader.lines), "a forged publication in the scope")


def send_vector(sender, group, wire):
    """Sends Data as the state vector of a group."""
    name = Name.from_str(f"{group}/32=svs/v=3")
    param = InterestParam(lifetime=1000, nonce=gen_nonce())
    interest = make_interest(name, param, bytes(wire))
    sender.express_raw_interest(name, param, interest, pass_all, no_response=True)


@test("sync: vectors that are repeated, of another group or a publication's content change nothing")
async def replay(h):
    group, other = h.prefix(), h.prefix()
    right = secret(h, "right")
    signer = HmacSha256Signer("/key/right", (b"right" * 32))
    async with app(h) as sniffer:
        vectors = []

        def on_interest(_name, app_param, _reply, _context):
            vectors.append(bytes(app_param))

        for prefix in (group, other):
            sniffer.attach_handler(f"{prefix}/32=svs", on_interest, pass_all)
            check(await sniffer.register(f"{prefix}/32=svs"), "registration")
        reader = await member(h, "/reader", group, *right, "--verify")
        ours = await member(h, "/a", group, *right, "--verify")
        foreign = await member(h, "/foreign", other, *right, "--verify")
        for text in ("one", "two"):
            await say(ours, text)
        await say(foreign, "of another group")
        await reader.wait_line("^/a two$")
        while not any(b"foreign" in wire for wire in vectors):
            await asyncio.sleep(0.02)
        seen = [wire for wire in vectors if b"foreign" not in wire]
        check(len(seen) >= 3, f"{len(seen)} vectors")
        for wire in seen * 2:
            send_vector(sniffer, group, wire)
        vector = next(wire for wire in vectors if b"foreign" in wire)
        send_vector(sniffer, group, vector)
        await reader.wait_line(f"refused: {other}/32=svs/v=3: not the name of a vector of {group}")
        # What an application publishes could be the bytes of a vector.
        await asyncio.sleep(1.1)
        content = parse_data(vector)[2]
        named = f"{group}/a/t=1/seq=1/v=0/seg=0"
        send_vector(sniffer, group, make_data(named, MetaInfo(), bytes(content), signer=signer))
        await reader.wait_line(f"refused: {named}: not the name of a vector")
        # Vectors that are no vectors, and signed ones from the far future.
        for body in (b"", b"\xc9\x01", bytes(content)[:-1]):
            name = f"{group}/32=svs/v=3"
            send_vector(sniffer, group, make_data(name, MetaInfo(), body, signer=signer))
        await say(ours, "three")
        await reader.wait_line("^/a three$")
    for text in ("one", "two", "three"):
        equal(count(reader, f"/a {text}"), 1, f"times that the reader was told {text}")
    check(not any("foreign" in line.split()[0] for line in reader.lines), "no foreign member")


@test("sync: python-ndn's own SVS, version 1, is a group of its own below the same name")
async def version_1(h):
    group = h.prefix()
    await h.run(h.nw_command("strategy", "set", group, "multicast"))
    ours, second = await member(h, "/a", group), await member(h, "/b", group)

    # It logs packets of version 3 as errors, and ignores them.
    logging.getLogger("ndn.app_support.svs.sync").setLevel(logging.CRITICAL)

    def instance(name):
        signer = DigestSha256Signer(for_interest=True)
        return SvsInst(group, name, lambda _: None, signer, pass_all)

    async with app(h) as one, app(h) as two:
        instances = [instance("/p"), instance("/q")]
        for svs, running in zip(instances, (one, two), strict=True):
            svs.start(running)
            check(await running.register(group), "registration")
        for number in range(3):
            await say(ours, f"{number}")
            for svs in instances:
                svs.new_data()
            await second.wait_line(f"^/a {number}$")
            await asyncio.sleep(0.05)
        expected = {Name.to_bytes("/p"): 3, Name.to_bytes("/q"): 3}
        for _ in range(100):
            if all(svs.local_sv == expected for svs in instances):
                break
            await asyncio.sleep(0.05)
        for svs in instances:
            equal(svs.local_sv, expected, "members that version 1 knows")
            svs.stop()
    for process in (ours, second):
        lines = [line for line in process.lines if "refused" in line or "missing" in line]
        equal(lines, [], "what nw noticed of it")
    lines = [line for line in second.lines if line.startswith("/a ")]
    equal(lines, ["/a 0", "/a 1", "/a 2"], "publications that nw received")
