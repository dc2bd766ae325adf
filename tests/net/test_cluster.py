"""A cluster behind its kernel balancer, with consumers and producers, in network namespaces:
downloads by nw and by other clients; members that are added, removed and fail; balancers that fail.

Needs root, `ip`, `tc`, a kernel with XDP; prints a reason and skips without them.

Usage: python3 tests/net/test_cluster.py [unittest's arguments]

The command is target/release/nw, or $NW_BIN.
"""

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
from cluster import NW, ROOT, Cluster, Failed, nw, missing_requirement
from waiting import until

SKIP_REASON = missing_requirement()
# Where `tests/interop/install` installs python-ndn.
CACHE = Path(
    subprocess.run(
        [ROOT / "tests/cache", "interop-python"], capture_output=True, text=True, check=True
    ).stdout.strip()
)
PYTHON_NDN = CACHE / "venv/bin/python"
HERE = Path(__file__).resolve().parent
NDND, NDND_SKIP_REASON = (None, SKIP_REASON) if SKIP_REASON else ndnd.find()
# With this limit a download takes some seconds.
SLOW = ("--cpu-share", 0.05)


class ClusterTest(unittest.TestCase):
    def build(self, *args):
        cluster = Cluster(*args)
        self.enterContext(cluster)
        return cluster

    def exchange(self, cluster, name="/net/file", size=500_000, **options):
        """Publishes and fetches content. Returns the Interests of each member, and the report."""
        content, _ = cluster.publish(name, size, **options)
        before = cluster.interests()
        received, report = cluster.fetched(cluster.fetch(name))
        self.assertEqual(received, content)
        after = cluster.interests()
        return {member: after[member] - before.get(member, 0) for member in after}, report


@unittest.skipIf(SKIP_REASON, SKIP_REASON or "")
class Downloads(ClusterTest):
    def test_one_download_uses_all_members(self):
        cluster = self.build("--members", 3)
        by_member, report = self.exchange(cluster, segment=500)
        self.assertEqual(report["segments"], 1000)
        # Retransmissions to a delayed member say nothing about how Interests are distributed.
        fair, retransmissions = report["segments"] / 3, report["retransmissions"]
        for member, interests in by_member.items():
            self.assertGreater(interests, fair * 0.7, by_member)
            self.assertLess(interests, fair * 1.3 + retransmissions, (by_member, retransmissions))

    def test_fragmented_data_arrives(self):
        """Data of 8 KB are several link packets: both ends run nw and reassemble."""
        cluster = self.build("--members", 2)
        by_member, _ = self.exchange(cluster, segment=8000)
        self.assertTrue(all(by_member.values()), by_member)

    def test_consumers_with_own_routers_fetch(self):
        cluster = self.build("--members", 2, "--consumers", 2, "--consumer-routers")
        content, _ = cluster.publish("/net/file", 300_000)
        downloads = [cluster.fetch("/net/file", consumer=at) for at in range(2)]
        for download in downloads:
            self.assertEqual(cluster.fetched(download)[0], content)

    def test_version_discovery_and_can_be_prefix_work(self):
        cluster = self.build("--members", 3)
        content, _ = cluster.publish("/net/versions/file", 5000)
        # `32=metadata` gave the version; shorter names with CanBePrefix are answered too, whichever
        # member they are assigned to.
        received, report = cluster.fetched(cluster.fetch("/net/versions/file"))
        self.assertEqual(received, content)
        self.assertIn("/v=", report["name"])
        members = set()
        for number in range(8):
            name = f"/net/prefix/{number}"
            members.add(cluster.balancer("where", name)["member"])
            cluster.publish(name, 100)
            output, _ = cluster.run(cluster.consumers[0], NW, "peek", "--prefix", name, "--json")
            self.assertIn(f"{name}/v=", output)
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

    def test_python_ndn_client_fetches(self):
        if not PYTHON_NDN.exists():
            self.skipTest("python-ndn is not installed: tests/interop/install does")
        cluster = self.build("--members", 3)
        # Data of 8 KB are fragmented by IP for clients without link reassembly.
        for segment in (1000, 8000):
            name = f"/net/foreign{segment}"
            content, _ = cluster.publish(name, 40_000, segment=segment)
            out, _ = cluster.run(
                cluster.consumers[0],
                PYTHON_NDN,
                HERE / "foreign_client.py",
                cluster.description["cluster"]["address"],
                name,
            )
            self.assertEqual(json.loads(out)["sha256"], hashlib.sha256(content).hexdigest())

    def test_ip_fragments_in_any_order_are_answered(self):
        """Only the first fragment has the name: those that arrive earlier wait at the balancer."""
        orders = ["0,1,2", "2,1,0", "1,2,0", "1,0,2", "2,0,1", "0,2,1"]
        cluster = self.build("--members", 3)
        for number in range(len(orders)):
            cluster.publish(f"/net/cut/{number}", 100)
        to = cluster.description["cluster"]["address"]
        out, _ = cluster.run(
            cluster.consumers[0], sys.executable, HERE / "fragments.py", to, "/net/cut", *orders
        )
        # A second try is needed only if the sender was preempted between two fragments for longer
        # than the balancer holds them.
        self.assertTrue(all(json.loads(out)["tries"].values()), out)
        until(
            lambda: cluster.status()["verdicts"]["ip_fragment_held"] >= 6,
            "6 fragments came before their first",
        )

    def test_producer_registered_with_cluster_is_reached_by_all_members(self):
        """The producer registers over the cluster's address, as with one router: all members send
        it Interests and accept its answers."""
        cluster = self.build("--members", 3)
        # The name without a version: version discovery works through the cluster, too.
        by_member, _ = self.exchange(cluster, segment=500, over=cluster.uri)
        fair = sum(by_member.values()) / 3
        self.assertTrue(all(interests > fair * 0.7 for interests in by_member.values()), by_member)
        # The producer opened this link to an address shared by several routers. Its answers are
        # left to IP fragmentation, because link fragments without a name might reach another
        # member.
        self.exchange(cluster, "/net/big", segment=8000, over=cluster.uri)


@unittest.skipIf(SKIP_REASON, SKIP_REASON or "")
class MembershipChanges(ClusterTest):
    def test_members_added_and_removed_lose_no_packet(self):
        """Five downloads by clients that never retransmit: one lost packet would end one."""
        cluster = self.build("--members", 3, "--consumers", 5, *SLOW)
        published = [cluster.publish(f"/net/rescale/{at}", 25_000_000)[0] for at in range(5)]
        downloads = [
            cluster.fetch(f"/net/rescale/{at}", "--window", 16, consumer=at, retries=0)
            for at in range(5)
        ]
        before = {
            name: cluster.balancer("where", name)["member"]
            for name in (f"/net/n/{n}" for n in range(200))
        }
        number = cluster.execute("add")["number"]
        moved = [
            name
            for name, member in before.items()
            if cluster.balancer("where", name)["member"] != member
        ]
        self.assertLess(len(moved), 80, "about a quarter")
        self.assertTrue(
            all(cluster.balancer("where", name)["member"] == f"m{number}" for name in moved)
        )
        time.sleep(1)
        shown = next(member for member in cluster.status()["members"] if member["number"] == number)
        self.assertGreater(shown["counters"]["in_interests"], 100)
        cluster.execute("remove", number)
        self.assertTrue(
            all(download.poll() is None for download in downloads),
            "the downloads must outlast the change",
        )
        for content, download in zip(published, downloads):
            received, report = cluster.fetched(download)
            self.assertEqual(
                (report["retransmissions"], hashlib.sha256(received).digest()),
                (0, hashlib.sha256(content).digest()),
            )

    def test_failed_member_loses_its_slots_until_it_recovers(self):
        cluster = self.build("--members", 3)
        self.exchange(cluster)
        cluster.execute("kill", 2)
        until(lambda: cluster.states()["m2"] == "failed", "its probes are missed")
        # The client never retransmits.
        content, _ = cluster.publish("/net/second", 200_000, members=["m1", "m3"])
        before = cluster.interests()
        received, report = cluster.fetched(cluster.fetch("/net/second", retries=0))
        self.assertEqual((received, report["retransmissions"]), (content, 0))
        self.assertLess(cluster.interests()["m2"], before["m2"] + 30, "probes, and no more")
        cluster.execute("revive", 2)
        until(lambda: cluster.states()["m2"] == "active", "it is healthy, and has its routes again")
        by_member, _ = self.exchange(cluster, "/net/third", segment=500)
        self.assertGreater(by_member["m2"], 200, by_member)

    def test_balancer_killed_and_restarted_loses_no_packet(self):
        cluster = self.build("--members", 2, *SLOW)
        content, _ = cluster.publish("/net/file", 25_000_000)
        download = cluster.fetch("/net/file", "--window", 16, retries=0)
        time.sleep(1)
        cluster.execute("kill-balancer", 1)
        time.sleep(2)
        self.assertIsNone(download.poll(), "the kernel program keeps forwarding")
        cluster.execute("start-balancer", 1)
        status = cluster.status()
        self.assertTrue(status["adopted"])
        until(lambda: set(cluster.states().values()) == {"active"}, "all members are active again")
        self.assertIsNone(download.poll(), "the download must outlast the restart")
        received, report = cluster.fetched(download)
        self.assertEqual((received, report["retransmissions"]), (content, 0))

    def test_failed_balancer_is_replaced_within_seconds(self):
        if not shutil.which("keepalived"):
            self.skipTest("keepalived is not installed: tools/setup test installs it")
        cluster = self.build("--members", 2, "--balancers", 2, "--end-rate", 20)
        self.assertEqual([b["active"] for b in cluster.balancers], [True, False])
        content, _ = cluster.publish("/net/file", 15_000_000)
        download = cluster.fetch("/net/file")
        time.sleep(2)
        self.assertIsNone(download.poll())
        cluster.execute("fail-balancer", 1)
        longest, last_received_at, last = 0, time.monotonic(), 0
        end = time.monotonic() + 60
        while download.poll() is None and time.monotonic() < end:
            size, now = cluster.execute("traffic")["c1"]["received_bytes"], time.monotonic()
            if size > last + 5000:
                longest, last_received_at, last = max(longest, now - last_received_at), now, size
            time.sleep(0.02)
        self.assertEqual(cluster.fetched(download)[0], content)
        self.assertLess(longest, 3.0, "seconds of silence")
        self.assertGreater(longest, 0.1, "the failure interrupted the download")
        cluster.refresh()
        self.assertTrue(cluster.balancers[1]["active"])


@unittest.skipIf(NDND_SKIP_REASON, NDND_SKIP_REASON or "")
class NdndMembers(ClusterTest):
    """Members run the published NDNd. Its receive buffers are small, so clients retransmit lost
    packets."""

    def build_with(self, *args):
        return self.build(*args, "--router", HERE / "ndnd_member", NDND)

    def check_runs_ndnd(self, cluster, *names):
        """Checks which members run NDNd, by a dataset that it refuses."""
        for member in cluster.members:
            output = subprocess.run(
                [NW, "face", "channels", "--json", "--socket", f"unix://{member['socket']}"],
                capture_output=True,
                text=True,
            )
            self.assertEqual(
                "refused (501): Unknown verb" in output.stderr,
                member["name"] in names,
                (member["name"], output.stderr),
            )

    def check_all_used(self, cluster, name, **options):
        by_member, report = self.exchange(cluster, name, size=300_000, segment=500, **options)
        fair = report["segments"] / len(by_member)
        for interests in by_member.values():
            self.assertGreater(interests, fair * 0.6, by_member)

    def strategies(self, cluster, at):
        output = nw(
            "strategy", "list", "--json", "--socket", f"unix://{cluster.members[at]['socket']}"
        )
        return {entry["name"]: entry["strategy"] for entry in map(json.loads, output.splitlines())}

    def routes(self, cluster, at):
        output = nw(
            "route", "list", "--json", "--socket", f"unix://{cluster.members[at]['socket']}"
        )
        return {entry["name"] for entry in map(json.loads, output.splitlines())}

    def test_ndnd_members_are_all_used(self):
        cluster = self.build_with("--members", 2)
        self.check_runs_ndnd(cluster, "m1", "m2")
        self.check_all_used(cluster, "/net/file")
        # Data in several link packets, and a producer registered with the cluster.
        by_member, _ = self.exchange(cluster, "/net/pieces", size=200_000, segment=8000)
        self.assertTrue(all(by_member.values()), by_member)
        self.check_all_used(cluster, "/net/registered", over=cluster.uri)
        self.assertEqual(cluster.status()["warnings"], [])

    def test_ndnd_members_follow_nw_control_member(self):
        cluster = self.build_with("--members", 3, "--router-for", "2,3")
        self.check_runs_ndnd(cluster, "m2", "m3")
        self.check_followers(cluster)

    def test_nw_members_follow_ndnd_control_member(self):
        cluster = self.build_with("--members", 3, "--router-for", 1)
        self.check_runs_ndnd(cluster, "m1")
        self.check_followers(cluster)

    def check_followers(self, cluster):
        """Checks that all members follow routes and strategies of the first one, when they are
        added and when they are removed, in the version numbers of each implementation."""
        self.check_all_used(cluster, "/net/file")
        control = f"unix://{cluster.members[0]['socket']}"
        nw("strategy", "set", "--socket", control, "/net", "multicast")
        for at in (1, 2):
            until(
                lambda: "/multicast/" in self.strategies(cluster, at).get("/net", ""),
                f"m{at + 1} has the strategy",
            )
        nw("strategy", "unset", "--socket", control, "/net")
        face = f"udp4://{cluster.producers[0]['address']}:{cluster.producers[0]['port']}"
        nw("route", "remove", "--socket", control, "/net/file", face)
        for at in (1, 2):
            until(
                lambda: "/net" not in self.strategies(cluster, at),
                f"m{at + 1} no longer has the strategy",
            )
            until(
                lambda: "/net/file" not in self.routes(cluster, at),
                f"m{at + 1} no longer has the route",
            )
        self.assertEqual(
            [member.get("trouble") for member in cluster.status()["members"]], [None] * 3
        )

    def test_ndnd_members_are_added_removed_and_recover(self):
        cluster = self.build_with("--members", 2, "--router-for", "2,3")
        content, _ = cluster.publish("/net/file", 200_000)
        self.assertEqual(cluster.execute("add")["number"], 3)
        cluster.refresh()
        self.check_runs_ndnd(cluster, "m2", "m3")
        self.check_all_used(cluster, "/net/more")
        # Pending Interests are read from its status too, so it is removed within the drain limit.
        cluster.execute("remove", 2)
        # More routes than the balancer registers one at a time with routers that accept many in one
        # command; NDNd does not.
        control = f"unix://{cluster.members[0]['socket']}"
        face = f"udp4://{cluster.producers[0]['address']}:{cluster.producers[0]['port']}"
        many = {f"/net/many/{number}" for number in range(100)}
        for name in many:
            nw("route", "add", "--socket", control, name, face)
        cluster.execute("kill", 3)
        until(lambda: cluster.states()["m3"] == "failed", "its probes are missed")
        self.assertEqual(cluster.fetched(cluster.fetch("/net/file"))[0], content)
        cluster.execute("revive", 3)
        until(lambda: cluster.states()["m3"] == "active", "it is healthy, and has its routes again")
        cluster.refresh()
        self.assertLessEqual(many, self.routes(cluster, 1))
        self.check_all_used(cluster, "/net/again")


@unittest.skipIf(SKIP_REASON, SKIP_REASON or "")
class Links(ClusterTest):
    def test_members_over_udp6_are_used(self):
        cluster = self.build("--members", 2, "--by", "udp6")
        node = cluster.producers[0]
        content, _ = cluster.publish("/net/six", 200_000, face=f"udp6://[{node['address6']}]:6363")
        before = cluster.interests()
        self.assertEqual(cluster.fetched(cluster.fetch("/net/six"))[0], content)
        self.assertTrue(all(n > before[m] + 50 for m, n in cluster.interests().items()))

    def test_members_in_vlan_are_used(self):
        try:
            cluster = self.build("--members", 2, "--vlan", 100)
        except Failed as failure:
            if "Unknown device type" not in str(failure):
                raise
            # User-mode Linux, which has them, has no types of its structures (BTF), which the
            # balancer's program needs. crates/kernel/tests/balancer_vlan.rs sends tagged frames.
            self.skipTest("members in a VLAN need a kernel with 802.1Q")
        by_member, _ = self.exchange(cluster)
        self.assertTrue(all(by_member.values()), by_member)

    def test_members_over_ethernet_are_used(self):
        cluster = self.build("--members", 2, "--by", "ethernet")
        node = cluster.producers[0]
        shown = subprocess.run(
            ["ip", "-n", node["namespace"], "-j", "link", "show", "eth0"],
            capture_output=True,
            text=True,
            check=True,
        )
        mac = json.loads(shown.stdout)[0]["address"]
        content, _ = cluster.publish(
            "/net/ether", 100_000, face=f"ether://[{mac}]", local="dev://eth0"
        )
        before = cluster.interests()
        self.assertEqual(cluster.fetched(cluster.fetch("/net/ether"))[0], content)
        self.assertTrue(all(n > before[m] + 20 for m, n in cluster.interests().items()))


@unittest.skipIf(SKIP_REASON, SKIP_REASON or "")
class Laboratory(ClusterTest):
    def test_ctrl_c_leaves_nothing(self):
        with Cluster("--members", 2) as cluster:
            name = cluster.name
            self.assertGreaterEqual(len(leftovers(name)), 6)
        self.assertEqual(leftovers(name), [])

    def test_clean_removes_leftovers_of_killed_lab(self):
        with Cluster("--members", 1) as cluster:
            name = cluster.name
            cleaned = subprocess.run(
                [NW, "lab", "clean", "--json"], capture_output=True, text=True, check=True
            )
            self.assertIn(name, json.loads(cleaned.stdout)["in_use"])
            cluster.process.kill()
            cluster.process.wait()
            self.assertTrue(leftovers(name))
            cleaned = subprocess.run(
                [NW, "lab", "clean", "--json"], capture_output=True, text=True, check=True
            )
            self.assertIn(name, json.loads(cleaned.stdout)["removed"])
        self.assertEqual(leftovers(name), [])

    def test_unknown_console_commands_are_refused(self):
        cluster = self.build("--members", 1)
        for args in (
            ["dance"],
            ["remove"],
            ["remove", "9"],
            ["share", "1"],
            ["kill", "x"],
            ["fail-balancer", "3"],
        ):
            with self.assertRaises(Failed):
                cluster.execute(*args)
        self.assertEqual(cluster.states(), {"m1": "active"})

    def test_invalid_options_are_refused(self):
        for args, reason in (
            (["--members", "0"], "at least one"),
            (["--members", "99"], "at most 63"),
            (["--depth", "/a"], "/video=2"),
            (["--cpu-share", "0"], "above 0"),
            (["--router-for", "64", "--router", "x"], "from 1 to 63"),
            (["--balancers", "0", "--members", "2"], "one router"),
        ):
            completed = subprocess.run(
                [NW, "lab", "cluster", *args],
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=60,
            )
            self.assertNotEqual(completed.returncode, 0)
            self.assertIn(reason, completed.stderr)

    def test_two_balancers_without_keepalived_are_refused(self):
        """The missing program is reported once, with the remedy, before anything is built."""
        environment = {**os.environ, "PATH": "/nonexistent"}
        completed = subprocess.run(
            [NW, "lab", "cluster", "--balancers", "2"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
            env=environment,
        )
        self.assertEqual(
            (completed.returncode, completed.stderr.strip()),
            (1, "nw: two balancers need keepalived: install it (apt-get install keepalived)"),
        )


def leftovers(name):
    found = []
    for folder in (
        "/run/netns",
        "/run/nwlab",
        "/var/lib/nwlab",
        "/sys/fs/cgroup/cpu",
        "/sys/fs/cgroup",
    ):
        if Path(folder).is_dir():
            found += [
                str(path)
                for path in Path(folder).iterdir()
                if path.name == name or path.name.startswith(f"{name}-")
            ]
    return found


if __name__ == "__main__":
    unittest.main()
