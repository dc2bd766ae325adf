"""A cluster of the tests, with the chart's images loaded, and what tests do in it."""

import contextlib
import json
import os
import pathlib
import subprocess
import time
import unittest

import kubernetes_cluster
import programs
from kubernetes_cluster import Cluster, build_image, find_nw

CHART = kubernetes_cluster.ROOT / "deploy/helm/namewire"
IMAGE = "namewire"
FIRST, SECOND = "test-1", "test-2"
TIMEOUT_S = 90
# Set to use a cluster that runs already, by its name.
RUNNING = os.environ.get("NW_KUBERNETES_NAME")


def wait_until(condition, what, timeout_s=TIMEOUT_S):
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        time.sleep(0.1)
    return value


class SiteTest(unittest.TestCase):
    """Tests that share a cluster; each class has a namespace of its own."""

    NAMESPACE = ""
    NODES = 1
    TAGS = (FIRST, SECOND)
    cluster = None

    @classmethod
    def setUpClass(cls):
        kubernetes_cluster.need(kubernetes_cluster.missing())
        cls.cluster = Cluster(RUNNING or f"test-{os.getpid()}")
        if RUNNING and len(cls.cluster.nodes) < cls.NODES:
            kubernetes_cluster.need(f"the cluster {RUNNING} has fewer than {cls.NODES} nodes")
        if not RUNNING:
            cls.addClassCleanup(cls.cluster.down)
            cls.cluster.up(cls.NODES)
        for tag in cls.TAGS:
            archive = cls.cluster.folder / f"{tag}.tar"
            build_image(archive, f"{IMAGE}:{tag}", "--label", f"test={tag}")
            cls.cluster.load(archive)
        cls.kubectl("create", "namespace", cls.NAMESPACE)
        if RUNNING:
            cls.addClassCleanup(cls.kubectl, "delete", "namespace", cls.NAMESPACE, "--wait=false")

    @classmethod
    def kubectl(cls, *arguments, **more):
        return cls.cluster.kubectl(*arguments, **more)

    def helm(self, *arguments, check=True):
        environment = os.environ | {
            "KUBECONFIG": str(self.cluster.kubeconfig),
            "HOME": str(self.cluster.folder),
        }
        command = [str(programs.helm()), "--namespace", self.NAMESPACE, *map(str, arguments)]
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, env=environment, timeout=180
        )
        if check and done.returncode != 0:
            raise AssertionError(f"helm {' '.join(map(str, arguments))}: {done.stderr}")
        return done

    def install(self, release, values, *more):
        path = self.cluster.folder / f"{release}.values.json"
        path.write_text(json.dumps({"image": {"tag": FIRST, "pullPolicy": "Never"}} | values))
        self.helm("install", release, CHART, "--values", path, *more)
        self.addCleanup(self.helm, "uninstall", release, "--ignore-not-found", "--wait")
        return path

    def pods(self, selector):
        """The pods of a selector that are not being deleted."""
        found = self.cluster.get("pods", "-n", self.NAMESPACE, "-l", selector)["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def wait_ready(self, selector, count=1, ready=None):
        """Waits until there are `count` pods, `ready` of them ready (default: all), and returns
        these."""
        wanted = count if ready is None else ready

        def found():
            pods = self.pods(selector)
            those = [pod for pod in pods if is_ready(pod)]
            return those if (len(pods), len(those)) == (count, wanted) else None

        return wait_until(found, f"{wanted} of {count} pods of {selector} ready")

    def run_pod(self, name, *arguments, labels=None):
        """Starts a pod with one command of nw, which reaches the node's router by its socket."""
        container = {
            "name": "nw",
            "image": f"{IMAGE}:{FIRST}",
            "imagePullPolicy": "Never",
            "args": list(arguments),
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "runAsNonRoot": True,
            },
            "volumeMounts": [{"name": "nfd", "mountPath": "/run/nfd"}],
        }
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": False,
                "containers": [container],
                "volumes": [{"name": "nfd", "hostPath": {"path": "/run/nfd"}}],
            },
        }
        self.apply(document)
        remove = ("delete", "pod", name, "-n", self.NAMESPACE, "--ignore-not-found")
        self.addCleanup(self.kubectl, *remove)

    def apply(self, *documents):
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
        return self.kubectl("apply", "-n", self.NAMESPACE, "-f", "-", input=text)

    def wait_succeeded(self, name, timeout_s=TIMEOUT_S):
        """Waits until a pod's command has ended with status 0, and returns what it printed."""

        def ended():
            phase = self.cluster.get("pod", name, "-n", self.NAMESPACE)["status"]["phase"]
            return phase if phase in ("Succeeded", "Failed") else None

        phase = wait_until(ended, f"the pod {name} has ended", timeout_s)
        output = self.kubectl("logs", name, "-n", self.NAMESPACE).stdout
        self.assertEqual(phase, "Succeeded", output)
        return output

    @contextlib.contextmanager
    def download(self, name, path, *options):
        """A download by a program of the node, which goes on while the block runs."""
        node = self.cluster.nodes[0]
        command = node.enter(
            *(find_nw(), "cat", "-s", "unix:///run/nfd/nfd.sock", *options),
            *("--output", path, name),
        )
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()

    def router_processes(self, node=0):
        """The process ids of the routers of a node, as the node counts."""
        return self.processes(
            "/usr/bin/nw run --config=/etc/namewire/nw.toml --socket=/run/nfd/nfd.sock --port=6363",
            node,
        )

    def processes(self, wanted, node=0):
        """The process ids of a node whose command lines have some words, as the node counts."""
        script = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline | sed \"s|^|${p#/proc/} |\"; "
        script += "echo; done 2>/dev/null"
        lines = self.cluster.nodes[node].run("sh", "-c", script).stdout.splitlines()
        return [int(line.split()[0]) for line in lines if wanted in line]


def is_ready(pod):
    conditions = pod["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def restarts(pod):
    return sum(c["restartCount"] for c in pod["status"].get("containerStatuses", []))


def sha256(path):
    done = subprocess.run(["sha256sum", path], check=True, capture_output=True, text=True)
    return done.stdout.split()[0]


def size(path):
    path = pathlib.Path(path)
    return path.stat().st_size if path.exists() else 0
