"""Floods of pending Interests with a lifetime of an hour that are never answered, up to and beyond
the size of the table.

During each flood and afterwards programs that exchange packets over Unix and TCP sockets lose at
most LOSS_MAX of them; a new program can register, and the operator's commands work: `nw status`,
`nw face list`, `nw face destroy`. Interests from other machines are gone within seconds after the
flood has ended. The router runs with a table of ENTRIES, so that a flood of a second fills it
several times.
"""

import argparse
import json
import os
import multiprocessing
import random
import resource
import select
import shutil
import socket
import sys
import time

from rig import BINARY, Router, register, complete_element
from kit.packets import data, interest, lp, token
from kit.tlv import comp, name

ENTRIES = 8192
EXCHANGES = 200
LOSS_MAX = 0.03
DESTROY_ATTEMPTS = 5
# Interests per second once the table is full: enough to keep it full. Floods at full speed are in
# hostile.py.
FLOOD_RATE = 10_000
RECOVERY_S = 7


class Pair:
    """A consumer and a producer that exchange packets; each Interest is sent once."""

    def __init__(self, router, transport, size=0, tokens=False):
        self.tokens = tokens
        self.consumer = router.connect(transport)
        self.producer = router.connect("unix")
        self.prefix = name(f"/pairs-{transport}-{size:05}")
        self.title = (
            transport
            + (f", names of {size} bytes" if size else "")
            + (", long tokens" if tokens else "")
        )
        register(self.producer, self.prefix)
        self.prefix += [comp(b"x" * size)] if size else []

    def lost(self):
        """Returns the share of exchanges that got no Data within a second."""
        streams = {self.consumer: b"", self.producer: b""}
        for s in streams:
            s.settimeout(10)  # for a busy router; select has already reported data
        waiting, begin, sent = set(), time.monotonic(), 0
        last_sent = begin
        # As many pending Interests as an interactive program has.
        while sent < EXCHANGES or waiting and time.monotonic() < last_sent + 1:
            if sent < EXCHANGES and time.monotonic() >= begin + sent * 0.004:
                number = random.randbytes(8)
                waiting.add(number)
                packet = interest(self.prefix + [comp(number)], lifetime=1000)
                self.consumer.sendall(
                    lp(packet, token(random.randbytes(32))) if self.tokens else packet
                )
                sent, last_sent = sent + 1, time.monotonic()
            for s in select.select(list(streams), [], [], 0.002)[0]:
                streams[s] += s.recv(1 << 18)
                while (size := complete_element(streams[s], 0)) is not None:
                    packet, streams[s] = streams[s][:size], streams[s][size:]
                    if s is self.producer:
                        at = packet.find(b"\x08\x08", 0)
                        answered = packet[at + 2 : at + 10]
                        s.sendall(data(self.prefix + [comp(answered)], b"x" * 100))
                    elif b"\x15\x64" in packet:  # Content of 100 bytes, so no Nack
                        at = packet.find(b"\x08\x08", 0)
                        waiting.discard(packet[at + 2 : at + 10])
        return len(waiting) / EXCHANGES

    def close(self):
        self.consumer.close()
        self.producer.close()


def sockets(router, kind, count):
    return [router.connect(kind) for _ in range(count)]


def flood(router, kind, faces, make, stop, filled):
    """Sends Interests over these faces until `stop` is set; sets `filled` once the table could be
    full."""
    rng = random.Random(os.getpid())
    sent, held, full_since = 0, sockets(router, kind, min(faces, 64)), None
    while not stop.is_set():
        for sock in held:
            packets = [make(rng) for _ in range(32)]
            try:
                if sock.type == socket.SOCK_DGRAM:
                    for packet in packets:
                        sock.send(packet)
                else:
                    sock.settimeout(0.5)
                    sock.sendall(b"".join(packets))
                    sock.setblocking(False)
                    while sock.recv(1 << 18):
                        pass
            except (BlockingIOError, socket.timeout):
                pass
            except OSError:
                return
            sent += len(packets)
        if faces > len(held):
            # Each port sends once; the router keeps its face.
            for sock in held:
                sock.close()
            held = sockets(router, kind, 64)
        if sent >= 2 * ENTRIES:
            if full_since is None:
                full_since = time.monotonic() - sent / FLOOD_RATE
            filled.set()
            time.sleep(max(0.0, full_since + sent / FLOOD_RATE - time.monotonic()))
    for sock in held:
        sock.close()


def short_names(rng):
    return interest(name("/silent") + [comp(rng.randbytes(8))], lifetime=3_600_000)


def long_names(rng):
    return interest(
        name("/silent") + [comp(b"x" * 2100), comp(rng.randbytes(8))], lifetime=3_600_000
    )


def medium_names(rng):
    return interest(
        name("/silent") + [comp(b"x" * 300), comp(rng.randbytes(8))], lifetime=3_600_000
    )


def long_tokens(rng):
    return lp(short_names(rng), token(rng.randbytes(32)))


def prefixes(rng):
    components = [comp(rng.randbytes(8)) for _ in range(rng.randrange(33, 200))]
    return interest(name("/silent") + components, cbp=True, lifetime=3_600_000)


SCENARIOS = [
    # title, kind of face, number of faces, Interest builder, shards, other name sizes that must
    # still work
    ("two UDP ports", "udp", 2, short_names, 1, []),
    ("three UDP ports, two shards", "udp", 3, short_names, 2, []),
    ("8,000 UDP ports of one host", "udp", 8000, short_names, 1, []),
    ("two Unix faces", "unix", 2, short_names, 1, []),
    ("ten Unix faces, two shards", "unix", 10, short_names, 2, []),
    ("long names from one UDP port", "udp", 1, long_names, 1, [2300, 5000]),
    ("medium-length names from two UDP ports", "udp", 2, medium_names, 1, [400, 5000]),
    ("long tokens from two UDP ports", "udp", 2, long_tokens, 1, []),
    ("prefixes of many lengths from two UDP ports", "udp", 2, prefixes, 1, []),
]


class SilentFace:
    """A face with a route that reads and never answers."""

    def __init__(self, router):
        sock = router.connect("unix")
        register(sock, name("/silent"))

        def read():
            sock.settimeout(None)
            while sock.recv(1 << 20):
                pass

        self.process = multiprocessing.Process(target=read, daemon=True)
        self.process.start()

    def stop(self):
        self.process.terminate()
        self.process.join()


def pending(router):
    completed = router.nw("status", "--json")
    return (
        json.loads(completed.stdout)["forwarder"]["pit_entries"]
        if completed.returncode == 0
        else ENTRIES
    )


class Run:
    """One scenario and what failed in it."""

    def __init__(self, binary, scenario):
        self.title, self.kind, self.faces, self.make, shards, self.sizes = scenario
        self.failures, self.notes = [], []
        config = f"[tables]\npit_entries = {ENTRIES}\n[forwarder]\nshards = {shards}\n"
        self.router = Router(binary, config)

    def expect(self, what, holds, detail=""):
        if not holds:
            self.failures.append(f"{what}: {detail}")

    def exchange(self, pairs, when):
        for pair in pairs:
            lost = pair.lost()
            self.notes.append(f"{lost:.1%}")
            self.expect(f"{pair.title} {when}", lost <= LOSS_MAX, f"{lost:.1%} of {EXCHANGES} lost")

    def operate(self, when):
        """Checks that a new program and an operator can work."""
        try:
            newcomer = self.router.connect("unix")
            register(newcomer, name("/newcomer/") + [comp(random.randbytes(4))])
            newcomer.close()
        except (SystemExit, OSError) as error:
            self.expect(f"a registration {when}", False, error)
        self.command(["status", "--json"], when)
        # A face of the flood may have to make room between the two commands.
        for _ in range(DESTROY_ATTEMPTS):
            listed = self.command(["face", "list", "--json"], when)
            scheme = "fd" if self.kind == "unix" else self.kind
            faces = [json.loads(line) for line in listed.stdout.splitlines()]
            flooding = [face for face in faces if face["uri"].startswith(scheme)]
            if not flooding:
                return
            worst = max(flooding, key=lambda face: face["in_interests"])["face_id"]
            completed = self.router.nw("face", "destroy", str(worst))
            if "there is no face" not in completed.stderr:
                break
        self.expect(f"nw face destroy {when}", completed.returncode == 0, completed.stderr)

    def command(self, words, when):
        completed = self.router.nw(*words)
        self.expect(f"nw {' '.join(words)} {when}", completed.returncode == 0, completed.stderr)
        return completed

    def run(self):
        router = self.router
        silence = SilentFace(router)
        pairs = [Pair(router, "unix"), Pair(router, "tcp")] + [
            Pair(router, "unix", size) for size in self.sizes
        ]
        if self.make is long_tokens:
            pairs.append(Pair(router, "unix", 1, tokens=True))
        self.exchange(pairs, "before")
        stop, filled = multiprocessing.Event(), multiprocessing.Event()
        attackers = [
            multiprocessing.Process(
                target=flood,
                daemon=True,
                args=(router, self.kind, self.faces, self.make, stop, filled),
            )
        ]
        for attacker in attackers:
            attacker.start()
        self.expect("the flood", filled.wait(60), "did not fill the table within a minute")
        time.sleep(1)  # for packets in socket buffers
        self.exchange(pairs, "during the flood")
        self.operate("during the flood")
        stop.set()
        for attacker in attackers:
            attacker.join()
        self.exchange(pairs, "just afterwards")
        end = time.monotonic() + RECOVERY_S
        while (left := pending(router)) > ENTRIES // 2 and time.monotonic() < end:
            time.sleep(0.2)
        self.expect(
            "the table afterwards", left <= ENTRIES // 2, f"{left} of {ENTRIES} entries pending"
        )
        for pair in pairs:
            pair.close()
        silence.stop()
        if os.environ.get("SHOW_DROPS"):
            print(router.nw("status", "--drops").stdout)
        code = router.stop()
        self.expect("the router", code == 0, f"ended with {code}")
        with open(os.path.join(router.scratch, "log")) as f:
            log = f.read()
        shortage_logged = any(
            f'pool="{pool}"' in log for pool in ("pending_interests", "large_interests")
        )
        self.expect(
            "the log", "ERROR" in log and shortage_logged, "does not say that the table was short"
        )
        return not self.failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nw", default=BINARY)
    parser.add_argument("--only", help="scenarios with this in their titles")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    failed = tried = 0
    for scenario in SCENARIOS:
        if options.only and options.only not in scenario[0]:
            continue
        run, begin = Run(options.nw, scenario), time.monotonic()
        holds = run.run()
        tried += 1
        failed += not holds
        print(
            f"{'ok    ' if holds else 'FAILED'} {run.title}: lost {' '.join(run.notes)}, {time.monotonic() - begin:.1f} s",
            flush=True,
        )
        for failure in run.failures:
            print(f"       {failure}", flush=True)
        if holds:
            shutil.rmtree(run.router.scratch)
        else:
            print(f"       log: {run.router.scratch}/log", file=sys.stderr)
    print(f"{tried - failed} passed, {failed} failed, 0 skipped")
    raise SystemExit(failed > 0)


if __name__ == "__main__":
    main()
