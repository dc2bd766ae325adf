"""AF_XDP between two routers of several shards, each of which receives and sends by itself: one queue and two, interfaces and queues that come and go.

Needs root and `ip`; skips with a word where they are missing. Usage: python3 tests/net/test_xdp_shards.py [unittest's arguments]
The command is target/release/nw, or $NW_BIN. NW_CARDS puts network cards in the place of the virtual cable: see cards.py."""

import json
import os
import platform
import subprocess
import unittest

import cards
import test_xdp
from test_transports import GROUP, NW, UDP4, WHY_NOT, finish
from test_xdp import card_counters, set_queues
from waiting import until

# Packets that are asked for, of as many names.
PACKETS = 20_000


class TheSame(test_xdp.Xdp):
    """All that one shard does, two do."""

    SHARDS = 2


class Several(test_xdp.Pair):
    """Both with several shards."""

    SHARDS = 2

    def shards(self, side):
        return json.loads(side.nw("status", "--json"))["shards"]

    def drops(self, side):
        return {drop["reason"]: drop["count"] for drop in json.loads(side.nw("status", "--json"))["drops"]}

    def ask(self, face, prefix="/net/many", packets=PACKETS):
        """B answers, A asks for so many names by this face; what came of it."""
        self.a.nw("route", "add", prefix, face)
        server = self.b.background("bench", "answer", "--prefix", prefix, "--payload", "300")
        self.addCleanup(finish, server)
        until(lambda: prefix in self.b.nw("route", "list"), "the answerer is there")
        return json.loads(self.a.nw("bench", "generate", "--prefix", prefix, "--names", packets, "--pattern", "sequential", "--packets", packets,
                                    "--seconds", "25", "--payload", "300", "--window", "128", "--json"))

    def load(self, prefix):
        """A asks for ever new names, until the test ends it."""
        words = ("bench", "generate", "--prefix", prefix, "--hit-ratio", "0", "--names", "10", "--seconds", "60", "--payload", "300")
        env = {**os.environ, "NDN_CLIENT_TRANSPORT": f"unix://{self.a.socket}"}
        load = subprocess.Popen([NW, *words], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.addCleanup(finish, load)
        seen = self.a.xdp()[self.a.card]["received"]
        until(lambda: self.a.xdp()[self.a.card]["received"] > seen + 100, "packets are under way")
        return load

    def all_answered(self, result, packets=PACKETS):
        self.assertEqual((result["answered"], result["lost"]), (packets, 0), result)

    def each_received(self, side, frames, queues=1, mode="native"):
        """So many frames came by each shard's own sockets, and nearly nothing was another's."""
        status = side.xdp()[side.card]
        self.assertEqual((status["mode"], status["queues"], status["lost"]), (mode, queues, 0), status)
        shards = self.shards(side)
        self.assertEqual(len(shards), self.SHARDS)
        self.assertEqual(sum(shard["xdp_frames"] for shard in shards), status["received"], "the parts make the whole")
        for shard in shards:
            self.assertGreater(shard["xdp_frames"], frames / self.SHARDS / 2, shards)
        return shards


@unittest.skipIf(WHY_NOT, WHY_NOT or "")
class Shards(Several):
    def each_has_its_own(self, queues=1, mode="native"):
        for side in (self.a, self.b):
            side.start()
        face = self.face_to_b()
        # Neighbours know one another by then.
        self.exchange(face)
        self.go_by(face, queues, mode)

    def go_by(self, face, queues=1, mode="native"):
        """Asked by this face each shard receives what is its own, and sends, and nothing is lost."""
        for side in (self.a, self.b):
            # The first Ethernet face of an interface makes it open anew, once all shards have closed it.
            until(lambda: side.card in side.xdp(), "it goes by AF_XDP")
        before = {side: (self.shards(side), side.xdp()[side.card]["sent"]) for side in (self.a, self.b)}
        self.all_answered(self.ask(face))
        for side in (self.a, self.b):
            after, (shards, sent) = self.each_received(side, PACKETS, queues, mode), before[side]
            self.assertGreaterEqual(side.xdp()[side.card]["sent"], sent + PACKETS, "what leaves does so by AF_XDP, too")
            self.assertNotIn("shard_full", self.drops(side))
            # Interests come to B, Data to A: by name and by token to the shard whose they are. What applications send comes in by the first.
            changes = [{key: now[key] - then[key] for key in now} for then, now in zip(shards, after)]
            self.assertEqual(changes[1]["handed_over"], 0, "nothing came to the wrong shard")
            of_the_other = changes[0]["handed_over"] - changes[1]["xdp_frames"]
            self.assertLess(abs(of_the_other), PACKETS / 100, "what the first handed over was no frame's")

    def test_one_queue(self):
        self.each_has_its_own()

    def by_queue(self, side):
        """Frames that came by each of two queues: veth brings what is sent by a queue to the one of that number."""
        counters = card_counters(side)
        return [counters[f"rx_queue_{queue}_xdp_packets"] for queue in (0, 1)]

    def test_two_queues(self):
        self.unplug()
        self.plug(queues=2)
        self.each_has_its_own(queues=2)
        if cards.NAMES:
            # By which queue theirs come is their driver's to say.
            return
        for side in (self.a, self.b):
            for frames in self.by_queue(side):
                self.assertGreater(frames, PACKETS / 4, "each shard sends by a queue of its own")

    @cards.of_veth
    def test_a_queue_that_sends_for_two(self):
        self.unplug()
        self.plug(queues=2)
        for side in (self.a, self.b):
            set_queues(side, 2, 1)
        self.each_has_its_own(queues=2)
        for side in (self.a, self.b):
            first, second = self.by_queue(side)
            self.assertGreater(first, PACKETS / 2)
            self.assertLess(second, 100, "nothing is sent by a queue that there is not")

    def test_ipv6(self):
        for side in (self.a, self.b):
            side.start()
        face = self.face_to_b("udp6://[2001:db8::2]:6363")
        self.exchange(face)
        self.go_by(face)

    def test_generic_mode(self):
        self.take_drivers_away()
        linux = tuple(int(number) for number in platform.release().split(".")[:2])
        if linux >= (6, 15):
            self.each_has_its_own(mode="generic")
        else:
            # The first shard reads for all.
            for side in (self.a, self.b):
                side.start()
            self.all_answered(self.ask(self.face_to_b()))
            self.went_by_xdp(self.a, mode="generic")

    def test_more_shards_than_processors(self):
        self.a.shards, self.b.shards = 5, 3
        for side in (self.a, self.b):
            side.start()
        self.all_answered(self.ask(self.face_to_b()))
        for side in (self.a, self.b):
            for shard in self.shards(side):
                self.assertGreater(shard["xdp_frames"], PACKETS / side.shards / 2)

    def test_one_side_has_sockets(self):
        """Its system sends runs of datagrams as one, and gets them one by one."""
        self.a.start()
        self.b.start(xdp=False)
        self.all_answered(self.ask(self.face_to_b()))
        self.each_received(self.a, PACKETS)

    def test_ethernet_group(self):
        for side in (self.a, self.b):
            side.start("[faces.ethernet]\nmulticast = true\n")
        face = self.a.face(GROUP)["face_id"]
        self.go_by(face)
        # The interface goes and comes; the faces stay, and other shards follow.
        self.unplug()
        for side in (self.a, self.b):
            until(lambda: not side.xdp(), "it goes by AF_XDP no more")
        self.plug()
        for side in (self.a, self.b):
            until(lambda: side.card in side.xdp(), "it goes by AF_XDP again")
        self.assertEqual(self.a.face(GROUP)["face_id"], face)
        self.exchange(self.a.face(GROUP)["face_id"])
        self.all_answered(self.ask(self.a.face(GROUP)["face_id"], "/net/again"))
        for side in (self.a, self.b):
            self.each_received(side, PACKETS)

    def test_ethernet_single_peer(self):
        self.a.start()
        self.b.start("[faces.ethernet]\nlisten = true\n")
        uri = f"ether://[{self.b.mac()}]"
        self.go_by(json.loads(self.a.nw("face", "create", uri, "--local", "dev://va", "--json"))["face_id"])
        self.assertEqual(self.b.face("ether://")["uri"], f"ether://[{self.a.mac()}]")

    def test_ethernet_by_sockets(self):
        """Each shard sends by a socket of its own, the first gets what comes."""
        for side in (self.a, self.b):
            side.start("[faces.ethernet]\nmulticast = true\n", xdp=False)
        self.all_answered(self.ask(self.a.face(GROUP)["face_id"]))

    def test_faces_without_lanes(self):
        """What is the first shard's alone comes to it from wherever the program brought it: UDP groups, and links with reliability."""
        for side in (self.a, self.b):
            # The program brings what is to the group's port because somebody listens there.
            side.listen = (*side.listen, f"192.0.2.{'.ab'.index(side.letter)}:56363")
            side.start("[faces.multicast]\nenabled = true\n")
        self.all_answered(self.ask(self.a.face(UDP4)["face_id"], "/net/group", 4000), 4000)
        for side in (self.a, self.b):
            self.each_received(side, 4000)
        words = ("face", "create", "udp4://192.0.2.2:6363", "--reliability", "true", "--json")
        face = json.loads(self.a.nw(*words))["face_id"]
        before = self.a.xdp()["va"]["received"]
        self.all_answered(self.ask(face, "/net/reliable", 4000), 4000)
        self.assertGreaterEqual(self.a.xdp()["va"]["received"], before + 4000)

    def test_while_somebody_looks_at_packets(self):
        """All of them come in and leave by the first shard then, and after that as before."""
        for side in (self.a, self.b):
            side.start()
        face = self.face_to_b()
        self.all_answered(self.ask(face, "/net/first"))
        load = self.load("/net/first")
        lines = self.a.nw("tap", "--count", "2000", "--kind", "interest", "--direction", "out", "--json").splitlines()
        finish(load)
        self.assertEqual(len(lines), 2000)
        self.go_by(face)

    def test_an_interface_that_vanishes_under_load_and_comes_again(self):
        for side in (self.a, self.b):
            side.start()
        face = self.face_to_b()
        self.all_answered(self.ask(face))
        for again in ("/net/again", "/net/and/again"):
            load = self.load("/net/many")
            self.unplug()
            for side in (self.a, self.b):
                until(lambda: not side.xdp(), "it goes by AF_XDP no more")
            self.plug()
            for side in (self.a, self.b):
                until(lambda: side.card in side.xdp(), "it goes by AF_XDP again")
            finish(load)
            self.all_answered(self.ask(face, again))
            for side in (self.a, self.b):
                self.each_received(side, PACKETS)

    def test_switched_off_and_on_in_the_file_under_load(self):
        for side in (self.a, self.b):
            side.start()
        face = self.face_to_b()
        self.all_answered(self.ask(face, "/net/first", 2000), 2000)
        load = self.load("/net/first")
        for _ in range(3):
            self.a.write(xdp=False)
            until(lambda: not self.a.xdp(), "the file says so")
            self.a.write()
            # The sockets of all shards are closed first.
            until(self.a.xdp, "the file says so")
            until(lambda: all(shard["xdp_frames"] > 100 for shard in self.shards(self.a)), "packets come to both")
        finish(load)
        self.all_answered(self.ask(face))
        for side in (self.a, self.b):
            self.each_received(side, PACKETS)

    def test_a_queue_count_that_changes(self):
        self.unplug()
        self.plug(queues=2)
        for side in (self.a, self.b):
            set_queues(side, 1, 1)
        for side in (self.a, self.b):
            side.start()
        face = self.face_to_b()
        self.all_answered(self.ask(face, "/net/first"))
        self.add_a_queue()
        for side in (self.a, self.b):
            until(lambda: side.xdp().get(side.card, {}).get("queues") == 2, "the new queue is read, too")
        self.all_answered(self.ask(face))
        for side in (self.a, self.b):
            # Counters of cards began anew.
            self.each_received(side, PACKETS if cards.NAMES else 2 * PACKETS, queues=2)


if __name__ == "__main__":
    unittest.main()
