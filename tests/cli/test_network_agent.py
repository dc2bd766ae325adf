"""A network over two machines: the agent of the second runs in a mount namespace of its own, so that
its files and Unix sockets are not those of the manager."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import unittest
from pathlib import Path

from command_line import NW, TIMEOUT_S, CommandLine, free_port

CHAIN = Path(__file__).resolve().parents[2] / "examples/networks/chain.graph"


class Agents(CommandLine):
    def setUp(self):
        super().setUp()
        self.folder = Path(self.folder)
        self.networks = ("--directory", str(self.folder / "nets"))
        self.named = ("--name", "chain", *self.networks)
        (self.folder / "nets").mkdir()
        self.children = {}
        self.addCleanup(self.end_all)

    def start(self, name, *command):
        log = (self.folder / f"{name}.log").open("a")
        child = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        log.close()
        self.children[name] = child
        return child

    def end(self, name):
        child = self.children.pop(name)
        child.send_signal(signal.SIGTERM)
        return child.wait(TIMEOUT_S)

    def end_all(self):
        for name in list(self.children):
            self.end(name)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def run_nw(self, *command):
        command = [NW, *map(str, command)]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)

    def wait_until(self, condition, what):
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            if time.monotonic() > deadline:
                logs = "\n".join(self.log(name) for name in ("manager", "agent"))
                self.fail(f"not in time: {what}\n{logs}")
            time.sleep(0.05)

    def start_agent(self, *options):
        state = self.folder / "agent-state"
        agent = [NW, "network", "agent", "--state", str(state), "--address", "127.0.0.1", *options]
        if os.geteuid() == 0:
            script = f'mount -t tmpfs none {self.folder}/nets && exec "$@"'
            agent = ["unshare", "--mount", "sh", "-c", script, "sh", *agent]
        else:
            print("SKIPPED: a mount namespace for the agent needs root", file=sys.stderr)
        return self.start("agent", *agent)

    def can_ping(self):
        entry = f"unix://{self.folder}/chain.sock"
        return self.run_nw("ping", "/p", "-c", "1", "-s", entry).returncode == 0

    def document(self):
        text = re.sub(r"/tmp/nw-network-(\w+).sock", rf"{self.folder}/\1.sock", CHAIN.read_text())
        low = free_port(socket.SOCK_STREAM)
        here = "host here = process address=127.0.0.1"
        there = f"host there = process agent address=127.0.0.1 ports={low}..{low + 20}"
        text = text.replace("host here = process", f"{here}\n{there}")
        text = text.replace("service br quota=67%", "service br on there")
        path = self.folder / "chain.graph"
        path.write_text(text)
        return path

    def test_host_that_does_not_answer_is_reported_and_the_others_go_on(self):
        producer = f"{self.folder}/producer.sock"
        self.start("router", NW, "run", "--socket", producer, "--port", str(free_port()))
        self.wait_until(lambda: Path(producer).exists(), "the router")
        self.start("server", NW, "ping-server", "/p", "-s", f"unix://{producer}")
        address = f"127.0.0.1:{free_port(socket.SOCK_STREAM)}"
        up = ("network", "up", *self.networks, "--agents", address, str(self.document()))
        token = self.run_nw("network", "host", "add", "there", *self.named).stdout.strip()
        self.start("manager", NW, *up)
        self.wait_until(lambda: "agents connect to" in self.log("manager"), "the manager")
        agent = self.start_agent("--manager", address, "--enrol", token)
        self.wait_until(self.can_ping, "an exchange through both machines")
        self.wait_until(lambda: "converged" in self.show(), "the network")

        agent.send_signal(signal.SIGSTOP)
        try:
            deadline = time.monotonic() + 120
            while "there" not in self.conditions():
                self.assertLess(time.monotonic(), deadline, self.log("manager"))
                # The services run on, and the manager answers.
                self.assertTrue(self.can_ping())
        finally:
            agent.send_signal(signal.SIGCONT)
        deadline = time.monotonic() + 120
        while "converged" not in self.show() or self.conditions():
            self.assertLess(time.monotonic(), deadline, self.log("manager"))
            time.sleep(0.2)
        self.assertTrue(self.can_ping())
        self.assertEqual(self.run_nw("network", "down", *self.networks).returncode, 0)
        self.assertEqual(self.children.pop("manager").wait(TIMEOUT_S), 0)
        self.assertEqual(self.end("agent"), 0)

    def conditions(self):
        """Returns the reasons of all conditions, as text."""
        shown = self.run_nw("network", "show", "--json", *self.networks)
        graph = json.loads(shown.stdout)
        return " ".join(f"{c['subject']}: {c['reason']}" for c in graph["conditions"])

    def test_network_over_two_machines_enrols_runs_and_survives_its_agent(self):
        producer = f"{self.folder}/producer.sock"
        self.start("router", NW, "run", "--socket", producer, "--port", str(free_port()))
        self.wait_until(lambda: Path(producer).exists(), "the router")
        self.start("server", NW, "ping-server", "/p", "-s", f"unix://{producer}")
        address = f"127.0.0.1:{free_port(socket.SOCK_STREAM)}"
        document = self.document()

        done = self.run_nw("network", "up", *self.networks, document)
        self.assertIn("--agents ADDRESS", done.stderr)
        up = ("network", "up", *self.networks, "--agents", address, str(document))
        done = self.run_nw(*up)
        self.assertIn("nw network host add there", done.stderr)

        token = self.run_nw("network", "host", "add", "there", *self.named).stdout.strip()
        self.start("manager", NW, *up)
        self.wait_until(lambda: "agents connect to" in self.log("manager"), "the manager")
        wrong = token[:-4] + ("AAAA" if token[-4:] != "AAAA" else "BBBB")
        for text, words in [("hello", "copy the whole line"), (wrong, "made the token")]:
            state = self.folder / "none"
            options = ("--manager", address, "--enrol", text, "--state", state)
            done = self.run_nw("network", "agent", *options)
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)
        done = self.run_nw("network", "agent", "--state", self.folder / "none")
        self.assertIn("not enrolled", done.stderr)

        self.start_agent("--manager", address, "--enrol", token)
        self.wait_until(self.can_ping, "an exchange through both machines")
        # Packets may pass before the manager has seen that all instances run.
        self.wait_until(lambda: "converged" in self.show(), "the network")
        listed = self.run_nw("network", "host", "list", *self.named).stdout
        self.assertRegex(listed, r"there +enrolled")
        shown = self.run_nw("network", "show", *self.networks).stdout
        self.assertRegex(shown, r"br~1 +there +running")
        logs = self.run_nw("network", "show", "br~1@there", "--logs", "50", *self.networks)
        self.assertIn("running", logs.stdout)

        # The token was for once.
        done = self.run_nw(
            "network", "agent", "--manager", address, "--enrol", token, "--state", state
        )
        self.assertIn("make a new one", done.stderr)

        # Without the manager, packets go on; it finds the instances again.
        self.children["manager"].kill()
        self.children.pop("manager").wait()
        self.assertTrue(self.can_ping(), "packets pass without a manager")
        self.start("manager", NW, *up)
        self.wait_until(lambda: "converged" in self.show(), "the second manager")
        self.assertTrue(self.can_ping())

        done = self.run_nw("network", "down", *self.networks)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.children.pop("manager").wait(TIMEOUT_S), 0)
        self.assertFalse(self.can_ping())
        self.assertEqual(self.end("agent"), 0)

        self.assertEqual(
            self.run_nw("network", "host", "remove", "there", *self.named).returncode, 0
        )
        self.assertEqual(
            self.run_nw("network", "host", "remove", "there", *self.named).returncode, 3
        )

    def show(self):
        return self.run_nw("network", "show", *self.networks).stdout


if __name__ == "__main__":
    unittest.main()
