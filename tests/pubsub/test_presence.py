"""Who is here, earlier publications, strategies, questions and answers."""

import json
import signal
import unittest

import network
from namewire import PresenceWatcher, Publication, Publisher, Subscriber
from node import NodeTest, wait_until


class PresenceTest(NodeTest):
    def test_those_that_are_here_come_first_then_each_that_comes_and_goes(self):
        early = Publisher(self.node.path, program="early")
        early.announce("/p/early")
        early.announce("/other")
        with PresenceWatcher(self.node.path) as watcher:
            watcher.watch("/p/**")
            found = watcher.receive(5)
            self.assertEqual(
                (found.name, found.program, found.is_publisher, found.is_here, found.node),
                ("/p/early", "early", True, True, 0),
            )
            reader = self.subscriber("/p/*")
            found = watcher.receive(5)
            self.assertEqual((found.name, found.is_publisher, found.is_here), ("/p/*", False, True))
            reader.send_signal(signal.SIGKILL)
            found = watcher.receive(5)
            self.assertEqual(
                (found.name, found.is_publisher, found.is_here), ("/p/*", False, False)
            )
            early.close()
            found = watcher.receive(5)
            self.assertEqual((found.name, found.is_here), ("/p/early", False))
            self.assertIsNone(watcher.receive(0.2))

    def test_command_shows_events_as_text_and_json(self):
        words = ["pubsub", "events", "/e/**", "-n", "2"]
        as_text, as_json = self.node.start(*words), self.node.start(*words, "--json")
        for process in (as_text, as_json):
            self.addCleanup(self.stop, process)
        with Publisher(self.node.path, program="meter") as publisher:
            publisher.announce("/e/x")
            # Both have seen it before it goes.
            lines = [process.stdout.readline() for process in (as_text, as_json)]
        self.assertRegex(lines[0], r"^\+ publisher /e/x: application \d+ \(meter\)$")
        self.assertRegex(as_text.communicate(timeout=20)[0], r"^- publisher /e/x: application \d+")
        lines.append(as_json.communicate(timeout=20)[0])
        found = [json.loads(line) for line in lines[1:]]
        expected = [("publisher", True), ("publisher", False)]
        self.assertEqual([(one["kind"], one["is_here"]) for one in found], expected)


class HistoryTest(NodeTest):
    def test_late_subscriber_gets_the_earlier_publications_that_it_asks_for(self):
        with Publisher(self.node.path) as publisher:
            item, other = publisher.announce("/h/a"), publisher.announce("/h/b")
            for number in range(100):
                publisher.publish(item, b"%d" % number)
                publisher.publish(other, bytes(1000))
            for shared_memory in (True, False):
                with Subscriber(self.node.path, shared_memory=shared_memory) as late:
                    late.subscribe("/h/a", history=10)
                    found = [late.receive(5) for _ in range(10)]
                    self.assertEqual(
                        [f.payload for f in found], [b"%d" % n for n in range(90, 100)]
                    )
                    publisher.publish(item, b"next")
                    self.assertEqual(late.receive(5).payload, b"next")
                    self.assertEqual(late.lost, 0)
                publisher.publish(item, b"99")
                # The next round sees the same ten.
                for number in range(90, 100):
                    publisher.publish(item, b"%d" % number)
            shown = self.node.run("sub", "/h/a", "--history", "3", "-n", "3", "--timeout", "5000")
            self.assertEqual(shown.stdout, "/h/a 97\n/h/a 98\n/h/a 99\n")

    def test_history_is_what_the_ring_still_has_and_nothing_counts_as_lost(self):
        with Publisher(self.node.path, ring_bytes=1 << 16) as publisher:
            item = publisher.announce("/h")
            for _ in range(5000):
                publisher.publish(item, bytes(100))
            with Subscriber(self.node.path) as late:
                late.subscribe("/h", history=5000)
                found = []
                while (one := late.receive(0.3)) is not None:
                    found.append(one.sequence)
                self.assertEqual(found, list(range(found[0], 5001)))
                self.assertTrue(100 < len(found) < 1000, len(found))
                self.assertEqual(late.lost, 0)


class QuestionTest(NodeTest):
    def test_question_is_answered_by_text_and_by_a_program(self):
        program = self.folder / "upper"
        program.write_text('#!/bin/sh\necho "$1: $(tr a-z A-Z)"\n')
        program.chmod(0o755)
        text = self.node.start("pubsub", "answer", "/q/text", "42", "-n", "1")
        by_program = self.node.start("pubsub", "answer", "/q/run/*", "--exec", str(program))
        for process in (text, by_program):
            self.addCleanup(self.stop, process)
        asked = self.node.run("pubsub", "ask", "/q/text", "what?")
        self.assertEqual((asked.stdout, asked.returncode), ("42\n", 0), asked.stderr)
        self.assertEqual(text.wait(10), 0)
        asked = self.node.run("pubsub", "ask", "/q/run/x", "loud")
        self.assertEqual(asked.stdout, "/q/run/x: LOUD\n")
        asked = self.node.run("pubsub", "ask", "/q/none", "--timeout", "200")
        self.assertEqual(asked.returncode, 5)
        self.assertIn("no answer within 200 ms", asked.stderr)

    def test_question_becomes_an_interest_and_data_is_the_answer(self):
        answering = self.node.start("pubsub", "answer", "/q/**", "--fetch", "/ndn")
        self.addCleanup(self.stop, answering)
        producer = self.node.start("poke", "/ndn/q/name", "from NDN", "--freshness", "1000")
        self.addCleanup(self.stop, producer)
        wait_until(
            lambda: "/ndn/q/name" in self.node.run("route", "list").stdout,
            "a route to the producer",
        )
        asked = self.node.run("pubsub", "ask", "/q/name")
        self.assertEqual((asked.stdout, asked.returncode), ("from NDN\n", 0), asked.stderr)


class DomainTest(network.NetworkTest):
    def test_publishers_and_subscribers_of_other_nodes_come_and_go_also_when_a_node_dies(self):
        self.network(2, [(0, 1)])
        self.start(0, 1)
        watcher = PresenceWatcher(self.nodes[0].path)
        self.addCleanup(watcher.close)
        watcher.watch("/far/**")
        publisher = self.publisher(1)
        item = publisher.announce("/far/a")
        self.subscriber(1, "/far/*")
        found = [watcher.receive(5) for _ in range(2)]
        self.assertEqual({(f.name, f.is_publisher) for f in found},
                         {("/far/a", True), ("/far/*", False)})  # fmt: skip
        self.assertTrue(all(f.is_here and f.node for f in found))
        late = PresenceWatcher(self.nodes[0].path)
        self.addCleanup(late.close)
        late.watch("/far/a")
        self.assertEqual({late.receive(5).name for _ in range(2)}, {"/far/a", "/far/*"})
        publisher.withdraw(item)
        found = watcher.receive(5)
        self.assertEqual((found.name, found.is_here), ("/far/a", False))
        self.nodes[1].process.kill()
        found = watcher.receive(5)
        self.assertEqual((found.name, found.is_here), ("/far/*", False))

    def test_strategies_decide_which_nodes_publications_reach(self):
        self.network(3, [(0, 1), (1, 2)])
        self.start(0, 1, 2)
        near, far = self.subscriber(1, "/s/*"), self.subscriber(2, "/s/*")
        local = self.subscriber(0, "/s/*")
        publisher = self.publisher(0)
        everywhere = publisher.announce("/s/domain")
        wait_until(lambda: publisher.subscribers(everywhere) == 3, "three subscribers")
        counts = {}
        for strategy in ("node", "link", "broadcast"):
            item = publisher.announce(f"/s/{strategy}", strategy=strategy)
            counts[strategy] = publisher.subscribers(item)
            publisher.publish(item, strategy.encode())
        publisher.publish(everywhere, b"domain")
        self.assertEqual(counts, {"node": 1, "link": 2, "broadcast": 2})

        def names(subscriber):
            found = set()
            while (one := subscriber.receive(1)) is not None:
                if isinstance(one, Publication):
                    found.add(one.name.rsplit("/", 1)[1])
            return found

        self.assertEqual(names(local), {"node", "link", "broadcast", "domain"})
        self.assertEqual(names(near), {"link", "broadcast", "domain"})
        self.assertEqual(names(far), {"domain"})

    def test_question_is_answered_by_another_node(self):
        self.network(3, [(0, 1), (1, 2)])
        self.start(0, 1, 2)
        answering = self.nodes[2].start("pubsub", "answer", "/q", "far")
        self.addCleanup(NodeTest.stop, answering)
        asked = self.nodes[0].run("pubsub", "ask", "/q", "who?")
        self.assertEqual((asked.stdout, asked.returncode), ("far\n", 0), asked.stderr)


if __name__ == "__main__":
    unittest.main()
