"""Local delivery: rings, messages, slow and dead applications, last values, rules."""

import json
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from namewire import Lost, Publication, Publisher, Refused, Subscriber, derived_name
from node import ROOT, NodeTest, wait_until


def drain(subscriber, timeout_s=0.3):
    """Returns all that a subscriber receives until it is silent."""
    found = []
    while (one := subscriber.receive(timeout_s)) is not None:
        found.append(one)
    return found


class CommandTest(NodeTest):
    def test_values_lines_and_files_arrive(self):
        received = self.subscriber("/a/**", "-n", "104")
        self.assertEqual(self.node.run("pub", "/a/b", "one", "two").returncode, 0)
        lines = "".join(f"{n}\n" for n in range(100))
        self.assertEqual(self.node.run("pub", "/a/c/d", stdin=lines).returncode, 0)
        self.node.run("pub", "/other", "x")
        self.node.run("pub", "/a", "top")
        self.node.run("pub", "/a/b", "end")
        out, err = received.communicate(timeout=20)
        lines = out.splitlines()
        self.assertEqual(lines[:2], ["/a/b one", "/a/b two"])
        self.assertEqual(lines[2:102], [f"/a/c/d {n}" for n in range(100)])
        self.assertEqual(lines[102:], ["/a top", "/a/b end"])
        self.assertIn("104 publications, 0 lost", err)

    def test_file_of_many_ring_lengths_arrives_whole(self):
        content = os.urandom(30_000_000)
        (self.folder / "big").write_bytes(content)
        for index, option in enumerate([[], ["--no-shared-memory"]]):
            out = self.folder / f"out{index}"
            receiver = self.subscriber("/f/*", "-n", "1", "--output", str(out), *option)
            ring = ["--ring", "1024", *option]
            sent = self.node.run("pub", "--file", str(self.folder / "big"), f"/f/{index}", *ring)
            self.assertEqual(sent.returncode, 0, sent.stderr)
            self.assertEqual(receiver.wait(20), 0)
            self.assertEqual((out / "f" / str(index)).read_bytes(), content)

    def test_last_value_reaches_late_subscribers_while_and_after_publishing(self):
        with Publisher(self.node.path) as publisher:
            item = publisher.announce("/t/live")
            publisher.publish(item, b"old")
            publisher.publish(item, b"new")
            late = self.node.run("sub", "-n", "1", "--timeout", "5000", "/t/**")
            self.assertEqual(late.stdout, "/t/live new\n")
        late = self.node.run("sub", "-n", "1", "--timeout", "5000", "/t/**")
        self.assertEqual(late.stdout, "/t/live new\n")
        self.assertEqual(self.node.run("sub", "--no-last", "/t/**", "--timeout", "300").stdout, "")
        self.node.run("pub", "--no-last", "/t/none", "x")
        self.assertEqual(self.node.run("sub", "/t/none", "--timeout", "300").returncode, 5)
        self.node.run("pub", "/t/live", "newer")
        late = self.node.run("sub", "-n", "1", "--timeout", "5000", "/t/live")
        self.assertEqual(late.stdout, "/t/live newer\n")

    def test_wrong_arguments_and_no_node_are_clear(self):
        for words, code, text in [
            (["pub", "a", "x"], 2, "begins with a slash"),
            (["pub", "/a/*", "x"], 2, "for subscriptions"),
            (["sub", "/a/**/b"], 2, "last component"),
            (["sub"], 2, "required"),
            (["pub", "/a", "--wait", "1", "--timeout", "200", "x"], 5, "start `nw sub` first"),
            (["pub", "--file", "/nowhere", "/a"], 1, "can't read /nowhere"),
            (["sub", "/a", "--timeout", "200"], 5, "0 publications"),
            (["pubsub", "trace", "/a"], 3, "nothing publishes /a"),
        ]:
            ended = self.node.run(*words)
            self.assertEqual(ended.returncode, code, (words, ended.stderr))
            self.assertIn(text, ended.stderr)
        self.node.end()
        for words in [["pub", "/a", "x"], ["sub", "/a"], ["pubsub", "status"]]:
            ended = self.node.run(*words)
            self.assertEqual(ended.returncode, 4, ended.stderr)
            self.assertIn("enabled = true", ended.stderr)

    def test_status_graph_trace_top_and_tap_show_what_is_there(self):
        received = self.subscriber("/plant/**")
        tap = self.node.start("pubsub", "tap", "/plant/**", "-n", "1")
        self.addCleanup(self.stop, tap)
        with Publisher(self.node.path, program="meter") as publisher:
            item = publisher.announce("/plant/hall/meter")
            wait_until(lambda: publisher.subscribers(item) == 2, "two subscribers")
            publisher.publish(item, b"42")
            self.assertEqual(tap.communicate(timeout=20)[0], "/plant/hall/meter 1: 2 bytes: 42\n")
            status = self.node.status()
            found = next(i for i in status["items"] if i["name"] == "/plant/hall/meter")
            self.assertEqual((found["published"], found["subscribers"]), (1, 1))
            programs = {a["program"]: a for a in status["applications"]}
            self.assertEqual(programs["meter"]["pid"], os.getpid())
            self.assertEqual(programs["nw"]["uid"], os.getuid())
            text = self.node.run("pubsub", "status").stdout
            self.assertIn("meter", text)
            graph = self.node.run("pubsub", "graph").stdout
            self.assertIn("└─ plant\n   └─ hall\n      └─ meter: application", graph)
            self.assertIn(
                '"/plant" -> "/plant/hall"', self.node.run("pubsub", "graph", "--dot").stdout
            )
            trace = self.node.run("pubsub", "trace", "/plant/hall/meter").stdout
            self.assertIn("reads the publisher's ring", trace)
            publisher.publish_scope("/plant/hall", "domain")
            publisher.add_parent("/plant/hall", "/tours")
            publisher.add_parent("/plant/hall/meter", "/meters")
            graph = self.node.run("pubsub", "graph").stdout
            self.assertIn("├─ meters\n│  └─ meter = /plant/hall/meter\n", graph)
            self.assertIn("└─ tours\n   └─ hall = /plant/hall\n", graph)
            self.assertIn("└─ hall: strategy domain\n", graph)
            dot = self.node.run("pubsub", "graph", "--dot").stdout
            self.assertIn('"/tours" -> "/plant/hall" [style=dashed]', dot)
            for name in ["/tours/hall/*", "/meters/meter"]:
                late = self.node.run("sub", name, "-n", "1", "--timeout", "5000")
                self.assertEqual(late.stdout, "/plant/hall/meter 42\n")
            publisher.remove_parent("/plant/hall/meter", "/meters")
            self.assertEqual(
                self.node.run("sub", "/meters/meter", "--timeout", "200").returncode, 5
            )
            with self.assertRaisesRegex(Refused, "strategy domain, not node"):
                publisher.announce("/plant/hall/other", strategy="node")
            with self.assertRaisesRegex(Refused, "below itself"):
                publisher.add_parent("/plant/hall", "/plant/hall/deeper")
            top = self.node.run("pubsub", "top", "-n", "1", "--interval", "200").stdout
            self.assertIn("/plant/hall/meter", top)
        self.assertIn("0 lost", self.end(received)[1])


class ScopeTest(NodeTest):
    def test_scope_and_parents_of_commands_hold_while_they_run(self):
        scope = self.node.start("pubsub", "scope", "/p/s", "--strategy", "node", "--under", "/q")
        self.addCleanup(self.stop, scope)
        wait_until(lambda: self.node.status()["scopes"], "the scope")
        self.assertEqual(
            self.node.status()["scopes"],
            [{"name": "/p/s", "strategy": "node", "parents": ["/q"]}],
        )
        received = self.subscriber("/q/**", "/r/*", derived_name("/d/a", 7), "-n", "4")
        for words in [["/p/s/x", "1"], ["/p/s/y", "2", "--under", "/r"], ["/o", "3"]]:
            self.assertEqual(self.node.run("pub", *words).returncode, 0, words)
        refused = self.node.run("pub", "/p/s/x", "4", "--strategy", "domain")
        self.assertIn("strategy node, not domain", refused.stderr)
        self.assertEqual(self.node.run("pub", "/d/a", "5", "--derived", "7").returncode, 0)
        self.end(scope)
        wait_until(lambda: not self.node.status()["scopes"], "the end of the scope")
        self.node.run("pub", "/p/s/x", "6")
        self.node.run("pub", "/q/z", "7", "--strategy", "domain")
        derived = derived_name("/d/a", 7)
        self.assertEqual(derived_name("/a/b", 1), "/a/8=4fb39fd4c04e91e9", "as in Rust and C")
        self.assertEqual(
            received.communicate(timeout=20)[0].splitlines(),
            ["/p/s/x 1", "/p/s/y 2", f"{derived} 5", "/q/z 7"],
        )
        late = self.node.run("sub", "/d/a", "--derived", "7", "-n", "1", "--timeout", "5000")
        self.assertEqual(late.stdout, f"{derived} 5\n")
        wrong = self.node.run("sub", "/d/*", "--derived", "7")
        self.assertIn("for subscriptions, not for names", wrong.stderr)


class CountTest(NodeTest):
    def test_publication_wakes_the_subscribers_of_its_item_only(self):
        received = [self.subscriber(f"/w/{n}", "-n", "101") for n in range(5)]
        with Publisher(self.node.path, wait_s=5) as publisher:
            items = [publisher.announce(f"/w/{n}") for n in range(5)]
            for item in items:
                wait_until(lambda item=item: publisher.subscribers(item) == 1, "a subscriber")
            for item in items:
                publisher.publish(item, b"first")
            before = publisher.wakeups
            for _ in range(100):
                publisher.publish(items[0], b"x")
                time.sleep(0.002)
            # One reader of five; all are woken once in a quarter of the ring, which is not full.
            self.assertLessEqual(publisher.wakeups - before, 100)
            self.assertGreater(publisher.wakeups, 0)
            # The others do not hold back a publisher that waits for its readers.
            started = time.monotonic()
            for _ in range(40):
                publisher.publish(items[0], bytes(100_000))
            self.assertLess(time.monotonic() - started, 5, "none was waited for in vain")
            for item in items[1:]:
                for _ in range(100):
                    publisher.publish(item, b"x")
            self.assertTrue(publisher.drain(10))
        for process in received[1:]:
            out, err = process.communicate(timeout=20)
            self.assertEqual(len(out.splitlines()), 101)
            self.assertIn("0 lost", err)
        self.assertEqual(received[0].wait(20), 0)

    def test_losses_of_a_slow_subscriber_are_exact_and_delay_no_other(self):
        with Publisher(self.node.path, ring_bytes=1 << 16) as publisher:
            item = publisher.announce("/s", keeps_last=False)
            slow = Subscriber(self.node.path)
            relayed = Subscriber(self.node.path, shared_memory=False)
            self.addCleanup(slow.close)
            self.addCleanup(relayed.close)
            for subscriber in (slow, relayed):
                subscriber.subscribe("/s")
            fast = self.subscriber("/s", "--json", "--quiet")
            wait_until(lambda: publisher.subscribers(item) == 3, "three subscribers")
            started = time.monotonic()
            for _ in range(20_000):
                publisher.publish(item, bytes(100))
            elapsed = time.monotonic() - started
            self.assertLess(elapsed, 10, "no publisher waits for the slow one")
            for subscriber in (slow, relayed):
                drain(subscriber, 1)
            publisher.withdraw(item)
            for subscriber in (slow, relayed):
                drain(subscriber)
                self.assertEqual(subscriber.delivered + subscriber.lost, 20_000)
            self.assertGreater(slow.lost, 15_000, "the ring holds a few hundred")
            self.assertLess(slow.lost, 20_000)
            summary = json.loads(self.end(fast)[0].splitlines()[-1])
            self.assertEqual(summary["received"] + summary["lost"], 20_000)

    def test_publisher_that_drops_the_newest_never_waits_and_losses_are_exact(self):
        slow = Subscriber(self.node.path)
        self.addCleanup(slow.close)
        slow.subscribe("/d")
        started = time.monotonic()
        words = ["--drop-newest", "--ring", "64", "--wait", "1", "--patience", "100", "--json"]
        sent = self.node.run("pub", *words, "--repeat", "20000", "/d", "x" * 100)
        self.assertLess(time.monotonic() - started, 10, "it does not wait for the slow one")
        summary = json.loads(sent.stdout)
        self.assertGreater(summary["dropped"], 15_000, "the ring holds a few hundred")
        numbers = []
        while slow.delivered + slow.lost < 20_000 and (found := slow.receive(5)) is not None:
            if isinstance(found, Publication):
                numbers.append(found.sequence)
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)), "the oldest are there")
        self.assertEqual(slow.delivered + slow.lost, 20_000)
        self.assertEqual(slow.lost, summary["dropped"])

    def test_killed_publisher_ends_exactly_and_at_once(self):
        script = (
            "import sys; from namewire import Publisher\n"
            "publisher = Publisher(sys.argv[1], ring_bytes=1 << 16)\n"
            "item = publisher.announce('/k')\n"
            "while publisher.subscribers(item) < 1: pass\n"
            "print('go', flush=True)\n"
            "while True: publisher.publish(item, bytes(300))\n"
        )
        environment = os.environ | {"PYTHONPATH": str(ROOT / "clients/python")}
        process = subprocess.Popen(
            [sys.executable, "-c", script, self.node.path],
            env=environment,
            stdout=subprocess.PIPE,
        )
        self.addCleanup(process.stdout.close)
        with Subscriber(self.node.path) as subscriber:
            subscriber.subscribe("/k")
            process.stdout.readline()
            for _ in range(500):
                subscriber.receive(1)
            published = lambda: self.node.status()["items"][0]["published"]
            self.assertGreater(published(), 0)
            process.send_signal(signal.SIGSTOP)
            total = published()
            process.kill()
            process.wait()
            wait_until(lambda: not self.node.status()["items"], "the clean-up", 2)
            drain(subscriber)
            self.assertEqual(subscriber.delivered + subscriber.lost, total)
            last = self.node.run("sub", "-n", "1", "--timeout", "3000", "/k", "--json")
            first = json.loads(last.stdout.splitlines()[0])
            if first.get("sequence") != total:
                # Killed between the number of its last record and the end: that one is lost, and
                # the one before is kept, if any.
                self.assertGreater(subscriber.lost, 0)
                self.assertEqual(first.get("sequence", total - 1), total - 1)

    def test_killed_subscriber_is_cleaned_up_and_holds_up_nobody(self):
        with Publisher(self.node.path, wait_s=5) as publisher:
            item = publisher.announce("/k")
            victim = self.subscriber("/k")
            wait_until(lambda: publisher.subscribers(item) == 1, "the subscriber")
            victim.send_signal(signal.SIGSTOP)
            victim.kill()
            victim.wait()
            wait_until(lambda: publisher.subscribers(item) == 0, "the clean-up", 2)
            started = time.monotonic()
            for _ in range(100):
                publisher.publish(item, bytes(100_000))
            self.assertLess(time.monotonic() - started, 3)
            self.assertEqual(publisher.readers, {})

    def test_killed_node_ends_applications_with_a_sentence(self):
        subscriber = self.subscriber("/k")
        self.node.process.kill()
        _, err = subscriber.communicate(timeout=5)
        self.assertEqual(subscriber.returncode, 4)
        self.assertIn("connection to the node lost", err)

    def test_strongest_publisher_serves_and_the_next_one_when_it_is_killed(self):
        words = ["--strength", "9", "--interval", "20", "--repeat", "10000", "--no-last"]
        strong = self.node.start("pub", *words, "/backup", "strong")
        self.addCleanup(self.stop, strong)
        wait_until(lambda: self.node.status()["items"], "the publisher")
        by_messages = Subscriber(self.node.path, shared_memory=False)
        self.addCleanup(by_messages.close)
        with Publisher(self.node.path) as publisher, Subscriber(self.node.path) as subscriber:
            item = publisher.announce("/backup", strength=5)
            for one in (subscriber, by_messages):
                one.subscribe("/backup")
                self.assertEqual(one.receive(5).payload, b"strong")
            publisher.publish(item, b"unseen")
            self.assertEqual(publisher.subscribers(item), 0)
            items = {i["strength"]: i for i in self.node.status()["items"]}
            self.assertEqual((items[5]["choice"], items[5]["standby"]), ("strongest", True))
            self.assertFalse(items[9]["standby"])
            shown = self.node.run("pubsub", "status").stdout
            self.assertIn("strongest 5, standby", shown)
            graph = self.node.run("pubsub", "graph").stdout
            self.assertIn("strongest 5, standby", graph)
            refused = self.node.run("pub", "--choice", "nearest", "/backup", "x")
            self.assertIn("has publishers with the choice strongest, not nearest", refused.stderr)
            strong.kill()
            wait_until(lambda: publisher.subscribers(item) == 2, "the switch", 1)
            for one in (subscriber, by_messages):
                # What is left of the first one may be read after that of the second.
                found = [p for p in drain(one) if p.payload != b"strong"]
                self.assertEqual([(p.payload, p.is_last_value) for p in found], [(b"unseen", True)])
            publisher.publish(item, b"second")
            for one in (subscriber, by_messages):
                self.assertEqual([p.payload for p in drain(one)], [b"second"])
                self.assertEqual(one.lost, 0)
            # Another one of a greater strength takes over at once.
            better = self.node.run("pub", "--strength", "7", "/backup", "better")
            self.assertIn("2 subscribers", better.stderr)
            self.assertIn(b"better", [p.payload for p in drain(subscriber)])
            wait_until(lambda: publisher.subscribers(item) == 2, "the first one again", 1)

    def test_second_subscriber_of_a_started_item_gets_data(self):
        with Publisher(self.node.path) as publisher:
            item = publisher.announce("/late")
            for count in (1, 2, 3):
                subscriber = Subscriber(self.node.path)
                self.addCleanup(subscriber.close)
                subscriber.subscribe("/late")
                wait_until(lambda: publisher.subscribers(item) == count, "the subscriber")  # noqa: B023
                publisher.publish(item, str(count).encode())
                last = drain(subscriber)[-1]
                self.assertEqual((last.payload, last.sequence), (str(count).encode(), count))

    def test_unsubscribed_application_receives_nothing_more(self):
        with Publisher(self.node.path) as publisher, Subscriber(self.node.path) as subscriber:
            item = publisher.announce("/u")
            number = subscriber.subscribe("/u")
            publisher.publish(item, b"1")
            self.assertEqual(len(drain(subscriber)), 1)
            subscriber.unsubscribe(number)
            self.assertEqual(publisher.subscribers(item), 0)
            publisher.publish(item, b"2")
            self.assertEqual(drain(subscriber), [])

    def test_item_with_the_number_of_a_withdrawn_one_starts_at_its_first_publication(self):
        with Publisher(self.node.path) as publisher, Subscriber(self.node.path) as subscriber:
            subscriber.subscribe("/again/*")
            for name in ("/again/a", "/again/b"):
                item = publisher.announce(name)
                publisher.publish(item, b"1")
                publisher.publish(item, b"2")
                found = [(one.name, one.sequence, one.lost) for one in drain(subscriber)]
                self.assertEqual((item, found), (0, [(name, 1, 0), (name, 2, 0)]))
                publisher.withdraw(item)

    def test_items_announced_later_on_a_busy_ring_lose_nothing(self):
        publisher = Publisher(self.node.path, ring_bytes=1 << 20)
        with publisher, Subscriber(self.node.path) as subscriber:
            subscriber.subscribe("/b/*")
            for number in range(50):
                item = publisher.announce(f"/b/{number}")
                for value in range(10):
                    publisher.publish(item, f"{number}.{value}".encode())
                if number % 7 == 0:
                    subscriber.receive(0)
            found = drain(subscriber)
            self.assertFalse([one for one in found if isinstance(one, Lost)])
            self.assertEqual((subscriber.delivered, subscriber.lost), (500, 0))


class RuleTest(NodeTest):
    OTHER = 54_321
    RULES = (
        '[[pubsub_rule]]\nscope = "/secret/**"\npublish = ["any"]\n'
        f'subscribe = ["uid:{OTHER}"]\n'
        f'[[pubsub_rule]]\nscope = "/read-only/**"\npublish = ["uid:{OTHER}"]\nsubscribe = ["any"]\n'
    )

    def test_rules_decide_by_user_and_rings_stay_with_those_allowed(self):
        with Publisher(self.node.path) as publisher, Subscriber(self.node.path) as subscriber:
            subscriber.subscribe("/**")
            with self.assertRaises(Refused) as refused:
                publisher.announce("/read-only/x")
            self.assertIn("a pubsub_rule forbids publishing /read-only/x", str(refused.exception))
            secret = publisher.announce("/secret/x")
            free = publisher.announce("/free")
            publisher.publish(secret, b"hidden")
            publisher.publish(free, b"seen")
            found = drain(subscriber)
            self.assertEqual([(one.name, one.payload) for one in found], [("/free", b"seen")])
            self.assertEqual(subscriber.sources, [], "the ring has a secret, so it is not passed")
        with Publisher(self.node.path) as publisher, Subscriber(self.node.path) as subscriber:
            subscriber.subscribe("/**")
            publisher.announce("/open")
            wait_until(lambda: subscriber.receive(0.1) or subscriber.sources, "the ring")
            with self.assertRaises(Refused) as refused:
                publisher.announce("/secret/y")
            self.assertIn("a connection of its own", str(refused.exception))
        trace = self.node.run("pubsub", "trace", "/secret/x", "--json").stdout
        self.assertEqual(json.loads(trace)["rule"], 1)

    @unittest.skipIf(os.getuid() != 0, "changing the user needs root")
    def test_rule_for_a_user_lets_that_user_subscribe(self):
        os.chmod(self.folder, 0o755)
        with Publisher(self.node.path) as publisher:
            publisher.announce("/secret/x")
            publisher.publish(0, b"hidden")
            command = self.node.arguments("sub", "-n", "1", "--timeout", "5000", "/secret/*")
            other = subprocess.run(
                command, check=False, user=self.OTHER, capture_output=True, text=True, timeout=20
            )
            self.assertEqual(other.stdout, "/secret/x hidden\n", other.stderr)


class ExampleTest(NodeTest):
    def test_rust_examples_publish_and_subscribe(self):
        def start(name, *words):
            command = ["cargo", "run", "-q", "-p", "nw-app", "--example", name, "--"]
            # The checks have compiled them.
            if "NW_EXAMPLES" in os.environ:
                command = [Path(os.environ["NW_EXAMPLES"]) / name]
            process = subprocess.Popen(
                [*command, self.node.path, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True
            )
            self.addCleanup(self.stop, process)
            return process

        publisher = start("publish_values", "/e/x/y", "1", "2")
        self.assertEqual(publisher.communicate(timeout=300)[0], "0 subscribers\n")
        subscriber = start("subscribe_scope", "/e/x", "1")
        self.assertEqual(subscriber.communicate(timeout=300)[0], "/e/x/y 2\n")


class PythonTest(NodeTest):
    def test_examples_publish_and_subscribe(self):
        environment = os.environ | {"PYTHONPATH": str(ROOT / "clients/python")}
        examples = ROOT / "clients/python/examples"

        def start(name, *words):
            command = [sys.executable, examples / name, self.node.path, *words]
            process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
            self.addCleanup(self.stop, process)
            return process

        subscriber = start("subscribe.py", "/e/**", "2")
        self.assertEqual(subscriber.stdout.readline(), "subscribed\n")
        publisher = start("publish.py", "/e/x", "1", "2")
        self.assertEqual(subscriber.communicate(timeout=20)[0], "/e/x 1\n/e/x 2\n")
        self.assertEqual(publisher.communicate(timeout=20)[0].splitlines()[0], "1 subscribers")

    def test_rust_and_python_read_each_other_in_fragments_and_messages(self):
        content = os.urandom(300_000)
        (self.folder / "file").write_bytes(content)
        for shared_memory in (True, False):
            with Subscriber(self.node.path, shared_memory=shared_memory) as subscriber:
                subscriber.subscribe("/x")
                file = str(self.folder / "file")
                sender = self.node.start("pub", "--no-last", "--ring", "64", "--file", file, "/x")
                self.addCleanup(self.stop, sender)
                found = subscriber.receive(10)
                self.assertTrue(found == Publication("/x", 1, content, 0, False), shared_memory)
            with Publisher(self.node.path, shared_memory=shared_memory) as publisher:
                item = publisher.announce("/y")
                receiver = self.subscriber(
                    "/y", "--no-last", "-n", "1", "--output", str(self.folder)
                )
                wait_until(lambda: publisher.subscribers(item) == 1, "the subscriber")  # noqa: B023
                publisher.publish(item, content)
                self.assertEqual(receiver.wait(20), 0)
                self.assertEqual((self.folder / "y").read_bytes(), content)


if __name__ == "__main__":
    unittest.main()
