"""A routing daemon of others beside each of three routers: NDNd's distance vector daemon finds routes, carries a prefix that a producer
registers at one end to the other, and its routes vanish with it.

Needs Go, to build NDNd; skips with a word without it. Sends to loopback only. The command is target/release/nw, or $NW_BIN."""

import hashlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path

import ndnd
from waiting import until

ROOT = Path(__file__).resolve().parents[2]
NW = os.environ.get("NW_BIN", str(ROOT / "target/release/nw"))
NDND, WHY_NOT = ndnd.find()
# Converging takes 1 to 6 s with the intervals below.
CONVERGED_S = 60


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@unittest.skipIf(WHY_NOT, WHY_NOT or "")
class Routing(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="nw-routing-")))
        self.ports = [free_port() for _ in range(3)]
        self.routers = [self.router(at) for at in range(3)]

    def start(self, *words, log, **more):
        out = open(self.folder / log, "w")
        self.addCleanup(out.close)
        process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, **more)

        def end():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
            process.wait()

        self.addCleanup(end)
        return process

    def uri(self, at):
        return f"unix://{self.folder}/{at}.sock"

    def router(self, at):
        path = self.folder / f"{at}.toml"
        path.write_text(
            f'[faces.unix]\npath = "{self.folder}/{at}.sock"\n[faces.udp]\nlisten = ["127.0.0.1:{self.ports[at]}"]\n'
            "[faces.tcp]\nlisten = []\n[rib]\nreadvertise_nlsr = true\n"
        )
        process = self.start(NW, "run", "-c", path, log=f"{at}.log")
        until(lambda: "running" in (self.folder / f"{at}.log").read_text(), f"router {at} runs")
        return process

    def daemon(self, at, neighbours):
        path = self.folder / f"dv{at}.yml"
        links = "".join(f"    - uri: udp4://127.0.0.1:{self.ports[other]}\n" for other in neighbours)
        path.write_text(
            f"dv:\n  network: /net\n  router: /net/r{at}\n  keychain: insecure\n"
            f"  advertise_interval: 1000\n  router_dead_interval: 4000\n  neighbors:\n{links}"
        )
        environment = {**os.environ, "NDN_CLIENT_TRANSPORT": self.uri(at)}
        return self.start(NDND, "dv", "run", path, log=f"dv{at}.log", env=environment)

    def nw(self, at, *words):
        done = subprocess.run([NW, *map(str, words), "-s", self.uri(at)], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        self.assertTrue(done.returncode == 0 or not done.stderr, f"{words}: {done.stderr}")
        return done.stdout

    def routes(self, at):
        return {entry["name"]: entry["routes"] for entry in map(json.loads, self.nw(at, "route", "list", "--json").splitlines())}

    def knows(self, at, name):
        until(lambda: name in self.routes(at), f"router {at} has a route to {name}", CONVERGED_S)

    def fetched(self, at, name):
        target = self.folder / "fetched"
        self.nw(at, "cat", "--quiet", name, "-o", target)
        return hashlib.sha256(target.read_bytes()).hexdigest()

    def test_a_prefix_crosses_the_network_and_leaves_with_the_daemon(self):
        daemons = [self.daemon(0, [1]), self.daemon(1, [0, 2]), self.daemon(2, [1])]
        for at, other in ((0, 2), (2, 0), (0, 1)):
            self.knows(at, f"/net/32=DV/32=PFS/net/r{other}")
        content = os.urandom(2_000_000)
        (self.folder / "file").write_bytes(content)
        producer = self.start(NW, "put", "--quiet", "--origin", "client", "/site/file", self.folder / "file", "-s", self.uri(2), log="put.log")
        self.knows(2, "/site/file")
        self.knows(0, "/site/file")
        self.assertEqual(self.fetched(0, "/site/file"), hashlib.sha256(content).hexdigest())
        # The producer ends: the prefix is withdrawn everywhere.
        producer.send_signal(signal.SIGTERM)
        producer.wait(10)
        until(lambda: "/site/file" not in self.routes(0), "the prefix is withdrawn", CONVERGED_S)
        # A daemon that is killed takes the routes by it along, at its neighbours after the dead interval.
        daemons[2].kill()
        daemons[2].wait()
        until(lambda: not any(name.endswith("PFS/net/r2") for name in self.routes(0)), "routes to r2 are gone", CONVERGED_S)
        self.assertIn("/net/32=DV/32=PFS/net/r1", self.routes(0))

    def test_a_router_that_dies_leaves_the_others_their_path(self):
        """Three routers, each a neighbour of the two others."""
        for at in range(3):
            self.daemon(at, [other for other in range(3) if other != at])
        self.knows(0, "/net/32=DV/32=PFS/net/r2")
        (self.folder / "file").write_bytes(os.urandom(200_000))
        self.start(NW, "put", "--quiet", "--origin", "client", "/site/file", self.folder / "file", "-s", self.uri(2), log="put.log")
        self.knows(0, "/site/file")
        self.routers[1].kill()
        self.routers[1].wait()
        expected = hashlib.sha256((self.folder / "file").read_bytes()).hexdigest()
        self.assertEqual(self.fetched(0, "/site/file"), expected)


if __name__ == "__main__":
    unittest.main()
