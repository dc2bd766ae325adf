"""A cluster on a machine with a bridge, as a node of Kubernetes has: its members are behind the
bridge, and their cards leave the checksums of what they send to the receiver's card.

Needs root and iproute2; prints a reason and skips without them.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from waiting import TIMEOUT_S, until

NW = os.environ.get("NW_BIN", str(Path(__file__).resolve().parents[2] / "target/release/nw"))
CLUSTER, PORT, PEER = "192.0.2.1", 6364, "192.0.2.2"
BRIDGE = "10.88.0.1"
MEMBERS = 2
PINGS = 40


def missing():
    if not Path(NW).exists():
        return f"{NW} does not exist: cargo build --release -p nw-cli, or set NW_BIN"
    if os.geteuid() != 0:
        return "network namespaces need root"
    return None if shutil.which("ip") else "there is no ip: apt install iproute2"


def ip(*arguments):
    subprocess.run(["ip", *map(str, arguments)], check=True, capture_output=True, text=True)


def finish_checksums(namespace, interface):
    """Lets the system compute the checksums of what an interface sends, as `ethtool -K DEV tx off`
    does: the command ETHTOOL_STXCSUM of the call SIOCETHTOOL."""
    script = (
        "import array, fcntl, socket, struct\n"
        "value = array.array('B', struct.pack('=2I', 0x17, 0))\n"
        f"request = struct.pack('16sP', b'{interface}', value.buffer_info()[0]) + bytes(16)\n"
        "fcntl.ioctl(socket.socket(), 0x8946, request)\n"
    )
    command = ["ip", "netns", "exec", namespace, sys.executable, "-c", script]
    subprocess.run(command, check=True, capture_output=True)


@unittest.skipIf(missing(), missing() or "")
class Bridge(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="nw-bridge-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.node, self.peer = self.namespace("n"), self.namespace("p")
        # A switch is between the two, so that checksums are finished on the way, and checked.
        switch = self.namespace("s")
        self.add_bridge(switch, "switch")
        for machine, name, address in ((self.node, "node", CLUSTER), (self.peer, "peer", PEER)):
            self.connect(machine, "eth0", switch, name, f"{address}/24")
            ip("-n", switch, "link", "set", name, "master", "switch")
            finish_checksums(switch, name)
        self.add_bridge(self.node, "pods0")
        ip("-n", self.node, "address", "add", f"{BRIDGE}/24", "dev", "pods0")
        for number in range(1, MEMBERS + 1):
            self.start_member(number)

    def namespace(self, letter):
        name = f"nwbr{os.getpid()}{letter}"
        ip("netns", "add", name)
        self.addCleanup(ip, "netns", "delete", name)
        ip("-n", name, "link", "set", "lo", "up")
        return name

    def add_bridge(self, namespace, name):
        ip("-n", namespace, "link", "add", name, "type", "bridge")
        ip("-n", namespace, "link", "set", name, "up")

    def connect(self, namespace, inner, to, outer, address):
        """Connects a namespace to another: `inner` with an address there, `outer` in the other."""
        pair = ("type", "veth", "peer", "name", inner, "netns", namespace)
        ip("-n", to, "link", "add", outer, *pair)
        ip("-n", to, "link", "set", outer, "up")
        ip("-n", namespace, "address", "add", address, "dev", inner)
        ip("-n", namespace, "link", "set", inner, "up")

    def address(self, number):
        return f"10.88.0.{10 + number}"

    def start_member(self, number):
        member = self.namespace(f"m{number}")
        self.connect(member, "eth0", self.node, f"pod{number}", f"{self.address(number)}/24")
        ip("-n", self.node, "link", "set", f"pod{number}", "master", "pods0")
        ip("-n", member, "route", "add", "default", "via", BRIDGE)
        socket = self.socket(number)
        self.start(member, "run", f"--socket={socket}", f"--port={6400 + number}")
        until(socket.exists, f"the socket of member {number}")
        self.start(member, "ping-server", "/site", "-s", f"unix://{socket}")

    def socket(self, number):
        return self.folder / f"{number}.sock"

    def start(self, namespace, *arguments):
        log = (self.folder / f"{namespace}-{arguments[0]}.log").open("w")
        process = subprocess.Popen(
            ["ip", "netns", "exec", namespace, NW, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )

        def end():
            process.terminate()
            try:
                process.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            log.close()

        self.addCleanup(end)

    def start_balancer(self, *settings):
        control = self.folder / "balancer.sock"
        lines = [
            "[cluster]",
            f'addresses = ["{CLUSTER}"]',
            f"port = {PORT}",
            'interfaces = ["eth0", "pods0"]',
            f'state_dir = "{self.folder}/state"',
            *settings,
            "[control]",
            f'path = "{control}"',
        ]
        (self.folder / "balancer.toml").write_text("\n".join(lines))
        self.start(self.node, "balancer", "run", "-c", self.folder / "balancer.toml")
        self.control = control
        until(control.exists, "the balancer's socket")
        for number in range(1, MEMBERS + 1):
            where = ("--address", self.address(number), "--port", str(6400 + number))
            more = ("--socket", str(self.socket(number)), "--external-routes")
            self.balancer("add", f"m{number}", *where, *more)
        try:
            until(lambda: self.states() == ["active"] * MEMBERS, "members take names", 30)
        except AssertionError as error:
            log = (self.folder / f"{self.node}-balancer.log").read_text()
            raise AssertionError(f"{error}\n{json.dumps(self.status())}\n{log}") from error

    def balancer(self, verb, *arguments):
        command = [NW, "balancer", verb, *arguments, "--control", str(self.control)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def status(self):
        return json.loads(self.balancer("status", "--json"))

    def states(self):
        return [member["state"] for member in self.status()["members"]]

    def counts(self):
        return [member["counters"] for member in self.status()["members"]]

    def answered(self):
        return sum(count["out_data"] for count in self.counts())

    def ping(self):
        """Pings through the balancer from the other machine; fails with what the balancer knows."""
        options = ("--count", PINGS, "--interval", 20, "--timeout", 1000)
        command = (NW, "ping", "/site", "-s", f"udp4://{CLUSTER}:{PORT}", *options)
        done = subprocess.run(
            ["ip", "netns", "exec", self.peer, *map(str, command)],
            check=False,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S + PINGS,
        )
        log = (self.folder / f"{self.node}-balancer.log").read_text()
        known = f"{done.stdout[-500:]}{done.stderr[-500:]}{json.dumps(self.status())}\n{log}"
        self.assertEqual(done.returncode, 0, known)
        self.assertIn(f"{PINGS} sent, {PINGS} answered", done.stdout + done.stderr, known)

    def test_answers_of_members_behind_a_bridge_come_back(self):
        self.start_balancer()
        self.ping()
        status = self.status()
        modes = {found["name"]: found["mode"] for found in status["interfaces"]}
        self.assertEqual(modes, {"eth0": "tc", "pods0": "tc"})
        # The balancer reads the members' counters from time to time.
        until(lambda: self.answered() == PINGS, "all answers are counted")
        for count in self.counts():
            self.assertGreater(count["in_interests"], 0)
            self.assertEqual(count["in_interests"], count["out_data"])


if __name__ == "__main__":
    unittest.main()
