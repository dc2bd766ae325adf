"""Attacks on a live router, one after another, while two well-behaved faces exchange packets through it.

The bystanders ask and answer at a fixed rate, far below what the router can do, with names never asked before. What they get through
while nobody attacks is the measure; under each attack it must stay at nine tenths, and the router must live, answer and not grow.

Everything goes over sockets in a directory of its own and loopback; attackers are processes of this one, stop after a few
seconds, and send what they can.
"""

import argparse
import json
import multiprocessing
import os
import random
import resource
import select
import shutil
import socket
import sys
import time

from rig import BINARY, HANDSHAKE, Router, register, whole
from kit.packets import data, interest, lp, token
from kit.tlv import comp, name, tlv

RATE = 1000  # exchanges a second
CONTENT = os.urandom(4000)
KEPT_LEAST = 0.9
GROWTH_MAX_KIB = 400 << 10  # tables at their bounds, no more
ATTACK_BATCH = 512


class Bystanders:
    """One face that asks and one that answers, both in one thread."""

    def __init__(self, router, transport):
        self.asker = router.connect(transport)
        self.answerer = router.connect("unix")
        self.prefix = name(f"/bystander/{transport}")
        register(self.answerer, self.prefix)
        self.number = 0

    def exchange(self, seconds):
        """Octets of Data a second that came back, and the median time of an exchange in milliseconds."""
        template = data(self.prefix + [comp(bytes(8))], CONTENT)
        at = template.index(bytes(8))
        streams = {self.asker: b"", self.answerer: b""}
        for s in streams:
            s.setblocking(False)
        sent, times, octets = {}, [], 0
        begin = now = time.monotonic()
        asked = 0
        while now < begin + seconds + 0.3:
            due = int(min(now - begin, seconds) * RATE)
            while asked < due:
                number = self.number.to_bytes(8, "big")
                self.number += 1
                asked += 1
                sent[number] = now
                try:
                    self.asker.send(interest(self.prefix + [comp(number)], lifetime=1000))
                except BlockingIOError:
                    pass
            for s in select.select(list(streams), [], [], 0.0005)[0]:
                received = s.recv(1 << 18)
                if not received:
                    raise SystemExit("the router closed a bystander's face")
                buffer = streams[s] + received
                start = 0
                while (size := whole(buffer, start)) is not None:
                    packet = buffer[start:start + size]
                    start += size
                    found = packet.find(b"\x08\x08", 0, 80)
                    number = packet[found + 2:found + 10]
                    if s is self.answerer:
                        try:
                            s.send(template[:at] + number + template[at + 8:])
                        except BlockingIOError:
                            pass
                    elif number in sent:
                        times.append(time.monotonic() - sent.pop(number))
                        octets += len(packet)
                streams[s] = buffer[start:] if s.type == socket.SOCK_STREAM else b""
            now = time.monotonic()
        times.sort()
        return octets / seconds, 1000 * times[len(times) // 2] if times else float("inf")

    def close(self):
        self.asker.close()
        self.answerer.close()


def valid(rng):
    number = comp(rng.randbytes(8))
    kind = rng.randrange(4)
    if kind == 0:
        return interest(name("/hostile/x") + [number], lifetime=rng.choice([1, 4000, 3_600_000]))
    if kind == 1:
        return data(name("/hostile/x") + [number], rng.randbytes(rng.randrange(200)))
    if kind == 2:
        return lp(interest(name("/hostile/x") + [number]), token(rng.randbytes(6)))
    return interest(name("/localhost/nfd/rib/register") + [number], cbp=True, mbf=True, hint=[name("/a/b")])


def random_octets(rng):
    return rng.randbytes(rng.choice([1, 2, 30, 300, 1400]))


def mutated(rng):
    packet = bytearray(valid(rng))
    for _ in range(rng.randrange(1, 4)):
        packet[rng.randrange(len(packet))] = rng.randrange(256)
    return bytes(packet)


def truncated(rng):
    packet = valid(rng)
    return packet[:rng.randrange(1, len(packet))]


def hostile_lengths(rng):
    claimed = rng.choice([b"\xfd\xff\xff", b"\xfe\xff\xff\xff\xff", b"\xff" + b"\xff" * 8, b"\xfd\x22\x60"])
    return rng.choice([b"\x05", b"\x06", b"\x64"]) + claimed + rng.randbytes(rng.randrange(64))


def unsatisfiable(rng):
    """Each of another name, for an hour; a silent face has the route."""
    return interest(name("/silent") + [comp(rng.randbytes(8))], lifetime=3_600_000)


def nowhere(rng):
    return interest(name("/nowhere") + [comp(rng.randbytes(8))], lifetime=3_600_000)


def open_fragments(rng):
    """First fragments whose others never come."""
    sequence = tlv(81, rng.randbytes(8))
    return tlv(100, sequence + tlv(82, b"\x00") + tlv(83, b"\x03") + tlv(80, rng.randbytes(1000)))


def message(packet):
    """A packet as a WebSocket client sends it; the mask that changes nothing is a mask, too."""
    size = len(packet)
    return b"\x82" + (bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")) + bytes(4) + packet


def broken_frames(rng):
    """Frames of all kinds, whole and in pieces, with bits and lengths as they come."""
    kind = rng.choice([0x02, 0x00, 0x80, 0x89, 0x8a, 0x82, 0x82, 0x82, rng.randrange(256)])
    length = rng.choice([b"\x80", b"\x85", b"\xfd", b"\xfe\x00\x7e", b"\xff" + rng.randbytes(8), bytes([rng.randrange(256)])])
    return bytes([kind]) + length + rng.randbytes(rng.choice([4, 9, 130]))


def endless_handshakes(rng):
    """Requests that never end."""
    return HANDSHAKE[:rng.randrange(5, len(HANDSHAKE) - 1)]


ATTACKS = [
    ("random octets", random_octets), ("mutated packets", mutated), ("truncated packets", truncated),
    ("hostile lengths", hostile_lengths), ("unsatisfiable Interests", unsatisfiable), ("Interests nobody routes", nowhere),
    ("fragments without an end", open_fragments),
]
WEBSOCKET_ATTACKS = [("broken frames", broken_frames), ("handshakes without an end", endless_handshakes)]


def attack(router_address, make, transport, seconds, seed, count):
    """Sends what it can for a while; a stream the router has closed is opened again."""
    rng = random.Random(seed)
    if make is endless_handshakes:
        return shake_hands(router_address, rng, seconds, count)
    connect = lambda: Router.connect(router_address, transport)  # noqa: E731
    end, sock = time.monotonic() + seconds, connect()
    while time.monotonic() < end:
        packets = [make(rng) for _ in range(ATTACK_BATCH)]
        fresh_until = time.monotonic() + 0.25
        while time.monotonic() < min(end, fresh_until):
            try:
                if transport == "udp":
                    for packet in packets:
                        sock.send(packet)
                    count.value += len(packets)
                else:
                    sock.settimeout(0.2)
                    wrap = message if transport == "ws" and make is not broken_frames else bytes
                    sock.sendall(b"".join(map(wrap, packets)))
                    count.value += len(packets)
                    drain(sock)
                if make in (unsatisfiable, nowhere):
                    break  # new names each time
            except (BrokenPipeError, ConnectionError, socket.timeout, BlockingIOError):
                sock.close()
                try:
                    sock = connect()
                except OSError:
                    time.sleep(0.01)
    sock.close()


def shake_hands(router_address, rng, seconds, count):
    """Opens what connections it can, of which the last five hundred stay."""
    end, held = time.monotonic() + seconds, []
    while time.monotonic() < end:
        try:
            held.append(socket.create_connection(router_address.ws))
            held[-1].sendall(endless_handshakes(rng))
            count.value += 1
        except OSError:
            time.sleep(0.001)
        if len(held) > 500:
            held.pop(0).close()
    for each in held:
        each.close()


def drain(sock):
    sock.setblocking(False)
    try:
        while sock.recv(1 << 18):
            pass
    except BlockingIOError:
        pass


class Address:
    """What an attacker needs of the router, and can be sent to another process."""

    def __init__(self, router):
        self.unix, self.tcp, self.udp, self.ws = router.unix, router.tcp, router.udp, router.ws


def silent_face(router):
    """A face with a route that never answers, but reads."""
    sock = router.connect("unix")
    register(sock, name("/silent"))

    def read():
        sock.settimeout(0.5)
        while True:
            try:
                if not sock.recv(1 << 20):
                    return
            except socket.timeout:
                pass
    process = multiprocessing.Process(target=read, daemon=True)
    process.start()
    return process


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nw", default=BINARY)
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("SECONDS_PER_ATTACK", "1")))
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--transport", choices=["unix", "tcp", "udp", "ws"], action="append")
    parser.add_argument("--json", help="where to write the figures")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    seed = options.seed if options.seed is not None else random.randrange(1 << 32)
    router = Router(options.nw)
    silent = silent_face(router)
    bystanders = [Bystanders(router, "unix"), Bystanders(router, "tcp")]
    bystanders[0].exchange(0.5)
    rss_before = router.rss_kib()
    rows, failed = [], 0
    try:
        transports = options.transport or ["udp", "tcp", "unix", "ws"]
        for title, make in ATTACKS + (WEBSOCKET_ATTACKS if "ws" in transports else []):
            for transport in transports if (title, make) in ATTACKS else ["ws"]:
                row = fire(router, bystanders, title, make, transport, options.seconds, seed)
                rows.append(row)
                failed += not row["ok"]
                print(f'{"ok    " if row["ok"] else "FAILED"} {title} over {transport}: {row["kept"]:.2f} of the throughput kept, '
                      f'median {row["median_ms"]:.1f} ms, {row["packets"]} packets of attack', flush=True)
        growth = router.rss_kib() - rss_before
        if growth > GROWTH_MAX_KIB:
            print(f"FAILED the router grew by {growth} KiB")
            failed += 1
    finally:
        for each in bystanders:
            each.close()
        silent.terminate()
        silent.join()
        code = router.stop()
    if code != 0:
        print(f"FAILED the router ended with {code}")
        failed += 1
    if options.json:
        with open(options.json, "w") as f:
            json.dump(rows, f, indent=1)
    print(f"{len(rows) + 2 - failed} passed, {failed} failed")
    if failed:
        print(f"repeat with --seed {seed}; log: {router.scratch}/log", file=sys.stderr)
        raise SystemExit(1)
    shutil.rmtree(router.scratch)


def fire(router, bystanders, title, make, transport, seconds, seed):
    """One attack from one face; the worse of two bystanders counts. Tried again once, as machines are shared."""
    for attempt in range(2):
        kept, median_ms, packets = [], 0.0, 0
        for each in bystanders:
            before, _ = each.exchange(seconds / 2)
            count = multiprocessing.Value("Q", 0)
            address = Address(router)
            attacker = multiprocessing.Process(target=attack, args=(address, make, transport, seconds + 0.6, seed, count))
            attacker.start()
            time.sleep(0.2)
            during, median = each.exchange(seconds)
            attacker.join()
            kept.append(during / before if before else 0.0)
            median_ms, packets = max(median_ms, median), packets + count.value
        ok = min(kept) >= KEPT_LEAST and packets > 0 and router.process.poll() is None
        if ok:
            break
    return {"attack": title, "transport": transport, "kept": min(kept), "median_ms": median_ms, "packets": packets, "ok": ok}


if __name__ == "__main__":
    main()
