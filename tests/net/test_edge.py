"""A network of services at the edge of a domain that NDNd's distance vector daemon routes: prefixes
registered inside are announced outside, and routes from outside are used inside.

Needs Go, to build NDNd; prints a reason and skips without it. Sends to loopback only.
"""

import json
import os
import signal
import socket
import subprocess
import unittest

import ndnd
from test_routing import CONVERGED_S, NW, Routing
from waiting import until

SKIP_REASON = ndnd.find()[1]
NETWORK = """
face apps1 listens unix://{folder}/in1.sock
face apps2 listens unix://{folder}/in2.sock
face uplink = tcp4://127.0.0.1:{router}
face edge listens tcp4://127.0.0.1:{listener}
face a12
face a21
br = backward_router
nr1 = name_router(commands = ["localhost"])
nr2 = name_router(commands = ["localhost"])
apps1  -> nr1.interest -> faces
apps1  -> nr1.data -> faces
apps1  -> nr1.nack -> faces
a12    -> nr1.interest
a12    -> nr1.data
a12    -> nr1.nack
apps2  -> br.interest -> nr2.interest -> faces
apps2  -> nr2.data -> br.data -> faces
apps2  -> nr2.nack -> br.nack -> faces
a21    -> br.interest
a21    -> nr2.data
a21    -> nr2.nack
uplink -> br.interest
uplink -> nr2.data
uplink -> nr2.nack
edge   -> br.interest
edge   -> nr2.data
edge   -> nr2.nack
service inner {{ nr1, apps1, a12 }}
service outer {{ br, nr2, apps2, a21, uplink, edge }}
link a12 -> a21 over unix
"""


def free_tcp_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


@unittest.skipIf(SKIP_REASON, SKIP_REASON or "")
class Edge(Routing):
    # Not again here.
    test_prefix_crosses_network_and_is_withdrawn_with_daemon = None
    test_router_killed_leaves_path_between_others = None

    def setUp(self):
        self.tcp_port = free_tcp_port()
        super().setUp()

    def router(self, at):
        """Router 0 is at the edge of the network: it listens on TCP as well."""
        if at == 0:
            path = self.folder / "0.toml"
            path.write_text(
                f'[faces.unix]\npath = "{self.folder}/0.sock"\n'
                f'[faces.udp]\nlisten = ["127.0.0.1:{self.ports[0]}"]\n'
                f'[faces.tcp]\nlisten = ["127.0.0.1:{self.tcp_port}"]\n'
                "[rib]\nreadvertise_nlsr = true\n"
            )
            process = self.start(NW, "run", "-c", path, log="0.log")
            until(lambda: "running" in (self.folder / "0.log").read_text(), "router 0 runs")
            return process
        return super().router(at)

    def network(self, *args):
        completed = subprocess.run(
            [NW, "network", *map(str, args), "--directory", self.folder / "n"],
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
        self.assertEqual(completed.returncode, 0, completed.stderr)
        return completed.stdout

    def inside(self):
        lines = self.network("route", "list", "--json").splitlines()
        return {route["prefix"] for route in map(json.loads, lines)}

    def test_registrations_are_announced_outside_and_routes_from_outside_are_used_inside(self):
        listener = free_tcp_port()
        path = self.folder / "site.graph"
        path.write_text(NETWORK.format(folder=self.folder, router=self.tcp_port, listener=listener))
        self.network("up", path, "--detach")
        self.addCleanup(self.network, "down")
        daemons = [self.daemon(0, [1]), self.daemon(1, [0, 2]), self.daemon(2, [1])]
        self.assertEqual([daemon.poll() for daemon in daemons], [None] * 3)
        self.knows(0, "/net/32=DV/32=PFS/net/r2")
        self.knows(2, "/net/32=DV/32=PFS/net/r0")
        edge = self.start(
            NW,
            "network",
            "edge",
            "nr2.uplink",
            f"tcp4://127.0.0.1:{listener}",
            "--directory",
            self.folder / "n",
            "-s",
            self.uri(0),
            log="edge.log",
        )
        contents = {}
        for name, at in (("inside", "in1"), ("outside", "2")):
            contents[name] = os.urandom(200_000)
            (self.folder / name).write_bytes(contents[name])
            self.start(
                NW,
                "put",
                "--quiet",
                *(["--origin", "client"] if name == "outside" else []),
                f"/{name}/file",
                self.folder / name,
                "-s",
                f"unix://{self.folder}/{at}.sock",
                log=f"put-{name}.log",
            )
        # Registered inside, known to the farthest router outside.
        self.knows(2, "/inside/file")
        target = self.folder / "fetched"
        self.nw(2, "cat", "--quiet", "/inside/file", "-o", target)
        self.assertEqual(target.read_bytes(), contents["inside"])
        # Registered outside, used by consumers at both name routers inside.
        until(lambda: "/outside/file" in self.inside(), "a route inside", CONVERGED_S)
        for at in ("in1", "in2"):
            self.nw(at, "cat", "--quiet", "/outside/file", "-o", target)
            self.assertEqual(target.read_bytes(), contents["outside"])
        # The end of the exchange takes both back.
        edge.send_signal(signal.SIGTERM)
        self.assertEqual(edge.wait(20), 0, (self.folder / "edge.log").read_text())
        until(lambda: "/outside/file" not in self.inside(), "no route inside", CONVERGED_S)
        until(lambda: "/inside/file" not in self.routes(2), "it is withdrawn outside", CONVERGED_S)


# The class of the other file is not tested again by this one.
del Routing

if __name__ == "__main__":
    unittest.main()
