"""A cluster by the Helm chart: a balancer on a node, its members as pods behind the node's bridge,
and Interests from outside of the node."""

import concurrent.futures
import contextlib
import json
import subprocess
import sys
import unittest

from kubernetes_cluster import ROOT, find_nw
from site_of_tests import CHART, FIRST, SiteTest, wait_until

sys.path.insert(0, str(ROOT / "tests/network"))
from network import Producer

PORT = 6364
PINGS = 50
# At 125 each second, for longer than a pod needs to join and an upgrade takes.
LOAD_PINGS = 8000


class ClusterTest(SiteTest):
    """A cluster by the chart, with routes to a producer of this machine."""

    TAGS = (FIRST,)
    VALUES = {}

    def setUp(self):
        level = "pod-security.kubernetes.io/enforce=privileged"
        self.kubectl("label", "--overwrite", "namespace", self.NAMESPACE, level)
        index = self.cluster.index
        self.outside, self.address = f"198.18.{index}.1", f"198.18.{index}.11"
        producer = Producer((self.outside, 0))
        self.addCleanup(producer.listener.close)
        uri = f"tcp4://{self.outside}:{producer.listener.getsockname()[1]}"
        routes = f'[[face]]\nuri = "{uri}"\n[[route]]\nprefix = "/site"\nface = "{uri}"\n'
        values = {
            "enabled": True,
            "address": self.address,
            "port": PORT,
            "nodeSelector": {"kubernetes.io/hostname": "n1"},
            "memberConfiguration": routes,
            **self.VALUES,
        }
        self.install("site", {"router": {"enabled": False}, "cluster": values})

    def balancer(self, *arguments):
        command = ("exec", "deploy/site-balancer", "-n", self.NAMESPACE, "--", "/usr/bin/nw")
        return self.kubectl(*command, "balancer", *arguments, check=False).stdout

    def status(self):
        text = self.balancer("status", "--json")
        return json.loads(text) if text else {"members": []}

    def wait_active(self, count):
        def found():
            status = self.status()
            states = [member["state"] for member in status["members"]]
            return status if states == ["active"] * count else None

        try:
            return wait_until(found, f"{count} members take names")
        except AssertionError as error:
            pods = self.kubectl("describe", "pods", "-n", self.NAMESPACE).stdout
            options = ("-n", self.NAMESPACE, "--all-containers", "--prefix", "--tail=30")
            select = ("-l", "app.kubernetes.io/instance=site")
            logs = self.kubectl("logs", *options, *select, check=False).stdout
            raise AssertionError(f"{error}{self.status()}{pods[-6000:]}{logs}") from error

    def replicas(self):
        command = ("get", "statefulset", "site-member", "-n", self.NAMESPACE, "-o", "json")
        return json.loads(self.kubectl(*command).stdout)["spec"]["replicas"]

    def scale(self, replicas):
        command = ("scale", "statefulset", "site-member", "-n", self.NAMESPACE)
        self.kubectl(*command, f"--replicas={replicas}")

    @contextlib.contextmanager
    def pinging(self, count, interval_ms):
        """Fetches names from outside of the node, each for the first time, beside what the block
        does. All are answered."""
        command = (find_nw(), "ping", "/site", "-s", f"udp4://{self.address}:{PORT}")
        options = ("--count", count, "--interval", interval_ms, "--timeout", 2000)
        with subprocess.Popen(
            list(map(str, command + options)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                # What a program prints before it ends is read meanwhile, or it would wait.
                reader = concurrent.futures.ThreadPoolExecutor(1)
                printed = reader.submit(process.stdout.read)
                yield
                process.wait(count * interval_ms / 1000 + 60)
                text = printed.result(10)
            finally:
                process.kill()
                reader.shutdown()
        known = f"{text[-1500:]}{json.dumps(self.status())}"
        self.assertIn(f"{count} sent, {count} answered", text, known)

    def ping(self):
        with self.pinging(PINGS, 20):
            pass


class Members(ClusterTest):
    NAMESPACE = "ndn-cluster"
    VALUES = {"members": 2}

    def replace(self, name):
        if name.startswith("deploy/"):
            self.kubectl("rollout", "restart", name, "-n", self.NAMESPACE)
            self.kubectl("rollout", "status", name, "-n", self.NAMESPACE, "--timeout=120s")
        else:
            self.kubectl("delete", name, "-n", self.NAMESPACE)

    def test_answers_of_members_come_back_through_the_balancer(self):
        status = self.wait_active(2)
        modes = {found["name"]: found["mode"] for found in status["interfaces"]}
        self.assertEqual(modes, {"eth0": "tc", "cni0": "tc"})
        self.ping()
        for member in self.status()["members"]:
            self.assertGreater(member["counters"]["out_data"], 0, member)
        for pods in ("pod/site-member-0", "deploy/site-balancer"):
            # A pod of the same name enrols again; all members do when the balancer is a new one.
            with self.subTest(replaced=pods):
                self.replace(pods)
                self.wait_active(2)
                self.ping()
        self.scale(3)
        self.wait_active(3)
        self.ping()
        self.scale(1)
        self.wait_active(1)
        self.ping()


class Elastic(ClusterTest):
    """The balancer changes the number of members. The bounds of the load fit what `nw ping` sends:
    above 80 Interests per second one member is too few, below 50 two are too many."""

    NAMESPACE = "ndn-elastic"
    VALUES = {
        "elastic": {
            "enabled": True,
            "min": 1,
            "max": 2,
            "capacityPerSecond": 100,
            "holdSeconds": 2,
            "coolDownSeconds": 3,
        },
    }

    def test_members_follow_the_load_and_nothing_is_lost(self):
        self.wait_active(1)
        with self.pinging(LOAD_PINGS, 8):
            self.wait_active(2)
            self.assertEqual(self.replicas(), 2)
            # An upgrade keeps the number, and the balancer keeps running.
            uptime_s = self.status()["uptime_s"]
            self.helm("upgrade", "site", CHART, "--reuse-values")
            self.assertEqual(self.replicas(), 2)
            self.assertGreater(self.status()["uptime_s"], uptime_s)
            self.wait_active(2)
        warnings = [text for text in self.status()["warnings"] if "site-member" in text]
        self.assertEqual(warnings, [])
        with self.pinging(400, 50):
            self.wait_active(1)
        self.assertEqual(self.replicas(), 1)
        # A person's number is taken, within the bounds.
        self.scale(5)
        wait_until(lambda: self.replicas() <= 2, "the bound holds")
        self.wait_active(1)


if __name__ == "__main__":
    unittest.main()
