"""Programs of Blackadder 0.4 at a real node: the recorded dialogue byte for byte, other
applications and nodes, programs that die, and programs that lie."""

import os
import random
import selectors
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from network import NetworkTest
from node import Node, NodeTest, wait_until

VECTORS = (Path(__file__).parents[1] / "vectors/blackadder.txt").read_text()
START, STOP, SCOPE, SCOPE_END, DATA = 100, 101, 102, 103, 104
PUBLISH_SCOPE, PUBLISH_ITEM, SUBSCRIBE_SCOPE, SUBSCRIBE_ITEM = 0, 1, 4, 5
DISCONNECT = bytes(16) + b"\x0d"


def section(name):
    """The lines of a section of the recording."""
    return VECTORS.split(f"## {name}.")[1].split("\n##")[0].splitlines()[1:]


def label(digit):
    return bytes([digit * 0x11]) * 8


def fnv(text):
    """FNV-1a, as in the test of `nw_pubsub::names`."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return value.to_bytes(8, "big")


def identifier(labels):
    return bytes([len(labels)]) + b"".join(labels)


def request(kind, scope, name, strategy=2):
    return bytes(16) + bytes([kind]) + identifier([name]) + identifier(scope) + bytes([strategy])


def data(path, payload, strategy=2):
    return bytes(16) + b"\x08" + identifier(path) + bytes([strategy]) + payload


class Program:
    """A process that speaks Blackadder's protocol."""

    def __init__(self, test, *arguments, inside=()):
        script = Path(__file__).with_name("blackadder_program.py")
        self.process = subprocess.Popen(
            [*inside, sys.executable, "-S", script, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        test.addCleanup(self.end)
        self.pending = b""
        self.pid = int(self.line())

    def send(self, *datagrams):
        for datagram in datagrams:
            self.process.stdin.write(datagram.hex().encode() + b"\n")

    def line(self):
        if not self.has_event(10):
            raise AssertionError("nothing arrives")
        line, self.pending = self.pending.split(b"\n", 1)
        return line.decode()

    def receive(self):
        """Returns the next datagram."""
        return bytes.fromhex(self.line())

    def event(self):
        """Returns the next event: kind, identifier as a list of labels, data."""
        body = self.receive()[16:]
        end = 2 + 8 * body[1]
        return body[0], [body[at : at + 8] for at in range(2, end, 8)], body[end:]

    def has_event(self, timeout_s):
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self.pending and selector.select(timeout_s):
                read = os.read(self.process.stdout.fileno(), 1 << 16)
                if not read:
                    break
                self.pending += read
        return b"\n" in self.pending

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def replay(test, programs):
    """Sends the recorded requests of section B and compares the events byte for byte."""
    count = 0
    for line in section("B"):
        digits = bytes.fromhex(line.rsplit(" ", 1)[-1]) if line else b""
        if line.startswith("> app "):
            programs[line[6:10]].send(digits)
            # The order between two programs is that of the recording.
            time.sleep(0.01)
        elif line.startswith("< to "):
            count += 1
            test.assertEqual(programs[line[5:9]].receive(), digits, line)
    test.assertEqual(count, 4)


class LocalTest(NodeTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        pubsub = (
            f'domain = false\nblackadder = true\nblackadder_path = "{self.node_path}"\n'
            'blackadder_names = ["/sensors/room1/temperature"]\n'
        )
        self.node = Node(self.folder, pubsub=pubsub)
        self.addCleanup(self.node.end)

    @property
    def node_path(self):
        return self.folder / "ba.09999"

    def program(self):
        return Program(self, "unix", str(self.node_path), str(self.folder / "ba"))

    def applications(self):
        found = self.node.status()["applications"]
        return {a["pid"]: a for a in found if a["program"] == "blackadder"}

    def test_recorded_dialogue_and_other_applications(self):
        replay(self, {"5001": self.program(), "5002": self.program()})
        wait_until(lambda: not self.applications(), "both have disconnected")
        self.assertEqual(self.node.status()["refusals"], 0)

        # Applications of this project, and programs of Blackadder, both ways.
        publisher = self.program()
        publisher.send(
            request(PUBLISH_SCOPE, [], label(1)), request(PUBLISH_ITEM, [label(1)], label(2))
        )
        subscriber = self.subscriber("/8=1111111111111111/**", "-n", "1")
        self.assertEqual(publisher.event(), (START, [label(1), label(2)], b""))
        publisher.send(data([label(1), label(2)], b"from Blackadder"))
        line = "/8=1111111111111111/8=2222222222222222 from Blackadder\n"
        self.assertEqual(subscriber.communicate(timeout=10)[0], line)
        self.assertEqual(publisher.event(), (STOP, [label(1), label(2)], b""))
        reader = self.program()
        reader.send(request(SUBSCRIBE_SCOPE, [], fnv("sensors")))
        wait_until(lambda: reader.pid in self.applications(), "the subscription")
        pub = self.node.run("pub", "/sensors/room1/temperature", "21.5")
        self.assertEqual(pub.returncode, 0, pub.stderr)
        self.assertEqual(reader.event(), (SCOPE, [fnv("sensors"), fnv("room1")], b""))
        self.assertEqual(reader.event(), (SCOPE_END, [fnv("sensors"), fnv("room1")], b""))
        reader.send(request(SUBSCRIBE_SCOPE, [fnv("sensors")], fnv("room1")))
        wanted = "/sensors/room1/*"
        wait_until(
            lambda: wanted in self.applications()[reader.pid]["subscriptions"], "both scopes"
        )
        self.node.run("pub", "/sensors/room1/temperature", "22.0")
        path = [fnv("sensors"), fnv("room1"), fnv("temperature")]
        # The scope was withdrawn and is published again; the last value comes first.
        expected = [(SCOPE, path[:2], b""), (DATA, path, b"21.5"), (DATA, path, b"22.0")]
        events = [reader.event() for _ in expected]
        for event in expected:
            self.assertIn(event, events)

    def test_programs_that_die_lie_or_send_anything(self):
        publisher, victim, subscriber = self.program(), self.program(), self.program()
        for program in (publisher, victim):
            program.send(
                request(PUBLISH_SCOPE, [], label(1)), request(PUBLISH_ITEM, [label(1)], label(2))
            )
        wait_until(lambda: len(self.applications()) == 2, "two programs")
        # A killed subscriber is noticed without a message of it, and so is a killed publisher.
        subscriber.send(request(SUBSCRIBE_ITEM, [label(1)], label(2)))
        wait_until(lambda: publisher.has_event(0) or victim.has_event(0), "a start")
        first, second = (publisher, victim) if publisher.has_event(0) else (victim, publisher)
        self.assertEqual(first.event(), (START, [label(1), label(2)], b""))
        first.process.kill()
        self.assertEqual(second.event(), (START, [label(1), label(2)], b""))
        subscriber.process.kill()
        self.assertEqual(second.event(), (STOP, [label(1), label(2)], b""))
        self.assertEqual(list(self.applications()), [second.pid])
        self.lie_for(second)
        self.send_anything()
        self.assertEqual(list(self.applications()), [second.pid])
        self.assertIsNone(self.node.process.poll())

    def lie_for(self, victim):
        """Datagrams that name another process are refused and counted, and change nothing."""
        before = self.node.status()["refusals"]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.bind(str(self.folder / "ba.00001"))
            disconnect = bytearray(DISCONNECT)
            disconnect[12:16] = struct.pack("=I", victim.pid)
            s.sendto(disconnect, str(self.node_path))
            # Without a name of its own it could not be answered.
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as unnamed:
                own = bytearray(request(SUBSCRIBE_SCOPE, [], label(1)))
                own[12:16] = struct.pack("=I", os.getpid())
                unnamed.sendto(own, str(self.node_path))
            refusals = wait_until(
                lambda: (found := self.node.status()["refusals"]) >= before + 2 and found,
                "the refusals",
            )
        self.assertEqual(refusals, before + 2)

    def send_anything(self):
        """Mutations of all recorded messages, and random bytes."""
        generator = random.Random(7)
        lines = [line.rsplit(" ", 1)[-1] for line in section("A") + section("B") if line]
        seeds = [bytes.fromhex(line) for line in lines]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.bind(str(self.folder / f"ba.{os.getpid():05}"))
            s.setblocking(False)
            for _ in range(1500):
                datagram = bytearray(generator.choice(seeds))
                for _ in range(generator.randrange(3)):
                    datagram[generator.randrange(16, len(datagram))] = generator.randrange(256)
                if generator.random() < 0.2:
                    del datagram[generator.randrange(len(datagram)) :]
                if generator.random() < 0.2:
                    datagram += generator.randbytes(generator.choice([1, 32, 5000]))
                if len(datagram) >= 16 and generator.random() < 0.9:
                    datagram[12:16] = struct.pack("=I", os.getpid())
                self.send_patiently(s, bytes(datagram))
            own = bytearray(DISCONNECT)
            own[12:16] = struct.pack("=I", os.getpid())
            self.send_patiently(s, bytes(own))
            wait_until(lambda: os.getpid() not in self.applications(), "the disconnect")
        self.assertLess(self.node.memory_kib(), 400 << 10)

    def send_patiently(self, s, datagram):
        """Sends, and reads what arrives meanwhile."""

        deadline = time.monotonic() + 30
        while True:
            try:
                while s.recv(1 << 20):
                    pass
            except BlockingIOError:
                pass
            try:
                return s.sendto(datagram, str(self.node_path))
            except BlockingIOError:
                self.assertLess(time.monotonic(), deadline, "the node takes nothing")
                time.sleep(0.001)


class DomainTest(NetworkTest):
    """Two nodes; programs by netlink at one and by a unix socket at the other."""

    def test_sample_publisher_and_subscriber_on_two_nodes(self):
        self.network(2, [(0, 1)])
        for number in range(2):
            path = self.folder / f"ba{number}.09999"
            netlink = "true" if number == 0 else "false"
            self.start(
                number,
                pubsub=f'blackadder = true\nblackadder_path = "{path}"\n'
                f"blackadder_netlink = {netlink}\n",
            )
        inside = ["ip", "netns", "exec", self.names[0]]
        replay(self, {name: Program(self, "netlink", inside=inside) for name in ("5001", "5002")})
        publisher = Program(self, "netlink", inside=inside)
        path = str(self.folder / "ba1.09999")
        subscriber = Program(self, "unix", path, str(self.folder / "ba1"))
        subscriber.send(request(SUBSCRIBE_SCOPE, [], bytes(8)))
        recorded = [line.split(" bytes ")[1] for line in section("A") if " bytes " in line]
        self.assertEqual(len(recorded), 20)
        for digits in recorded[:-1]:
            publisher.send(bytes.fromhex(digits))
        # After the frame's header and forwarding identifier: one identifier.
        frames = [line.rsplit(" ", 1)[-1] for line in section("D") if line.startswith("out 10")]
        wanted = {frame[94 : 96 + 16 * int(frame[94:96], 16)] for frame in frames}
        received = set()
        deadline = time.monotonic() + 20
        while len(received) < len(wanted) and time.monotonic() < deadline:
            if publisher.has_event(0.02):
                kind, found, _ = publisher.event()
                self.assertEqual(kind, START)
                publisher.send(data(found, b"x" * 1000))
            if subscriber.has_event(0.02):
                kind, found, payload = subscriber.event()
                if kind == SCOPE:
                    subscriber.send(request(SUBSCRIBE_SCOPE, found[:-1], found[-1]))
                elif kind == DATA:
                    self.assertEqual(payload, b"x" * 1000)
                    received.add(identifier(found).hex())
        self.assertEqual(len(wanted), 7)
        self.assertEqual(received, wanted)


if __name__ == "__main__":
    unittest.main()
