"""`nw pubsub border` between three domains: policy, demand, stand-ins and a ring."""

import json
import signal
import threading
import time
import unittest
from itertools import pairwise

import network
from node import NodeTest, wait_until

#: Nodes of each domain, and the links between them. No link connects two domains.
DOMAINS = {"a": (0, 1), "b": (2, 3), "c": (4,)}
LINKS = [(0, 1), (2, 3)]


class Flow:
    """Publishes numbers at an interval until it is ended."""

    def __init__(self, publisher, name, interval_s):
        self.publisher, self.item = publisher, publisher.announce(name)
        self.interval_s, self.count, self.is_over = interval_s, 0, False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.is_over:
            self.count += 1
            self.publisher.publish(self.item, str(self.count).encode())
            time.sleep(self.interval_s)

    def end(self):
        self.is_over = True
        self.thread.join()
        return self.count


class BorderTest(network.NetworkTest):
    def setUp(self):
        super().setUp()
        self.network(5, LINKS)
        self.start(0, 1, 2, 3, 4)
        for near, far in LINKS:
            wait_until(lambda n=near: self.nodes[n].status()["nodes"], f"{near} finds {far}")

    def border(self, inside, outside, *words):
        """Starts a border between two nodes, given as domain and number."""
        (inner, near), (outer, far) = inside, outside
        path = str(self.nodes[far].path)
        process = self.nodes[near].start(
            "pubsub", "border", inner, outer, "--outside-socket", path, *words
        )
        self.addCleanup(NodeTest.stop, process)
        return process

    def is_connected(self, process, inner, outer):
        self.assertIn(f"{inner} is connected to {outer}", process.stderr.readline())

    def receive(self, subscriber, last, timeout_s=10):
        """Returns names, payloads and arrival times up to the payload `last`."""
        found, deadline = [], time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            event = subscriber.receive(0.1)
            if event is None:
                continue
            if event.lost:
                self.lost += event.lost
            if hasattr(event, "payload"):
                found.append((event.name, event.payload, time.monotonic()))
                if event.payload == last:
                    break
        return found

    def subscriptions(self, number):
        programs = self.nodes[number].status()["applications"]
        return [pattern for program in programs for pattern in program["subscriptions"]]

    def test_publications_cross_two_borders_when_wanted_and_as_far_as_permitted(self):
        first = self.border(("a", 1), ("b", 2), "--export", "/x/**", "--export", "/y/*", "--json")
        second = self.border(("b", 3), ("c", 4), "--export", "/x/**", "--json")
        for process in (first, second):
            events = [json.loads(process.stdout.readline())["event"] for _ in range(2)]
            self.assertEqual(events, ["ready", "active"])
        publisher = self.publisher(0)
        items = [publisher.announce(name) for name in ("/x/1", "/y/1", "/secret/1")]
        for item in items:
            publisher.publish(item, b"1")
        self.assertEqual(self.subscriptions(1), [], "nothing is wanted")
        self.lost = 0
        near, far = self.subscriber(2, "/**"), self.subscriber(4, "/**")
        # Last values of before cross, too.
        values = sorted(self.receive(near, None, 2))
        self.assertEqual([found[0] for found in values], ["/x/1", "/y/1"])
        self.assertEqual([found[:2] for found in self.receive(far, b"1")], [("/x/1", b"1")])
        wanted = sorted(self.subscriptions(1))
        self.assertEqual(wanted, ["/@to/b/x/**", "/@to/b/y/*"])
        for number in range(2, 102):
            for item in items:
                publisher.publish(item, str(number).encode())
        publisher.publish(items[0], b"end")
        found = self.receive(far, b"end")
        payloads = [*(str(number).encode() for number in range(2, 102)), b"end"]
        self.assertEqual([entry[:2] for entry in found], [("/x/1", data) for data in payloads])
        # A late subscriber on another node of a domain gets the last value, with its number.
        late = self.subscriber(3, "/x/*").receive(5)
        self.assertEqual((late.name, late.payload, late.sequence), ("/x/1", b"end", 102))
        self.assertEqual(self.lost, 0)
        # Nothing shows there what did not pass.
        for number in (2, 3, 4):
            for words in (["graph"], ["status", "--json"], ["events", "--timeout", "300"]):
                shown = self.nodes[number].run("pubsub", *words).stdout
                self.assertNotIn("secret", shown)
        for process, passed in [(first, 2 + 2 * 100 + 1), (second, 1 + 100 + 1)]:
            output, _ = NodeTest.end(process)
            counts = json.loads(output.splitlines()[-1])["exported"]
            self.assertEqual((counts["passed"], counts["lost"]), (passed, 0))

    def test_program_that_is_killed_is_replaced_within_a_second_and_nothing_is_lost(self):
        first = self.border(("a", 1), ("b", 2), "--export", "/x/**")
        self.is_connected(first, "a", "b")
        second = self.border(("a", 0), ("b", 3), "--export", "/x/**")
        self.assertIn("standing by", second.stderr.readline())
        third = self.border(("b", 3), ("c", 4), "--export", "/x/**")
        self.is_connected(third, "b", "c")
        self.lost = 0
        far = self.subscriber(4, "/x/**")
        flow = Flow(self.publisher(0), "/x/1", 0.005)
        self.assertTrue(self.receive(far, b"200"))
        # Of those, some may have come while the subscription was crossing.
        self.lost = 0
        timer = threading.Timer(0.3, first.send_signal, [signal.SIGKILL])
        timer.start()
        found = self.receive(far, b"600", 20)
        flow.end()
        numbers = [int(payload) for _, payload, _ in found]
        self.assertEqual(numbers, list(range(201, 601)), "each once and in order")
        self.assertEqual(self.lost, 0)
        self.is_connected(second, "a", "b")
        times = [at for _, _, at in found]
        longest = max(later - earlier for earlier, later in pairwise(times))
        self.assertLess(longest, 1)

    def test_ring_of_domains_delivers_each_publication_once(self):
        rules = ["--export", "/x/**", "--import", "/x/**"]
        ring = [(("a", 1), ("b", 2)), (("b", 3), ("c", 4)), (("c", 4), ("a", 0))]
        programs = [self.border(*ends, *rules) for ends in ring]
        for process, ((inner, _), (outer, _)) in zip(programs, ring, strict=True):
            self.is_connected(process, inner, outer)
        self.lost = 0
        readers = {name: self.subscriber(DOMAINS[name][-1], "/x/**") for name in DOMAINS}
        time.sleep(1)
        publisher = self.publisher(0)
        item = publisher.announce("/x/1")
        for number in range(1, 301):
            publisher.publish(item, str(number).encode())
            time.sleep(0.002)
        expected = list(range(1, 301))
        for name, reader in readers.items():
            found = [int(payload) for _, payload, _ in self.receive(reader, None, 2)]
            self.assertEqual(found, expected, name)
        self.assertEqual(self.lost, 0)
        # Without the direct border they come by the long way.
        programs[2].send_signal(signal.SIGKILL)
        programs[2].wait()
        for number in range(301, 401):
            publisher.publish(item, str(number).encode())
            time.sleep(0.002)
        found = [int(payload) for _, payload, _ in self.receive(readers["c"], b"400")]
        self.assertEqual(found, list(range(301, 401)))


if __name__ == "__main__":
    unittest.main()
