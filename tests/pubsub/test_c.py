"""The C library, built with sanitizers, beside the clients in Python and Rust."""

import hashlib
import os
import random
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from namewire import Publisher, Subscriber, derived_name
from namewire.ring import EARLIER_MARK_AT, HEAD_LEN, INTENT_AT, MARK_AT, RESTARTS_AT, TAIL_AT
from node import ROOT, NodeTest, wait_until

SANITIZERS = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
LIBRARY = ROOT / "clients/c"
BUILD = None


def setUpModule():
    global BUILD
    BUILD = tempfile.TemporaryDirectory()
    folder = Path(BUILD.name)
    flags = " ".join(SANITIZERS)
    make = ["make", "-s", "-C", LIBRARY, f"BUILD={folder}", f"CFLAGS={flags}"]
    subprocess.run(make, check=True, timeout=120)
    command = ["cc", "-Wall", "-Wextra", "-Werror", *SANITIZERS, f"-I{LIBRARY}"]
    archive = folder / "libnamewire_pubsub.a"
    for name in ["count", "scopes"]:
        source = ROOT / f"tests/pubsub/{name}.c"
        subprocess.run([*command, source, archive, "-o", folder / name], check=True, timeout=120)


def tearDownModule():
    BUILD.cleanup()


class ProgramTest(NodeTest):
    """A test that runs programs of the C library; a report of a sanitizer fails it."""

    def start_program(self, name, *words, **options):
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        command = [Path(BUILD.name) / name, *map(str, words)]
        process = subprocess.Popen(command, **(pipes | options))
        self.addCleanup(self.stop, process)
        return process

    def end_program(self, process, data=None, code=0):
        out, err = process.communicate(data, timeout=60)
        self.assertNotIn(b"Sanitizer", err)
        self.assertNotIn(b"runtime error", err)
        self.assertEqual(process.returncode, code, err)
        return out, err.decode()


class ClientTest(ProgramTest):
    def test_c_subscriber_reads_python_and_rust_in_rings_and_messages(self):
        content = os.urandom(300_000)
        (self.folder / "file").write_bytes(content)
        for index, mode in enumerate([[], ["messages"]]):
            name = f"/x/{index}"
            receiver = self.start_program("subscribe", self.node.path, f"{name}/*", 3, *mode)
            self.assertEqual(receiver.stderr.readline(), b"subscribed\n")
            file = str(self.folder / "file")
            for words in [["--ring", "64", "--file", file, f"{name}/rust"], [f"{name}/rust2", ""]]:
                sent = self.node.run("pub", *words)
                self.assertEqual(sent.returncode, 0, sent.stderr)
            with Publisher(self.node.path) as publisher:
                publisher.publish(publisher.announce(f"{name}/python"), b"p" * 1000)
                out, _ = self.end_program(receiver)
            start = f"{name}/rust 1 ".encode()
            self.assertEqual(out[: len(start) + len(content)], start + content)
            rest = out[len(start) + len(content) :].split(b"\n")
            expected = [f"{name}/rust2 1 ".encode(), f"{name}/python 1 ".encode() + b"p" * 1000]
            self.assertEqual(rest[1:], [*expected, b""])

    def test_c_publisher_reaches_python_and_rust(self):
        content = os.urandom(3_000_000)
        out = self.folder / "out"
        receiver = self.subscriber("/y/z", "-n", "3", "--output", str(out))
        relayed = Subscriber(self.node.path, shared_memory=False)
        self.addCleanup(relayed.close)
        with Subscriber(self.node.path) as subscriber:
            subscriber.subscribe("/y/*")
            relayed.subscribe("/y/*")
            sender = self.start_program("publish", self.node.path, "/y/z", "one", "", "-")
            self.end_program_in_background(sender, content)
            for expected in [b"one", b"", content]:
                self.assertTrue(subscriber.receive(20).payload == expected)
                self.assertTrue(relayed.receive(20).payload == expected)
            self.assertEqual((subscriber.lost, relayed.lost), (0, 0))
        self.assertEqual(receiver.wait(20), 0)
        self.assertEqual((out / "y/z").read_bytes(), content)
        late = self.start_program("subscribe", self.node.path, "/y/**", 1)
        self.assertEqual(late.stderr.readline(), b"subscribed\n")
        self.end_program(self.start_program("publish", self.node.path, "/y/late", "1", "2"))
        self.assertTrue(late.communicate(timeout=30)[0].startswith(b"/y/"))
        late = self.start_program("subscribe", self.node.path, "/y/late", 1)
        self.assertEqual(self.end_program(late)[0], b"/y/late 2 2\n", "the last value")

    def end_program_in_background(self, process, data):
        process.stdin.write(data)
        process.stdin.close()
        process.stdin = None

    def test_history_scopes_and_derived_names_in_ring_and_messages(self):
        def lines(kind, first, last):
            return [f"{kind} /c/scope/item {n} v{n}" for n in range(first, last + 1)]

        for index, mode in enumerate([[], ["messages"]]):
            out, _ = self.end_program(self.start_program("scopes", self.node.path, *mode))
            # In a ring the last four are read again; by messages they are older than the
            # subscription.
            history = ["live", "late"][index]
            expected = [
                *lines(history, 6, 9),
                "delivered 4, lost 0",
                *lines("live", 10, 10),
                "delivered 5, lost 0",
                *lines(history, 1, 10),
                "delivered 15, lost 0",
                *lines("late", 10, 10),
                *["delivered 1, lost 0"] * 3,
                *[f"refused {code}" for code in (3, 7, 7, 7, 7)],
                derived_name("/a/b", 1),
                derived_name("/8=00000000000000ff/a/b/c/d/e/f/g", 1 << 40),
                *["refused -7"] * 3,
            ]
            self.assertEqual(out.decode().splitlines(), expected)

    def test_failures_are_sentences(self):
        missing = self.folder / "missing.sock"
        _, err = self.end_program(self.start_program("subscribe", missing, "/a", 1), code=1)
        self.assertIn("enabled = true", err)
        wrong = self.start_program("publish", self.node.path, "no-slash", "x")
        self.assertIn("begins with a slash", self.end_program(wrong, code=1)[1])
        counter = self.start_program("count", self.node.path, "/a")
        counter.stdout.readline()
        self.node.process.kill()
        self.node.process.wait()
        _, err = self.end_program(counter, b"\n", code=1)
        self.assertIn("connection to the node lost", err)


class WakeupTest(ProgramTest):
    def test_publications_wake_no_subscriber_of_another_item_in_c_python_or_rust(self):
        script = (
            "import sys; from namewire import Subscriber\n"
            "subscriber = Subscriber(sys.argv[1])\n"
            "subscriber.subscribe('/k/other')\n"
            "print(subscriber.receive().payload)"
        )
        command = [sys.executable, "-c", script, self.node.path]
        by_python = subprocess.Popen(command, stdout=subprocess.PIPE)
        self.addCleanup(self.stop, by_python)
        by_c = self.start_program("subscribe", self.node.path, "/k/other", 1)
        waiting = [by_c, by_python, self.subscriber("/k/other", "-n", "1")]
        with Publisher(self.node.path) as ring:
            with Publisher(self.node.path, shared_memory=False) as messages:
                others = [(one, one.announce("/k/other")) for one in (ring, messages)]
                for publisher, other in others:
                    self.publish_beside(publisher, other, waiting)
            ring.publish(others[0][1], b"end")
            for process in waiting:
                self.assertIn(b"end", self.output(process))

    def publish_beside(self, publisher, other, waiting):
        """Publishes an item that none of them waits for, and counts how often others run meanwhile."""
        wait_until(lambda: publisher.subscribers(other) == 3, "three subscribers")
        with Subscriber(self.node.path) as reader:
            reader.subscribe("/k/this", wants_last=False)
            item = publisher.announce("/k/this")
            # The first publication wakes all that have a ring.
            publisher.publish(item, b"x")
            time.sleep(0.2)
            before, started = [self.runs(process) for process in waiting], time.monotonic()
            for _ in range(200):
                publisher.publish(item, b"x")
                time.sleep(0.001)
            # They look at their socket every 100 ms.
            limit = 30 + 40 * (time.monotonic() - started)
            for process, runs in zip(waiting, before):
                self.assertLess(self.runs(process) - runs, limit, process.args)
            wait_until(lambda: reader.receive(1) is None, "the end")
            self.assertEqual((reader.delivered, reader.lost), (201, 0))
            publisher.withdraw(item)

    @staticmethod
    def runs(process):
        """Returns how often the threads of a process waited and were woken."""
        states = Path(f"/proc/{process.pid}/task").glob("*/status")
        lines = [line for state in states for line in state.read_text().splitlines()]
        return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt"))

    @staticmethod
    def output(process):
        out = process.communicate(timeout=20)[0]
        return out if isinstance(out, bytes) else out.encode()

    def test_publisher_in_c_wakes_and_waits_for_readers_of_its_items_only(self):
        publisher = self.start_program("count", self.node.path, "/k/c", "publish")
        with Subscriber(self.node.path) as idle, Subscriber(self.node.path) as reader:
            number = idle.subscribe("/k/c")
            wait_until(lambda: idle.sources or idle.receive(0), "the ring")
            idle.unsubscribe(number)
            idle.subscribe("/k/c/second")
            reader.subscribe("/k/c")
            self.assertIsNone(idle.receive(0))
            publisher.stdin.write(b"\n")
            publisher.stdin.flush()
            found = [reader.receive(20) for _ in range(200)]
            self.assertEqual([one.sequence for one in found], list(range(1, 201)))
            out, _ = self.end_program(publisher)
        # 200 records of 20,000 bytes in a ring of 1 MiB: it waited for the reader, and not for the
        # one that has the ring and reads nothing of it.
        elapsed_ms, wakeups = map(int, out.split()[1:])
        self.assertLess(elapsed_ms, 10_000)
        self.assertLessEqual(wakeups, 200 + 20)


class CountTest(ProgramTest):
    def counter(self, *words):
        process = self.start_program("count", self.node.path, *words)
        self.assertEqual(process.stdout.readline(), b"subscribed\n")
        return process

    def counts(self, process):
        process.stdin.write(b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
        return [int(word) for word in line.split()]

    def test_losses_of_a_slow_c_subscriber_are_exact(self):
        with Publisher(self.node.path, ring_bytes=1 << 16) as publisher:
            item = publisher.announce("/s", keeps_last=False)
            slow = [self.counter("/s"), self.counter("/s", "messages")]
            wait_until(lambda: publisher.subscribers(item) == 2, "two subscribers")
            for _ in range(20_000):
                publisher.publish(item, bytes(100))
            # Losses by message are told while the item is announced.
            self.counts(slow[1])
            publisher.withdraw(item)
            for process in slow:
                wait_until(lambda: sum(self.counts(process)[:2]) >= 20_000, "all told")  # noqa: B023
                delivered, lost, _ = self.counts(process)
                self.assertEqual(delivered + lost, 20_000)
                if process is slow[0]:
                    self.assertGreater(lost, 0, "the ring holds a few hundred")
        for process in slow:
            self.end_program(process)

    def test_parts_that_interleave_in_several_rings_stay_whole(self):
        # Into files: a reader whose pipe is full would hold up the publishers.
        by_c, by_rust = (self.reader_into_file(name) for name in ("c", "rust"))
        scripts = []
        for letter in "ab":
            # Three records each, so both publishers wait for the readers in between.
            script = (
                "import sys; from namewire import Publisher\n"
                "publisher = Publisher(sys.argv[1], ring_bytes=1 << 16, wait_s=20)\n"
                f"item = publisher.announce('/i/{letter}', keeps_last=False)\n"
                "while publisher.subscribers(item) < 2: pass\n"
                f"for _ in range(20): publisher.publish(item, b'{letter}' * 40_000)\n"
                "publisher.drain(20)\n"
            )
            command = [sys.executable, "-c", script, self.node.path]
            scripts.append(subprocess.Popen(command))
            self.addCleanup(self.stop, scripts[-1])
        self.end_program(by_c)
        lines = (self.folder / "c").read_text().splitlines()
        expected = [f"/i/{c} {n} {c * 40_000}" for c in "ab" for n in range(1, 21)]
        self.assertTrue(sorted(lines) == sorted(expected), "read by C")
        self.assertEqual(by_rust.wait(60), 0)
        lines = (self.folder / "rust").read_text().splitlines()
        expected = [f"/i/{c} {c * 40_000}" for c in "ab" for _ in range(20)]
        self.assertTrue(sorted(lines) == expected, "read by Rust")

    def reader_into_file(self, name):
        """Starts a reader of 40 publications in C or Rust."""
        with open(self.folder / name, "w") as out:
            if name == "c":
                return self.start_program("subscribe", self.node.path, "/i/*", 40, stdout=out)
            words = self.node.arguments("sub", "/i/*", "-n", "40")
            process = subprocess.Popen(words, stdout=out, stderr=subprocess.DEVNULL)
        self.addCleanup(self.stop, process)
        return process

    def test_hostile_rings_harm_no_c_subscriber(self):
        seed = int(os.environ.get("SEED", "1"))
        rng = random.Random(seed)
        counter = self.counter("/**")
        expected = 0
        with Publisher(self.node.path) as good:
            item = good.announce("/good")
            for round_ in range(60):
                with Publisher(self.node.path, ring_bytes=1 << 16) as bad:
                    wild = bad.announce("/wild")
                    for _ in range(rng.randrange(4)):
                        bad.publish(wild, bytes(rng.randrange(20_000)))
                    self.spoil(bad, rng)
                    good.publish(item, b"g" * (round_ + 1))
                    expected += 1
                    if round_ % 6 == 0:
                        self.counts(counter)
            good.publish(item, b"end")
            delivered, _, _ = self.counts(counter)
            self.assertGreaterEqual(delivered, expected + 1, f"SEED={seed}")
            found = next(i for i in self.node.status()["items"] if i["name"] == "/good")
            self.assertEqual((found["published"], found["subscribers"]), (61, 1))
        self.end_program(counter)

    @staticmethod
    def spoil(publisher, rng):
        """Writes values that no honest publisher writes, to positions and to records."""
        ring = publisher.ring
        values = [0, 1, 32, 33, 2**16, 2**16 + 32, 2**40, 2**63, 2**64 - 1, 2**64 - 32]
        for _ in range(rng.randrange(1, 4)):
            at = ring.data_at + rng.randrange(0, 4096, 8)
            ring.store(at, rng.choice([*values, rng.getrandbits(64)]))
        words = [TAIL_AT, INTENT_AT, MARK_AT, EARLIER_MARK_AT, RESTARTS_AT, HEAD_LEN, HEAD_LEN + 8]
        for at in rng.sample(words, rng.randrange(1, 6)):
            ring.store(at, rng.choice(values))
        publisher.connection.send(8)
        for page, _ in publisher.readers.values():
            page.wake()


class DatagramTest(ProgramTest):
    def test_files_reach_several_clients_by_datagrams(self):
        files = {"large": os.urandom(1_500_000), "block": bytes(8192 * 32), "empty": b""}
        for name, content in files.items():
            (self.folder / name).write_bytes(content)
        server = self.start_program("file_server", self.node.path, "/f", "srv", cwd=self.folder)
        self.assertEqual(server.stderr.readline(), b"serving\n")
        wanted = ["large"] * 5 + ["block", "empty"]
        clients = [
            self.start_program("file_client", self.node.path, "/f", "srv", n) for n in wanted
        ]
        started = time.monotonic()
        for name, client in zip(wanted, clients):
            out, err = self.end_program(client)
            digests = [hashlib.sha256(one).hexdigest() for one in (out, files[name])]
            self.assertEqual(digests[0], digests[1], err)
            self.assertIn(f"{len(files[name])} bytes in", err)
        self.assertLess(time.monotonic() - started, 60)
        for name in ["missing", "../n.toml", "/etc/hostname"]:
            client = self.start_program("file_client", self.node.path, "/f", "srv", name)
            self.assertIn("no such file", self.end_program(client, code=1)[1])
        self.assertIsNone(server.poll())

    def test_client_of_a_silent_server_ends_with_a_sentence(self):
        client = self.start_program("file_client", self.node.path, "/f", "a/b", "x")
        self.assertIn("label of the receiver is invalid", self.end_program(client, code=1)[1])


if __name__ == "__main__":
    unittest.main()
