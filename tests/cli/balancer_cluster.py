"""A balancer in front of two routers in network namespaces, for the tests of `nw balancer`."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import unittest
from pathlib import Path

from command_line import NW, TIMEOUT_S, CommandLine

FILE = """
[cluster]
addresses = ["192.0.2.1"]
interfaces = ["out", "in1", "in2"]
attach = "generic"
control_member = "m1"
state_dir = "{folder}/state"
bpffs_dir = "{pin}"
secret = "a secret of this test alone"
{cluster}
[health]
interval_ms = 200
timeout_ms = 400
[routes]
interval_ms = 100
[control]
path = "{folder}/b.sock"
{extra}
"""
MEMBER = """
[[member]]
name = "m{n}"
addresses = ["10.1.{n}.2"]
port = 640{n}
control = "{folder}/m{n}.sock"
"""


def run(*args):
    completed = subprocess.run(
        [str(word) for word in args], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if completed.returncode != 0:
        raise RuntimeError(f"{args}: {completed.stderr}")
    return completed.stdout


def missing_requirement():
    """Returns why a cluster can't run here; None when it can."""
    if os.geteuid() != 0:
        return "network namespaces and kernel programs need root"
    for tool in ("ip", "nsenter", "mount"):
        if not shutil.which(tool):
            return f"there is no {tool}: apt install iproute2 util-linux"
    name = f"nwb{os.getpid()}"
    try:
        run("ip", "netns", "add", name)
        run("ip", "netns", "del", name)
    except RuntimeError as error:
        return f"no network namespaces here: {error}"
    return None


@unittest.skipIf(missing_requirement(), missing_requirement() or "")
class BalancerCluster(CommandLine):
    """A balancer in front of two routers in network namespaces, with the routers of a consumer and
    a producer outside."""

    def setUp(self):
        super().setUp()
        self.namespaces = {
            netns: f"nwb{os.getpid()}-{netns}" for netns in ("bal", "out", "m1", "m2")
        }
        for netns in self.namespaces.values():
            run("ip", "netns", "add", netns)
            self.addCleanup(subprocess.run, ["ip", "netns", "del", netns], capture_output=True)
        self.pin = Path(self.folder) / "bpf"
        self.pin.mkdir()
        run("mount", "-t", "bpf", "bpf", self.pin)
        self.addCleanup(subprocess.run, ["umount", "-l", self.pin], capture_output=True)
        self.add_link("out", "out", "192.0.2.1/24", "192.0.2.2/24")
        for n in (1, 2):
            self.add_link(f"m{n}", f"in{n}", f"10.1.{n}.1/24", f"10.1.{n}.2/24")
            run(
                "ip",
                "-n",
                self.namespaces[f"m{n}"],
                "route",
                "add",
                "default",
                "via",
                f"10.1.{n}.1",
            )
        self.balancer = None
        # Numbers of the members in the file, and of those without a socket on the balancer's
        # machine.
        self.numbers, self.without_socket = (1, 2), 0

    def add_link(self, netns, name, near, far):
        balancer_netns, peer_netns = self.namespaces["bal"], self.namespaces[netns]
        run(
            "ip",
            "-n",
            balancer_netns,
            "link",
            "add",
            name,
            "type",
            "veth",
            "peer",
            "name",
            "wire",
            "netns",
            peer_netns,
        )
        for link_netns, link, address in ((balancer_netns, name, near), (peer_netns, "wire", far)):
            run("ip", "-n", link_netns, "address", "add", address, "dev", link)
            run("ip", "-n", link_netns, "link", "set", link, "up")
            run("ip", "-n", link_netns, "link", "set", "lo", "up")

    def start_in(self, netns, *args, **options):
        args = ["nsenter", f"--net=/run/netns/{self.namespaces[netns]}", *map(str, args)]
        process = subprocess.Popen(args, stdin=subprocess.DEVNULL, **options)

        def finish():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.communicate()

        self.addCleanup(finish)
        return process

    def route(self, name, netns, listen, extra=""):
        """Starts a router and returns its process."""
        path, sock = Path(self.folder) / f"{name}.toml", Path(self.folder) / f"{name}.sock"
        path.write_text(
            f'[faces.unix]\npath = "{sock}"\n[faces.udp]\nlisten = ["{listen}"]\nreliability = false\n[faces.tcp]\nlisten = []\n{extra}'
        )
        log = open(Path(self.folder) / f"{name}.log", "w")
        self.addCleanup(log.close)
        process = self.start_in(netns, NW, "run", "-c", path, stderr=log)
        self.until(
            lambda: self.is_listening(sock), f"{name} answers: " + Path(log.name).read_text()
        )
        return process

    def is_listening(self, path):
        with socket.socket(socket.AF_UNIX) as s:
            return s.connect_ex(str(path)) == 0

    def balance(self, cluster="", extra="", keep=False, folder=None):
        texts = {n: MEMBER.format(n=n, folder=self.folder) for n in self.numbers}
        if self.without_socket:
            texts[self.without_socket] = texts[self.without_socket].split("control =")[0]
        text = FILE.format(
            folder=self.folder, pin=self.pin, cluster=cluster, extra=extra
        ) + "".join(texts.values())
        if folder:
            text = text.replace(f'state_dir = "{self.folder}/state"', f'state_dir = "{folder}"')
        path = Path(self.folder) / "b.toml"
        path.write_text(text)
        self.log = Path(self.folder) / "b.log"
        with open(self.log, "w") as log:
            self.balancer = self.start_in(
                "bal", NW, "balancer", "run", "-c", path, *(["--keep"] if keep else []), stderr=log
            )
        self.until(
            lambda: " running " in self.log.read_text() or self.balancer.poll() is not None,
            "the balancer runs",
        )
        self.assertIsNone(self.balancer.poll(), self.log.read_text())

    def start_all(self, trust="", **options):
        self.members = {
            n: self.route(f"m{n}", f"m{n}", f"10.1.{n}.2:640{n}", trust) for n in (1, 2)
        }
        self.route("producer", "out", "192.0.2.2:7000")
        face = '[[face]]\nuri = "udp4://192.0.2.1:6363"\n[[route]]\nprefix = "/"\nface = "udp4://192.0.2.1:6363"\n'
        self.route("consumer", "out", "192.0.2.2:7001", face)
        self.start_in(
            "out",
            NW,
            "ping-server",
            "/t",
            "-s",
            f"unix://{self.folder}/producer.sock",
            stderr=subprocess.DEVNULL,
        )
        self.balance(**options)
        self.nw(
            "route", "add", "/t", "udp4://192.0.2.2:7000", "-s", f"unix://{self.folder}/m1.sock"
        )
        self.until_active({"m1", "m2"})
        self.until(
            lambda: self.balancer_json("status")["routes"]["routes"] == 1, "the route was seen"
        )
        self.ping(3)

    def balancer_json(self, *args, code=0):
        completed = self.nw(
            "balancer", *args, "--control", f"{self.folder}/b.sock", "--json", code=code
        )
        return json.loads(completed.stdout) if code == 0 else completed.stderr.decode()

    def rules(self):
        """Returns the rules, one line of JSON each."""
        output = self.nw("balancer", "rules", "--control", f"{self.folder}/b.sock", "--json").stdout
        return [json.loads(line) for line in output.splitlines()]

    def states(self):
        return {
            member["name"]: member["state"] for member in self.balancer_json("status")["members"]
        }

    def until_active(self, names):
        active = lambda: {name for name, state in self.states().items() if state == "active"}
        for _ in range(500):
            if active() == names:
                return
            time.sleep(0.02)
        self.fail(
            f"{names} are active: {json.dumps(self.balancer_json('status'), indent=1)}\n{self.log.read_text()}"
        )

    def start_ping(self, count, interval_ms=5):
        args = [
            "ping",
            "/t",
            "-s",
            f"unix://{self.folder}/consumer.sock",
            "-c",
            count,
            "-i",
            interval_ms,
            "--json",
        ]
        return subprocess.Popen(
            [NW, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def answered(self, process):
        output, _ = process.communicate(timeout=3 * TIMEOUT_S)
        end = json.loads(output.splitlines()[-1])
        return end["sent"], end["answered"]

    def ping(self, count):
        """Returns whether all pings were answered. Neighbour resolution may lose the first ones."""
        for _ in range(5):
            sent, answered = self.answered(self.start_ping(count))
            if answered == count:
                return
        self.fail(f"{answered} of {sent}: {json.dumps(self.balancer_json('status'), indent=1)}")

    def end(self, ending=signal.SIGINT):
        self.balancer.send_signal(ending)
        return self.balancer.wait(TIMEOUT_S)

    def attached(self):
        return "xdp" in run("ip", "-n", self.namespaces["bal"], "link", "show", "out")

    def sysctl(self, name):
        return run(
            "nsenter", f"--net=/run/netns/{self.namespaces['bal']}", "cat", f"/proc/sys/net/{name}"
        ).strip()

    def agent(self, member, *options):
        """Returns what an agent beside m2 writes to standard error before it ends."""
        agent = self.start_in(
            "m2", NW, "balancer", "agent", member, *options, stderr=subprocess.PIPE
        )
        return agent.communicate(timeout=TIMEOUT_S)[1].decode()
