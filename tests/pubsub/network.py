"""Nodes in network namespaces with links between them, for the tests of a domain."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from namewire import Publisher, Subscriber
from node import Node


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


@unittest.skipUnless(can_make_namespaces(), "network namespaces need root and ip")
class NetworkTest(unittest.TestCase):
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

    def network(self, count, links, addresses=True):
        """Makes namespaces and links: link a-b has addresses 10.a.b.1 and .2, a < b, or none."""
        self.names = [self.namespace(number) for number in range(count)]
        for a, b in links:
            self.link(a, b, addresses)

    def link(self, a, b, addresses=True):
        """Makes the link a-b, a < b."""
        near, far = self.names[a], self.names[b]
        ip("link", "add", f"v{b}", "netns", near, "type", "veth", "peer", f"v{a}", "netns", far)
        for namespace, device, end in [(near, f"v{b}", 1), (far, f"v{a}", 2)]:
            if addresses:
                address = f"10.{a + 1}.{b + 1}.{end}/24"
                ip("-n", namespace, "addr", "add", address, "dev", device)
            ip("-n", namespace, "link", "set", device, "up")

    def start(self, *numbers, pubsub="", rules="", around=()):
        for number in numbers:
            namespace = self.names[number]
            node = Node(self.folder, f"n{number}", pubsub, rules, namespace, around)
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
