"""Attacks on a live router at half load, by peers that send as much as a core can.

Bystanders are `nw bench generate` and `nw bench answer` over Unix and TCP sockets, at half of the
rate that the router forwarded for them when it was alone in the same run. Router, bystanders and
attackers share the machine's processors, so each attack is made twice: on another router, which
only takes processor time (the control), and on the bystanders' own. The throughput under the second
must be at least a share of that under the first, which bounds.toml has. Each attack is made once:
failures are not retried.

The router must live, answer, forward for all afterwards, and not grow. Everything uses sockets in
directories of its own and loopback; attackers are child processes and stop after a few seconds.
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
from bounds import BOUNDS
from kit import management as mgmt
from kit.packets import data, interest, lp, signed_v3, token
from kit.tlv import comp, name, tlv

KEPT_SHARE_MIN = BOUNDS["hostile.kept_share"]["at_least"]
# The same for attacks that keep the table of pending Interests full, so that each Interest of a
# bystander evicts another.
KEPT_SHARE_MIN_FULL = BOUNDS["hostile/full_table.kept_share"]["at_least"]
ROUNDS = 2
# For a full table: single rounds of half a second vary from 0.3 to 1, as two processors serve all
# processes.
ROUNDS_FULL = 6
SETTLE_MAX_S = 15
CLIENTS = ("unix", "tcp")
BYSTANDER_FACES = 3  # two consumers and one producer
GROWTH_MAX_KIB = 400 << 10  # tables at their bounds
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
    return interest(
        name("/localhost/nfd/rib/register") + [number], cbp=True, mbf=True, hint=[name("/a/b")]
    )


def random_bytes(rng):
    return rng.randbytes(rng.choice([1, 2, 30, 300, 1400]))


def mutated(rng):
    packet = bytearray(valid(rng))
    for _ in range(rng.randrange(1, 4)):
        packet[rng.randrange(len(packet))] = rng.randrange(256)
    return bytes(packet)


def truncated(rng):
    packet = valid(rng)
    return packet[: rng.randrange(1, len(packet))]


def hostile_lengths(rng):
    claimed = rng.choice(
        [b"\xfd\xff\xff", b"\xfe\xff\xff\xff\xff", b"\xff" + b"\xff" * 8, b"\xfd\x22\x60"]
    )
    return rng.choice([b"\x05", b"\x06", b"\x64"]) + claimed + rng.randbytes(rng.randrange(64))


def unsatisfiable(rng):
    """Each has a new name and a lifetime of an hour; a silent face has the route."""
    return interest(name("/silent") + [comp(rng.randbytes(8))], lifetime=3_600_000)


def long_names(rng):
    """Names of the largest slot class, with a lifetime of an hour."""
    return interest(
        name("/silent") + [comp(b"x" * 1300), comp(rng.randbytes(8))], lifetime=3_600_000
    )


def long_tokens(rng):
    return lp(unsatisfiable(rng), token(rng.randbytes(32)))


def false_acks(rng):
    """Acknowledges 100 packets that were never sent, with a sequence number that jumps."""
    acks = b"".join(tlv(0x344, rng.randbytes(8)) for _ in range(100))
    return tlv(100, tlv(0x348, rng.randbytes(8)) + acks)


def sequences(rng):
    """Packets with random sequence numbers, each of which must be acknowledged."""
    fields = tlv(81, rng.randbytes(8)) + tlv(0x348, rng.randbytes(8))
    return tlv(100, fields + tlv(80, interest(name("/nowhere") + [comp(rng.randbytes(8))])))


def replies(rng):
    """Unsolicited Data and Nacks, with random tokens."""
    packet = data(name("/bystander") + [comp(rng.randbytes(8))], b"")
    if rng.randrange(2):
        return lp(packet, token(rng.randbytes(6)))
    nack = tlv(0x320, tlv(0x321, b"\x32"))
    return lp(
        interest(name("/bystander") + [comp(rng.randbytes(8))]), nack + token(rng.randbytes(6))
    )


def commands(rng):
    """Commands with wrong signatures."""
    parameters = comp(mgmt.parameters(name=name("/hostile")))
    return signed_v3(
        mgmt.LOCAL + [comp("rib"), comp("register"), parameters], sig_value=rng.randbytes(32)
    )[0]


def nowhere(rng):
    return interest(name("/nowhere") + [comp(rng.randbytes(8))], lifetime=3_600_000)


def open_fragments(rng):
    """First fragments of packets that never complete."""
    sequence = tlv(81, rng.randbytes(8))
    return tlv(100, sequence + tlv(82, b"\x00") + tlv(83, b"\x03") + tlv(80, rng.randbytes(1000)))


def message(packet):
    """A packet as a WebSocket client sends it, with a mask of zeros."""
    size = len(packet)
    return (
        b"\x82"
        + (bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big"))
        + bytes(4)
        + packet
    )


def broken_frames(rng):
    """Frames of all kinds, complete and cut, with random bits and lengths."""
    kind = rng.choice([0x02, 0x00, 0x80, 0x89, 0x8A, 0x82, 0x82, 0x82, rng.randrange(256)])
    length = rng.choice(
        [
            b"\x80",
            b"\x85",
            b"\xfd",
            b"\xfe\x00\x7e",
            b"\xff" + rng.randbytes(8),
            bytes([rng.randrange(256)]),
        ]
    )
    return bytes([kind]) + length + rng.randbytes(rng.choice([4, 9, 130]))


def endless_handshakes(rng):
    """Requests that never end."""
    return HANDSHAKE[: rng.randrange(5, len(HANDSHAKE) - 1)]


# Title, packet builder, transports, number of faces.
ATTACKS = [
    ("random bytes", random_bytes, ["udp", "tcp", "unix", "ws", "ether"], 1),
    ("mutated packets", mutated, ["udp", "tcp", "unix", "ws", "ether"], 1),
    ("truncated packets", truncated, ["udp", "tcp"], 1),
    ("hostile lengths", hostile_lengths, ["udp", "unix"], 1),
    ("Interests with a lifetime of an hour", unsatisfiable, ["tcp", "ws", "ether"], 1),
    ("Interests with a lifetime of an hour", unsatisfiable, ["udp"], 16),
    ("Interests with a lifetime of an hour", unsatisfiable, ["unix"], 4),
    ("long Interests with a lifetime of an hour", long_names, ["udp", "unix"], 4),
    ("long tokens", long_tokens, ["udp", "unix"], 4),
    ("Interests without a route", nowhere, ["udp", "tcp"], 1),
    ("unsolicited replies", replies, ["udp", "unix"], 1),
    ("false commands", commands, ["unix"], 4),
    ("incomplete fragments", open_fragments, ["udp", "tcp", "ether"], 1),
    ("false acknowledgements", false_acks, ["udp"], 4),
    ("random sequence numbers", sequences, ["udp"], 4),
    ("countless source ports", unsatisfiable, ["ports"], 1),
    ("broken frames", broken_frames, ["ws"], 1),
    ("endless handshakes", endless_handshakes, ["handshakes"], 1),
]


class Attack:
    """A process that attacks a router for some seconds."""

    def __init__(self, router, make, transport, faces, seconds, seed):
        self.count = multiprocessing.Value("Q", 0)
        arguments = (router, make, transport, faces, seconds, seed, self.count)
        self.process = multiprocessing.Process(target=flood, args=arguments, daemon=True)
        self.process.start()

    def join(self):
        self.process.join()
        return self.count.value


def build_runs(make, rng, transport):
    """Returns packets in runs for one system call each; for datagrams, a run has packets of one
    size."""
    packets = [make(rng) for _ in range(BATCH * BATCHES)]
    if transport != "udp":
        wrap = message if transport == "ws" and make is not broken_frames else bytes
        return [
            (0, BATCH, b"".join(map(wrap, packets[at : at + BATCH])))
            for at in range(0, len(packets), BATCH)
        ]
    sizes = {}
    for packet in packets:
        sizes.setdefault(len(packet), []).append(packet)
    runs = []
    for size, equal_sized in sizes.items():
        count_max = max(1, min(BATCH, 60_000 // size))
        runs += [
            (
                size,
                len(equal_sized[at : at + count_max]),
                b"".join(equal_sized[at : at + count_max]),
            )
            for at in range(0, len(equal_sized), count_max)
        ]
    return runs


def flood(router, make, transport, faces, seconds, seed, count):
    """Sends runs over each face in turn; streams that the router closed are opened again."""
    rng = random.Random(seed)
    end = time.monotonic() + seconds
    if transport == "handshakes":
        return shake_hands(router, rng, end, count)
    if transport == "ports":
        return open_ports(router, make, rng, end, count)
    if transport == "ether":
        return send_frames(router, make, rng, end, count)
    socks = [router.connect(transport) for _ in range(faces)]
    renamed_runs = RenamedRuns(make, transport) if make in NEW_NAMES else None
    while time.monotonic() < end:
        fresh_until = time.monotonic() + 0.2
        runs = [] if renamed_runs else build_runs(make, rng, transport)
        while time.monotonic() < min(end, fresh_until):
            for at, sock in enumerate(socks):
                size, packets, run = (
                    renamed_runs.run(rng) if renamed_runs else runs[rng.randrange(len(runs))]
                )
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


# Interests already pending are aggregated, so each of these packets has its own name.
NEW_NAMES = (unsatisfiable, long_names, long_tokens, nowhere)


class RenamedRuns:
    """Runs of copies of one packet, each with another name component of eight bytes."""

    MARK = b"\xa5" * 8

    class Marking(random.Random):
        def randbytes(self, n):
            return RenamedRuns.MARK if n == 8 else super().randbytes(n)

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
            self.blob[start : start + 8] = numbers[8 * packet : 8 * packet + 8]
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
    """Sends Ethernet frames from 64 addresses, to the card and to the group."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
        sock.bind((router.far_end, 0))
        sources = [b"\x02" + rng.randbytes(5) for _ in range(64)]
        targets = [router.card_address, bytes.fromhex("01005e0017aa")]
        while time.monotonic() < end:
            for source in sources:
                sock.send(rng.choice(targets) + source + b"\x86\x24" + make(rng))
            count.value += len(sources)


def open_ports(router, make, rng, end, count):
    """Sends from new ports, each of which becomes a face."""
    while time.monotonic() < end:
        with router.connect("udp") as sock:
            sock.send(make(rng))
            count.value += 1


def shake_hands(router, rng, end, count):
    """Opens connections as fast as possible; the last 500 stay open."""
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
    for connection in held:
        connection.close()


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
    """One producer, and one consumer by each transport."""

    def __init__(self, router):
        self.router = router
        self.clients = {"unix": f"unix://{router.unix}", "tcp": f"tcp4://127.0.0.1:{router.tcp[1]}"}
        command = [
            router.binary,
            "bench",
            "answer",
            "--socket",
            self.clients["unix"],
            *self.workload(),
        ]
        self.answerer = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(0.5)

    def workload(self):
        return ["--prefix", "/bystander", "--names", "10", "--payload", "1000"]

    def measure(self, seconds, load):
        """Returns the result of each consumer; all send for the same seconds."""
        processes = []
        for client in self.clients.values():
            command = [
                self.router.binary,
                "bench",
                "generate",
                "--socket",
                client,
                *self.workload(),
                "--hit-ratio",
                "0",
                "--seconds",
                str(seconds),
                "--json",
                *load,
            ]
            processes.append(
                subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            )
        figures = {}
        for client, process in zip(self.clients, processes):
            out, err = process.communicate(timeout=60)
            if process.returncode == 0:
                figures[client] = json.loads(out)
            else:
                print(f"a bystander over {client} ended: {err.strip()}", flush=True)
                figures[client] = NOTHING
        return figures

    def stop(self):
        self.answerer.terminate()
        self.answerer.wait(10)


# The result of a bystander whose first Interests were not answered.
NOTHING = {"asked": 1, "answered": 0, "seconds": 1, "latency_us": {"p50": float("inf")}}


def kept_share_min(make, transport, faces):
    """Returns the share of throughput that must be kept: a router serves its sockets in turn, so
    the bystanders' fair share counts if it is below their load."""
    attacking = 1 if transport in ("udp", "ports", "ether") else faces
    fair = BYSTANDER_FACES / (BYSTANDER_FACES + attacking)
    share = KEPT_SHARE_MIN_FULL if make in (unsatisfiable, long_names) else KEPT_SHARE_MIN
    return share * min(1.0, 2 * fair)


def answered_share(figures):
    return figures["answered"] / max(1, figures["asked"] + figures.get("unsent", 0))


class Trial:
    """A router with bystanders, another one to attack as the control, and the results."""

    def __init__(self, options, seed):
        udp = "reliability = true\n"
        self.options, self.seed, self.rows = options, seed, []
        self.router, self.other = (self.make_router(udp, number) for number in (0, 1))
        self.silent = [SilentFace(router) for router in (self.router, self.other)]
        self.bystanders = Bystanders(self.router)
        alone = self.bystanders.measure(1.5, ["--window", "32"])
        self.capacity = {
            client: figures["answered"] / figures["seconds"] for client, figures in alone.items()
        }
        # Each at half of its rate when both were unlimited.
        self.rate = max(100, int(min(self.capacity.values()) / 2))
        print(
            f"alone: {', '.join(f'{client} {rate:.0f}/s' for client, rate in self.capacity.items())}; each bystander sends {self.rate}/s"
        )
        self.rss_before = self.router.rss_kib()

    def make_router(self, udp, number):
        """Starts a router, with a veth interface of its own if namespaces are available."""
        if not self.options.in_namespace:
            return Router(self.options.nw, udp=udp)
        near, far = f"near{number}", f"far{number}"
        for command in (
            f"link add {near} type veth peer name {far}",
            f"link set {near} up",
            f"link set {far} up",
        ):
            subprocess.run(["ip", *command.split()], check=True)
        config = f'[faces.ethernet]\nlisten = true\nmulticast = true\nallow = ["{near}"]\n'
        router = Router(self.options.nw, config, udp=udp)
        shown = subprocess.run(
            ["ip", "-json", "link", "show", near], capture_output=True, check=True
        ).stdout
        router.card_address = bytes.fromhex(json.loads(shown)[0]["address"].replace(":", ""))
        router.far_end = far
        return router

    def measure_under_attack(self, router, make, transport, faces):
        """Returns the answered share of each bystander while `router` is attacked, their highest
        median latency, and the attack's packets."""
        seconds = self.options.seconds / ROUNDS
        attack = Attack(router, make, transport, faces, seconds + 0.6, self.seed)
        time.sleep(0.2)
        figures = self.bystanders.measure(seconds, ["--rate", str(self.rate)])
        packets = attack.join()
        self.wait_idle(router)
        shares = {client: answered_share(result) for client, result in figures.items()}
        median_ms = max(result["latency_us"]["p50"] for result in figures.values()) / 1000
        return shares, median_ms, packets

    def wait_idle(self, router):
        """Waits until queues and tables are processed after an attack, so that trials are
        independent."""
        end = time.monotonic() + SETTLE_MAX_S
        while time.monotonic() < end:
            begin = time.monotonic()
            if router.nw("status", "--json").returncode == 0 and time.monotonic() - begin < 0.5:
                return
        print(f"       still busy {SETTLE_MAX_S} s after an attack", flush=True)

    def try_attack(self, title, make, transport, faces):
        control, shares, median_ms, packets = (
            dict.fromkeys(CLIENTS, 0.0),
            dict.fromkeys(CLIENTS, 0.0),
            0.0,
            0,
        )
        # Control and attack alternate, because the load of other programs varies.
        rounds = ROUNDS_FULL if make in (unsatisfiable, long_names) else ROUNDS
        for _ in range(rounds):
            control_shares, _, _ = self.measure_under_attack(self.other, make, transport, faces)
            attacked_shares, median, sent = self.measure_under_attack(
                self.router, make, transport, faces
            )
            control = {
                client: control[client] + control_shares[client] / rounds for client in CLIENTS
            }
            shares = {
                client: shares[client] + attacked_shares[client] / rounds for client in CLIENTS
            }
            median_ms, packets = max(median_ms, median), packets + sent
        kept = min(shares[client] / max(control[client], 0.01) for client in shares)
        alive = self.router.process.poll() is None
        row = {
            "attack": title,
            "transport": transport,
            "faces": faces,
            "kept": kept,
            "shares": shares,
            "control": control,
            "median_ms": median_ms,
            "packets": packets,
            "ok": kept >= kept_share_min(make, transport, faces) and packets > 0 and alive,
        }
        self.rows.append(row)
        verdict = "ok    " if row["ok"] else "FAILED"
        print(
            f"{verdict} {title} over {transport}, {faces} faces: {kept:.2f} of the control's throughput kept, "
            f"median {median_ms:.1f} ms, {packets} packets of attack",
            flush=True,
        )
        return row["ok"]

    def end(self):
        """Returns the failures found after all attacks."""
        failures = []
        quiet = self.bystanders.measure(1, ["--rate", str(self.rate)])
        for client, figures in quiet.items():
            if answered_share(figures) < 0.9:
                failures.append(
                    f"afterwards {answered_share(figures):.2f} of the throughput remains over {client}"
                )
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
    """Restarts this program in a network namespace of its own; returns False if that is not
    possible."""
    if os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("ip")):
        return False
    if (
        subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode
        != 0
    ):
        return False
    inner = 'ip link set lo up && exec "$@"'
    os.execvp(
        "unshare",
        ["unshare", "--net", "sh", "-c", inner, "sh", sys.executable, *sys.argv, "--in-namespace"],
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nw", default=BINARY)
    parser.add_argument(
        "--seconds", type=float, default=float(os.environ.get("SECONDS_PER_ATTACK", "1"))
    )
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", help="attacks with this in their titles")
    parser.add_argument("--json", help="where to write the figures")
    parser.add_argument(
        "--short", action="store_true", help="each kind of attack once, by one transport"
    )
    parser.add_argument("--in-namespace", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    skipped = 0
    if not options.in_namespace and not enter_namespace():
        skipped = 1
        print("skipped: attacks by Ethernet, which need root, unshare and ip")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    seed = options.seed if options.seed is not None else random.randrange(1 << 32)
    trial, failed = Trial(options, seed), 0
    try:
        for title, make, transports, faces in ATTACKS:
            if options.only and options.only not in title:
                continue
            if options.short and title in (row["attack"] for row in trial.rows):
                continue
            for transport in transports[: 1 if options.short else None]:
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
    print(f"{len(trial.rows) + len(failures) - failed} passed, {failed} failed, {skipped} skipped")
    if failed:
        print(f"repeat with --seed {seed}; log: {trial.router.scratch}/log", file=sys.stderr)
        raise SystemExit(1)
    for router in (trial.router, trial.other):
        shutil.rmtree(router.scratch)


if __name__ == "__main__":
    main()
