"""The nw command as a user types it: what it prints, how it ends, what it leaves behind."""

import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

NW = os.environ.get("NW_BIN", str(Path(__file__).resolve().parents[2] / "target/release/nw"))
PATIENCE_S = 20


def free_port(kind=socket.SOCK_DGRAM):
    with socket.socket(socket.AF_INET, kind) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Router:
    """A router of this test, with its own folder; ended by its process id."""

    def __init__(self, folder, name="r", more=""):
        self.folder, self.socket = Path(folder), Path(folder) / f"{name}.sock"
        self.udp, self.tcp = free_port(), free_port(socket.SOCK_STREAM)
        self.config = Path(folder) / f"{name}.toml"
        self.write(more)
        self.log = open(Path(folder) / f"{name}.log", "w+")
        self.process = subprocess.Popen([NW, "run", "-c", self.config], stderr=self.log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE_S
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the router did not start: " + self.said())
            time.sleep(0.02)
        # The control socket is opened after the one for applications; a router that logs less than it does by default does not say when.
        soon = time.monotonic() + 1
        while " running " not in self.said() and time.monotonic() < soon:
            time.sleep(0.01)

    def write(self, more):
        self.config.write_text(
            f'[faces.unix]\npath = "{self.socket}"\n'
            f'[faces.udp]\nlisten = ["127.0.0.1:{self.udp}"]\n'
            f'[faces.tcp]\nlisten = ["127.0.0.1:{self.tcp}"]\n{more}'
        )

    def answers(self):
        with socket.socket(socket.AF_UNIX) as s:
            return s.connect_ex(str(self.socket)) == 0

    def said(self):
        self.log.flush()
        return Path(self.log.name).read_text()

    def environment(self):
        return {**os.environ, "NDN_CLIENT_TRANSPORT": f"unix://{self.socket}"}

    def end(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(PATIENCE_S)
        self.log.close()
        return code


class CommandLine(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="nw-cli-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def router(self, name="r", more=""):
        router = Router(self.folder, name, more)
        self.addCleanup(router.end)
        return router

    def nw(self, *words, router=None, code=0, stdin=b"", timeout=PATIENCE_S, **more):
        environment = router.environment() if router else {**os.environ, "NDN_CLIENT_TRANSPORT": f"unix://{self.folder}/none.sock"}
        done = subprocess.run([NW, *map(str, words)], input=stdin, capture_output=True, timeout=timeout, env=environment, **more)
        self.assertEqual(done.returncode, code, f"nw {words}: {done.stdout[-400:]!r} {done.stderr[-800:]!r}")
        return done

    def start(self, router, *words):
        process = subprocess.Popen(
            [NW, *map(str, words)], env=router.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

        def finish():
            if process.poll() is None:
                process.kill()
            process.communicate()

        self.addCleanup(finish)
        return process

    def put(self, router, name, content, *words):
        path = Path(self.folder) / "source"
        path.write_bytes(content)
        process = self.start(router, "put", "--json", *words, name, path)
        ready = json.loads(process.stdout.readline())
        self.assertEqual(ready["event"], "ready")
        return process, ready

    def until(self, holds, what):
        for _ in range(250):
            if holds():
                return
            time.sleep(0.02)
        self.fail(what)

    def sentence(self, done):
        """One clear sentence: a single line from nw, without a panic."""
        text = done.stderr.decode()
        self.assertTrue(text.startswith("nw: "), text)
        self.assertEqual(text.count("\n"), 1, text)
        self.assertNotIn("panicked", text)
        return text


class Transfers(CommandLine):
    def test_file_over_unix_tcp_and_udp(self):
        router, content = self.router(), os.urandom(3_000_001)
        self.put(router, "/t/file", content)
        for uri in (f"unix://{router.socket}", f"tcp4://127.0.0.1:{router.tcp}", f"udp4://127.0.0.1:{router.udp}"):
            target = Path(self.folder) / "target"
            self.nw("cat", "--socket", uri, "/t/file", "-o", target, router=router)
            self.assertEqual(hashlib.sha256(target.read_bytes()).digest(), hashlib.sha256(content).digest(), uri)
            target.unlink()

    def test_through_two_routers(self):
        far, content = self.router("far"), os.urandom(1_000_000)
        near = self.router("near", f'[[route]]\nprefix = "/t"\nface = "udp4://127.0.0.1:{far.udp}"\n')
        self.put(far, "/t/file", content)
        done = self.nw("cat", "--json", "/t/file", router=near)
        self.assertEqual(done.stdout, content)
        summary = json.loads(done.stderr)
        self.assertEqual(summary["bytes"], len(content))
        self.assertGreaterEqual(summary["interests"], summary["segments"])

    def test_through_two_routers_by_websocket(self):
        port, content = free_port(socket.SOCK_STREAM), os.urandom(1_000_000)
        far = self.router("far", f'[faces.websocket]\nlisten = ["127.0.0.1:{port}"]\n')
        near = self.router("near")
        uri = f"ws://127.0.0.1:{port}"
        self.assertIn(uri, self.nw("face", "channels", router=far).stdout.decode())
        self.nw("face", "create", uri, "--persistency", "permanent", router=near)
        self.nw("route", "add", "/t", uri, router=near)
        self.put(far, "/t/file", content)
        self.assertEqual(self.nw("cat", "/t/file", router=near).stdout, content)
        faces = [json.loads(line) for line in self.nw("face", "list", "--json", router=far).stdout.splitlines()]
        clients = [face for face in faces if face["uri"].startswith("wsclient://127.0.0.1:")]
        self.assertEqual([(face["local_uri"], face["persistency"]) for face in clients], [(uri, "on-demand")])

    def test_a_page_of_another_origin_is_not_local(self):
        port = free_port(socket.SOCK_STREAM)
        router = self.router(more=f'[faces.websocket]\nlisten = ["127.0.0.1:{port}"]\nlocal_origins = ["http://mine.example"]\n')
        words = (b"localhost", b"nfd", b"status", b"general")
        name = b"".join(b"\x08" + bytes([len(word)]) + word for word in words)
        # CanBePrefix, MustBeFresh, Nonce.
        packet = b"\x07" + bytes([len(name)]) + name + bytes.fromhex("210012000a0401020304")
        interest = b"\x05" + bytes([len(packet)]) + packet
        for origin, dropped in (("http://mine.example", 0), ("http://other.example", 1)):
            with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as page:
                page.sendall(
                    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: " + origin.encode() + b"\r\n\r\n"
                )
                self.assertIn(b" 101 ", page.recv(4096))
                page.sendall(b"\x82" + bytes([0x80 | len(interest)]) + bytes(4) + interest)
                time.sleep(0.3)
            drops = self.nw("status", "--drops", router=router).stdout.decode().splitlines()
            self.assertEqual(sum("scope_localhost" in line for line in drops), dropped, drops)

    def test_status_counts_what_did_its_work_apart_from_what_was_lost(self):
        router = self.router()
        self.put(router, "/f", b"x" * 50_000, "--segment", "1000")
        for _ in range(2):
            self.nw("cat", "/f", router=router)
        self.nw("peek", "/nobody/is/here", router=router, code=7)
        reasons = {}
        for line in self.nw("status", "--drops", "--json", router=router).stdout.splitlines():
            drop = json.loads(line)
            reasons[drop["reason"]] = drop["count"]
        self.assertGreaterEqual(reasons["cache_hit"], 50)
        done = sum(reasons.get(reason, 0) for reason in ("aggregated", "retransmission_suppressed", "cache_hit", "nack_consumed", "sink"))
        said = self.nw("status", router=router).stdout.decode()
        self.assertIn(f" {sum(reasons.values()) - done} packets, besides {done} that had done their work", said)
        self.assertGreaterEqual(sum(reasons.values()) - done, reasons["no_route"])

    def test_standard_input_empty_and_small_segments(self):
        router = self.router()
        for number, content in enumerate((b"", b"x", os.urandom(5000))):
            process = subprocess.Popen([NW, "put", "--json", "--segment", "100", f"/s/{number}"], env=router.environment(),
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            process.stdin.write(content)
            process.stdin.close()
            self.assertIn(b"ready", process.stdout.readline())
            self.assertEqual(self.nw("cat", "-q", f"/s/{number}", router=router).stdout, content)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(PATIENCE_S), 0)
            process.stdout.close()

    def test_every_signature_is_made(self):
        router = self.router()
        secret = Path(self.folder) / "secret"
        secret.write_bytes(b"0123456789abcdef")
        keys = {"hmac": ("--hmac", secret)}
        if shutil.which("openssl"):
            for kind, words in {
                "ed25519": ["-algorithm", "ed25519"],
                "ecdsa": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
                "rsa": ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
            }.items():
                path = Path(self.folder) / f"{kind}.pem"
                subprocess.run(["openssl", "genpkey", *words, "-out", path], check=True, capture_output=True)
                keys[kind] = ("--key", path)
        types = {"hmac": 4, "ed25519": 5, "ecdsa": 3, "rsa": 1}
        for kind, (option, path) in keys.items():
            process = self.start(router, "poke", option, path, "--key-name", "/me/KEY/1", f"/k/{kind}", "hello")
            answer = None
            for _ in range(50):
                done = subprocess.run([NW, "peek", "--json", "--lifetime", "500", f"/k/{kind}"], capture_output=True, env=router.environment())
                if done.returncode == 0:
                    answer = json.loads(done.stdout)
                    break
                time.sleep(0.05)
            self.assertIsNotNone(answer, kind)
            self.assertEqual((answer["signature_type"], answer["key_locator"]), (types[kind], "/me/KEY/1"))
            self.assertEqual(process.wait(PATIENCE_S), 0)

    def test_nothing_half_is_left(self):
        router = self.router()
        target = Path(self.folder) / "out" / "file"
        target.parent.mkdir()
        text = self.sentence(self.nw("cat", "-q", "/nobody/has/this", "-o", target, router=router, code=7))
        self.assertIn("/nobody/has/this", text)
        self.assertEqual(os.listdir(target.parent), [])
        # A producer that dies in the middle, by kill -9.
        process, _ = self.put(router, "/t/dies", os.urandom(30_000_000))
        self.nw("cs", "config", "--admit", "false", router=router)
        fetch = self.start(router, "cat", "-q", "--retries", "1", "--lifetime", "300", "--timeout", "2", "/t/dies", "-o", target)
        time.sleep(0.03)
        process.kill()
        # 30 MB do not cross in 30 ms, so the download can't be whole.
        self.assertNotEqual(fetch.wait(PATIENCE_S), 0)
        self.assertEqual(os.listdir(target.parent), [])

    def test_interrupted_fetch_leaves_nothing(self):
        router = self.router()
        target = Path(self.folder) / "out" / "file"
        target.parent.mkdir()
        # A route that leads to a face where nobody answers: the fetch waits.
        silent = free_port()
        self.nw("route", "add", "/silent", f"udp4://127.0.0.1:{silent}", router=router)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
            sink.bind(("127.0.0.1", silent))
            fetch = self.start(router, "cat", "-q", "--no-version", "/silent", "-o", target)
            time.sleep(0.5)
            fetch.send_signal(signal.SIGINT)
            self.assertEqual(fetch.wait(PATIENCE_S), 130)
        self.assertEqual(os.listdir(target.parent), [])

    def test_full_disk(self):
        router, mount = self.router(), Path(self.folder) / "small"
        mount.mkdir()
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mount], capture_output=True)
        if made.returncode != 0:
            self.skipTest("a small disk needs the right to mount one")
        try:
            self.put(router, "/t/large", os.urandom(4_000_000))
            text = self.sentence(self.nw("cat", "-q", "/t/large", "-o", mount / "file", router=router, code=1))
            self.assertIn("space", text)
            self.assertEqual(os.listdir(mount), [])
        finally:
            subprocess.run(["umount", mount], check=True)


class Control(CommandLine):
    def test_every_reading_command_speaks_json(self):
        router = self.router()
        for words in (["status"], ["status", "--shards"], ["status", "--hardware"], ["log", "show"], ["sim", "measures"], ["sim", "topology"], ["strategy", "show", "/"], ["doctor", "-c", router.config], ["face", "list"], ["face", "channels"], ["route", "list", "--fib"], ["strategy", "list"], ["cs", "info"]):
            done = self.nw(*words, "--json", router=router)
            for line in done.stdout.splitlines():
                json.loads(line)
            self.assertTrue(done.stdout, words)
            self.assertTrue(self.nw(*words, router=router).stdout, words)

    def test_faces_routes_strategies(self):
        router = self.router()
        peer = f"udp4://127.0.0.1:{free_port()}"
        face = json.loads(self.nw("face", "create", peer, "--json", router=router).stdout)["face_id"]
        self.assertIn(b"there already", self.nw("face", "create", peer, router=router).stdout)
        self.nw("face", "update", face, "--mtu", 1400, router=router)
        shown = json.loads(self.nw("face", "show", face, "--json", router=router).stdout)
        self.assertEqual((shown["uri"], shown["mtu"]), (peer, 1400))
        self.nw("route", "add", "/r", peer, "--cost", 7, "--expires", 60000, router=router)
        route = json.loads(self.nw("route", "list", "--json", router=router).stdout)
        self.assertEqual((route["name"], route["routes"][0]["cost"]), ("/r", 7))
        self.nw("route", "remove", "/r", peer, router=router)
        self.assertEqual(self.nw("route", "list", "--json", router=router).stdout, b"")
        self.nw("route", "add", "/r", face, router=router)
        self.nw("face", "destroy", face, router=router)
        self.assertEqual(self.nw("route", "list", "--json", router=router).stdout, b"", "routes vanish with their face")
        self.nw("strategy", "set", "/s", "multicast", router=router)
        self.assertIn(b"/s ", self.nw("strategy", "list", router=router).stdout)
        for strategy in ("best-route multicast asf self-learning random access weighted hash round-robin fail-over "
                         "asf/v=5/probing-interval~30000/max-timeouts~5 weighted/v=1/weights~3-1").split():
            self.assertIn(strategy.encode(), self.nw("strategy", "set", "/s", strategy, router=router).stdout)
            self.assertIn(strategy.split("/")[0].encode(), self.nw("strategy", "set", "--help").stdout)
        self.assertIn("weights~5-3-1", self.sentence(
            self.nw("strategy", "set", "/s", "weighted/v=1/weights~x", router=router, code=6)))
        self.nw("strategy", "unset", "/s", router=router)
        self.assertIn("404", self.sentence(self.nw("strategy", "set", "/s", "no-such", router=router, code=3)))
        self.assertIn("refused", self.sentence(self.nw("face", "create", "tcp4://127.0.0.1:1", router=router, code=6)))

    def test_face_create_existing_becomes_as_asked(self):
        router = self.router()
        peer = f"udp4://127.0.0.1:{free_port()}"
        show = lambda face: json.loads(self.nw("face", "show", face, "--json", router=router).stdout)
        # A route makes the face first: the order of scripts that come from NFD.
        self.nw("route", "add", "/t", peer, router=router)
        said = self.nw("face", "create", peer, "--persistency", "permanent", "--mtu", 1400, "--reliability", "true", router=router).stdout
        for words in (b"was there already", b"persistent \xe2\x86\x92 permanent", b"\xe2\x86\x92 1400", b"reliability off \xe2\x86\x92 on"):
            self.assertIn(words, said)
        face = show(peer)
        self.assertEqual((face["persistency"], face["mtu"]), ("permanent", 1400))
        self.assertIn("reliability", face["flags"])
        again = json.loads(self.nw("face", "create", peer, "--persistency", "persistent", "--json", router=router).stdout)
        self.assertEqual((again["changed"], again["persistency"]), ([], "permanent"), "persistency only rises")
        marking = json.loads(self.nw("face", "create", peer, "--congestion-marking", "false", "--json", router=router).stdout)
        self.assertEqual(marking["changed"], ["congestion-marking"])
        self.assertIn("mtu", self.sentence(self.nw("face", "create", peer, "--mtu", 10, router=router, code=6)).lower())

    def test_what_is_not_there_has_a_sentence_and_a_status(self):
        router = self.router()
        peer = f"udp4://127.0.0.1:{free_port()}"
        face = json.loads(self.nw("face", "create", peer, "--json", router=router).stdout)["face_id"]
        for words in (
            ("face", "show", 999999), ("face", "show", 999999, "--json"), ("face", "destroy", 999999), ("face", "update", 999999, "--mtu", 1400),
            ("face", "show", "udp4://192.0.2.9"), ("face", "destroy", "udp4://192.0.2.9"), ("face", "list", "--remote", "udp4://192.0.2.9"),
            ("face", "list", "--scheme", "ether"), ("route", "remove", "/no", face), ("route", "remove", "/no", "udp4://192.0.2.9"),
            ("route", "add", "/no", 999999), ("route", "list", "--nexthop", face), ("route", "list", "--origin", "nlsr"),
            ("route", "show", "/no"), ("strategy", "unset", "/no"), ("strategy", "set", "/no", "no-such"), ("tap", "-f", 999999),
            ("key", "delete", "/no/such", "--store", self.folder), ("cert", "show", "/no/such", "--store", self.folder),
        ):
            with self.subTest(words):
                self.assertEqual(self.nw(*words, router=router, code=3).stdout, b"")
                self.sentence(self.nw(*words, router=router, code=3))
        self.assertIn("empty", self.sentence(self.nw("dissect", code=1)))

    def test_statuses_tell_failures_apart(self):
        router = self.router()
        self.nw("face", "list", code=4)
        self.nw("top", "--once", code=4)
        self.nw("peek", "/no/route", router=router, code=7)
        self.nw("cat", "/no/route", "--retries", 0, "--lifetime", 300, router=router, code=7)
        self.nw("ping", "-c", 1, "/no/route", router=router, code=7)
        quiet = f"udp4://127.0.0.1:{free_port()}"
        self.nw("route", "add", "/quiet", quiet, router=router)
        self.nw("peek", "/quiet", "--lifetime", 200, router=router, code=5)
        self.nw("ping", "-c", 1, "/quiet", "--timeout", 200, router=router, code=5)
        self.assertIn("own machine", self.sentence(self.nw("status", "--socket", f"udp4://127.0.0.1:{router.udp}", router=router, code=5)))
        self.nw("face", "nothing", router=router, code=2)
        self.assertIn(b"EXIT STATUS", self.nw("man").stdout)

    def test_faces_and_routes_are_found_by_uri_and_origin(self):
        router = self.router()
        peer = f"udp4://127.0.0.1:{free_port()}"
        self.nw("route", "add", "/a", peer, "--origin", "nlsr", router=router)
        self.nw("route", "add", "/b", f"udp4://127.0.0.1:{free_port()}", router=router)
        routes = lambda *words: [json.loads(line)["name"] for line in self.nw("route", "list", "--json", *words, router=router).stdout.splitlines()]
        self.assertEqual(routes("--nexthop", peer), ["/a"])
        self.assertEqual(routes("--origin", "static"), ["/b"])
        self.assertIn(b"nlsr", self.nw("route", "show", "/a/b/c", router=router).stdout)
        self.assertIn(b"chosen for /", self.nw("strategy", "show", "/a/b", router=router).stdout)
        shown = self.nw("face", "show", peer, router=router).stdout.decode()
        for words in ("local fields", "reliability", "congestion marking", "on above", "scope", "non-local", "link type", "point-to-point", "expires", "never"):
            self.assertIn(words, shown)
        self.assertIn(b"congestion-marking", self.nw("face", "list", "--remote", peer, router=router).stdout)
        self.nw("face", "destroy", peer, router=router)
        self.nw("face", "show", peer, router=router, code=3)

    def test_text_of_others_does_not_reach_the_terminal_as_it_is(self):
        router = self.router()
        path = f"{self.folder}/e\x1b[31m\nx"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)
            server.listen()
            self.nw("face", "create", f"unix://{path}", router=router)
            for words in (("face", "list"), ("face", "show", f"unix://{path}"), ("top", "--once"), ("status",), ("route", "list")):
                shown = self.nw(*words, router=router).stdout
                self.assertNotIn(b"\x1b", shown)
            shown, rows = self.nw("face", "list", router=router).stdout, self.nw("face", "list", "--json", router=router).stdout
            self.assertEqual(len(shown.splitlines()), 1 + len(rows.splitlines()))

    def test_cache_hits_are_not_drops(self):
        router = self.router()
        self.put(router, "/t/file", b"x" * 5000)
        for _ in range(2):
            self.nw("cat", "/t/file", router=router)
        drops = [json.loads(line) for line in self.nw("status", "--drops", "--json", router=router).stdout.splitlines()]
        hits = [drop for drop in drops if drop["reason"] == "cache_hit"]
        self.assertEqual([(drop["is_loss"], drop["count"] > 0) for drop in hits], [(False, True)])
        text = self.nw("status", "--drops", router=router).stdout.decode()
        self.assertGreater(text.index("cache_hit"), text.index("\ndone"))
        top = json.loads(self.nw("top", "--once", "--json", "--interval", 200, router=router).stdout)
        self.assertNotIn("cache_hit", [drop["reason"] for drop in top["drops"]])

    def test_reliability_is_switched_and_a_permanent_face_comes_back(self):
        router = self.router()
        peer = f"udp4://127.0.0.1:{free_port()}"
        created = json.loads(self.nw("face", "create", peer, "--reliability", "true", "--mtu", 1400, "--json", router=router).stdout)
        self.assertIn("reliability", created["flags"])
        self.assertEqual(created["mtu"], 1400)
        face = created["face_id"]
        updated = json.loads(self.nw("face", "update", face, "--reliability", "false", "--json", router=router).stdout)
        self.assertNotIn("reliability", updated["flags"])
        self.assertNotIn("reliability", json.loads(self.nw("face", "show", face, "--json", router=router).stdout)["flags"])

        events = self.start(router, "face", "events", "--json")
        port = free_port(socket.SOCK_STREAM)

        def listener():
            s = socket.socket()
            self.addCleanup(s.close)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", port))
            s.listen()
            return s

        def next_event(kind):
            while True:
                event = json.loads(events.stdout.readline())
                if event["uri"] == uri and event["kind"] == kind:
                    return event["face_id"]

        uri, first = f"tcp4://127.0.0.1:{port}", listener()
        time.sleep(0.5)     # until somebody waits for events
        face = json.loads(self.nw("face", "create", uri, "--persistency", "permanent", "--json", router=router).stdout)["face_id"]
        self.nw("route", "add", "/back", face, router=router)
        peer, _ = first.accept()
        first.close()
        peer.close()
        self.assertEqual(next_event("down"), face)
        again = listener()
        self.assertEqual(next_event("up"), face)
        again.accept()[0].close()
        routes = [json.loads(line) for line in self.nw("route", "list", "--json", router=router).stdout.splitlines()]
        self.assertEqual([(r["name"], r["routes"][0]["face_id"]) for r in routes], [("/back", face)])

    def test_routes_go_out_and_come_in_as_text(self):
        router = self.router()
        peer = f"udp4://127.0.0.1:{free_port()}"
        text = "# routes\n" + "".join(f"/in/{n} {peer} {n % 9}\n" for n in range(3000))
        text += f"/in/more {peer} 4 origin=nlsr expires=600000 no-inherit capture\n"
        done = json.loads(self.nw("route", "import", "-", "--json", router=router, stdin=text.encode()).stdout)
        self.assertEqual(done["routes"], 3001)
        lines = self.nw("route", "export", router=router).stdout.decode().splitlines()
        self.assertEqual(len(lines), 3001)
        self.assertIn(f"/in/17 {peer} 8", lines)
        more = next(line for line in lines if line.startswith("/in/more"))
        self.assertTrue(more.startswith(f"/in/more {peer} 4 origin=nlsr expires=") and more.endswith(" no-inherit capture"), more)
        self.assertEqual(len(self.nw("route", "export", "--origin", "nlsr", router=router).stdout.splitlines()), 1)
        # What one router writes another reads.
        other = self.router("other")
        self.nw("route", "import", "-", router=other, stdin="\n".join(lines).encode())
        again = self.nw("route", "export", "--origin", "static", router=other).stdout.decode().splitlines()
        self.assertEqual(again, [line for line in lines if "nlsr" not in line])
        for wrong, said in (("/a", "line 1"), (f"/a {peer} x", "line 1"), ("/a 99999", "line 1"), ("/a 300 1 color=red", "color")):
            self.assertIn(said, self.sentence(self.nw("route", "import", "-", router=router, code=1, stdin=wrong.encode())))

    def test_prefixes_are_told_to_a_gateway_and_withdrawn(self):
        far = self.router("far", '[management]\ndigest = "anywhere"\nlocalhop = "anywhere"\n')
        hub = f"udp4://127.0.0.1:{far.udp}"
        near = self.router("near", f'[rib]\npropagate = ["/site"]\n[[route]]\nprefix = "/localhop/nfd"\nface = "{hub}"\n')
        content = os.urandom(20_000)
        process, _ = self.put(near, "/site/file", content)

        def told():
            lines = self.nw("route", "export", "--origin", "client", router=far).stdout.decode().splitlines()
            return [line.split()[0] for line in lines]

        def until(wanted):
            deadline = time.monotonic() + PATIENCE_S
            while told() != wanted and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertEqual(told(), wanted)

        until(["/site"])
        self.assertEqual(self.nw("cat", "-q", "/site/file", router=far).stdout, content)
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)
        until([])

    def test_content_store_is_emptied(self):
        router = self.router()
        self.put(router, "/c/file", os.urandom(100_000))
        self.nw("cat", "-q", "/c/file", router=router)
        self.assertGreater(json.loads(self.nw("cs", "info", "--json", router=router).stdout)["entries"], 10)
        erased = json.loads(self.nw("cs", "erase", "/c", "--json", router=router).stdout)["count"]
        self.assertGreater(erased, 10)
        self.assertEqual(json.loads(self.nw("cs", "erase", "/c", "--json", router=router).stdout)["count"], 0)

    def test_ping(self):
        router = self.router()
        server = self.start(router, "ping-server", "/p")
        self.assertIn(b"answering", server.stderr.readline())
        lines = self.nw("ping", "/p", "-c", 3, "-i", 10, "--json", router=router).stdout.splitlines()
        self.assertEqual(json.loads(lines[-1])["answered"], 3)
        self.nw("ping", "/none", "-c", 1, router=router, code=7)


class RunningARouter(CommandLine):
    def test_signals(self):
        router = self.router()
        peer = f"udp4://127.0.0.1:{free_port()}"
        router.write(f'[[route]]\nprefix = "/hup"\nface = "{peer}"\n')
        router.process.send_signal(signal.SIGHUP)
        for _ in range(100):
            if b"/hup" in self.nw("route", "list", router=router).stdout:
                break
            time.sleep(0.02)
        else:
            self.fail("SIGHUP did not bring the route")
        router.write("[[route]]\nprefix = 7\n")
        router.process.send_signal(signal.SIGHUP)
        for _ in range(100):
            if "stays as it was" in router.said():
                break
            time.sleep(0.02)
        else:
            self.fail("a wrong file was not told")
        self.assertIn(b"/hup", self.nw("route", "list", router=router).stdout)
        self.assertEqual(router.end(signal.SIGTERM), 0)

    def test_several_threads(self):
        router = self.router(more="[forwarder]\nshards = 2\n")
        content = os.urandom(500_000)
        self.put(router, "/threads", content)
        target = Path(self.folder) / "got"
        self.nw("cat", "/threads", "-o", target, router=router)
        self.assertEqual(target.read_bytes(), content)
        status = json.loads(self.nw("status", "--json", router=router).stdout)
        shards = status["shards"]
        self.assertEqual([shard["shard"] for shard in shards], [0, 1])
        # Each segment is an Interest and a Data of the thread its name falls to.
        self.assertTrue(all(shard["packets"] > 30 for shard in shards), shards)
        self.assertGreater(shards[0]["handed_over"], 30)
        self.assertEqual(status["content_store"]["entries"], sum(shard["cs_entries"] for shard in shards))
        self.assertIn("2; the busiest has", self.nw("status", router=router).stdout.decode())
        table = self.nw("status", "--shards", router=router).stdout.decode().splitlines()
        self.assertEqual((len(table), table[0].split()[0]), (3, "shard"))
        for wrong in ("0", "65", "many"):
            self.assertIn("--shards", self.nw("run", "--shards", wrong, code=2).stderr.decode())
        hardware = self.nw("status", "--hardware").stdout.decode()
        self.assertIn("processors", hardware)
        self.assertIn("placement rule: ", hardware)
        # A file that says nothing of threads changes nothing when it is read again.
        router.process.send_signal(signal.SIGHUP)
        self.until(lambda: "configuration applied" in router.said(), "the file is read again")
        self.assertNotIn("after a restart", router.said())
        self.assertEqual(router.end(signal.SIGTERM), 0)

    def test_routes_of_many_threads_take_no_more_memory_than_those_of_three(self):
        def grown_kib(threads):
            def anonymous_kib(routes):
                router = self.router(f"t{threads}", f"[forwarder]\nshards = {threads}\n" + "".join(
                    f'[[route]]\nprefix = "/some/longer/name/{at}"\nface = "udp4://127.0.0.1:{free}"\n' for at in range(routes)))
                status = Path(f"/proc/{router.process.pid}/status").read_text()
                self.assertEqual(router.end(), 0)
                return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))

            free = free_port()
            return anonymous_kib(20_000) - anonymous_kib(1)

        # The first thread's, and two copies for all others; each more would be some 14 MiB.
        self.assertLess(grown_kib(9), 1.25 * grown_kib(3))

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "only root can give up rights with setpriv")
    def test_threads_without_the_right_to_kernel_programs(self):
        config = Path(self.folder) / "plain.toml"
        socket_path = Path(self.folder) / "plain.sock"
        config.write_text(f'[faces.unix]\npath = "{socket_path}"\n[faces.tcp]\nlisten = []\n[faces.udp]\nlisten = ["127.0.0.1:{free_port()}"]\n')
        words = ["setpriv", "--bounding-set=-bpf,-sys_admin,-perfmon", "--inh-caps=-bpf,-sys_admin,-perfmon", NW, "run", "-c", str(config), "--shards", "2"]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

        def answers():
            with socket.socket(socket.AF_UNIX) as s:
                return s.connect_ex(str(socket_path)) == 0

        self.until(answers, "the router is there")
        environment = {**os.environ, "NDN_CLIENT_TRANSPORT": f"unix://{socket_path}"}
        done = subprocess.run([NW, "status", "--json"], capture_output=True, env=environment, timeout=PATIENCE_S)
        self.assertEqual(len(json.loads(done.stdout)["shards"]), 2)
        process.send_signal(signal.SIGTERM)
        said = process.stdout.read().decode()
        lost = [line for line in said.splitlines() if "packets are not brought to their shards in the kernel" in line]
        self.assertEqual(len(lost), 1, said)
        self.assertIn("setcap cap_bpf", lost[0])

    def test_memory_can_be_locked(self):
        tables = "pit_entries = 1024\nfib_prefixes = 1024\nroutes = 1024\ndead_nonces = 1024\n"
        more = f"[content_store]\nmib = 1\n[tables]\nlock = true\n{tables}"
        try:
            router = self.router("locked", more)
        except RuntimeError as refused:
            # Without the right it says what to do.
            self.assertIn("LimitMEMLOCK", str(refused))
            return
        status = Path(f"/proc/{router.process.pid}/status").read_text()
        locked_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmLck"))
        self.assertGreater(locked_kib, 4096)

    def test_a_killed_router_starts_again(self):
        first = Router(self.folder)
        self.assertEqual(first.end(signal.SIGKILL), -signal.SIGKILL)
        self.assertTrue(first.socket.exists(), "kill -9 leaves the socket's file")
        self.router()

    def test_taken_socket_port_and_folder(self):
        router = self.router()
        text = self.sentence(self.nw("run", "-c", router.config, code=1))
        self.assertIn("in use", text)
        other = Path(self.folder) / "other.toml"
        for section, port in (("udp", router.udp), ("tcp", router.tcp)):
            off = "tcp" if section == "udp" else "udp"
            other.write_text(f'[faces.unix]\nenabled = false\n[faces.{off}]\nlisten = []\n[faces.{section}]\nlisten = ["127.0.0.1:{port}"]\n')
            text = self.sentence(self.nw("run", "-c", other, code=1))
            self.assertIn(str(port), text)
            self.assertIn("another", text)
        file = Path(self.folder) / "file"
        file.write_text("")
        other.write_text(f'[faces.unix]\npath = "{file}"\n')
        self.assertIn("no socket", self.sentence(self.nw("run", "-c", other, code=1)))
        self.assertTrue(file.exists(), "a file that is no socket is not removed")

    def test_configuration_errors_name_file_line_and_all_of_them(self):
        config = Path(self.folder) / "wrong.toml"
        config.write_text('[faces.udp]\nlisten = ["nonsense"]\n[tables]\npit_entries = "many"\nno_such = 1\n')
        text = self.nw("run", "--check", "-c", config, code=1).stderr.decode()
        for line in (2, 4, 5):
            self.assertRegex(text, re.escape(str(config)) + rf":{line}\b")
        self.assertIn("many", text)
        self.nw("run", "-c", Path(self.folder) / "none.toml", code=1)
        reference = Path(self.folder) / "reference.toml"
        reference.write_bytes(self.nw("config").stdout)
        self.nw("run", "--check", "-c", reference)

    def test_without_a_router(self):
        self.assertIn("nw run", self.sentence(self.nw("status", code=4)))

    def test_wrong_words(self):
        for words in (["no-such"], ["cat"], ["cat", "no-slash"], ["put", "--segment", "9000", "/a"], ["route", "add", "/a"]):
            done = self.nw(*words, code=2)
            self.assertIn(b"error:", done.stderr, words)
        self.assertIn(b"starts with /", self.nw("cat", "no-slash", code=2).stderr)


class Documents(CommandLine):
    def test_completions_and_pages(self):
        for shell in ("bash", "zsh", "fish"):
            self.assertIn(b"ping-server", self.nw("completions", shell).stdout)
        pages = Path(self.folder) / "man"
        self.nw("man", pages)
        self.assertIn("nw-route-add.1", os.listdir(pages))

    def test_completion_knows_faces_prefixes_and_files(self):
        router = self.router()
        face = json.loads(self.nw("face", "create", f"udp4://127.0.0.1:{free_port()}", "--json", router=router).stdout)["face_id"]
        self.nw("route", "add", "/film", face, router=router)
        (Path(self.folder) / "net.graph").write_text("")
        script = Path(self.folder) / "nw.bash"
        script.write_bytes(self.nw("completions", "bash").stdout)

        def offered(*words):
            """What bash offers for the last word."""
            program = f"""source {script}; COMP_WORDS=({" ".join(repr(str(word)) for word in (NW, *words))}); COMP_CWORD={len(words)}
                _nw_values {NW} "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"; printf '%s\\n' "${{COMPREPLY[@]}}"; complete -p nw"""
            done = subprocess.run(["bash", "-c", program], env=router.environment(), cwd=self.folder, capture_output=True, timeout=PATIENCE_S)
            return done.stdout.decode().splitlines()

        self.assertIn(str(face), offered("face", "show", ""))
        self.assertIn("/film", offered("route", "remove", "/f"))
        self.assertIn("/film", offered("trace", ""))
        self.assertIn("show", offered("face", "s"))
        self.assertIn("--json", offered("face", "list", "--"))
        files = offered("graph", "check", "")
        self.assertEqual(len([line for line in files if line.strip()]), 1, f"nothing stands before the shell's own file names: {files}")
        self.assertIn("-o default", files[-1])

    def test_doctor_names_what_is_wrong_and_the_remedy(self):
        checks = lambda done: {check["check"]: check for check in map(json.loads, done.stdout.splitlines())}
        alone = checks(self.nw("doctor", "--json", code=1))
        self.assertEqual((alone["socket"]["result"], alone["socket"]["remedy"]), ("fail", "nw run &"))
        router = self.router()
        well = checks(self.nw("doctor", "--json", "-c", router.config, router=router))
        for check in ("transport", "socket", "router", "clock", "control", "pools", "config"):
            self.assertEqual(well[check]["result"], "ok", well[check])
        self.assertEqual(well["routes"]["result"], "warn", "no route leads to another router")
        text = self.nw("doctor", "-c", router.config, router=router).stdout.decode()
        self.assertIn("→ nw route add", text)
        # A socket that was left behind, a file with mistakes, a port of another program.
        left = Path(self.folder) / "left.sock"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(left))
        bad = Path(self.folder) / "bad.toml"
        bad.write_text("[forwarder]\nnothing = 1\n")
        wrong = checks(self.nw("doctor", "--json", "--socket", f"unix://{left}", "-c", bad, code=1))
        self.assertIn("left over", wrong["socket"]["found"])
        self.assertEqual((wrong["config"]["result"], wrong["config"]["remedy"]), ("fail", f"nw config --check {bad}"))
        taken = checks(self.nw("doctor", "--json", "--socket", f"unix://{left}", "-c", router.config, code=1))
        self.assertIn("is in use by another program", taken["ports"]["found"])

    def test_dissect(self):
        packet = bytes.fromhex("0508 0703 080161 0a01 00".replace(" ", ""))
        done = self.nw("dissect", stdin=packet, code=1)
        self.assertIn(b"Interest", done.stdout)
        good = bytes.fromhex("050b0703080161 0a0401020304".replace(" ", ""))
        text = self.nw("dissect", "--hex", stdin=good.hex().encode()).stdout
        self.assertIn(b"/a", text)
        for line in self.nw("dissect", "--json", stdin=good).stdout.splitlines():
            json.loads(line)
        self.nw("dissect", stdin=os.urandom(1000), code=1)


if __name__ == "__main__":
    unittest.main()
