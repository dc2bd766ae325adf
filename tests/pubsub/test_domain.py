"""Nodes in network namespaces: they find each other, deliver, and heal."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import bounds
import network
from namewire import Publication
from network import ip
from node import wait_until


class DomainTest(network.NetworkTest):
    def test_three_nodes_deliver_soon_after_their_start(self):
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
        # One second on an idle machine; more than four were seen beside seven other builds.
        bounds.check(self, "pubsub/domain.first_delivery_s", time.monotonic() - started)
        status = self.nodes[0].status()
        self.assertEqual([node["hops"] for node in status["nodes"]], [1, 1])
        # A later subscriber of an ended publisher gets the last value, on whichever node it is.
        self.assertEqual(status["last_values"], 1)
        late = self.subscriber(2, "/*/room1/*").receive(5)
        self.assertEqual((late.payload, late.is_last_value), (b"21.5", True))
        self.check_parents()
        self.check_strategies()
        self.check_implicit_rendezvous()

    def check_parents(self):
        """A scope that one node links leads publications of another to subscribers of a third."""
        linking, receiver = self.publisher(1), self.subscriber(2, "/further/**")
        linking.publish_scope("/first/scope")
        linking.add_parent("/first/scope", "/further")
        publisher = self.publisher(0)
        item = publisher.announce("/first/scope/item")
        wait_until(lambda: publisher.subscribers(item) == 1, "node 2")
        publisher.publish(item, b"1")
        found = receiver.receive(5)
        self.assertEqual((found.name, found.payload), ("/first/scope/item", b"1"))
        linking.withdraw_scope("/first/scope")
        wait_until(lambda: publisher.subscribers(item) == 0, "the end of the link")

    def check_strategies(self):
        """The strategy of a scope that one node publishes holds for items of another."""
        giving, receiver = self.publisher(1), self.subscriber(2, "/inside/**")
        giving.publish_scope("/inside", strategy="node")
        wait_until(lambda: len(self.nodes[0].status()["scopes"]) == 1, "the scope at node 0")
        publisher = self.publisher(0)
        item = publisher.announce("/inside/item")
        publisher.publish(item, b"1")
        self.assertEqual(publisher.subscribers(item), 0)
        refused = self.nodes[0].run("pub", "/inside/other", "x", "--strategy", "domain")
        self.assertIn("strategy node", refused.stderr)
        self.assertIsNone(receiver.receive(0.2))

    def check_implicit_rendezvous(self):
        """Publications reach nodes that told no subscription: along the receivers of another item,
        and along a forwarding identifier."""
        receiver = self.subscriber(2, "/main")
        receiver.subscribe("/here/*", here=True)
        wait_until(lambda: self.nodes[0].status()["nodes"], "the neighbours")
        publisher = self.publisher(0)
        main = publisher.announce("/main")
        wait_until(lambda: publisher.subscribers(main) == 1, "node 2")
        like = publisher.announce("/here/like", strategy="implicit")
        publisher.publish(like, b"nowhere")
        publisher.set_route(like, like="/main")
        wait_until(lambda: publisher.subscribers(like) == 1, "node 2")
        found = receiver.receive(5)
        self.assertEqual((found.payload, found.is_last_value), (b"nowhere", True))
        publisher.publish(like, b"like")
        self.assertEqual(receiver.receive(5).payload, b"like")
        trace = json.loads(self.nodes[0].run("pubsub", "trace", "/main", "--json").stdout)
        path = trace["publishers"][0]["paths"][0]
        along = self.nodes[0].run("pub", "/here/path", "along", "--path", path, "--quiet")
        self.assertEqual(along.returncode, 0, along.stderr)
        self.assertEqual(receiver.receive(5).payload, b"along")
        full = self.nodes[0].run("pub", "/here/full", "x", "--path", "00ff" + "ff" * 32)
        self.assertIn("too full", full.stderr)
        self.assertIsNone(self.subscriber(1, "/here/**").receive(0.2), "node 1 is no receiver")

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

    def test_publisher_that_begins_again_is_received_from_its_first_publication_on(self):
        self.network(2, [(0, 1)])
        self.start(0, 1)
        for number in range(3):
            subscriber = self.subscriber(1, "/again")
            # Whatever is repeated of the publisher before comes to the new subscription.
            time.sleep(1.5 if number else 0)
            publisher = self.publisher(0)
            item = publisher.announce("/again", keeps_last=False)
            wait_until(lambda: publisher.subscribers(item) == 1, "node 1")
            publisher.publish(item, b"%d" % number)
            found = subscriber.receive(5)
            self.assertIsNotNone(found, f"publisher {number}")
            self.assertEqual((found.payload, found.sequence), (b"%d" % number, 1))
            self.assertEqual(subscriber.lost, 0)
            subscriber.close()
            wait_until(lambda: publisher.subscribers(item) == 0, "the end of the subscription")
            publisher.close()

    def test_renewed_subscription_gets_no_publications_from_before_it(self):
        self.network(3, [(0, 1), (0, 2)])
        self.start(0, 1, 2)
        other, early = self.subscriber(2, "/renewed"), self.subscriber(1, "/renewed")
        publisher = self.publisher(0)
        item = publisher.announce("/renewed", keeps_last=False)
        wait_until(lambda: publisher.subscribers(item) == 2, "both nodes")
        early.close()
        wait_until(lambda: publisher.subscribers(item) == 1, "the end of the subscription")
        for number in range(1, 4):
            publisher.publish(item, b"%d" % number)
            self.assertEqual(other.receive(5).sequence, number)
        late = self.subscriber(1, "/renewed")
        wait_until(lambda: publisher.subscribers(item) == 2, "both nodes again")
        publisher.publish(item, b"4")
        found = late.receive(5)
        self.assertEqual((found.payload, found.sequence, late.lost), (b"4", 4, 0))

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

    def test_publications_lost_on_links_are_repaired_from_the_publishers_node(self):
        self.network(3, [(0, 1), (1, 2)])
        self.start(0, 1, 2)
        subscriber = self.subscriber(2, "/l/*")
        publisher = self.publisher(0)
        small, large = publisher.announce("/l/small"), publisher.announce("/l/large")
        for item in (small, large):
            wait_until(lambda item=item: publisher.subscribers(item) == 1, "node 2")
        # A short queue on the second link: of a large publication's burst most packets are lost,
        # and of the small ones those beside it.
        inside = ["ip", "netns", "exec", self.names[1]]
        short = ["tbf", "rate", "50mbit", "burst", "10kb", "limit", "30kb"]
        command = [*inside, "tc", "qdisc", "add", "dev", "v2", "root", *short]
        subprocess.run(command, check=True, capture_output=True)
        large_content = os.urandom(100_000)
        for number in range(300):
            publisher.publish(small, b"%d" % number)
            if number % 30 == 0:
                publisher.publish(large, large_content)
            time.sleep(0.002)
        received = {"/l/small": [], "/l/large": []}
        while (found := subscriber.receive(2.5)) is not None:
            if isinstance(found, Publication):
                received[found.name].append(found)
        contents = [publication.payload for publication in received["/l/small"]]
        numbers = [int(content) for content in contents]
        self.assertEqual(numbers, sorted(numbers), "order is kept")
        self.assertTrue(all(p.payload == large_content for p in received["/l/large"]))
        # Each large one loses packets on the way; hardly any publication is lost for good.
        self.assertEqual(subscriber.delivered + subscriber.lost, 310)
        self.assertLessEqual(subscriber.lost, 10)
        self.assertGreaterEqual(len(received["/l/large"]), 5)
        self.assertGreater(self.nodes[2].status()["domain"]["repair_requests"], 5)
        self.assertGreater(self.nodes[0].status()["domain"]["sent_again"], 5)

    def test_link_and_node_in_use_fail_data_flows_within_second(self):
        self.network(4, [(0, 1), (1, 2), (0, 3), (2, 3)])
        self.start(0, 1, 2, 3)
        nodes = {number: self.nodes[number].status()["node"] for number in (1, 3)}
        subscriber, publisher = self.subscriber(2, "/h"), self.publisher(0)
        item = publisher.announce("/h", keeps_last=False)
        wait_until(lambda: publisher.subscribers(item) == 1, "node 2")
        self.wait_for_both_paths()
        stop, times, published = threading.Event(), [], itertools.count()

        def publish():
            while not stop.wait(0.005):
                publisher.publish(item, b"x")
                next(published)

        def receive():
            while not stop.is_set():
                if isinstance(subscriber.receive(0.1), Publication):
                    times.append(time.monotonic())

        threads = [threading.Thread(target=run) for run in (publish, receive)]
        for thread in threads:
            thread.start()
        try:
            # Both paths have two links, and identifiers, drawn at the start, decide between them:
            # the one in use is looked for before each failure.
            used = self.node_between("/h", nodes)
            ip("-n", self.names[0], "link", "set", f"v{used}", "down")
            wait_until(lambda: self.node_between("/h", nodes) == 4 - used, "the other path")
            wait_until(lambda: time.monotonic() - times[-1] < 0.1, "data by the other path")
            ip("-n", self.names[0], "link", "set", f"v{used}", "up")
            self.wait_for_both_paths()
            time.sleep(1)
            used = self.node_between("/h", nodes)
            self.nodes[used].process.kill()
            wait_until(lambda: self.node_between("/h", nodes) == 4 - used, "the path that is left")
            time.sleep(1.5)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        bounds.check(self, "pubsub/domain.healed_s", max(gaps))
        while subscriber.receive(1.5) is not None:
            pass
        self.assertEqual(subscriber.delivered + subscriber.lost, next(published))

    def wait_for_both_paths(self):
        """Waits until nodes 1 and 3 are neighbours of nodes 0 and 2."""
        for number in (0, 2):
            wait_until(
                lambda n=number: [x["hops"] for x in self.nodes[n].status()["nodes"]].count(1) == 2,
                f"the neighbours of node {number}",
            )

    def node_between(self, name, nodes):
        """Returns the number of the node that node 0 sends an item by, if it sends it at all."""
        trace = json.loads(self.nodes[0].run("pubsub", "trace", name, "--json").stdout)
        links = trace["publishers"][0]["links"]
        used = {identifier for link in links for identifier in link.split()}
        return next((number for number, identifier in nodes.items() if identifier in used), None)

    def serve_and_kill(self, choice, strengths):
        """Publishers at nodes 0 and 1 of one item, the first of which serves node 2 until its node
        is killed. Returns the seconds until the second one serves."""
        name = f"/serve/{choice}"
        subscriber = self.subscriber(2, name)
        for number in range(4):
            wait_until(lambda n=number: len(self.nodes[n].status()["nodes"]) == 3, "all nodes")
        first, second = self.publisher(0), self.publisher(1)
        item = first.announce(name, choice=choice, strength=strengths[0])
        wait_until(lambda: first.subscribers(item) == 1, "node 2")
        # Records of all nodes are where they are needed some milliseconds later.
        time.sleep(0.3)
        other = second.announce(name, choice=choice, strength=strengths[1])
        for number in range(50):
            second.publish(other, b"unseen")
            first.publish(item, b"first %d" % number)
        found = [subscriber.receive(5) for _ in range(50)]
        self.assertEqual([p.payload for p in found], [b"first %d" % n for n in range(50)])
        status = next(i for i in self.nodes[1].status()["items"] if i["name"] == name)
        # The nearest one for node 1 itself is there.
        expected = (choice, 0, choice == "strongest")
        self.assertEqual((status["choice"], status["nodes"], status["standby"]), expected)
        trace = self.nodes[1].run("pubsub", "trace", name).stdout
        self.assertIn("strongest 5, standby" if choice == "strongest" else "nearest", trace)
        refused = self.nodes[2].run("pub", name, "x", "--choice", "all")
        self.assertIn(f"has publishers with the choice {choice}, not all", refused.stderr)
        self.nodes[0].process.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        while True:
            second.publish(other, b"second")
            found = subscriber.receive(0.01)
            if isinstance(found, Publication) and found.payload == b"second":
                took_s = time.monotonic() - killed
                break
            self.assertLess(time.monotonic() - killed, 10)
        wait_until(lambda: second.subscribers(other) == 1, "the publisher to be told", 1)
        self.assertEqual(subscriber.lost, 0)
        return took_s

    def test_nearest_publisher_serves_and_the_other_one_after_its_node_was_killed(self):
        # Node 0 is a link away from node 2, node 1 two.
        self.network(4, [(0, 2), (1, 3), (2, 3)])
        self.start(0, 1, 2, 3)
        took_s = self.serve_and_kill("nearest", [0, 0])
        print(f"the next publisher served after {took_s:.2f} s", file=sys.stderr)
        self.assertLess(took_s, 1)

    def test_strongest_publisher_serves_and_the_other_one_after_its_node_was_killed(self):
        # The nearer one is the weaker one.
        self.network(4, [(0, 3), (1, 2), (2, 3)])
        self.start(0, 1, 2, 3)
        took_s = self.serve_and_kill("strongest", [10, 5])
        print(f"the next publisher served after {took_s:.2f} s", file=sys.stderr)
        self.assertLess(took_s, 1)

    def has_item(self, node, name, published):
        items = self.nodes[node].status()["items"]
        return any(i["name"] == name and i["published"] == published for i in items)

    def test_two_of_three_nodes_serve_old_and_new_requests_after_the_third_was_killed(self):
        """Every node has the subscriptions and links of all: it does not matter which one ends."""
        self.network(3, [(0, 1), (1, 2), (0, 2)])
        self.start(0, pubsub='keep = ["/kept/**"]\n')
        self.start(1, 2)
        # Two publishers of one item, one of which ends with its node.
        old = self.subscriber(2, "/r")
        publishers = [(publisher := self.publisher(n), publisher.announce("/r")) for n in (0, 1)]
        for publisher, item in publishers:
            wait_until(lambda p=publisher, i=item: p.subscribers(i) == 1, "node 2")
        stop = threading.Event()
        times = []

        def publish():
            while not stop.is_set():
                publishers[0][0].publish(publishers[0][1], b"value")
                time.sleep(0.01)

        def receive():
            while not stop.is_set():
                found = old.receive(0.1)
                if isinstance(found, Publication) and found.payload == b"value":
                    times.append(time.monotonic())

        threads = [threading.Thread(target=publish), threading.Thread(target=receive)]
        for thread in threads:
            thread.start()
        try:
            publishers[1][0].publish(publishers[1][1], b"other")
            wait_until(lambda: len(times) > 10, "publications before the failure")
            # An item that node 2 follows, and one that no node does but node 0, which keeps it.
            followed = self.subscriber(2, "/followed")
            for name in ("/followed", "/kept/item"):
                item = publishers[1][0].announce(name)
                wait_until(lambda i=item: publishers[1][0].subscribers(i) == 1, name)
                for number in range(3):
                    publishers[1][0].publish(item, b"%d" % number)
            wait_until(lambda: followed.receive(3).payload == b"2", "the last of three")
            wait_until(lambda: self.has_item(0, "/kept/item", 3), "the last of three")
            self.nodes[1].process.kill()
            killed = time.monotonic()
            # A subscription and a publication that come at once.
            new = self.subscriber(2, "/r")
            # The last value of each publisher comes first, also that of the one that has ended.
            wait_until(lambda: new.receive(3).payload == b"value", "the publisher of node 0", 3)
            back = self.subscriber(0, "/back/*")
            publisher = self.publisher(2)
            publisher.publish(publisher.announce("/back/1"), b"back")
            self.assertEqual(back.receive(3).payload, b"back")
            answered_s = time.monotonic() - killed
            wait_until(lambda: len(self.nodes[0].status()["nodes"]) == 1, "the loss of node 1", 5)
            # Late subscribers get what the killed node had published, from those that had it.
            for number, pattern in [(0, "/followed"), (2, "/kept/*")]:
                found = self.subscriber(number, pattern).receive(5)
                self.assertEqual((found.payload, found.is_last_value), (b"2", True), pattern)
            self.assertGreater(self.nodes[0].status()["domain"]["kept_sent"], 0)
            # The node comes back, and knows the subscriptions of the others.
            self.start(1)
            again = self.publisher(1)
            item = again.announce("/back/2")
            again.publish(item, b"again")
            self.assertEqual(back.receive(3).payload, b"again")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        times = [at for at in times if at > killed - 0.05]
        self.assertGreater(len(times), 20)
        # Data is to flow again within 1 s. The path used here does not end with the node, so more
        # than that is the machine's; the test above ends paths.
        gap_s = max(b - a for a, b in itertools.pairwise(times))
        print(f"answered after {answered_s:.2f} s, longest gap {gap_s:.2f} s", file=sys.stderr)
        self.assertLess(gap_s, 2)

    def test_three_nodes_deliver_over_ethernet_without_addresses(self):
        self.network(3, [(0, 1), (1, 2)], addresses=False)
        self.start(0, 1, 2, pubsub="udp = false\nethernet = true\n")
        receivers = [
            self.nodes[n].start("sub", "-n", "2", "--timeout", "10000", "/e/**") for n in (1, 2)
        ]
        words = ["--wait", "2", "--patience", "3000", "/e/a", "21.5", "22"]
        sent = self.nodes[0].run("pub", *words)
        self.assertEqual(sent.returncode, 0, sent.stderr)
        for receiver in receivers:
            self.assertEqual(receiver.communicate(timeout=10)[0], "/e/a 21.5\n/e/a 22\n")
        status = self.nodes[0].status()
        addresses = [node["address"] for node in sorted(status["nodes"], key=lambda n: n["hops"])]
        self.assertRegex(addresses[0], r"^ether://\[.*\]$")
        self.assertEqual(addresses[1], "", "not a neighbour")
        self.assertEqual(status["domain"]["send_errors"], 0)
        # A frame of Blackadder 0.4, and a short one that Ethernet pads, are counted and harmless.
        script = (
            "import socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n"
            "s.bind(('v1', 0)); mac = s.getsockname()[4]\n"
            "to = bytes.fromhex('01005e7f5053')\n"
            "fid = bytes(20) + b'\\4' + bytes(10) + b'\\x80'\n"
            "ids = b'\\1\\2' + b'\\xff' * 8 + b'00000002'\n"
            "for body in (fid + ids + b'\\0\\1' + b'\\x11' * 8 + b'\\0\\2', bytes([176, 2, 1, 0])):\n"
            "    s.send(to + mac + b'\\x08\\x0a' + body.ljust(46, b'\\0'))\n"
        )
        run = ["ip", "netns", "exec", self.names[0], "python3", "-c", script]
        subprocess.run(run, check=True)
        wait_until(lambda: self.nodes[1].status()["domain"]["invalid"] == 2, "the count")

    def test_interface_whose_mtu_is_raised_receives_longer_frames(self):
        self.network(2, [(0, 1)], addresses=False)
        ip("-n", self.names[1], "link", "set", "v0", "mtu", "900")
        self.start(0, 1, pubsub="udp = false\nethernet = true\nhello_ms = 100\n")
        subscriber = self.subscriber(1, "/long")
        publisher = self.publisher(0)
        item = publisher.announce("/long")
        wait_until(lambda: publisher.subscribers(item) == 1, "the other node", 10)
        publisher.publish(item, b"short")
        self.assertEqual(subscriber.receive(5).payload, b"short")
        ip("-n", self.names[1], "link", "set", "v0", "mtu", "1500")
        time.sleep(0.5)
        publisher.publish(item, bytes(1200))
        found = subscriber.receive(5)
        self.assertEqual((found.lost, len(found.payload or b"")), (0, 1200))

    def test_group_that_can_not_be_joined_is_told(self):
        self.network(2, [(0, 1)])
        limit = "/proc/sys/net/ipv4/igmp_max_memberships"
        write = ["ip", "netns", "exec", self.names[0], "sh", "-c", f"echo 0 > {limit}"]
        subprocess.run(write, check=True, timeout=10)
        self.start(0)
        wait_until(
            lambda: "raise net.ipv4.igmp_max_memberships" in self.nodes[0].log(), "a warning"
        )

    def test_kernel_forwards_for_a_node_that_does_not_subscribe(self):
        self.network(4, [(0, 1), (1, 2), (1, 3)], addresses=False)
        self.start(0, 1, 2, 3, pubsub="udp = false\nethernet = true\nxdp = true\n")
        refused = "publications are not forwarded in the kernel"

        def has_decided():
            # The socket of applications listens before programs are attached.
            log = self.nodes[1].log()
            return refused in log or log.count("publications forwarded in the kernel") == 3

        wait_until(has_decided, "programs of three interfaces")
        log = self.nodes[1].log()
        if refused in log:
            self.skipTest("this kernel or user may not use XDP: " + log)
        near, far = self.subscriber(2, "/k/**"), self.subscriber(3, "/k/b")
        publisher = self.publisher(0)
        content = os.urandom(100_000)
        for name, count in [("/k/a", 1), ("/k/b", 2)]:
            item = publisher.announce(name)
            wait_until(lambda item=item, n=count: publisher.subscribers(item) == n, "subscribers")
            # Links reach the kernel at an interval.
            time.sleep(0.2)
            for _ in range(3):
                publisher.publish(item, content)
        for subscriber, expected in [(near, 6), (far, 3)]:
            found = [subscriber.receive(5) for _ in range(expected)]
            self.assertTrue(all(p.payload == content for p in found))
            self.assertEqual((subscriber.delivered, subscriber.lost), (expected, 0))

        def counts():
            return self.nodes[1].status()["domain"]["kernel"]

        # Three times some 75 packets for node 2 alone, and for both.
        wait_until(lambda: counts()["forwarded"] > 200 and counts()["multicast"] > 200, "counts")
        found = counts()
        self.assertGreaterEqual(found["copies"], 2 * found["multicast"])
        self.assertLess(self.nodes[1].status()["domain"]["forwarded"], found["forwarded"])
        # A node that subscribes too gets its copy, and its service passes the others on.
        middle = self.subscriber(1, "/k/b")
        wait_until(lambda: publisher.subscribers(item) == 3, "three subscribers")
        time.sleep(0.2)
        publisher.publish(item, b"all")
        for subscriber in (middle, near, far):
            while (found := subscriber.receive(5)).payload != b"all":
                pass
        wait_until(lambda: counts()["local_and_links"] > 0, "the service's count")

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
