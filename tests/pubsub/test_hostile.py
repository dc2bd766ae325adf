"""Bad applications: wrong lengths, unsealed memory, floods. The node and others go on."""

import os
import socket
import struct
import threading
import time
import unittest

from namewire import Publisher, Refused, Subscriber
from namewire.connection import Connection
from namewire.ring import INTENT_AT, TAIL_AT
from node import NodeTest, wait_until


def frame(kind, body=b"", files=0):
    return struct.pack("<IBB", len(body) + 2, files, kind) + body


HELLO = frame(1, struct.pack("<HH", 1, 1) + b"x")


class HostileTest(NodeTest):
    PUBSUB = "domain = false\nitems_per_application = 1000\nitems = 5000\napplications = 40\n"

    def tearDown(self):
        """The node still works, for others, after every test."""
        with Publisher(self.node.path) as publisher, Subscriber(self.node.path) as subscriber:
            subscriber.subscribe("/well")
            publisher.publish(publisher.announce("/well"), b"yes")
            self.assertEqual(subscriber.receive(5).payload, b"yes")
        self.assertIsNone(self.node.process.poll())

    def raw(self, *parts, files=()):
        """Sends bytes and returns whether the node closes the connection."""
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(self.node.path))
            s.settimeout(5)
            try:
                socket.send_fds(s, [b"".join(parts)], list(files)) if files else s.sendall(
                    b"".join(parts)
                )
                while s.recv(1 << 16):
                    pass
            except (ConnectionResetError, BrokenPipeError):
                pass
            except TimeoutError:
                return False
            return True

    def test_invalid_frames_end_their_connection_only(self):
        file = os.memfd_create("x")
        self.addCleanup(os.close, file)
        for name, parts, files in [
            ("length 0", [b"\0\0\0\0\0\1"], ()),
            ("length 2^32 - 1", [b"\xff\xff\xff\xff\0\1"], ()),
            ("no hello first", [frame(8)], ()),
            ("unknown kind", [HELLO, frame(77)], ()),
            ("second hello", [HELLO, HELLO], ()),
            ("missing file", [HELLO, frame(2, bytes(8), 1)], ()),
            ("page that can shrink", [frame(1, struct.pack("<HH", 1, 0), 1)], [file]),
            ("text beyond its body", [HELLO, frame(3, struct.pack("<II?H", 1, 1, 0, 99))], ()),
            ("name that is not text", [HELLO, frame(9, struct.pack("<IH", 1, 1) + b"\xff")], ()),
            ("data without an item", [HELLO, frame(7, struct.pack("<IQQQI", 0, 1, 0, 0, 0))], ()),
            (
                "fragment beyond its total",
                [HELLO, frame(7, struct.pack("<IQQQI", 0, 1, 1, 9, 0))],
                (),
            ),
            ("other version", [frame(1, struct.pack("<HH", 9, 0))], ()),
        ]:
            with self.subTest(name):
                self.assertTrue(self.raw(*parts, files=files))
        self.assertGreaterEqual(self.node.status()["faults"], 12)

    def test_ring_that_others_could_write_or_of_another_size_is_refused(self):
        connection = Connection(self.node.path, "bad")
        self.addCleanup(connection.close)
        file = os.memfd_create("x", os.MFD_ALLOW_SEALING)
        os.ftruncate(file, 1 << 20)
        connection.send(2, struct.pack("<II", 1 << 16, 1), file)
        os.close(file)
        with self.assertRaisesRegex(Exception, "lost"):
            for _ in range(100):
                connection.read(0.1)
        self.assertIn("not sealed", self.node.log())

    def test_ring_with_wild_positions_harms_only_its_publisher(self):
        for at, value in [
            (TAIL_AT, 2**64 - 1),
            (TAIL_AT, 33),
            (INTENT_AT, 2**63),
            (TAIL_AT, 2**40),
        ]:
            with (
                self.subTest(at=at, value=value),
                Publisher(self.node.path) as publisher,
                Subscriber(self.node.path) as ring,
                Subscriber(self.node.path, shared_memory=False) as relayed,
            ):
                item = publisher.announce("/wild")
                ring.subscribe("/wild")
                relayed.subscribe("/wild")
                wait_until(lambda: publisher.subscribers(item) == 2, "subscribers")  # noqa: B023
                publisher.publish(item, b"x")
                publisher.ring.store(at, value)
                publisher.connection.send(8)
                for subscriber in (ring, relayed):
                    for _ in range(3):
                        subscriber.receive(0.05)

    def test_fault_of_a_ring_is_told_to_users_of_its_items(self):
        with Publisher(self.node.path) as publisher:
            item = publisher.announce("/wild")
            receiver = self.node.start("sub", "--timeout", "3000", "/wild")
            wait_until(lambda: publisher.subscribers(item) == 1, "the subscriber")
            publisher.publish(item, b"x")
            publisher.ring.store(TAIL_AT, 33)
            _, errors = receiver.communicate(timeout=10)
            self.assertIn("a publisher is faulty", errors)
            self.assertIn("/wild", errors)

    def test_million_scopes_by_one_application_are_bounded(self):
        before = self.node.memory_kib()
        refused = 0
        with Publisher(self.node.path) as publisher:
            connection = publisher.connection
            connection.socket.setblocking(False)
            started = time.monotonic()
            sent = 0
            while sent < 1_000_000 and time.monotonic() - started < 30:
                names = [f"/flood/{sent + n}".encode() for n in range(500)]
                requests = b"".join(
                    frame(
                        3,
                        struct.pack("<II?H", sent + n, min(sent + n, 2**20 - 1), False, len(name))
                        + name,
                    )
                    for n, name in enumerate(names)
                )
                view = memoryview(requests)
                while view:
                    try:
                        view = view[connection.socket.send(view) :]
                    except BlockingIOError:
                        connection.read(0.01)
                        refused += sum(
                            body[4] != 0 for kind, body, _ in connection.events if kind == 2
                        )
                        connection.events = []
                sent += 500
            self.assertEqual(sent, 1_000_000)
            wait_until(lambda: self.node.status()["refusals"] > 990_000, "the refusals")
            status = self.node.status()
            self.assertEqual(len(status["items"]) + status["items_omitted"], 1000)
        self.assertGreater(refused, 0)
        self.assertLess(self.node.memory_kib() - before, 64 << 10)
        wait_until(lambda: not self.node.status()["items"], "the clean-up", 5)

    def test_limits_are_refused_with_a_sentence(self):
        with Publisher(self.node.path) as publisher, Subscriber(self.node.path) as subscriber:
            for number in range(1000):
                publisher.announce(f"/l/{number}")
            with self.assertRaisesRegex(Refused, "the ring has items|items_per_application"):
                publisher.announce("/l/more")
            for number in range(1000):
                subscriber.subscribe(f"/s/{number}")
            with self.assertRaisesRegex(Refused, "items_per_application is reached"):
                subscriber.subscribe("/s/more")
        connections = [socket.socket(socket.AF_UNIX) for _ in range(60)]
        for connection in connections:
            connection.connect(str(self.node.path))
        wait_until(lambda: "pubsub.applications is reached" in self.node.log(), "the refusal")
        for connection in connections:
            connection.close()
        wait_until(lambda: self.node.run("pubsub", "status").returncode == 0, "a free place")

    def test_application_that_never_reads_is_bounded(self):
        before = self.node.memory_kib()
        with Publisher(self.node.path, ring_bytes=1 << 22) as publisher:
            silent = Connection(self.node.path, "silent", shared_memory=False)
            silent.request(5, struct.pack("<I?H", 1, False, 2) + b"/r")
            item = publisher.announce("/r", keeps_last=False)
            wait_until(lambda: publisher.subscribers(item) == 1, "the subscriber")
            for _ in range(2000):
                publisher.publish(item, bytes(100_000))
            publisher.drain(5)
            self.assertLess(self.node.memory_kib() - before, 32 << 10)
            lost = [
                a["lost"] for a in self.node.status()["applications"] if a["program"] == "silent"
            ]
            self.assertGreater(lost[0], 1000)
            silent.close()

    def test_python_application_that_reads_late_goes_on(self):
        """The node reads no requests while too many replies wait, so the client has to read."""
        connection = Connection(self.node.path, "late", shared_memory=False)

        def ask():
            for number in range(40_000):
                connection.send(5, struct.pack("<II?H", number, number, False, 1) + b"x")

        def last_reply(kind, body):
            return kind == 2 and struct.unpack_from("<I", body)[0] == 39_999 or None

        worker = threading.Thread(target=ask, daemon=True)
        worker.start()
        worker.join(30)
        self.assertFalse(worker.is_alive(), "it waits for the node, which waits for it")
        self.assertTrue(connection.wait_for(last_reply))
        connection.close()

    def test_reader_page_with_false_progress_holds_up_no_publisher(self):
        with Publisher(self.node.path, ring_bytes=1 << 16, wait_s=1) as publisher:
            liar = Subscriber(self.node.path)
            liar.subscribe("/p")
            item = publisher.announce("/p")
            wait_until(lambda: publisher.subscribers(item) == 1, "the reader")
            for cursor in (2**64 - 1, 0):
                liar.connection.page.report(0, cursor, 2**64 - 1, 2**64 - 1)
                started = time.monotonic()
                for _ in range(50):
                    publisher.publish(item, bytes(10_000))
                    if cursor == 0 and time.monotonic() - started > 1:
                        break
                self.assertLess(time.monotonic() - started, 5)
            lost = [a["lost"] for a in self.node.status()["applications"] if a["subscriptions"]]
            self.assertEqual(lost, [2**64 - 1], "its own words, shown as they are")
            liar.close()


if __name__ == "__main__":
    unittest.main()
