"""NDNd's distance vector routing daemon next to each of three routers: it finds routes, propagates
a prefix registered at one end to the other, and its routes are removed with it. Next to each of
five routers in a ring, it routes around a link that is cut.

Needs Go, to build NDNd; prints a reason and skips without it. Sends to loopback only. The command
is target/release/nw, or $NW_BIN.
"""

import hashlib
import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

import ndnd
from waiting import until

ROOT = Path(__file__).resolve().parents[2]
NW = os.environ.get("NW_BIN", str(ROOT / "target/release/nw"))
NDND, SKIP_REASON = ndnd.find()
# Converging takes 1 to 6 s with the intervals below.
CONVERGED_S = 60
# What NDNd adds to the hops for a prefix that it reads from the RIB of a router.
PREFIX_COST = 15


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Link:
    """A link between the UDP ports of two routers, which can be cut. Counts packets."""

    def __init__(self, first, second):
        self.targets = (first, second)
        self.sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
        for end in self.sockets:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            end.bind(("127.0.0.1", 0))
        self.is_up, self.packets, self.ended = True, 0, False
        self.thread = threading.Thread(target=self.forward)
        self.thread.start()

    def port_for(self, first):
        """Returns the port at which a router, the first or the second one, finds the other."""
        return self.sockets[0 if first else 1].getsockname()[1]

    def forward(self):
        while not self.ended:
            for end in select.select(self.sockets, [], [], 0.2)[0]:
                packet = end.recv(9000)
                at = self.sockets.index(end)
                if self.is_up:
                    self.packets += 1
                    self.sockets[1 - at].sendto(packet, ("127.0.0.1", self.targets[1 - at]))

    def close(self):
        self.ended = True
        self.thread.join()
        for end in self.sockets:
            end.close()


class DaemonsAndRouters(unittest.TestCase):
    """Routers on ports of the loopback interface, and daemons next to them."""

    COUNT = 3

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="nw-routing-")))
        self.ports = [free_port() for _ in range(self.COUNT)]
        self.routers = [self.router(at) for at in range(self.COUNT)]

    def start(self, *args, log, **options):
        out = open(self.folder / log, "w")
        self.addCleanup(out.close)
        process = subprocess.Popen(
            [str(word) for word in args],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            **options,
        )

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
        return self.daemon_at(at, [self.ports[neighbour] for neighbour in neighbours])

    def daemon_at(self, at, ports):
        path = self.folder / f"dv{at}.yml"
        links = "".join(f"    - uri: udp4://127.0.0.1:{port}\n" for port in ports)
        path.write_text(
            f"dv:\n  network: /net\n  router: /net/r{at}\n  keychain: insecure\n"
            f"  advertise_interval: 1000\n  router_dead_interval: 4000\n  neighbors:\n{links}"
        )
        environment = {**os.environ, "NDN_CLIENT_TRANSPORT": self.uri(at)}
        return self.start(NDND, "dv", "run", path, log=f"dv{at}.log", env=environment)

    def nw(self, at, *args):
        completed = subprocess.run(
            [NW, *map(str, args), "-s", self.uri(at)],
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
        self.assertTrue(
            completed.returncode == 0 or not completed.stderr, f"{args}: {completed.stderr}"
        )
        return completed.stdout

    def routes(self, at):
        return {
            entry["name"]: entry["routes"]
            for entry in map(json.loads, self.nw(at, "route", "list", "--json").splitlines())
        }

    def knows(self, at, name):
        until(lambda: name in self.routes(at), f"router {at} has a route to {name}", CONVERGED_S)

    def fetched(self, at, name):
        target = self.folder / "fetched"
        self.nw(at, "cat", "--quiet", name, "-o", target)
        return hashlib.sha256(target.read_bytes()).hexdigest()


@unittest.skipIf(SKIP_REASON, SKIP_REASON or "")
class Routing(DaemonsAndRouters):
    def test_prefix_crosses_network_and_is_withdrawn_with_daemon(self):
        daemons = [self.daemon(0, [1]), self.daemon(1, [0, 2]), self.daemon(2, [1])]
        for at, other in ((0, 2), (2, 0), (0, 1)):
            self.knows(at, f"/net/32=DV/32=PFS/net/r{other}")
        content = os.urandom(2_000_000)
        (self.folder / "file").write_bytes(content)
        producer = self.start(
            NW,
            "put",
            "--quiet",
            "--origin",
            "client",
            "/site/file",
            self.folder / "file",
            "-s",
            self.uri(2),
            log="put.log",
        )
        self.knows(2, "/site/file")
        self.knows(0, "/site/file")
        self.assertEqual(self.fetched(0, "/site/file"), hashlib.sha256(content).hexdigest())
        # After the producer ends, the prefix is withdrawn everywhere.
        producer.send_signal(signal.SIGTERM)
        producer.wait(10)
        until(lambda: "/site/file" not in self.routes(0), "the prefix is withdrawn", CONVERGED_S)
        # After a daemon is killed, its neighbours remove the routes through it when the dead
        # interval is over.
        daemons[2].kill()
        daemons[2].wait()
        until(
            lambda: not any(name.endswith("PFS/net/r2") for name in self.routes(0)),
            "routes to r2 are gone",
            CONVERGED_S,
        )
        self.assertIn("/net/32=DV/32=PFS/net/r1", self.routes(0))

    def test_router_killed_leaves_path_between_others(self):
        """Three routers, each a neighbour of the two others."""
        for at in range(3):
            self.daemon(at, [neighbour for neighbour in range(3) if neighbour != at])
        self.knows(0, "/net/32=DV/32=PFS/net/r2")
        (self.folder / "file").write_bytes(os.urandom(200_000))
        self.start(
            NW,
            "put",
            "--quiet",
            "--origin",
            "client",
            "/site/file",
            self.folder / "file",
            "-s",
            self.uri(2),
            log="put.log",
        )
        self.knows(0, "/site/file")
        self.routers[1].kill()
        self.routers[1].wait()
        expected = hashlib.sha256((self.folder / "file").read_bytes()).hexdigest()
        self.assertEqual(self.fetched(0, "/site/file"), expected)


@unittest.skipIf(SKIP_REASON, SKIP_REASON or "")
class Ring(DaemonsAndRouters):
    """Five routers in a ring: from 0 to 2, the way over 1 is shorter than that over 4 and 3."""

    COUNT = 5

    def test_link_cut_is_routed_around_and_used_again(self):
        links = []
        for at in range(self.COUNT):
            links.append(Link(self.ports[at], self.ports[(at + 1) % self.COUNT]))
            self.addCleanup(links[-1].close)
        for at in range(self.COUNT):
            # Link n joins n and n + 1.
            self.daemon_at(at, [links[at].port_for(True), links[at - 1].port_for(False)])
        name = "/net/32=DV/32=PFS/net/r2"
        self.knows(0, name)
        content = os.urandom(400_000)
        expected = hashlib.sha256(content).hexdigest()
        (self.folder / "file").write_bytes(content)
        put = ["put", "--quiet", "--origin", "client", "/site/file", self.folder / "file"]
        self.start(NW, *put, "-s", self.uri(2), log="put.log")
        self.knows(0, "/site/file")

        def costs():
            """Returns the costs of router 0 for the site, beyond NDNd's cost of its prefix."""
            routes = self.routes(0).get("/site/file", [])
            return sorted(route["cost"] - PREFIX_COST for route in routes)

        until(lambda: costs() == [2, 3], "both ways are known: two and three hops", CONVERGED_S)
        before = [link.packets for link in links]
        self.assertEqual(self.fetched(0, "/site/file"), expected)
        self.assertGreater(links[1].packets - before[1], 50, "over 1 and 2")
        links[1].is_up = False
        # The dead interval is 4 s; then the other way has three hops.
        until(lambda: costs() == [3], "the way over 4 and 3 is used", CONVERGED_S)
        before = [link.packets for link in links]
        self.nw(0, "cs", "erase", "/site")
        self.assertEqual(self.fetched(0, "/site/file"), expected)
        self.assertGreater(links[2].packets - before[2], 50, "over 3 and 2")
        self.assertEqual(links[1].packets, before[1])
        links[1].is_up = True
        until(lambda: costs() == [2, 3], "the repaired link is used again", CONVERGED_S)


if __name__ == "__main__":
    unittest.main()
