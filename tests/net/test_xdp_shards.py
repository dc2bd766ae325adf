"""AF_XDP between two routers of several shards, each of which receives and sends by itself: one
queue and two, interfaces and queues that are removed and added.

Needs root and `ip`; prints a reason and skips without them.

Usage: python3 tests/net/test_xdp_shards.py [unittest's arguments]

The command is target/release/nw, or $NW_BIN. NW_CARDS replaces the veth pair by network cards: see
cards.py.
"""

import json
import os
import platform
import subprocess
import unittest

import cards
import test_xdp
from test_transports import GROUP, NW, UDP4, SKIP_REASON, finish
from test_xdp import card_counters, set_queues
from waiting import until

# Requested packets, each with its own name.
PACKETS = 20_000


class XdpWithTwoShards(test_xdp.Xdp):
    """The tests of one shard, repeated with two."""

    SHARDS = 2


class TwoShards(test_xdp.Pair):
    """Both routers have two shards."""

    SHARDS = 2

    def shards(self, side):
        return json.loads(side.nw("status", "--json"))["shards"]

    def drops(self, side):
        return {
            drop["reason"]: drop["count"]
            for drop in json.loads(side.nw("status", "--json"))["drops"]
        }

    def request_all(self, face, prefix="/net/many", packets=PACKETS):
        """B answers, A requests this number of names over this face. Returns the result."""
        self.a.nw("route", "add", prefix, face)
        server = self.b.background("bench", "answer", "--prefix", prefix, "--payload", "300")
        self.addCleanup(finish, server)
        until(lambda: prefix in self.b.nw("route", "list"), "the producer is registered")
        return json.loads(
            self.a.nw(
                "bench",
                "generate",
                "--prefix",
                prefix,
                "--names",
                packets,
                "--pattern",
                "sequential",
                "--packets",
                packets,
                "--seconds",
                "25",
                "--payload",
                "300",
                "--window",
                "128",
                "--json",
            )
        )

    def load(self, prefix):
        """A requests new names continuously, until the test ends it."""
        args = (
            "bench",
            "generate",
            "--prefix",
            prefix,
            "--hit-ratio",
            "0",
            "--names",
            "10",
            "--seconds",
            "60",
            "--payload",
            "300",
        )
        env = {**os.environ, "NDN_CLIENT_TRANSPORT": f"unix://{self.a.socket}"}
        load = subprocess.Popen(
            [NW, *args], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        self.addCleanup(finish, load)
        seen = self.a.xdp()[self.a.card]["received"]
        until(lambda: self.a.xdp()[self.a.card]["received"] > seen + 100, "packets are under way")
        return load

    def check_all_answered(self, result, packets=PACKETS):
        self.assertEqual((result["answered"], result["lost"]), (packets, 0), result)

    def check_received(self, side, frames, queues=1, mode="native"):
        """Checks that each shard received its part of the frames by its own sockets."""
        status = side.xdp()[side.card]
        self.assertEqual(
            (status["mode"], status["queues"], status["lost"]), (mode, queues, 0), status
        )
        shards = self.shards(side)
        self.assertEqual(len(shards), self.SHARDS)
        self.assertEqual(
            sum(shard["xdp_frames"] for shard in shards),
            status["received"],
            "the shards' counts add up to the total",
        )
        for shard in shards:
            self.assertGreater(shard["xdp_frames"], frames / self.SHARDS / 2, shards)
        return shards


@unittest.skipIf(SKIP_REASON, SKIP_REASON or "")
class Shards(TwoShards):
    def check_each_shard(self, queues=1, mode="native"):
        for side in (self.a, self.b):
            side.start()
        face = self.face_to_b()
        # After this exchange the neighbour entries are resolved.
        self.exchange(face)
        self.check_traffic(face, queues, mode)

    def check_traffic(self, face, queues=1, mode="native"):
        """Checks that each shard receives and sends its own packets over this face, and nothing is
        lost."""
        for side in (self.a, self.b):
            # The first Ethernet face of an interface reopens it, once all shards have closed it.
            until(lambda: side.card in side.xdp(), "it uses AF_XDP")
        before = {
            side: (self.shards(side), side.xdp()[side.card]["sent"]) for side in (self.a, self.b)
        }
        self.check_all_answered(self.request_all(face))
        for side in (self.a, self.b):
            after, (shards, sent) = self.check_received(side, PACKETS, queues, mode), before[side]
            self.assertGreaterEqual(
                side.xdp()[side.card]["sent"], sent + PACKETS, "packets are sent by AF_XDP, too"
            )
            self.assertNotIn("shard_full", self.drops(side))
            # Interests to B reach their shard by name, Data to A by token. Packets of applications
            # come in by the first shard.
            changes = [
                {key: now[key] - earlier[key] for key in now} for earlier, now in zip(shards, after)
            ]
            self.assertEqual(changes[1]["handed_over"], 0, "no packet reached the wrong shard")
            handed_over_elsewhere = changes[0]["handed_over"] - changes[1]["xdp_frames"]
            self.assertLess(
                abs(handed_over_elsewhere),
                PACKETS / 100,
                "the first shard handed over packets of applications only",
            )

    def test_one_queue_serves_each_shard(self):
        self.check_each_shard()

    def frames_by_queue(self, side):
        """Returns the frames received by each of two queues: veth delivers a frame to the queue
        with the sender's number."""
        counters = card_counters(side)
        return [counters[f"rx_queue_{queue}_xdp_packets"] for queue in (0, 1)]

    def test_two_queues_serve_each_shard(self):
        self.unplug()
        self.plug(queues=2)
        self.check_each_shard(queues=2)
        if cards.NAMES:
            # The driver of a network card chooses the queue.
            return
        for side in (self.a, self.b):
            for frames in self.frames_by_queue(side):
                self.assertGreater(frames, PACKETS / 4, "each shard sends by a queue of its own")

    @cards.veth_only
    def test_one_send_queue_serves_two_receive_queues(self):
        self.unplug()
        self.plug(queues=2)
        for side in (self.a, self.b):
            set_queues(side, 2, 1)
        self.check_each_shard(queues=2)
        for side in (self.a, self.b):
            first, second = self.frames_by_queue(side)
            self.assertGreater(first, PACKETS / 2)
            self.assertLess(second, 100, "no frame is sent by a missing queue")

    def test_ipv6_serves_each_shard(self):
        for side in (self.a, self.b):
            side.start()
        face = self.face_to_b("udp6://[2001:db8::2]:6363")
        self.exchange(face)
        self.check_traffic(face)

    def test_generic_mode_serves_each_shard(self):
        self.attach_bridges()
        linux = tuple(int(number) for number in platform.release().split(".")[:2])
        if linux >= (6, 15):
            self.check_each_shard(mode="generic")
        else:
            # The first shard receives for all shards.
            for side in (self.a, self.b):
                side.start()
            self.check_all_answered(self.request_all(self.face_to_b()))
            self.check_xdp_used(self.a, mode="generic")

    def test_more_shards_than_processors_are_served(self):
        self.a.shards, self.b.shards = 5, 3
        for side in (self.a, self.b):
            side.start()
        self.check_all_answered(self.request_all(self.face_to_b()))
        for side in (self.a, self.b):
            for shard in self.shards(side):
                self.assertGreater(shard["xdp_frames"], PACKETS / side.shards / 2)

    def test_peer_with_sockets_is_served(self):
        """The peer's system sends runs of datagrams as one, and receives them one by one."""
        self.a.start()
        self.b.start(xdp=False)
        self.check_all_answered(self.request_all(self.face_to_b()))
        self.check_received(self.a, PACKETS)

    def test_ethernet_group_serves_each_shard(self):
        for side in (self.a, self.b):
            side.start("[faces.ethernet]\nmulticast = true\n")
        face = self.a.face(GROUP)["face_id"]
        self.check_traffic(face)
        # The interface is removed and added; the faces stay, and the other shards follow.
        self.unplug()
        for side in (self.a, self.b):
            until(lambda: not side.xdp(), "it no longer uses AF_XDP")
        self.plug()
        for side in (self.a, self.b):
            until(lambda: side.card in side.xdp(), "it uses AF_XDP again")
        self.assertEqual(self.a.face(GROUP)["face_id"], face)
        self.exchange(self.a.face(GROUP)["face_id"])
        self.check_all_answered(self.request_all(self.a.face(GROUP)["face_id"], "/net/again"))
        for side in (self.a, self.b):
            self.check_received(side, PACKETS)

    def test_ethernet_unicast_serves_each_shard(self):
        self.a.start()
        self.b.start("[faces.ethernet]\nlisten = true\n")
        uri = f"ether://[{self.b.mac()}]"
        self.check_traffic(
            json.loads(self.a.nw("face", "create", uri, "--local", "dev://va", "--json"))["face_id"]
        )
        self.assertEqual(self.b.face("ether://")["uri"], f"ether://[{self.a.mac()}]")

    def test_ethernet_by_sockets_sends_by_each_shard(self):
        """Each shard sends by its own socket; the first one receives everything."""
        for side in (self.a, self.b):
            side.start("[faces.ethernet]\nmulticast = true\n", xdp=False)
        self.check_all_answered(self.request_all(self.a.face(GROUP)["face_id"]))

    def test_faces_of_first_shard_receive_all(self):
        """Packets of faces that only the first shard has reach it from every queue: UDP groups, and
        links with reliability."""
        for side in (self.a, self.b):
            # The program accepts packets to the group's port because a socket listens there.
            side.listen = (*side.listen, f"192.0.2.{'.ab'.index(side.letter)}:56363")
            side.start("[faces.multicast]\nenabled = true\n")
        self.check_all_answered(
            self.request_all(self.a.face(UDP4)["face_id"], "/net/group", 4000), 4000
        )
        for side in (self.a, self.b):
            self.check_received(side, 4000)
        args = ("face", "create", "udp4://192.0.2.2:6363", "--reliability", "true", "--json")
        face = json.loads(self.a.nw(*args))["face_id"]
        before = self.a.xdp()["va"]["received"]
        self.check_all_answered(self.request_all(face, "/net/reliable", 4000), 4000)
        self.assertGreaterEqual(self.a.xdp()["va"]["received"], before + 4000)

    def test_capture_running_routes_packets_by_first_shard(self):
        """During a capture all packets are received and sent by the first shard; afterwards by each
        shard again."""
        for side in (self.a, self.b):
            side.start()
        face = self.face_to_b()
        self.check_all_answered(self.request_all(face, "/net/first"))
        load = self.load("/net/first")
        lines = self.a.nw(
            "tap", "--count", "2000", "--kind", "interest", "--direction", "out", "--json"
        ).splitlines()
        finish(load)
        self.assertEqual(len(lines), 2000)
        self.check_traffic(face)

    def test_interface_removed_under_load_recovers(self):
        for side in (self.a, self.b):
            side.start()
        face = self.face_to_b()
        self.check_all_answered(self.request_all(face))
        for again in ("/net/again", "/net/and/again"):
            load = self.load("/net/many")
            self.unplug()
            for side in (self.a, self.b):
                until(lambda: not side.xdp(), "it no longer uses AF_XDP")
            self.plug()
            for side in (self.a, self.b):
                until(lambda: side.card in side.xdp(), "it uses AF_XDP again")
            finish(load)
            self.check_all_answered(self.request_all(face, again))
            for side in (self.a, self.b):
                self.check_received(side, PACKETS)

    def test_xdp_switched_by_reload_under_load_is_applied(self):
        for side in (self.a, self.b):
            side.start()
        face = self.face_to_b()
        self.check_all_answered(self.request_all(face, "/net/first", 2000), 2000)
        load = self.load("/net/first")
        for _ in range(3):
            self.a.write(xdp=False)
            until(lambda: not self.a.xdp(), "the reload is applied")
            self.a.write()
            # The sockets of all shards must be closed first.
            until(self.a.xdp, "the reload is applied")
            until(
                lambda: all(shard["xdp_frames"] > 100 for shard in self.shards(self.a)),
                "both shards receive packets",
            )
        finish(load)
        self.check_all_answered(self.request_all(face))
        for side in (self.a, self.b):
            self.check_received(side, PACKETS)

    def test_queue_count_changed_is_followed(self):
        self.unplug()
        self.plug(queues=2)
        for side in (self.a, self.b):
            set_queues(side, 1, 1)
        for side in (self.a, self.b):
            side.start()
        face = self.face_to_b()
        self.check_all_answered(self.request_all(face, "/net/first"))
        self.add_a_queue()
        for side in (self.a, self.b):
            until(
                lambda: side.xdp().get(side.card, {}).get("queues") == 2,
                "the new queue is read, too",
            )
        self.check_all_answered(self.request_all(face))
        for side in (self.a, self.b):
            # Counters of network cards restart at 0.
            self.check_received(side, PACKETS if cards.NAMES else 2 * PACKETS, queues=2)


if __name__ == "__main__":
    unittest.main()
