"""Attacks on a live router that is half loaded, by peers that send as much as a core can.

Bystanders are `nw bench generate` and `nw bench answer` over Unix and TCP sockets, at half of what the router forwarded for them when it was alone
in the same run. Router, bystanders and attackers share the machine's processors, so each attack is made twice: on another router,
which takes processors away and nothing else (the control), and on the bystanders' own. What the second lets through must be KEPT_LEAST of what the
first did. Each counts once: there is no second try.

The router must live, answer, forward for all afterwards, and not grow. Everything goes over sockets in directories of its own and loopback;
attackers are processes of this one and stop after a few seconds.
"""

import argparse
import json
import multiprocessing
import os
import random
import resource
import shutil
import socket
import struct
import subprocess
import sys
import time

from rig import BINARY, HANDSHAKE, Router, register
from kit import management as mgmt
from kit.packets import data, interest, lp, signed_v3, token
from kit.tlv import comp, name, tlv

KEPT_LEAST = 0.5
# The same where the attack keeps the table of pending Interests full, and each Interest of a bystander needs another to give way. Measured on two
# cores that all share: 0.45 to 0.86 with 16 faces over UDP, 0.72 or more otherwise.
KEPT_LEAST_FULL = 0.35
ROUNDS = 2
# Where the table is kept full: single rounds of half a second vary from 0.3 to 1, as two processors serve all of this.
ROUNDS_FULL = 6
SETTLE_MOST_S = 15
WAYS = ("unix", "tcp")
BYSTANDER_FACES = 3  # two that ask and one that answers
GROWTH_MAX_KIB = 400 << 10  # tables at their bounds, no more
BATCH = 64
BATCHES = 16
UDP_SEGMENT = 103  # of linux/udp.h: one call sends many datagrams of one size

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


def random_bytes(rng):
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


def long_names(rng):
    """Of the largest class of slots, for an hour."""
    return interest(name("/silent") + [comp(b"x" * 1300), comp(rng.randbytes(8))], lifetime=3_600_000)


def long_tokens(rng):
    return lp(unsatisfiable(rng), token(rng.randbytes(32)))


def false_acks(rng):
    """Acknowledges what was never sent, a hundred at a time, and asks for as much: a sequence that jumps."""
    acks = b"".join(tlv(0x344, rng.randbytes(8)) for _ in range(100))
    return tlv(100, tlv(0x348, rng.randbytes(8)) + acks)


def sequences(rng):
    """Packets with sequence numbers at random, each to be acknowledged."""
    fields = tlv(81, rng.randbytes(8)) + tlv(0x348, rng.randbytes(8))
    return tlv(100, fields + tlv(80, interest(name("/nowhere") + [comp(rng.randbytes(8))])))


def replies(rng):
    """Data and Nacks that nothing asked for, with tokens drawn at random."""
    packet = data(name("/bystander") + [comp(rng.randbytes(8))], b"")
    if rng.randrange(2):
        return lp(packet, token(rng.randbytes(6)))
    nack = tlv(0x320, tlv(0x321, b"\x32"))
    return lp(interest(name("/bystander") + [comp(rng.randbytes(8))]), nack + token(rng.randbytes(6)))


def commands(rng):
    """Commands with signatures that do not fit."""
    parameters = comp(mgmt.parameters(name=name("/hostile")))
    return signed_v3(mgmt.LOCAL + [comp("rib"), comp("register"), parameters], sig_value=rng.randbytes(32))[0]


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


# Title, what is sent, over which transports, through how many faces.
ATTACKS = [
    ("random bytes", random_bytes, ["udp", "tcp", "unix", "ws", "ether"], 1),
    ("mutated packets", mutated, ["udp", "tcp", "unix", "ws", "ether"], 1),
    ("truncated packets", truncated, ["udp", "tcp"], 1),
    ("hostile lengths", hostile_lengths, ["udp", "unix"], 1),
    ("Interests for an hour", unsatisfiable, ["tcp", "ws", "ether"], 1),
    ("Interests for an hour", unsatisfiable, ["udp"], 16),
    ("Interests for an hour", unsatisfiable, ["unix"], 4),
    ("long Interests for an hour", long_names, ["udp", "unix"], 4),
    ("long tokens", long_tokens, ["udp", "unix"], 4),
    ("Interests nobody routes", nowhere, ["udp", "tcp"], 1),
    ("replies to nothing", replies, ["udp", "unix"], 1),
    ("false commands", commands, ["unix"], 4),
    ("fragments without an end", open_fragments, ["udp", "tcp", "ether"], 1),
    ("false acknowledgements", false_acks, ["udp"], 4),
    ("sequence numbers at random", sequences, ["udp"], 4),
    ("ports without number", unsatisfiable, ["ports"], 1),
    ("broken frames", broken_frames, ["ws"], 1),
    ("handshakes without an end", endless_handshakes, ["handshakes"], 1),
]


class Attack:
    """One process that sends what it can to a router for a while."""

    def __init__(self, router, make, transport, faces, seconds, seed):
        self.count = multiprocessing.Value("Q", 0)
        arguments = (router, make, transport, faces, seconds, seed, self.count)
        self.process = multiprocessing.Process(target=flood, args=arguments, daemon=True)
        self.process.start()

    def join(self):
        self.process.join()
        return self.count.value


def blobs(make, rng, transport):
    """Packets in runs that one call sends: for datagrams, of one size each."""
    packets = [make(rng) for _ in range(BATCH * BATCHES)]
    if transport != "udp":
        wrap = message if transport == "ws" and make is not broken_frames else bytes
        return [(0, BATCH, b"".join(map(wrap, packets[at:at + BATCH]))) for at in range(0, len(packets), BATCH)]
    sizes = {}
    for packet in packets:
        sizes.setdefault(len(packet), []).append(packet)
    runs = []
    for size, same in sizes.items():
        most = max(1, min(BATCH, 60_000 // size))
        runs += [(size, len(same[at:at + most]), b"".join(same[at:at + most])) for at in range(0, len(same), most)]
    return runs


def flood(router, make, transport, faces, seconds, seed, count):
    """What runs are sent by each of so many faces in turn; streams the router has closed are opened again."""
    rng = random.Random(seed)
    end = time.monotonic() + seconds
    if transport == "handshakes":
        return shake_hands(router, rng, end, count)
    if transport == "ports":
        return open_ports(router, make, rng, end, count)
    if transport == "ether":
        return send_frames(router, make, rng, end, count)
    socks = [router.connect(transport) for _ in range(faces)]
    renewed = Renewed(make, transport) if make in NEW_NAMES else None
    while time.monotonic() < end:
        fresh_until = time.monotonic() + 0.2
        runs = [] if renewed else blobs(make, rng, transport)
        while time.monotonic() < min(end, fresh_until):
            for at, sock in enumerate(socks):
                size, packets, run = renewed.run(rng) if renewed else runs[rng.randrange(len(runs))]
                try:
                    send(sock, size, run)
                    count.value += packets
                except (BlockingIOError, socket.timeout):
                    pass
                except OSError:
                    sock.close()
                    try:
                        socks[at] = router.connect(transport)
                    except OSError:
                        time.sleep(0.01)
    for sock in socks:
        sock.close()


# What is pending already is not asked twice: each packet of these has a name of its own.
NEW_NAMES = (unsatisfiable, long_names, long_tokens, nowhere)


class Renewed:
    """Runs of one packet over and over, each time with another component of eight bytes."""

    MARK = b"\xa5" * 8

    class Marking(random.Random):
        def randbytes(self, n):
            return Renewed.MARK if n == 8 else super().randbytes(n)

    def __init__(self, make, transport):
        packet = make(self.Marking(1))
        packet = message(packet) if transport == "ws" else packet
        self.size, self.at = len(packet), packet.index(self.MARK)
        self.packets = min(BATCH, 60_000 // self.size)
        self.blob = bytearray(packet * self.packets)
        self.segment = self.size if transport == "udp" else 0

    def run(self, rng):
        numbers = rng.randbytes(8 * self.packets)
        for packet in range(self.packets):
            start = packet * self.size + self.at
            self.blob[start:start + 8] = numbers[8 * packet:8 * packet + 8]
        return self.segment, self.packets, self.blob


def send(sock, size, run):
    if size:
        segment = (socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("H", size))
        sock.sendmsg([run], [segment] if len(run) > size else [])
        return
    sock.settimeout(0.2)
    sock.sendall(run)
    drain(sock)


def send_frames(router, make, rng, end, count):
    """Ethernet frames from 64 addresses, to the card and to the group."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
        sock.bind((router.far_end, 0))
        sources = [b"\x02" + rng.randbytes(5) for _ in range(64)]
        targets = [router.card_address, bytes.fromhex("01005e0017aa")]
        while time.monotonic() < end:
            for source in sources:
                sock.send(rng.choice(targets) + source + b"\x86\x24" + make(rng))
            count.value += len(sources)


def open_ports(router, make, rng, end, count):
    """From ever new ports, each of which is a face."""
    while time.monotonic() < end:
        with router.connect("udp") as sock:
            sock.send(make(rng))
            count.value += 1


def shake_hands(router, rng, end, count):
    """Opens what connections it can, of which the last five hundred stay."""
    held = []
    while time.monotonic() < end:
        try:
            held.append(socket.create_connection(router.ws))
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


class SilentFace:
    """A face with a route that never answers, but reads."""

    def __init__(self, router):
        self.sock = router.connect("unix")
        register(self.sock, name("/silent"))
        self.process = multiprocessing.Process(target=self.read, daemon=True)
        self.process.start()

    def read(self):
        self.sock.settimeout(None)
        while self.sock.recv(1 << 20):
            pass

    def stop(self):
        self.process.terminate()
        self.process.join()


class Bystanders:
    """One program that answers, and one by each transport that asks."""

    def __init__(self, router):
        self.router = router
        self.ways = {"unix": f"unix://{router.unix}", "tcp": f"tcp4://127.0.0.1:{router.tcp[1]}"}
        command = [router.binary, "bench", "answer", "--socket", self.ways["unix"], *self.workload()]
        self.answerer = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.5)

    def workload(self):
        return ["--prefix", "/bystander", "--names", "10", "--payload", "1000"]

    def ask(self, seconds, load):
        """Figures of each, asking for so many seconds at the same time."""
        asking = []
        for way in self.ways.values():
            command = [self.router.binary, "bench", "generate", "--socket", way, *self.workload(), "--hit-ratio", "0",
                       "--seconds", str(seconds), "--json", *load]
            asking.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        figures = {}
        for way, process in zip(self.ways, asking):
            out, err = process.communicate(timeout=60)
            if process.returncode == 0:
                figures[way] = json.loads(out)
            else:
                print(f"a bystander over {way} ended: {err.strip()}", flush=True)
                figures[way] = NOTHING
        return figures

    def stop(self):
        self.answerer.terminate()
        self.answerer.wait(10)


# What a bystander has when not even its first Interests were answered.
NOTHING = {"asked": 1, "answered": 0, "seconds": 1, "latency_us": {"p50": float("inf")}}


def kept_least(make, transport, faces):
    """What must be kept: of a router that serves its sockets in turn, bystanders' share beside so many others, where that is below their load."""
    attacking = 1 if transport in ("udp", "ports", "ether") else faces
    fair = BYSTANDER_FACES / (BYSTANDER_FACES + attacking)
    least = KEPT_LEAST_FULL if make in (unsatisfiable, long_names) else KEPT_LEAST
    return least * min(1.0, 2 * fair)


def answered_share(figures):
    return figures["answered"] / max(1, figures["asked"] + figures.get("unsent", 0))


class Trial:
    """A router with bystanders, another one to be attacked for comparison, and what was found."""

    def __init__(self, options, seed):
        udp = "reliability = true\n"
        self.options, self.seed, self.rows = options, seed, []
        self.router, self.other = (self.make_router(udp, number) for number in (0, 1))
        self.silent = [SilentFace(router) for router in (self.router, self.other)]
        self.bystanders = Bystanders(self.router)
        alone = self.bystanders.ask(1.5, ["--window", "32"])
        self.capacity = {way: figures["answered"] / figures["seconds"] for way, figures in alone.items()}
        # Each at half of what it had while both asked for all they could get.
        self.rate = max(100, int(min(self.capacity.values()) / 2))
        print(f"alone: {', '.join(f'{way} {rate:.0f}/s' for way, rate in self.capacity.items())}; bystanders ask {self.rate}/s each")
        self.rss_before = self.router.rss_kib()

    def make_router(self, udp, number):
        """A router, with a virtual cable to a card of its own where namespaces are to be had."""
        if not self.options.in_namespace:
            return Router(self.options.nw, udp=udp)
        near, far = f"near{number}", f"far{number}"
        for command in (f"link add {near} type veth peer name {far}", f"link set {near} up", f"link set {far} up"):
            subprocess.run(["ip", *command.split()], check=True)
        config = f'[faces.ethernet]\nlisten = true\nmulticast = true\nallow = ["{near}"]\n'
        router = Router(self.options.nw, config, udp=udp)
        shown = subprocess.run(["ip", "-json", "link", "show", near], capture_output=True, check=True).stdout
        router.card_address = bytes.fromhex(json.loads(shown)[0]["address"].replace(":", ""))
        router.far_end = far
        return router

    def under(self, router, make, transport, faces):
        """The shares that bystanders get answered while `router` is attacked, their slowest median, and packets of the attack."""
        seconds = self.options.seconds / ROUNDS
        attack = Attack(router, make, transport, faces, seconds + 0.6, self.seed)
        time.sleep(0.2)
        figures = self.bystanders.ask(seconds, ["--rate", str(self.rate)])
        packets = attack.join()
        self.settle(router)
        shares = {way: answered_share(each) for way, each in figures.items()}
        median_ms = max(each["latency_us"]["p50"] for each in figures.values()) / 1000
        return shares, median_ms, packets

    def settle(self, router):
        """Waits until what an attack left in sockets and tables no longer holds up others, so that trials are apart."""
        end = time.monotonic() + SETTLE_MOST_S
        while time.monotonic() < end:
            begin = time.monotonic()
            if router.nw("status", "--json").returncode == 0 and time.monotonic() - begin < 0.5:
                return
        print(f"       not at rest {SETTLE_MOST_S} s after an attack", flush=True)

    def try_attack(self, title, make, transport, faces):
        control, shares, median_ms, packets = dict.fromkeys(WAYS, 0.0), dict.fromkeys(WAYS, 0.0), 0.0, 0
        # In turn, as other programs of the machine come and go.
        rounds = ROUNDS_FULL if make in (unsatisfiable, long_names) else ROUNDS
        for _ in range(rounds):
            here, _, _ = self.under(self.other, make, transport, faces)
            there, median, sent = self.under(self.router, make, transport, faces)
            control = {way: control[way] + here[way] / rounds for way in WAYS}
            shares = {way: shares[way] + there[way] / rounds for way in WAYS}
            median_ms, packets = max(median_ms, median), packets + sent
        kept = min(shares[way] / max(control[way], 0.01) for way in shares)
        alive = self.router.process.poll() is None
        row = {"attack": title, "transport": transport, "faces": faces, "kept": kept, "shares": shares, "control": control,
               "median_ms": median_ms, "packets": packets, "ok": kept >= kept_least(make, transport, faces) and packets > 0 and alive}
        self.rows.append(row)
        verdict = "ok    " if row["ok"] else "FAILED"
        print(f"{verdict} {title} over {transport}, {faces} faces: {kept:.2f} of the control's throughput kept, "
              f"median {median_ms:.1f} ms, {packets} packets of attack", flush=True)
        return row["ok"]

    def end(self):
        """What failed once all attacks are over."""
        failures = []
        quiet = self.bystanders.ask(1, ["--rate", str(self.rate)])
        for way, figures in quiet.items():
            if answered_share(figures) < 0.9:
                failures.append(f"afterwards {answered_share(figures):.2f} of the throughput is there over {way}")
        if self.router.nw("status").returncode != 0:
            failures.append("nw status does not answer")
        growth = self.router.rss_kib() - self.rss_before
        if growth > GROWTH_MAX_KIB:
            failures.append(f"the router grew by {growth} KiB")
        return failures

    def stop(self):
        self.bystanders.stop()
        for silent in self.silent:
            silent.stop()
        return [router.stop() for router in (self.router, self.other)]


def enter_namespace():
    """Starts this program again in a network namespace of its own; returns False where that can't be."""
    if os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("ip")):
        return False
    if subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode != 0:
        return False
    inner = 'ip link set lo up && exec "$@"'
    os.execvp("unshare", ["unshare", "--net", "sh", "-c", inner, "sh", sys.executable, *sys.argv, "--in-namespace"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nw", default=BINARY)
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("SECONDS_PER_ATTACK", "1")))
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", help="attacks with this in their titles")
    parser.add_argument("--json", help="where to write the figures")
    parser.add_argument("--in-namespace", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.in_namespace and not enter_namespace():
        print("skipped: attacks by Ethernet, which need root, unshare and ip")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    seed = options.seed if options.seed is not None else random.randrange(1 << 32)
    trial, failed = Trial(options, seed), 0
    try:
        for title, make, transports, faces in ATTACKS:
            if options.only and options.only not in title:
                continue
            for transport in transports:
                if transport == "ether" and not options.in_namespace:
                    continue
                failed += not trial.try_attack(title, make, transport, faces)
        failures = trial.end()
    finally:
        codes = trial.stop()
    failures += [f"a router ended with {code}" for code in codes if code != 0]
    for failure in failures:
        print(f"FAILED {failure}")
    failed += len(failures)
    if options.json:
        with open(options.json, "w") as f:
            json.dump(trial.rows, f, indent=1)
    print(f"{len(trial.rows) + len(failures) - failed} passed, {failed} failed")
    if failed:
        print(f"repeat with --seed {seed}; log: {trial.router.scratch}/log", file=sys.stderr)
        raise SystemExit(1)
    for router in (trial.router, trial.other):
        shutil.rmtree(router.scratch)


if __name__ == "__main__":
    main()
