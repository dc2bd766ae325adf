"""Sync groups: `nw sync` and scopes of publish/subscribe with NDNTs' `SvSync` and NDNd's chat."""

import asyncio
from pathlib import Path

from harness import Skipped, check, equal, test

# The group of NDNd's chat is fixed.
GROUP = "/ndn/svs"


async def say(process, text):
    process.proc.stdin.write(f"{text}\n".encode())
    await process.proc.stdin.drain()


async def member(h, name, group, *options):
    process = await h.start(h.nw_command("sync", group, "--name", name, *options))
    await process.wait_line("is a member of")
    return process


def pubsub_command(h, *args):
    """Returns a command for the node beside the router."""
    socket = Path(h.uri("unix").removeprefix("unix://")).with_suffix(".pubsub.sock")
    if not socket.exists():
        raise Skipped("the router has no publish/subscribe")
    return h.nw_command(*args, "--pubsub-socket", str(socket))


async def bridge(h, scope, group, name):
    process = await h.start(pubsub_command(h, "pubsub", "group", scope, group, "--name", name))
    await process.wait_line("is connected to|standing by")
    return process


async def ndnd_chat(h, name):
    chat = h.cache / "ndnd-chat.bin" if h.cache else None
    if not chat or not chat.exists():
        raise Skipped("NDNd is not built: it needs Go, then run tests/interop/run again")
    process = await h.start([str(chat), name])
    await process.wait_line("Joined")
    return process


async def subscriber(h, pattern):
    process = await h.start(pubsub_command(h, "sub", pattern))
    await process.wait_line("^subscribing to")
    return process


async def publish(h, *words):
    await h.run(pubsub_command(h, "pub", "--quiet", *words))


@test("sync: members of nw get all publications, a late one and one that starts again too")
async def members(h):
    group = h.prefix()
    a, b = await member(h, "/a", group), await member(h, "/b", group)
    for number in range(5):
        await say(a, f"a{number}")
        await say(b, f"b{number}")
    await a.wait_line("^/b b4$")
    await b.wait_line("^/a a4$")
    late = await member(h, "/c", group)
    await late.wait_line("^/a a4$")
    await late.wait_line("^/b b4$")
    shown = [line for line in late.lines if line.startswith("/a ")]
    check(shown == [f"/a a{n}" for n in range(5)], f"each once and in order: {shown}")
    await b.stop()
    # Numbers of a new start begin at 1 with another boot time, in seconds.
    await asyncio.sleep(1.1)
    again = await member(h, "/b", group)
    await say(again, "again")
    for process in (a, late):
        await process.wait_line("^/b again$")


@test("sync: NDNTs learns numbers of nw, and nw fetches what NDNTs publishes")
async def ndnts(h):
    group = h.prefix()
    ours = await member(h, "/a", group)
    theirs = await h.start(h.node("ndnts.mjs", h.uri("unix"), "sync", group, "/t"))
    await theirs.wait_line("^ready")
    await say(ours, "one")
    await say(ours, "two")
    await theirs.wait_line(r"^update /8=a \d+ 2$")
    await say(theirs, "three")
    await ours.wait_line("^/t three$")
    check(not any("error" in line for line in theirs.lines), " | ".join(theirs.lines))


@test("sync: publications of a scope and of NDNTs reach each other once, also by a second program")
async def scope(h):
    group = h.prefix()
    chat = f"/chat{group}"
    reader = await subscriber(h, f"{chat}/**")
    first = await bridge(h, chat, group, "/n1")
    theirs = await h.start(h.node("ndnts.mjs", h.uri("unix"), "sync", group, "/t"))
    await theirs.wait_line("^ready")
    second = await bridge(h, chat, group, "/n2")
    await second.wait_line("^standing by")
    await publish(h, f"{chat}/alice", "one", "two")
    await theirs.wait_line("^publication /8=n1/8=alice 2 two$")
    await say(theirs, "three")
    await reader.wait_line(f"^{chat}/@group/t three$")
    # The second one takes over, and repeats nothing.
    await first.stop()
    await second.wait_line("is connected to")
    await publish(h, chat, "four")
    # One after the other: of a publication made while a Sync Interest arrives, NDNTs may tell with
    # its next periodic vector, after half a minute.
    await theirs.wait_line("^publication /8=n2 1 four$")
    await say(theirs, "five")
    await reader.wait_line(f"^{chat}/@group/t five$")
    lines = [line for line in theirs.lines if line.startswith("publication")]
    numbers = ("n1/8=alice 1 one", "n1/8=alice 2 two", "n2 1 four")
    equal(lines, [f"publication /8={text}" for text in numbers], "publications that NDNTs received")
    lines = [line.removeprefix(chat) for line in reader.lines if line.startswith(chat)]
    expected = ["/alice one", "/alice two", "/@group/t three", " four", "/@group/t five"]
    equal(sorted(lines), sorted(expected), "publications below the scope")


@test("sync: nw and NDNd's chat read each other's publications, and so does a scope")
async def ndnd(h):
    ours = await member(h, "/a", GROUP)
    theirs = await ndnd_chat(h, "/d")
    await say(theirs, "hello from NDNd")
    await ours.wait_line("^/d hello from NDNd$")
    # NDNd begins with the snapshot of a member, which is its newest publication.
    await say(ours, "hello from nw")
    await theirs.wait_line(r"^\[snapshot\] /a: hello from nw$")
    await say(ours, "and again")
    await theirs.wait_line("^/a: and again$")
    chat = f"/chat{h.prefix()}"
    reader = await subscriber(h, f"{chat}/@group/**")
    await bridge(h, chat, GROUP, "/n")
    await publish(h, f"{chat}/bob", "hello from a scope")
    await theirs.wait_line(r"^\[snapshot\] /n/bob: hello from a scope$")
    await say(theirs, "hello to a scope")
    await reader.wait_line(f"^{chat}/@group/d hello to a scope$")


@test("sync: a late member begins with the snapshot of NDNd's chat where publications are gone")
async def ndnd_snapshot(h):
    theirs = await ndnd_chat(h, "/s")
    # NDNd makes a snapshot of each ten publications, and drops those 30 before it. Its chat
    # begins with an empty one.
    for number in range(2, 53):
        await say(theirs, f"text {number}")
    await asyncio.sleep(0.2)
    late = await member(h, "/late", GROUP)
    await late.wait_line("^/s text 52$")
    lines = [line for line in late.lines if line.startswith("/s ")]
    check(lines[0].startswith("/s Skipping ") and lines[1].startswith("/s text "), str(lines[:3]))
    first = int(lines[1].split()[-1])
    equal(lines[1:], [f"/s text {number}" for number in range(first, 53)], "those after it")
    check(any("a snapshot stands for them" in line for line in late.lines), "told")
