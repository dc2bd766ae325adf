"""Ethernet links with AF_XDP sockets: beside packet sockets and the forwarding kernel, without the
right to have them, and on interfaces that go away and come back."""

import os
import shutil
import unittest

import network
from network import ip
from node import wait_until

PACKET = "udp = false\nethernet = true\n"
XDP = PACKET + 'ethernet_sockets = "xdp"\n'
# What the log says of links that keep packet sockets, once.
INSTEAD = "publish/subscribe uses packet sockets instead of AF_XDP"
NEITHER = "publications are not forwarded in the kernel, nor by AF_XDP sockets"
CONTENT = os.urandom(100_000)


class EthernetSocketsTest(network.NetworkTest):
    def start_with_af_xdp(self, *numbers, pubsub=XDP):
        self.start(*numbers, pubsub=pubsub)
        for number in numbers:
            node = self.nodes[number]

            def has_decided(node=node):
                links = self.links(node)
                return (links and all(links.values())) or any(
                    text in node.log() for text in (INSTEAD, NEITHER, "publications not")
                )

            wait_until(has_decided, "sockets of all interfaces")
            log = node.log()
            if not all(self.links(node).values()):
                self.skipTest("this kernel or user may not use XDP: " + log)

    @staticmethod
    def links(node):
        """Returns the AF_XDP sockets of each interface, or None."""
        return {link["interface"]: link["af_xdp"] for link in node.status()["ethernet"]}

    def deliver(self, publisher, name, subscribers, count=3):
        item = publisher.announce(name)
        wait_until(
            lambda: publisher.subscribers(item) == len({s.path for s in subscribers}), "all of them"
        )
        for _ in range(count):
            publisher.publish(item, CONTENT)
        for subscriber in subscribers:
            for _ in range(count):
                found = subscriber.receive(5)
                self.assertTrue(found and found.payload == CONTENT, found and found[:2])
            self.assertEqual(subscriber.lost, 0)
        publisher.withdraw(item)

    def subscriber(self, number, pattern):
        subscriber = super().subscriber(number, pattern)
        subscriber.path = self.nodes[number].path
        return subscriber

    def test_af_xdp_and_packet_sockets_deliver_to_each_other(self):
        self.network(3, [(0, 1), (1, 2)], addresses=False)
        self.start_with_af_xdp(0, 1)
        bounds = "-bpf,-sys_admin"
        if shutil.which("setpriv"):
            around = ["setpriv", f"--bounding-set={bounds}", "--inh-caps=-all"]
            self.start(2, pubsub=XDP, around=around)
        else:
            self.start(2, pubsub=PACKET)
        receivers = [self.subscriber(number, "/x/*") for number in (1, 2)]
        self.deliver(self.publisher(0), "/x/there", receivers)
        back = [self.subscriber(number, "/y/*") for number in (0, 1)]
        self.deliver(self.publisher(2), "/y/back", back)
        middle = self.links(self.nodes[1])
        self.assertEqual(set(middle), {"v0", "v2"})
        for name in ("v0", "v2"):
            # Three times some 75 packets each way.
            wait_until(lambda n=name: self.links(self.nodes[1])[n]["received"] > 200, name)
            found = self.links(self.nodes[1])[name]
            self.assertGreater(found["sent"], 200)
            self.assertEqual((found["lost"], found["queues"] >= 1), (0, True))
        self.assertEqual(self.links(self.nodes[2]), {"v1": None})
        text = self.nodes[1].run("pubsub", "status").stdout
        self.assertRegex(text, r"v0 +AF_XDP \((native|generic), (zero-)?copy\) +1 ")
        self.assertRegex(self.nodes[2].run("pubsub", "status").stdout, r"v1 +packet")
        self.assertEqual(self.nodes[1].status()["domain"]["send_errors"], 0)
        if shutil.which("setpriv"):
            self.assertEqual(self.nodes[2].log().count(INSTEAD), 1, self.nodes[2].log())
            self.assertIn("cap_bpf", self.nodes[2].log())

    def test_af_xdp_sockets_beside_the_forwarding_kernel(self):
        self.network(3, [(0, 1), (1, 2)], addresses=False)
        self.start_with_af_xdp(0, 1, 2, pubsub=XDP + "xdp = true\n")
        far = self.subscriber(2, "/k/*")
        publisher = self.publisher(0)
        item = publisher.announce("/k/far")
        wait_until(lambda: publisher.subscribers(item) == 1, "node 2")

        def counts():
            return self.nodes[1].status()["domain"]["kernel"]

        # Links reach the kernel at an interval.
        def is_forwarded():
            publisher.publish(item, CONTENT)
            found = far.receive(10)
            self.assertTrue(found, f"nothing received: {counts()}, {far.lost} lost")
            return found.payload == CONTENT and counts()["forwarded"] > 50

        wait_until(is_forwarded, "packets forwarded in the kernel")
        # What is for this node too comes by its AF_XDP socket, and the service forwards it.
        middle = self.subscriber(1, "/k/both")
        before = self.links(self.nodes[1])["v0"]["received"]
        self.deliver(publisher, "/k/both", [middle, far])
        wait_until(lambda: counts()["local_and_links"] > 200, "the count of the kernel")
        wait_until(
            lambda: self.links(self.nodes[1])["v0"]["received"] > before + 200, "the socket's count"
        )

    def test_interfaces_that_go_away_and_come_back_have_af_xdp_sockets_again(self):
        self.network(2, [(0, 1)], addresses=False)
        self.start_with_af_xdp(0, 1)
        receiver, publisher = self.subscriber(1, "/x/*"), self.publisher(0)
        self.deliver(publisher, "/x/1", [receiver], 1)

        def is_lost():
            return not self.nodes[0].status()["nodes"]

        def is_back():
            used = [self.links(self.nodes[number]) for number in (0, 1)]
            return all(links and all(links.values()) for links in used)

        ip("-n", self.names[0], "link", "set", "v1", "down")
        wait_until(lambda: self.links(self.nodes[0]) == {}, "the interface that is down")
        wait_until(is_lost, "the loss of the neighbour")
        ip("-n", self.names[0], "link", "set", "v1", "up")
        wait_until(is_back, "AF_XDP sockets again")
        self.deliver(publisher, "/x/2", [receiver], 1)
        ip("-n", self.names[0], "link", "del", "v1")
        for number in (0, 1):
            wait_until(lambda n=number: self.links(self.nodes[n]) == {}, "the removed interface")
        self.link(0, 1, addresses=False)
        wait_until(is_back, "AF_XDP sockets of the new interface")
        self.deliver(publisher, "/x/3", [receiver], 1)
        for number in (0, 1):
            self.assertNotIn(INSTEAD, self.nodes[number].log())

    def test_interface_with_another_program_keeps_its_packet_socket(self):
        self.network(2, [(0, 1)], addresses=False)
        self.start_with_af_xdp(0)
        # A second node at the same interface finds the program of the first.
        self.names.append(self.names[0])
        self.start(2, pubsub=XDP)
        wait_until(lambda: "publications not received by AF_XDP" in self.nodes[2].log(), "the log")
        self.assertEqual(self.links(self.nodes[2]), {"v1": None})
        self.assertTrue(all(self.links(self.nodes[0]).values()))
        self.assertEqual(self.nodes[2].log().count("publications not received"), 1)


if __name__ == "__main__":
    unittest.main()
