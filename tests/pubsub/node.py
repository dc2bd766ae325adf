"""What the tests of publish/subscribe share: a node with its own folder, and `nw` as a user types
it."""

import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NW = os.environ.get("NW_BIN", str(ROOT / "target/release/nw"))
TIMEOUT_S = 30


def wait_until(condition, what, timeout_s=TIMEOUT_S):
    """Waits until `condition` returns something true, and returns it."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        time.sleep(0.02)
    return found


class Node:
    """A router with publish/subscribe, started by this test and ended by its process id. The words
    `around` start it."""

    def __init__(
        self, folder, name="n", pubsub="domain = false\n", rules="", namespace=None, around=()
    ):
        self.socket = Path(folder) / f"{name}.sock"
        self.path = Path(folder) / f"{name}.pubsub.sock"
        self.inside = ["ip", "netns", "exec", namespace] if namespace else []
        config = Path(folder) / f"{name}.toml"
        config.write_text(
            f'[faces.unix]\npath = "{self.socket}"\n[faces.udp]\nlisten = []\n'
            f"[faces.tcp]\nlisten = []\n[faces.multicast]\nenabled = false\n"
            f"[content_store]\npackets = 1000\n"
            f"[pubsub]\nenabled = true\n{pubsub}{rules}"
        )
        self.log_path = Path(folder) / f"{name}.log"
        self.started = time.monotonic()
        with open(self.log_path, "w") as log:
            self.process = subprocess.Popen(
                [*self.inside, *around, NW, "run", "-c", config],
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        wait_until(lambda: self.is_listening() or self.process.poll() is not None, "a socket")
        if self.process.poll() is not None:
            raise RuntimeError("the node did not start: " + self.log())

    def is_listening(self):
        with socket.socket(socket.AF_UNIX) as s:
            return s.connect_ex(str(self.path)) == 0

    def log(self):
        return self.log_path.read_text()

    def arguments(self, *words):
        return [NW, *words, "--socket", f"unix://{self.socket}"]

    def run(self, *words, stdin=None, timeout=TIMEOUT_S):
        return subprocess.run(
            self.arguments(*words),
            input=stdin,
            capture_output=True,
            timeout=timeout,
            text=True,
            check=False,
        )

    def run_plain(self, *words):
        """Runs `nw` without this node's socket."""
        return subprocess.run(
            [NW, *words], capture_output=True, timeout=TIMEOUT_S, text=True, check=False
        )

    def start(self, *words, **options):
        return subprocess.Popen(
            self.arguments(*words),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def status(self):
        return json.loads(self.run("pubsub", "status", "--json").stdout)

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(TIMEOUT_S)

    def memory_kib(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line)


class NodeTest(unittest.TestCase):
    """A test with one node of its own."""

    PUBSUB, RULES = "domain = false\n", ""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.node = Node(self.folder, pubsub=self.PUBSUB, rules=self.RULES)
        self.addCleanup(self.node.end)

    def subscriber(self, *words):
        """Starts `nw sub` and waits until the node knows its subscription."""
        process = self.node.start("sub", *words)
        self.addCleanup(self.stop, process)

        def is_subscribed():
            own = [a for a in self.node.status()["applications"] if a["pid"] == process.pid]
            return own and own[0]["subscriptions"]

        wait_until(is_subscribed, "the subscription")
        return process

    @staticmethod
    def stop(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    @staticmethod
    def end(process, timeout=TIMEOUT_S):
        """Ends a command by Ctrl-C and returns its standard output and standard error."""
        process.send_signal(signal.SIGINT)
        return process.communicate(timeout=timeout)
