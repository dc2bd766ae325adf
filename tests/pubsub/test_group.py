"""Scopes as sync groups: `nw pubsub group` between scopes and groups, and two of it in a domain."""

import os
import signal
import subprocess
import unittest

import network
from namewire import Publisher
from node import NodeTest


class GroupTest(NodeTest):
    def start(self, scope, group, name, *words):
        words = ["pubsub", "group", scope, group, "--name", name, *words]
        process = self.node.start(*words)
        self.addCleanup(self.stop, process)
        return process

    def test_two_scopes_are_one_group_large_publications_too_and_nothing_comes_back(self):
        left = self.start("/left", "/g", "/l")
        right = self.start("/right", "/g", "/r", "--members", "1")
        for process, scope in [(left, "/left"), (right, "/right")]:
            self.assertIn(f"{scope} is connected to /g", process.stderr.readline())
        folder = self.folder / "out"
        reader = self.subscriber("/**", "--output", str(folder), "-n", "5", "--timeout", "15000")
        content = os.urandom(20_000)
        with Publisher(self.node.path) as publisher:
            large, small = publisher.announce("/left/a/b"), publisher.announce("/right/c")
            publisher.publish(large, content)
            publisher.publish(small, b"small")
            # Longer than what a group takes.
            publisher.publish(large, bytes(9_000_000))
            self.assertIn("is too long", left.stderr.readline())
            reader.communicate(timeout=30)
            publisher.publish(publisher.announce("/left/second"), b"too many for /right")
            self.assertIn("/l/second is left out", right.stderr.readline())
        self.assertTrue((folder / "right/@group/l/a/b").read_bytes() == content)
        self.assertEqual((folder / "left/@group/r/c").read_bytes(), b"small")
        counts = "publications? to the group, 1 from it, 0 lost before they were passed, 0 missing"
        for process, to_group in [(left, 2), (right, 1)]:
            _, errors = self.end(process)
            self.assertRegex(errors, f"{to_group} {counts}, 1 refused")


class DomainTest(network.NetworkTest):
    def start_group(self, number, name):
        words = ["pubsub", "group", "/chat", "/g", "--name", name]
        process = self.nodes[number].start(*words)
        self.addCleanup(NodeTest.stop, process)
        return process

    def test_one_of_two_programs_in_a_domain_is_active_and_the_other_one_takes_over(self):
        self.network(2, [(0, 1)])
        self.start(0, 1)
        first = self.start_group(0, "/n0")
        self.assertIn("/chat is connected to /g as /n0", first.stderr.readline())
        second = self.start_group(1, "/n1")
        self.assertIn("standing by", second.stderr.readline())
        # Members of the group at either router.
        members = [
            self.nodes[n].start("sync", "/g", "--name", f"/m{n}", stdin=subprocess.PIPE)
            for n in (0, 1)
        ]
        for member in members:
            self.addCleanup(NodeTest.stop, member)
            self.assertIn("is a member of", member.stderr.readline())
        publisher = self.publisher(1)
        item = publisher.announce("/chat/alice")
        publisher.publish(item, b"one")
        self.assertEqual(members[0].stdout.readline(), "/n0/alice one\n")
        first.send_signal(signal.SIGKILL)
        self.assertIn("/chat is connected to /g as /n1", second.stderr.readline())
        publisher.publish(item, b"two")
        self.assertEqual(members[1].stdout.readline(), "/n1/alice two\n")
        reader = self.subscriber(0, "/chat/@group/**")
        members[1].stdin.write("hello\n")
        members[1].stdin.flush()
        found = reader.receive(10)
        self.assertEqual((found.name, found.payload), ("/chat/@group/m1", b"hello"))


if __name__ == "__main__":
    unittest.main()
