"""A cluster behind its kernel balancer, with consumers and producers, in network namespaces: downloads by ours and by others' clients, members that come,
go and break down, balancers that do.

Needs root, `ip`, `tc`, a kernel with XDP; skips with a word where they are missing. Usage: python3 tests/net/test_cluster.py [unittest's arguments]
The command is target/release/nw, or $NW_BIN."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path

import ndnd
from cluster import NW, ROOT, Cluster, Failed, nw, why_not
from waiting import until

WHY_NOT = why_not()
# Where `tests/interop/run` installs clients of others.
FOREIGN = ROOT / "target/interop/venv/bin/python"
HERE = Path(__file__).resolve().parent
NDND, WHY_NO_NDND = (None, WHY_NOT) if WHY_NOT else ndnd.find()
# Downloads last for some seconds with members held back so.
SLOW = ("--cpu-share", 0.05)


class Tests(unittest.TestCase):
    def build(self, *words):
        cluster = Cluster(*words)
        self.enterContext(cluster)
        return cluster

    def exchange(self, cluster, name="/net/file", size=500_000, **how):
        """Publishes and fetches; the members' Interests for it."""
        content, _ = cluster.publish(name, size, **how)
        before = cluster.interests()
        got, report = cluster.fetched(cluster.fetch(name))
        self.assertEqual(got, content)
        after = cluster.interests()
        return {member: after[member] - before.get(member, 0) for member in after}, report


@unittest.skipIf(WHY_NOT, WHY_NOT or "")
class Downloads(Tests):
    def test_one_download_uses_all_members(self):
        cluster = self.build("--members", 3)
        by_member, report = self.exchange(cluster, segment=500)
        self.assertEqual(report["segments"], 1000)
        # What a member that was held up was asked for again says nothing about who is asked.
        fair, again = report["segments"] / 3, report["retransmissions"]
        for member, interests in by_member.items():
            self.assertGreater(interests, fair * 0.7, by_member)
            self.assertLess(interests, fair * 1.3 + again, (by_member, again))

    def test_packets_in_pieces(self):
        """Data of 8 KB are several link packets: both ends are ours and know that the other puts pieces together."""
        cluster = self.build("--members", 2)
        by_member, _ = self.exchange(cluster, segment=8000)
        self.assertTrue(all(by_member.values()), by_member)

    def test_routers_at_consumers(self):
        cluster = self.build("--members", 2, "--consumers", 2, "--consumer-routers")
        content, _ = cluster.publish("/net/file", 300_000)
        downloads = [cluster.fetch("/net/file", consumer=at) for at in range(2)]
        for download in downloads:
            self.assertEqual(cluster.fetched(download)[0], content)

    def test_newest_version_and_can_be_prefix(self):
        cluster = self.build("--members", 3)
        content, _ = cluster.publish("/net/versions/file", 5000)
        # `32=metadata` told the version; names that end before a version are answered by longer ones, whichever member they fall to.
        got, report = cluster.fetched(cluster.fetch("/net/versions/file"))
        self.assertEqual(got, content)
        self.assertIn("/v=", report["name"])
        members = set()
        for number in range(8):
            name = f"/net/prefix/{number}"
            members.add(cluster.balancer("where", name)["member"])
            cluster.publish(name, 100)
            told, _ = cluster.run(cluster.consumers[0], NW, "peek", "--prefix", name, "--json")
            self.assertIn(f"{name}/v=", told)
        self.assertGreater(len(members), 1)

    def test_depth_rules_keep_names_together(self):
        cluster = self.build("--members", 4, "--caching", "--depth", "/video=2")
        serving = lambda name: cluster.balancer("where", name)["member"]
        self.assertEqual(len({serving(f"/video/film/seg={n}") for n in range(30)}), 1)
        self.assertGreater(len({serving(f"/other/film/seg={n}") for n in range(30)}), 1)
        self.assertGreater(len({serving(f"/video/{n}/seg=1") for n in range(30)}), 1)
        by_member, _ = self.exchange(cluster, "/video/film", segment=500)
        self.assertGreaterEqual(by_member.pop(serving("/video/film/x")), 1000)
        self.assertTrue(all(interests < 30 for interests in by_member.values()), by_member)

    def test_a_client_of_others(self):
        if not FOREIGN.exists():
            self.skipTest("python-ndn is not installed: tests/interop/run installs it")
        cluster = self.build("--members", 3)
        # Data of 8 KB are cut by IP for who may not put pieces together.
        for segment in (1000, 8000):
            name = f"/net/foreign{segment}"
            content, _ = cluster.publish(name, 40_000, segment=segment)
            out, _ = cluster.run(cluster.consumers[0], FOREIGN, HERE / "foreign_client.py", cluster.about["cluster"]["address"], name)
            self.assertEqual(json.loads(out)["sha256"], hashlib.sha256(content).hexdigest())

    def test_fragments_of_ip_in_any_order(self):
        """Only the first has the name: those that come before it wait at the balancer."""
        orders = ["0,1,2", "2,1,0", "1,2,0", "1,0,2", "2,0,1", "0,2,1"]
        cluster = self.build("--members", 3)
        for number in range(len(orders)):
            cluster.publish(f"/net/cut/{number}", 100)
        to = cluster.about["cluster"]["address"]
        out, _ = cluster.run(cluster.consumers[0], sys.executable, HERE / "fragments.py", to, "/net/cut", *orders)
        # Again only when the sender had to wait for a processor between two of them for longer than they are held.
        self.assertTrue(all(json.loads(out)["tries"].values()), out)
        until(lambda: cluster.status()["verdicts"]["ip_fragment_held"] >= 6, "6 fragments came before their first")

    def test_a_producer_registers_with_the_cluster(self):
        """Over the cluster's address, as with one router: all members send it Interests, and take its answers."""
        cluster = self.build("--members", 3)
        # The name alone: version discovery finds its way back, too.
        by_member, _ = self.exchange(cluster, segment=500, over=cluster.uri)
        fair = sum(by_member.values()) / 3
        self.assertTrue(all(interests > fair * 0.7 for interests in by_member.values()), by_member)
        # It has opened this link, to an address with several routers behind: its answers are left to IP, as pieces without a name might come to another.
        self.exchange(cluster, "/net/big", segment=8000, over=cluster.uri)


@unittest.skipIf(WHY_NOT, WHY_NOT or "")
class Changes(Tests):
    def test_members_come_and_go_and_nothing_is_lost(self):
        """Five downloads by clients that never ask twice: one packet lost would end one."""
        cluster = self.build("--members", 3, "--consumers", 5, *SLOW)
        published = [cluster.publish(f"/net/rescale/{at}", 25_000_000)[0] for at in range(5)]
        downloads = [cluster.fetch(f"/net/rescale/{at}", "--window", 16, consumer=at, retries=0) for at in range(5)]
        before = {name: cluster.balancer("where", name)["member"] for name in (f"/net/n/{n}" for n in range(200))}
        number = cluster.say("add")["number"]
        moved = [name for name, member in before.items() if cluster.balancer("where", name)["member"] != member]
        self.assertLess(len(moved), 80, "about a quarter")
        self.assertTrue(all(cluster.balancer("where", name)["member"] == f"m{number}" for name in moved))
        time.sleep(1)
        shown = next(member for member in cluster.status()["members"] if member["number"] == number)
        self.assertGreater(shown["counters"]["in_interests"], 100)
        cluster.say("remove", number)
        self.assertTrue(all(download.poll() is None for download in downloads), "they are to last longer")
        for content, download in zip(published, downloads):
            got, report = cluster.fetched(download)
            self.assertEqual((report["retransmissions"], hashlib.sha256(got).digest()), (0, hashlib.sha256(content).digest()))

    def test_a_broken_member_loses_its_names_and_gets_them_back(self):
        cluster = self.build("--members", 3)
        self.exchange(cluster)
        cluster.say("kill", 2)
        until(lambda: cluster.states()["m2"] == "failed", "its probes are missed")
        # By a client that never asks twice.
        content, _ = cluster.publish("/net/second", 200_000, known_by=["m1", "m3"])
        before = cluster.interests()
        got, report = cluster.fetched(cluster.fetch("/net/second", retries=0))
        self.assertEqual((got, report["retransmissions"]), (content, 0))
        self.assertLess(cluster.interests()["m2"], before["m2"] + 30, "probes, and no more")
        cluster.say("revive", 2)
        until(lambda: cluster.states()["m2"] == "active", "it is healthy, and has its routes again")
        by_member, _ = self.exchange(cluster, "/net/third", segment=500)
        self.assertGreater(by_member["m2"], 200, by_member)

    def test_the_balancers_process_is_killed_and_started_again(self):
        cluster = self.build("--members", 2, *SLOW)
        content, _ = cluster.publish("/net/file", 25_000_000)
        download = cluster.fetch("/net/file", "--window", 16, retries=0)
        time.sleep(1)
        cluster.say("kill-balancer", 1)
        time.sleep(2)
        self.assertIsNone(download.poll(), "the kernel's part goes on")
        cluster.say("start-balancer", 1)
        status = cluster.status()
        self.assertTrue(status["adopted"])
        until(lambda: set(cluster.states().values()) == {"active"}, "all is as it was")
        self.assertIsNone(download.poll(), "it is to last longer")
        got, report = cluster.fetched(download)
        self.assertEqual((got, report["retransmissions"]), (content, 0))

    def test_one_of_two_balancers_breaks_down(self):
        if not shutil.which("keepalived"):
            self.skipTest("keepalived is not installed: tools/setup test installs it")
        cluster = self.build("--members", 2, "--balancers", 2, "--end-rate", 20)
        self.assertEqual([b["active"] for b in cluster.balancers], [True, False])
        content, _ = cluster.publish("/net/file", 15_000_000)
        download = cluster.fetch("/net/file")
        time.sleep(2)
        self.assertIsNone(download.poll())
        cluster.say("fail-balancer", 1)
        longest, heard, last = 0, time.monotonic(), 0
        end = time.monotonic() + 60
        while download.poll() is None and time.monotonic() < end:
            size, now = cluster.say("traffic")["c1"]["received_bytes"], time.monotonic()
            if size > last + 5000:
                longest, heard, last = max(longest, now - heard), now, size
            time.sleep(0.02)
        self.assertEqual(cluster.fetched(download)[0], content)
        self.assertLess(longest, 3.0, "seconds of silence")
        self.assertGreater(longest, 0.1, "it was broken indeed")
        cluster.look()
        self.assertTrue(cluster.balancers[1]["active"])


@unittest.skipIf(WHY_NO_NDND, WHY_NO_NDND or "")
class RoutersOfAnotherMake(Tests):
    """Members run NDNd, as it is published. Its receive buffers are small: a packet that is lost there is asked for again."""

    def build_with(self, *words):
        return self.build(*words, "--router", HERE / "ndnd_member", NDND)

    def runs_ndnd(self, cluster, *names):
        """Which dataset it refuses tells NDNd from ours."""
        for member in cluster.members:
            told = subprocess.run([NW, "face", "channels", "--json", "--socket", f"unix://{member['socket']}"], capture_output=True, text=True)
            self.assertEqual("refused (501): Unknown verb" in told.stderr, member["name"] in names, (member["name"], told.stderr))

    def all_are_used(self, cluster, name, **how):
        by_member, report = self.exchange(cluster, name, size=300_000, segment=500, **how)
        fair = report["segments"] / len(by_member)
        for interests in by_member.values():
            self.assertGreater(interests, fair * 0.6, by_member)

    def strategies(self, cluster, at):
        told = nw("strategy", "list", "--json", "--socket", f"unix://{cluster.members[at]['socket']}")
        return {one["name"]: one["strategy"] for one in map(json.loads, told.splitlines())}

    def routes(self, cluster, at):
        told = nw("route", "list", "--json", "--socket", f"unix://{cluster.members[at]['socket']}")
        return {one["name"] for one in map(json.loads, told.splitlines())}

    def test_all_members_are_ndnd(self):
        cluster = self.build_with("--members", 2)
        self.runs_ndnd(cluster, "m1", "m2")
        self.all_are_used(cluster, "/net/file")
        # Data in several link packets, and a producer that registers with the cluster.
        by_member, _ = self.exchange(cluster, "/net/pieces", size=200_000, segment=8000)
        self.assertTrue(all(by_member.values()), by_member)
        self.all_are_used(cluster, "/net/registered", over=cluster.uri)
        self.assertEqual(cluster.status()["warnings"], [])

    def test_ours_leads_and_ndnd_follows(self):
        cluster = self.build_with("--members", 3, "--router-for", "2,3")
        self.runs_ndnd(cluster, "m2", "m3")
        self.follows(cluster)

    def test_ndnd_leads_and_ours_follow(self):
        cluster = self.build_with("--members", 3, "--router-for", 1)
        self.runs_ndnd(cluster, "m1")
        self.follows(cluster)

    def follows(self, cluster):
        """Routes and strategies of the first member are those of all, when they come and when they go; each make has versions of its own."""
        self.all_are_used(cluster, "/net/file")
        control = f"unix://{cluster.members[0]['socket']}"
        nw("strategy", "set", "--socket", control, "/net", "multicast")
        for at in (1, 2):
            until(lambda: "/multicast/" in self.strategies(cluster, at).get("/net", ""), f"m{at + 1} has the strategy")
        nw("strategy", "unset", "--socket", control, "/net")
        face = f"udp4://{cluster.producers[0]['address']}:{cluster.producers[0]['port']}"
        nw("route", "remove", "--socket", control, "/net/file", face)
        for at in (1, 2):
            until(lambda: "/net" not in self.strategies(cluster, at), f"m{at + 1} has the strategy no more")
            until(lambda: "/net/file" not in self.routes(cluster, at), f"m{at + 1} has the route no more")
        self.assertEqual([member.get("trouble") for member in cluster.status()["members"]], [None] * 3)

    def test_they_come_go_and_fail(self):
        cluster = self.build_with("--members", 2, "--router-for", "2,3")
        content, _ = cluster.publish("/net/file", 200_000)
        self.assertEqual(cluster.say("add")["number"], 3)
        cluster.look()
        self.runs_ndnd(cluster, "m2", "m3")
        self.all_are_used(cluster, "/net/more")
        # What is pending is read from its status, too: it is gone within the limit for draining.
        cluster.say("remove", 2)
        # More than are registered one by one at routers that take many in one command, which NDNd does not.
        control = f"unix://{cluster.members[0]['socket']}"
        face = f"udp4://{cluster.producers[0]['address']}:{cluster.producers[0]['port']}"
        many = {f"/net/many/{number}" for number in range(100)}
        for name in many:
            nw("route", "add", "--socket", control, name, face)
        cluster.say("kill", 3)
        until(lambda: cluster.states()["m3"] == "failed", "its probes are missed")
        self.assertEqual(cluster.fetched(cluster.fetch("/net/file"))[0], content)
        cluster.say("revive", 3)
        until(lambda: cluster.states()["m3"] == "active", "it is healthy, and has its routes again")
        cluster.look()
        self.assertLessEqual(many, self.routes(cluster, 1))
        self.all_are_used(cluster, "/net/again")


@unittest.skipIf(WHY_NOT, WHY_NOT or "")
class Links(Tests):
    def test_udp6(self):
        cluster = self.build("--members", 2, "--by", "udp6")
        node = cluster.producers[0]
        content, _ = cluster.publish("/net/six", 200_000, face=f"udp6://[{node['address6']}]:6363")
        before = cluster.interests()
        self.assertEqual(cluster.fetched(cluster.fetch("/net/six"))[0], content)
        self.assertTrue(all(n > before[m] + 50 for m, n in cluster.interests().items()))

    def test_members_in_a_vlan(self):
        try:
            cluster = self.build("--members", 2, "--vlan", 100)
        except Failed as failure:
            if "Unknown device type" not in str(failure):
                raise
            self.skipTest("this kernel has no VLANs")
        by_member, _ = self.exchange(cluster)
        self.assertTrue(all(by_member.values()), by_member)

    def test_ethernet_faces(self):
        cluster = self.build("--members", 2, "--by", "ethernet")
        node = cluster.producers[0]
        shown = subprocess.run(["ip", "-n", node["namespace"], "-j", "link", "show", "eth0"], capture_output=True, text=True, check=True)
        mac = json.loads(shown.stdout)[0]["address"]
        content, _ = cluster.publish("/net/ether", 100_000, face=f"ether://[{mac}]", local="dev://eth0")
        before = cluster.interests()
        self.assertEqual(cluster.fetched(cluster.fetch("/net/ether"))[0], content)
        self.assertTrue(all(n > before[m] + 20 for m, n in cluster.interests().items()))


@unittest.skipIf(WHY_NOT, WHY_NOT or "")
class Laboratory(Tests):
    def test_ctrl_c_leaves_nothing(self):
        with Cluster("--members", 2) as cluster:
            name = cluster.name
            self.assertGreaterEqual(len(remains(name)), 6)
        self.assertEqual(remains(name), [])

    def test_what_a_killed_one_left_is_removed(self):
        with Cluster("--members", 1) as cluster:
            name = cluster.name
            cleaned = subprocess.run([NW, "lab", "clean", "--json"], capture_output=True, text=True, check=True)
            self.assertIn(name, json.loads(cleaned.stdout)["in_use"])
            cluster.process.kill()
            cluster.process.wait()
            self.assertTrue(remains(name))
            cleaned = subprocess.run([NW, "lab", "clean", "--json"], capture_output=True, text=True, check=True)
            self.assertIn(name, json.loads(cleaned.stdout)["removed"])
        self.assertEqual(remains(name), [])

    def test_words_that_mean_nothing(self):
        cluster = self.build("--members", 1)
        for words in (["dance"], ["remove"], ["remove", "9"], ["share", "1"], ["kill", "x"], ["fail-balancer", "3"]):
            with self.assertRaises(Failed):
                cluster.say(*words)
        self.assertEqual(cluster.states(), {"m1": "active"})

    def test_plans_that_cannot_be(self):
        for words, reason in ((["--members", "0"], "at least one"), (["--members", "99"], "at most 63"), (["--depth", "/a"], "/video=2"),
                              (["--cpu-share", "0"], "above 0"), (["--router-for", "64", "--router", "x"], "from 1 to 63"), (["--balancers", "0", "--members", "2"], "one router")):
            done = subprocess.run([NW, "lab", "cluster", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(reason, done.stderr)

    def test_two_balancers_without_keepalived(self):
        """What is missing is said once, with what helps, before anything is built."""
        environment = {**os.environ, "PATH": "/nonexistent"}
        done = subprocess.run([NW, "lab", "cluster", "--balancers", "2"], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60,
                              env=environment)
        self.assertEqual((done.returncode, done.stderr.strip()),
                         (1, "nw: two balancers need keepalived: install it (apt-get install keepalived)"))


def remains(name):
    found = []
    for folder in ("/run/netns", "/run/nwlab", "/var/lib/nwlab", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup"):
        if Path(folder).is_dir():
            found += [str(path) for path in Path(folder).iterdir() if path.name == name or path.name.startswith(f"{name}-")]
    return found


if __name__ == "__main__":
    unittest.main()
