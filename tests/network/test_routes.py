"""Routes end to end: a producer registers at any name router of a network, and consumers at every
other one reach it; keys and rules say who may register what."""

import hashlib
import json
import os
import signal
import socket
import subprocess
import threading
import unittest

from network import CHAIN, NW, TIMEOUT_S, NetworkTest, Producer

# Three name routers in a circle, each with a listener for applications.
ROUTERS = """
host here = process
face apps1 listens unix://{folder}/1.sock
face apps2 listens unix://{folder}/2.sock
face apps3 listens unix://{folder}/3.sock
face out3 = unix://{folder}/p.sock
face a12
face a13
face a21
face a23
face a31
face a32
nr1 = name_router(commands = ["localhost"], command_unverified = "{unverified}")
nr2 = name_router(commands = ["localhost"], command_unverified = "{unverified}")
nr3 = name_router(commands = ["localhost"], command_unverified = "{unverified}")
br2 = backward_router
{lines}
service nr1 {{ nr1, a12, a13, apps1 }}
service nr2 {{ br2, nr2, a21, a23, apps2 }}
service nr3 {{ nr3, a31, a32, apps3, out3 }}
link a12 -> a21 over unix
link a23 -> a32 over unix
link a13 -> a31 over unix cost=5
"""
FACES = {
    "nr1": ("apps1", "a12", "a13"),
    "nr2": ("apps2", "a21", "a23"),
    "nr3": ("apps3", "a31", "a32", "out3"),
}


def lines():
    """Connections: a backward router before the second name router breaks the circle."""
    for router, faces in FACES.items():
        first = "br2" if router == "nr2" else router
        for face in faces:
            yield f"{face} -> {first}.interest"
            yield f"{face} -> {router}.data"
            yield f"{face} -> {router}.nack"
        yield f"{router}.interest -> faces"
        between = "br2.{} -> " if router == "nr2" else ""
        for kind in ("data", "nack"):
            yield f"{router}.{kind} -> {between.format(kind)}faces"
    yield "br2.interest -> nr2.interest"


class Relay(threading.Thread):
    """Forwards one connection after another to a unix socket, and keeps what clients sent."""

    def __init__(self, path, to):
        super().__init__(daemon=True)
        self.to, self.sent = str(to), b""
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self.start()

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self.to)
            for source, sink, keep in ((client, server, True), (server, client, False)):
                threading.Thread(target=self.pipe, args=(source, sink, keep), daemon=True).start()

    def pipe(self, source, sink, keep):
        try:
            while part := source.recv(65536):
                self.sent += part if keep else b""
                sink.sendall(part)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class Routes(NetworkTest):
    def up_routers(self, unverified="local"):
        text = ROUTERS.replace("{lines}", "\n".join(lines())).replace("{unverified}", unverified)
        return self.up(self.file(text=text), "--period-ms", "200")

    def uri(self, at):
        return f"unix://{self.folder}/{at}.sock"

    def start(self, *args):
        """Starts a producer in the background."""
        with open(self.folder / f"tool{len(list(self.folder.glob('tool*')))}.log", "w") as log:
            process = subprocess.Popen(
                [NW, *map(str, args)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
            )

        def end():
            if process.poll() is None:
                process.kill()
            process.wait()

        self.addCleanup(end)
        return process

    def end(self, process):
        process.send_signal(signal.SIGTERM)
        process.wait(TIMEOUT_S)

    def routes(self, prefix):
        found = [
            json.loads(line) for line in self.nw("route", "list", "--json").stdout.splitlines()
        ]
        return [route for route in found if route["prefix"] == prefix]

    def routers(self, prefix):
        return sorted({route["element"] for route in self.routes(prefix)})

    def wait_routers(self, prefix, expected):
        self.until(lambda: self.routers(prefix) == expected, f"{prefix} at {expected}")

    def can_ping(self, prefix, at):
        args = ("ping", prefix, "-c", "1", "--timeout", "2000", "-s", self.uri(at))
        return self.tool(*args, code=None).returncode == 0

    def test_prefix_registered_at_one_router_is_reached_from_all_and_withdrawn_with_its_face(self):
        self.up_routers()
        content = os.urandom(300_000)
        (self.folder / "file").write_bytes(content)
        for at, others in ((1, (2, 3)), (2, (1, 3)), (3, (1, 2))):
            prefix = f"/site{at}/file"
            put = self.start("put", "--quiet", prefix, self.folder / "file", "-s", self.uri(at))
            self.wait_routers(prefix, ["nr1", "nr2", "nr3"])
            own = [route for route in self.routes(prefix) if route["origin"] == "registration"]
            self.assertEqual([(r["element"], r["by"]) for r in own], [(f"nr{at}", "no key")])
            for other in others:
                target = self.folder / f"{at}-{other}"
                self.tool("cat", "--quiet", prefix, "-o", target, "-s", self.uri(other))
                digests = [hashlib.sha256(b).digest() for b in (target.read_bytes(), content)]
                self.assertEqual(digests[0], digests[1])
            self.end(put)
            self.wait_routers(prefix, [])
            refused = self.tool("ping", prefix, "-c", "1", "-s", self.uri(others[0]), code=None)
            self.assertNotEqual(refused.returncode, 0)

    def test_producer_beside_a_backward_router_of_its_service_gets_its_answer(self):
        # The command goes to the name router alone; the answer leaves through the backward router.
        commands = 'name_router(commands = ["localhost"], command_unverified = "local")'
        text = CHAIN.replace("face producer =", "face producer listens")
        text = text.replace("name_router", commands, 1).replace("route / at nr.producer", "")
        text = text.replace("service front", "service back {{ br, nr }}\nservice front")
        self.up(self.file(text=text), "--period-ms", "200")
        self.start("ping-server", "/one", "-s", self.uri("p"))
        self.wait_routers("/one/ping", ["nr"])
        self.assertTrue(self.can_ping("/one", "c"))
        # So do Nacks: nothing leads to this name.
        refused = self.tool("ping", "/none", "-c", "1", "-s", self.uri("p"), code=None)
        self.assertIn("1 refused", refused.stdout + refused.stderr)

    def test_second_producer_is_a_further_next_hop_and_takes_over(self):
        self.up_routers()
        first = self.start("ping-server", "/both", "-s", self.uri(1))
        second = self.start("ping-server", "/both", "-s", self.uri(3))

        def hops():
            return [r["face"] for r in self.routes("/both/ping") if r["element"] == "nr2"]

        self.until(lambda: len(hops()) == 2, "two next hops at nr2")
        self.assertTrue(self.can_ping("/both", 2))
        self.end(first)
        self.until(lambda: len(hops()) == 1, "one next hop at nr2")
        for at in (1, 2, 3):
            self.assertTrue(self.can_ping("/both", at), f"from nr{at}")
        self.end(second)
        self.wait_routers("/both/ping", [])

    def test_route_of_a_person_is_used_shown_with_author_and_removed(self):
        self.addCleanup(Producer(self.folder / "p.sock").close)
        self.up_routers()
        self.nw("route", "add", "/hand", "nr3.out3", "--cost", "3")
        self.wait_routers("/hand", ["nr1", "nr2", "nr3"])
        own = [route for route in self.routes("/hand") if route["element"] == "nr3"]
        self.assertIn(f"(uid {os.getuid()})", own[0]["by"])
        self.assertEqual(own[0]["cost"], 3)
        peek = ("peek", "-s", self.uri(1))
        self.assertIn("x" * 100, self.tool(*peek, "/hand/a").stdout)
        self.wait_converged()
        for place, words in (
            ("nr9.out3", "no element nr9"),
            ("nr3.none", "no face none"),
            ("nr3.a31", "is a link of the network"),
        ):
            refused = self.nw("route", "add", "/hand", place, code=None)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn(words, refused.stderr)
        self.nw("route", "remove", "/hand", "nr3.out3")
        self.wait_routers("/hand", [])
        refused = self.nw("route", "remove", "/hand", "nr3.out3", code=None).stderr
        self.assertIn("no such route was added", refused)
        self.assertNotEqual(self.tool(*peek, "/hand/b", code=None).returncode, 0)

    def test_keys_and_rules_decide_who_registers_and_replay_is_refused(self):
        self.up_routers(unverified="nowhere")
        store = ("--store", self.folder / "keys")
        for name in ("/alice", "/bob"):
            self.tool("key", "generate", name, *store)
            exported = self.tool("cert", "export", name, *store).stdout
            (self.folder / f"{name[1:]}.cert").write_text(exported)

        def put(name, prefix, at=1, socket_uri=None):
            (self.folder / "file").write_bytes(b"hello")
            where = socket_uri or self.uri(at)
            args = ("put", "--quiet", "--key", name, *store, prefix, self.folder / "file")
            return self.start(*args, "-s", where)

        def is_refused(name, prefix):
            process = put(name, prefix)
            return process.wait(TIMEOUT_S) != 0

        self.assertTrue(is_refused("/alice", "/alice/file"), "no key is trusted yet")
        self.nw("key", "add", self.folder / "alice.cert")
        self.nw("key", "allow", "/<who>/<..>", "/<who>/KEY/<_>")
        self.wait_converged()
        listed = self.nw("key", "list").stdout
        self.assertIn("/alice/KEY/", listed)
        self.assertIn("/<who>/KEY/<_>", listed)
        # A relay keeps the signed command, to send it again.
        relay = Relay(self.folder / "r.sock", self.folder / "1.sock")
        self.addCleanup(relay.listener.close)
        alice = put("/alice", "/alice/file", socket_uri=self.uri("r"))
        self.wait_routers("/alice/file", ["nr1", "nr2", "nr3"])
        own = [r for r in self.routes("/alice/file") if r["origin"] == "registration"]
        self.assertTrue(own[0]["by"].startswith("/alice/KEY/"), own)
        self.tool("cat", "--quiet", "/alice/file", "-s", self.uri(3))
        self.assertTrue(is_refused("/alice", "/carol/file"), "names of others")
        self.assertTrue(is_refused("/bob", "/bob/file"), "a key that is not trusted")
        self.end(alice)
        self.wait_routers("/alice/file", [])
        with socket.socket(socket.AF_UNIX) as replay:
            replay.connect(str(self.folder / "1.sock"))
            replay.settimeout(TIMEOUT_S)
            replay.sendall(relay.sent)
            self.assertIn(b"was seen before", replay.recv(65536) or b"")
            self.assertEqual(self.routes("/alice/file"), [])
        # What is taken back has an end at once.
        name = next(w for w in listed.split() if w.startswith("/alice/KEY/") and "<" not in w)
        self.nw("key", "remove", name)
        self.wait_converged()
        self.assertTrue(is_refused("/alice", "/alice/file"), "its anchor was removed")
        actions = [json.loads(e)["action"] for e in self.nw("audit", "--json").stdout.splitlines()]
        self.assertIn(f"key add {name}", actions)
        self.assertIn("key allow /<who>/<..> by /<who>/KEY/<_>", actions)


if __name__ == "__main__":
    unittest.main()
