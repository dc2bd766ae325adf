"""Nodes in network namespaces: they find each other, deliver, and heal."""

import itertools
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

from namewire import Publication, Publisher, Subscriber
from node import Node, wait_until


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def can_make_namespaces():
    if os.getuid() != 0:
        return False
    made = subprocess.run(
        ["ip", "netns", "add", f"nwps{os.getpid()}x"], capture_output=True, check=False
    )
    if made.returncode == 0:
        ip("netns", "del", f"nwps{os.getpid()}x")
    return made.returncode == 0


@unittest.skipUnless(can_make_namespaces(), "SKIPPED: network namespaces need root and ip")
class DomainTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.nodes = {}

    def namespace(self, number):
        name = f"nwps{os.getpid()}n{number}"
        ip("netns", "add", name)
        self.addCleanup(ip, "netns", "del", name)
        ip("-n", name, "link", "set", "lo", "up")
        return name

    def network(self, count, links):
        """Makes namespaces and links: link a-b has addresses 10.a.b.1 and .2, a < b."""
        self.names = [self.namespace(number) for number in range(count)]
        for a, b in links:
            near, far = self.names[a], self.names[b]
            ip("link", "add", f"v{b}", "netns", near, "type", "veth", "peer", f"v{a}", "netns", far)
            for namespace, device, end in [(near, f"v{b}", 1), (far, f"v{a}", 2)]:
                ip("-n", namespace, "addr", "add", f"10.{a + 1}.{b + 1}.{end}/24", "dev", device)
                ip("-n", namespace, "link", "set", device, "up")

    def start(self, *numbers):
        for number in numbers:
            node = Node(self.folder, f"n{number}", "", namespace=self.names[number])
            self.addCleanup(node.end)
            self.nodes[number] = node

    def publisher(self, number, **options):
        publisher = Publisher(self.nodes[number].path, **options)
        self.addCleanup(publisher.close)
        return publisher

    def subscriber(self, number, pattern):
        subscriber = Subscriber(self.nodes[number].path)
        self.addCleanup(subscriber.close)
        subscriber.subscribe(pattern)
        return subscriber

    def test_three_nodes_deliver_within_three_seconds_of_their_start(self):
        self.network(3, [(0, 1), (1, 2), (0, 2)])
        started = time.monotonic()
        self.start(0, 1, 2)
        receivers = [
            self.nodes[n].start("sub", "-n", "1", "--timeout", "10000", "/sensors/**")
            for n in (1, 2)
        ]
        words = ["--wait", "2", "--patience", "3000", "/sensors/room1/temperature", "21.5"]
        sent = self.nodes[0].run("pub", *words)
        self.assertEqual(sent.returncode, 0, sent.stderr)
        for receiver in receivers:
            self.assertEqual(
                receiver.communicate(timeout=10)[0], "/sensors/room1/temperature 21.5\n"
            )
        self.assertLess(time.monotonic() - started, 3)
        status = self.nodes[0].status()
        self.assertEqual([node["hops"] for node in status["nodes"]], [1, 1])
        # A later subscriber on another node gets the last value only while it is published.
        self.assertEqual(status["last_values"], 1)

    def test_chain_delivers_files_and_last_values_and_spares_others(self):
        self.network(4, [(0, 1), (1, 2), (2, 3)])
        self.start(0, 1, 2, 3)
        content = os.urandom(200_000)
        last = self.subscriber(3, "/files/*")
        publisher = self.publisher(0)
        item = publisher.announce("/files/a")
        wait_until(lambda: publisher.subscribers(item) == 1, "node 3")
        publisher.publish(item, content)
        found = last.receive(5)
        self.assertTrue(found == Publication("/files/a", 1, content, 0, False), found and found[:2])
        late = self.subscriber(2, "/files/**")
        found = late.receive(5)
        self.assertEqual((found.sequence, found.payload == content), (1, True))
        trace = json.loads(self.nodes[0].run("pubsub", "trace", "/files/a", "--json").stdout)
        self.assertEqual(len(trace["publishers"][0]["links"]), 3)
        middle = self.nodes[1].status()
        self.assertEqual(middle["items"], [])
        self.assertGreater(middle["domain"]["forwarded"], 100)
        publisher.withdraw(item)
        wait_until(lambda: not self.nodes[3].status()["items"], "the end of the item")

    def test_counts_are_exact_when_a_node_stops_and_its_socket_overflows(self):
        self.network(2, [(0, 1)])
        self.start(0, 1)
        subscriber = self.subscriber(1, "/c")
        publisher = self.publisher(0, ring_bytes=1 << 20)
        item = publisher.announce("/c", keeps_last=False)
        wait_until(lambda: publisher.subscribers(item) == 1, "node 1")
        publisher.publish(item, b"first")
        self.assertEqual(subscriber.receive(5).payload, b"first")
        stopped = self.nodes[1].process
        stopped.send_signal(signal.SIGSTOP)
        for _ in range(30_000):
            publisher.publish(item, bytes(1000))
        wait_until(lambda: publisher.subscribers(item) == 0, "the loss of node 1", 2)
        stopped.send_signal(signal.SIGCONT)
        wait_until(lambda: publisher.subscribers(item) == 1, "node 1 again", 3)
        publisher.publish(item, b"last")
        last = None
        while (found := subscriber.receive(2.5)) is not None:
            last = found
        self.assertEqual(last.payload, b"last")
        self.assertEqual(subscriber.delivered + subscriber.lost, 30_002)
        self.assertGreater(subscriber.lost, 1000)

    def test_data_flows_again_within_a_second_after_a_link_and_a_node_fail(self):
        self.network(4, [(0, 1), (1, 2), (0, 3), (2, 3)])
        self.start(0, 1, 2, 3)
        subscriber = self.subscriber(2, "/h")
        publisher = self.publisher(0)
        item = publisher.announce("/h", keeps_last=False)
        wait_until(lambda: publisher.subscribers(item) == 1, "node 2")
        stop = threading.Event()
        times = []

        def receive():
            while not stop.is_set():
                if isinstance(subscriber.receive(0.1), Publication):
                    times.append(time.monotonic())

        thread = threading.Thread(target=receive)
        thread.start()
        try:
            # Both paths have two links; the lower node in between is used, whichever it is.
            for number in itertools.count():
                publisher.publish(item, b"x")
                time.sleep(0.005)
                if number == 100:
                    ip("-n", self.names[0], "link", "set", "v1", "down")
                if number == 500:
                    ip("-n", self.names[0], "link", "set", "v1", "up")
                if number == 800:
                    self.nodes[3].process.kill()
                if number == 1200:
                    break
            time.sleep(1.5)
        finally:
            stop.set()
            thread.join()
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        self.assertLess(max(gaps), 1.0)
        self.assertGreater(len(times), 800)
        while subscriber.receive(1.5) is not None:
            pass
        self.assertEqual(subscriber.delivered + subscriber.lost, 1201)

    def test_new_subscription_reaches_publishers_within_three_seconds_after_a_node_failed(self):
        self.network(3, [(0, 1), (1, 2), (0, 2)])
        self.start(0, 1, 2)
        publisher = self.publisher(0)
        item = publisher.announce("/r")
        publisher.publish(item, b"value")
        wait_until(lambda: len(self.nodes[0].status()["nodes"]) == 2, "the others")
        self.nodes[1].process.kill()
        subscriber = self.subscriber(2, "/r")
        found = subscriber.receive(3)
        self.assertEqual(found and found.payload, b"value")
        wait_until(lambda: len(self.nodes[0].status()["nodes"]) == 1, "the loss of node 1", 2)

    def test_hostile_packets_are_counted_and_dropped(self):
        self.network(2, [(0, 1)])
        self.start(0, 1)
        wait_until(lambda: self.nodes[0].status()["nodes"], "the neighbour")
        script = (
            "import os, socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "head = bytes([176, 50, 1, 0, 0, 255, 0, 0, 0, 0]) + b'\\xff' * 32\n"
            "for n in range(1000):\n"
            "    s.sendto(os.urandom(n), ('10.1.2.2', 55555))\n"
            "    s.sendto(head[:n % 60] + os.urandom(10), ('10.1.2.2', 55555))\n"
            "s.sendto(head + bytes(10), ('10.1.2.2', 55555))\n"
        )
        run = ["ip", "netns", "exec", self.names[0], "python3", "-c", script]
        subprocess.run(run, check=True)
        wait_until(lambda: self.nodes[1].status()["domain"]["invalid"] > 1000, "the count")
        subscriber = self.subscriber(1, "/ok")
        publisher = self.publisher(0)
        item = publisher.announce("/ok")
        publisher.publish(item, b"yes")
        self.assertEqual(subscriber.receive(5).payload, b"yes")


if __name__ == "__main__":
    unittest.main()
