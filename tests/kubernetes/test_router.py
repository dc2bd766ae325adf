"""Routers by the Helm chart in a real cluster: deployment, a killed router, upgrade, uninstall."""

import base64
import contextlib
import pathlib
import re
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import bounds
from site_of_tests import CHART, FIRST, SECOND, SiteTest, restarts, sha256, wait_until

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
ROUTER = "app.kubernetes.io/component=router"


class Routers(SiteTest):
    NAMESPACE = "ndn-router"

    def install_routers(self, name):
        path = self.install(name, {"router": {"configuration": "[content_store]\nmib = 16\n"}})
        self.wait_ready(ROUTER)
        return path

    def publish(self, name, *options):
        """Publishes the program of the image from a pod, and waits until it answers."""
        self.run_pod("producer", "put", *options, name, "/usr/bin/nw", labels={"test": "put"})
        self.wait_ready("test=put")

    def test_dry_run_of_server_accepts_every_manifest(self):
        for name, count in (("default", 2), ("complete", 22)):
            # Only the namespace of the tests exists.
            text = (GOLDEN / f"{name}.yaml").read_text()
            text = re.sub(
                r"^  namespace: .*", f"  namespace: {self.NAMESPACE}", text, flags=re.MULTILINE
            )
            command = ("apply", "--dry-run=server", "-n", self.NAMESPACE, "-f", "-")
            done = self.kubectl(*command, input=text)
            self.assertEqual(done.stdout.count("(server dry run)"), count, done.stdout)
            self.assertNotIn("Warning", done.stderr)

    def test_deployment_carries_a_first_packet_in_time(self):
        started = time.monotonic()
        self.install("first", {})
        self.wait_ready(ROUTER)
        self.run_pod("answers", "ping-server", "/site", labels={"test": "answers"})
        self.wait_ready("test=answers")
        self.run_pod("asks", "ping", "/site", "--count", "1")
        self.wait_succeeded("asks")
        took = time.monotonic() - started
        print(f"deployment to first packet: {took:.1f} s", flush=True)
        bounds.check(self, "kubernetes.first_packet_s", took)

    def test_killed_router_comes_back_and_producers_register_again(self):
        self.install_routers("killed")
        self.publish("/site/program")
        folder = self.cluster.folder
        self.fetch("/site/program", folder / "before")
        (process,) = self.router_processes()
        started = time.monotonic()
        self.cluster.nodes[0].run("kill", "-9", str(process))
        # A new program finds no router until the kubelet has started the next one.
        wait_until(lambda: self.try_fetch("/site/program", folder / "after"), "a download")
        print(f"killed router to complete download: {time.monotonic() - started:.1f} s", flush=True)
        self.assertEqual(sha256(folder / "before"), sha256(folder / "after"))
        (pod,) = self.wait_ready(ROUTER)
        self.assertEqual(restarts(pod), 1)

    def test_upgrade_loses_nothing_of_running_downloads(self):
        path = self.install_routers("upgraded")
        # Small segments, one at a time: each download lasts longer than the upgrade.
        self.publish("/site/program", "--segment", "300")
        folder = self.cluster.folder
        self.fetch("/site/program", folder / "reference")
        with contextlib.ExitStack() as stack:
            downloads = [
                stack.enter_context(
                    self.download("/site/program", folder / f"copy-{number}", "--window", "1")
                )
                for number in range(3)
            ]
            started = time.monotonic()
            self.helm(
                *("upgrade", "upgraded", CHART, "--values", path),
                *("--set", f"image.tag={SECOND}"),
            )
            self.kubectl("rollout", "status", "-n", self.NAMESPACE, "daemonset/upgraded-router")
            took = time.monotonic() - started
            running = sum(process.poll() is None for process in downloads)
            print(f"upgrade: {took:.1f} s, {running} of 3 downloads run on", flush=True)
            self.assertGreater(running, 0, "the downloads ended before the upgrade")
            for process in downloads:
                output, _ = process.communicate(timeout=120)
                self.assertEqual(process.returncode, 0, output.decode())
        for number in range(3):
            self.assertEqual(sha256(folder / f"copy-{number}"), sha256(folder / "reference"))
        (pod,) = self.wait_ready(ROUTER)
        image = pod["spec"]["containers"][0]["image"]
        self.assertTrue(image.endswith(f":{SECOND}"), image)
        self.assertNotEqual(FIRST, SECOND)

    def test_upgrade_keeps_the_token_of_a_group(self):
        # No node fits, so that no pod starts: this is about the secret.
        cluster = {
            "enabled": True,
            "address": "192.0.2.1",
            "members": 0,
            "nodeSelector": {"no": "node"},
        }
        values = {"router": {"enabled": False}, "cluster": cluster}
        path = self.install("group", values)
        secret = ("secret", "group-balancer-group", "-n", self.NAMESPACE)
        first = self.cluster.get(*secret)["data"]["token"]
        self.helm("upgrade", "group", CHART, "--values", path, "--set=cluster.drainSeconds=5")
        self.assertEqual(self.cluster.get(*secret)["data"]["token"], first)
        self.assertEqual(len(base64.b64decode(first)), 40)

    def test_uninstall_leaves_nothing(self):
        self.install_routers("removed")
        self.assertEqual(len(self.router_processes()), 1)
        node = self.cluster.nodes[0]
        self.assertIn("nfd.sock", node.run("ls", "/run/nfd").stdout)
        self.helm("uninstall", "removed", "--wait")
        kinds = (
            "all,configmaps,secrets,persistentvolumeclaims,serviceaccounts,roles,networkpolicies"
        )
        selector = ("-l", "app.kubernetes.io/instance=removed")

        def left():
            return self.cluster.get(kinds, "-n", self.NAMESPACE, *selector)["items"]

        wait_until(lambda: not left(), "no object of the release is left")
        wait_until(lambda: not self.router_processes(), "no router process is left")
        self.assertEqual(node.run("ls", "-A", "/run/nfd").stdout, "")

    def try_fetch(self, name, path):
        with self.download(name, path) as process:
            process.communicate(timeout=60)
            return process.returncode == 0

    def fetch(self, name, path):
        with self.download(name, path) as process:
            output, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, output.decode())


if __name__ == "__main__":
    unittest.main()
