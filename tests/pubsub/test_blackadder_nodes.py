"""This node among nodes of Blackadder 0.4: the others are the recording of the running original
(tests/vectors/blackadder.txt), replayed frame by frame on the links of the recorded chain.

    n0 (rendezvous, topology)  --  n1 (this node)  --  n2
"""

import contextlib
import ctypes
import random
import select
import socket
import unittest

from network import NetworkTest, ip
from node import wait_until
from test_blackadder import (
    DATA,
    DISCONNECT,
    PUBLISH_ITEM,
    PUBLISH_SCOPE,
    SCOPE,
    START,
    STOP,
    SUBSCRIBE_ITEM,
    SUBSCRIBE_SCOPE,
    Program,
    data,
    identifier,
    label,
    request,
    section,
)

ETHERTYPE, PORT = 0x080A, 55555
CLONE_NEWNET = 0x40000000
HEADER_LEN = 14
LABELS = [b"00000001", b"00000002", b"00000003"]
NODE = (
    'domain = false\nblackadder_node = "00000002"\nblackadder_internal = "254"\n'
    'blackadder_rendezvous = "154+255"\n'
)
FIRST_NODE = (
    'domain = false\nblackadder_node = "00000001"\nblackadder_internal = "255"\n'
    'blackadder_links = ["v1 02:00:00:00:01:00 id=155"]\n'
    "blackadder_topology = ["
    '"00000001 00000001 id=255", "00000002 00000002 id=254", "00000003 00000003 id=253", '
    '"00000001 00000002 id=155", "00000002 00000001 id=154", '
    '"00000002 00000003 id=153", "00000003 00000002 id=152"]\n'
)
LAST_NODE = (
    'domain = false\nblackadder_node = "00000003"\nblackadder_internal = "253"\n'
    'blackadder_rendezvous = "152+154+255"\n'
    'blackadder_links = ["v1 02:00:00:00:01:02 id=152"]\n'
)


@contextlib.contextmanager
def inside(namespace):
    """Sockets made here belong to a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/net") as own, open(f"/run/netns/{namespace}") as other:
        for file in (other, own):
            if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
            if file is other:
                yield


def frames(name, direction):
    """Recorded frames of n1; those of which only the beginning is recorded get the rest."""
    found = []
    for line in section(name):
        if line.startswith(direction):
            length, digits = line[len(direction) :].split()
            frame = bytes.fromhex(digits.rstrip("."))
            found.append(frame + bytes(at % 251 for at in range(len(frame), int(length))))
    return found


def of_node(found, node):
    return [frame for frame in found if frame[56:64] == node]


def payload(frame):
    """What is behind the only identifier of a frame."""
    return frame[48 + 8 * frame[47] :]


class Neighbour:
    """A node of Blackadder at the other end of a link: what it sends and receives, as frames."""

    def __init__(self, test, namespace, device=None, address=None):
        self.address = address
        with inside(namespace):
            if device:
                self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
                self.socket.bind((device, ETHERTYPE))
            else:
                self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                self.socket.bind(("", PORT))
        test.addCleanup(self.socket.close)

    def send(self, frame):
        if self.address:
            self.socket.sendto(frame[HEADER_LEN:], (self.address, PORT))
        else:
            self.socket.send(frame)

    def receive(self, timeout_s=10):
        """Returns the next frame; over UDP, what is behind its Ethernet header."""
        while select.select([self.socket], [], [], timeout_s)[0]:
            packet, sender = self.socket.recvfrom(1 << 16)
            if self.address or sender[2] != socket.PACKET_OUTGOING:
                return packet
        return None


class BlackadderTest(NetworkTest):
    def chain(self, transport, pubsub=""):
        """Starts this node as n1 of the recorded chain."""
        over_udp = transport == "udp"
        self.network(3, [(0, 1), (1, 2)], addresses=over_udp)
        links = ["10.1.2.1 id=154", "10.2.3.2 id=153"]
        if not over_udp:
            links = ["v0 02:00:00:00:00:01 id=154", "v2 02:00:00:00:02:01 id=153"]
            for near, far in [(0, 1), (1, 0), (1, 2), (2, 1)]:
                self.set_address(near, far)
        listed = ", ".join(f'"{link}"' for link in links)
        self.start(1, pubsub=f"{NODE}blackadder_links = [{listed}]\n{pubsub}")
        neighbours = []
        for number, address in [(0, "10.1.2.2"), (2, "10.2.3.1")]:
            where = {"address": address} if over_udp else {"device": "v1"}
            neighbours.append(Neighbour(self, self.names[number], **where))
        self.wait_for_links(1, dict(zip(neighbours, [(0, 1), (2, 1)], strict=True)))
        return neighbours

    def wait_for_links(self, number, neighbours):
        """Sends broadcasts, which go no further, until the node receives on each link."""
        for neighbour, (near, far) in neighbours.items():
            before = self.counters(number)["received"]
            head = bytes([2, 0, 0, 0, far, near, 2, 0, 0, 0, near, far, 8, 10])

            def is_received(neighbour=neighbour, head=head, before=before):
                neighbour.send(head + b"\xff" * 32 + b"\1" + identifier([label(9)]))
                return self.counters(number)["received"] > before

            wait_until(is_received, "a link")

    def set_address(self, near, far):
        """Gives a device the address that it has in the recording."""
        address = f"02:00:00:00:{near:02}:{far:02}"
        ip("-n", self.names[near], "link", "set", f"v{far}", "address", address)

    def counters(self, number=1):
        return self.nodes[number].status()["blackadder"]

    @property
    def programs(self):
        return f'blackadder = true\nblackadder_path = "{self.folder}/ba.09999"\n'

    def program(self):
        return Program(self, "unix", f"{self.folder}/ba.09999", f"{self.folder}/ba")


class ForwarderTest(BlackadderTest):
    def check_passing(self, first, last, skip):
        """Replays what the original middle node received for others, and compares what it sent."""
        cases = [
            (last, first, frames("D", "in "), of_node(frames("C", "out "), LABELS[2])),
            (
                first,
                last,
                of_node(frames("C", "in "), LABELS[2]),
                of_node(frames("D", "out "), LABELS[2]),
            ),
        ]
        for sender, receiver, received, sent in cases:
            self.assertGreater(len(sent), 6)
            self.assertEqual(len(received), len(sent))
            for frame in received:
                sender.send(frame)
            for frame in sent:
                self.assertEqual(receiver.receive(), frame[skip:])
        # Publications, as if they came from n0: the recorded ones of n1, with their forwarding
        # identifiers, up to 1,088 bytes.
        publications = [f for f in frames("D", "out ") if len(f) > 1000]
        self.assertEqual(len(publications), 7)
        for frame in publications:
            first.send(bytes.fromhex("020000000100020000000001080a") + frame[HEADER_LEN:])
        for frame in publications:
            self.assertEqual(last.receive(), frame[skip:])
        passed = len(publications) + sum(len(sent) for _, _, _, sent in cases)
        self.assertEqual(self.counters()["forwarded"], passed)

    def check_dropping(self, first, last):
        """Nothing leaves that is malformed, for no link, or a broadcast; and not from strangers."""
        before = self.counters()
        frame = of_node(frames("C", "in "), LABELS[2])[0]
        head, fid, rest = frame[:14], bytearray(frame[14:46]), frame[46:]
        # Each of these made the original read behind the end of its buffer, or loop.
        for body in [b"\xff\xff" + rest[2:21], b"\0", rest[:9], b""]:
            first.send(head + fid + body)
        first.send(head + bytes(31) + b"\x01" + rest)
        first.send(head + b"\xff" * 32 + rest)
        first.send(head + fid[:8])
        first.send(frame)
        self.assertIsNotNone(last.receive())
        after = self.counters()
        self.assertEqual(after["no_link"] - before["no_link"], 1)
        self.assertEqual(after["forwarded"] - before["forwarded"], 1)
        self.assertGreaterEqual(after["invalid"] - before["invalid"], 4)
        self.assertIsNone(last.receive(0.1))

    def test_recorded_frames_pass_over_ethernet(self):
        first, last = self.chain("ethernet")
        self.check_passing(first, last, 0)
        self.check_dropping(first, last)
        frame = bytearray(of_node(frames("C", "in "), LABELS[2])[0])
        frame[11] = 9
        first.send(frame)
        wait_until(lambda: self.counters()["unknown_sender"] == 1, "a frame of a stranger")

    def test_recorded_packets_pass_over_udp(self):
        first, last = self.chain("udp")
        self.check_passing(first, last, HEADER_LEN)
        self.check_dropping(first, last)


class EndNodeTest(BlackadderTest):
    def test_recorded_publisher_at_this_node(self):
        """Its requests, publications and end leave as they left the original node."""
        first, last = self.chain("ethernet", self.programs)
        program = self.program()
        recorded = [line.split(" bytes ")[1] for line in section("A") if " bytes " in line]
        sent = of_node(frames("C", "out "), LABELS[1])
        self.assertEqual((len(recorded), len(sent)), (20, 38))
        for digits, frame in zip(recorded[:-1], sent, strict=False):
            program.send(bytes.fromhex(digits))
            self.assertEqual(first.receive(), frame)
        notices = of_node(frames("C", "in "), LABELS[1])
        self.assertEqual({payload(frame)[0] for frame in notices}, {START, STOP})
        for frame in notices:
            first.send(frame)
        publications = [frame for frame in frames("D", "out ") if len(frame) > 1000]
        for frame in publications:
            kind, path, _ = program.event()
            self.assertEqual((kind, identifier(path)), (START, frame[47 : 48 + 8 * frame[47]]))
            program.send(data(path, payload(frame)))
            self.assertEqual(last.receive(), frame)
        # Fragments below a started item go where it goes, under their own identifiers.
        program.send(data([*path, label(7)], b"a fragment"))
        start, fragment = publications[-1], last.receive()
        self.assertEqual(fragment[:47], start[:47])
        self.assertEqual(fragment[47:], identifier([*path, label(7)]) + b"a fragment")
        # Other strategies: where the program says, and to all neighbours.
        fid = start[14:46]
        program.send(data([label(8)], fid + b"implicit", 3), data([label(9)], b"broadcast", 4))
        self.assertEqual(last.receive()[14:], fid + b"\1" + identifier([label(8)]) + b"implicit")
        for neighbour in (first, last):
            broadcast = b"\xff" * 32 + b"\1" + identifier([label(9)]) + b"broadcast"
            self.assertEqual(neighbour.receive()[14:], broadcast)
        program.send(DISCONNECT)
        # The original ends them in the order of its hash table.
        self.assertCountEqual([first.receive() for _ in sent[19:]], sent[19:])
        self.assertIsNone(first.receive(0.1))
        self.assertEqual(self.counters()["requests"], len(sent))

    def test_recorded_subscriber_at_this_node(self):
        """This node is the last one, with the sample subscriber: it subscribes to each scope."""
        self.network(3, [(1, 2)], addresses=False)
        self.set_address(1, 2)
        self.set_address(2, 1)
        self.start(2, pubsub=LAST_NODE + self.programs)
        middle = Neighbour(self, self.names[1], device="v2")
        self.wait_for_links(2, {middle: (1, 2)})
        program, late = self.program(), self.program()
        program.send(request(SUBSCRIBE_SCOPE, [], bytes(8)))
        requests = frames("D", "in ")
        # This one was made before the recording began.
        self.assertEqual(middle.receive(), requests[0][:64] + b"\4\1" + bytes(8) + b"\0\2")
        for notice in of_node(frames("D", "out "), LABELS[2]):
            middle.send(notice)
            kind, scope, _ = program.event()
            self.assertEqual(kind, SCOPE)
            program.send(request(SUBSCRIBE_SCOPE, scope[:-1], scope[-1]))
            self.assertEqual(middle.receive(), requests.pop(0))
        self.assertEqual(requests, [])
        # The rendezvous node knows this node already, so a second program is told by this one.
        late.send(request(SUBSCRIBE_SCOPE, [], bytes(8)))
        for digit in range(1, 4):
            self.assertEqual(late.event(), (SCOPE, [bytes(8), label(digit)], b""))
        for frame in frames("D", "out "):
            if len(frame) > 1000:
                middle.send(frame)
                kind, path, content = program.event()
                self.assertEqual((kind, content), (DATA, payload(frame)))
                self.assertEqual(identifier(path), frame[47 : 48 + 8 * frame[47]])
        self.assertFalse(late.has_event(0.05))
        late.send(DISCONNECT)
        program.send(DISCONNECT)
        ended = [payload(middle.receive()) for _ in range(8)]
        self.assertEqual({body[0] for body in ended}, {6})
        self.assertIsNone(middle.receive(0.1))
        unwanted = self.counters(2)["unwanted"]
        middle.send(frame)
        wait_until(lambda: self.counters(2)["unwanted"] > unwanted, "what nothing wants any more")

    def test_other_applications_of_this_node(self):
        """`nw pub` and `nw sub` take part with names of labels."""
        rule = '[[pubsub_rule]]\nscope = "/8=4444444444444444/**"\npublish = ["uid:0"]\n'
        first, last = self.chain("udp", f'{rule}subscribe = ["any"]\n')
        name = "/8=1111111111111111/8=2222222222222222"
        fid = of_node(frames("D", "out "), LABELS[2])[0][14:46]
        head = frames("C", "out ")[0][14:64]
        words = ["--wait", "1", "--patience", "10000", name, "21.5"]
        publisher = self.nodes[1].start("pub", *words)
        item = identifier([label(2)]) + identifier([label(1)]) + b"\2"
        scope = identifier([label(1)]) + b"\0\2"
        self.assertEqual(first.receive(), head + b"\0" + scope)
        self.assertEqual(first.receive(), head + b"\1" + item)
        notice = of_node(frames("C", "in "), LABELS[1])[0][14:64]
        full = identifier([label(1), label(2)])
        first.send(bytes(14) + notice + bytes([START, 1]) + full + fid)
        self.assertEqual(last.receive(), fid + b"\1" + full + b"21.5")
        publisher.communicate(timeout=10)
        self.assertEqual(publisher.returncode, 0)
        ended = [first.receive()[50:] for _ in range(2)]
        self.assertEqual(ended, [b"\3" + item, b"\2" + scope])

        subscriber = self.nodes[1].start("sub", "--no-last", "-n", "1", "/8=1111111111111111/**")
        self.assertEqual(first.receive(), head + b"\4" + scope)
        fid = notice[:32]
        first.send(bytes(14) + fid + b"\1" + full + b"22.0")
        self.assertEqual(subscriber.communicate(timeout=10)[0], f"{name} 22.0\n")
        self.assertEqual(first.receive(), head + b"\6" + scope)

        # By one of several identifiers, and not where a rule keeps other nodes out.
        subscriber = self.nodes[1].start("sub", "-n", "1", "/8=3333333333333333/*")
        self.assertEqual(first.receive()[:51], head + b"\4")
        secret = identifier([label(4), label(2)])
        private = self.nodes[1].start("sub", "--timeout", "500", "-n", "1", "/8=4444444444444444/*")
        self.assertEqual(first.receive()[:51], head + b"\4")
        first.send(bytes(14) + fid + b"\1" + secret + b"forged")
        first.send(bytes(14) + fid + b"\2" + full + identifier([label(3), label(2)]) + b"23.0")
        self.assertEqual(subscriber.communicate(timeout=10)[0], f"{name} 23.0\n")
        self.assertEqual(private.communicate(timeout=10)[0], "")
        counters = self.counters()
        self.assertEqual((counters["delivered"], counters["published"]), (2, 1))


class RendezvousTest(BlackadderTest):
    def test_recorded_requests_cause_the_recorded_notices(self):
        """This node is n0, rendezvous node and topology manager; the neighbour plays both others:
        their recorded requests in the recorded order."""
        self.network(3, [(0, 1)], addresses=False)
        self.set_address(0, 1)
        self.set_address(1, 0)
        self.start(0, pubsub=FIRST_NODE + self.programs)
        middle = Neighbour(self, self.names[1], device="v0")
        self.wait_for_links(0, {middle: (1, 0)})
        requests = frames("C", "out ")
        # Made before the recording began: the recorded notices show it.
        root = of_node(requests, LABELS[2])[0]
        middle.send(root[:64] + b"\4\1" + bytes(8) + b"\0\2")
        for frame in requests:
            middle.send(frame)
        wait_until(lambda: self.counters(0)["served"] == len(requests) + 1, "all requests")
        sent = []
        while frame := middle.receive(0.1):
            sent.append(frame)
        recorded = frames("C", "in ")
        # Which scopes there are to n2, what to start and stop to n1, byte by byte.
        for kind in (SCOPE, START, STOP):
            wanted = {frame for frame in recorded if payload(frame)[0] == kind}
            found = {frame for frame in sent if payload(frame)[0] == kind}
            self.assertEqual(len(wanted), 7)
            self.assertLessEqual(wanted, found)
            for frame in found - wanted:
                self.check_further(frame, kind, wanted)
        self.check_own_program(middle)

    def check_further(self, frame, kind, wanted):
        """What only this node sends: it tells publishers of further identifiers of their items."""
        end = -32 if kind == START else None
        ids, fid = payload(frame)[:end], payload(frame)[end:] if end else b""
        self.assertGreater(ids[1], 1, frame.hex())
        known = [f for f in wanted if payload(f)[2:end] in ids and payload(f).endswith(fid)]
        self.assertTrue(known, frame.hex())

    def check_own_program(self, middle):
        """A program of the rendezvous node, and a subscriber and a stranger elsewhere."""
        program = self.program()
        program.send(
            request(PUBLISH_SCOPE, [], label(7)), request(PUBLISH_ITEM, [label(7)], label(8))
        )
        subscribe = of_node(frames("C", "out "), LABELS[2])[0]
        body = request(SUBSCRIBE_ITEM, [label(7)], label(8))[16:]
        wait_until(lambda: self.counters(0)["requests"] == 2, "its requests")
        middle.send(subscribe[:56] + b"someone!" + body)
        self.assertFalse(program.has_event(0.1))
        middle.send(subscribe[:64] + body)
        self.assertEqual(program.event()[:2], (START, [label(7), label(8)]))
        program.send(data([label(7), label(8)], b"from n0"))
        found = middle.receive()
        fid = bytearray(32)
        for bit in (155, 153, 253):
            fid[bit // 8] |= 1 << bit % 8
        full = identifier([label(7), label(8)])
        self.assertEqual(found[14:], bytes(fid) + b"\1" + full + b"from n0")
        program.send(DISCONNECT)
        wait_until(lambda: self.counters(0)["requests"] == 4, "its end")
        self.send_anything(middle)

    def send_anything(self, middle):
        """Mutations of all recorded frames, each of them for this node."""
        generator = random.Random(7)
        seeds = [f for s in "CD" for d in ("in ", "out ") for f in frames(s, d) if len(f) < 200]
        before = self.counters(0)["received"]
        for number in range(2000):
            frame = bytearray(generator.choice(seeds))
            frame[:14] = bytes.fromhex("020000000001020000000100080a")
            frame[14:46] = b"\xff" * 32
            if generator.random() < 0.5:
                frame[56:64] = LABELS[generator.randrange(2)]
            for _ in range(generator.randrange(3)):
                frame[generator.randrange(46, len(frame))] = generator.randrange(256)
            if generator.random() < 0.2:
                del frame[generator.randrange(20, len(frame)) :]
            middle.send(bytes(frame))
            if number % 100 == 0:
                while middle.receive(0):
                    pass
        wait_until(lambda: self.counters(0)["received"] > before + 1000, "some of them")
        self.assertGreater(self.counters(0)["invalid"], 100)
        self.assertIsNone(self.nodes[0].process.poll())
        self.assertLess(self.nodes[0].memory_kib(), 400 << 10)


if __name__ == "__main__":
    unittest.main()
