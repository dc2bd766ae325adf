"""Standard output that ends or is full: no verb panics, each ends with its status and at most one sentence."""

import os
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

from test_cli import NW, CommandLine

ROOT = Path(__file__).resolve().parents[2]
GRAPH = ROOT / "examples/graphs/chain.graph"
PATIENCE_S = 60

# Arguments with which a verb prints something. {r}: a router runs; other words in braces are files of this test.
LINES = """
status
status --drops
status --shards
status --json
status --hardware
face list
face list --json
face show {face}
face channels
face create udp4://127.0.0.1:{free}
face update {face} --mtu 1400
face destroy {other}
face events
route list
route list --fib
route show /t
route add /t {face}
route import {routes}
route export
route remove /gone {face}
strategy list
strategy show /t
strategy set /t multicast
strategy unset /t
cs info
cs config --admit true
cs erase /t
top --once
top --json
trace /t/x --lifetime 300
tap --count 1
tap --count 1 --write -
log show
log set info
put --json /t/file {routes}
cat /served
peek --prefix /served
ping -c 1 /localhost/none --timeout 100
openapi
dissect {packet}
dissect --json {packet}
doctor
doctor --json
config
config --check {config}
completions bash
completions zsh
completions fish
completions elvish
completions powershell
man
key list
key list --json
key default /of/me
key generate /of/you
cert list
cert show /of/me
cert request /of/me
cert export /of/me
key export /of/me --passphrase-file {passphrase}
graph check {graph}
graph draw {graph}
graph test {graph}
graph help
graph help router
sim run --topology line:2 --duration 1
sim run --topology line:2 --duration 1 --json
sim run --topology line:2 --duration 1 --runs 2
sim topology
sim topology line:3
sim example
sim options
sim measures
bench run --over memory --packets 100
bench run --over memory --packets 100 --json
bench answer --seconds 0.1 --json --no-register
service openapi
balancer config
balancer openapi
"""

# Verbs that print nothing to standard output here, and why.
SILENT = {
    "run": "logs to standard error",
    "ping-server": "prints one line when it is ended",
    "poke": "prints nothing",
    "demo": "takes minutes; its lines go through the same writer",
    "paper csr": "builds a laboratory",
    "lab cluster": "builds a laboratory",
    "lab clean": "removes what other tests may use",
    "bench generate": "prints as `bench run` does, after traffic",
    "balancer run": "needs the kernel's rights",
    "balancer agent": "logs to standard error",
    "graph run": "ends by a signal only",
    "graph split": "writes files",
    "service run": "logs to standard error",
    "key import": "needs an exported key; prints as `key default` does",
    "key delete": "prints as `key default` does",
    "cert sign": "writes as `cert export` does",
    "cert install": "prints as `key default` does",
    "cert default": "prints as `key default` does",
    "cert delete": "prints as `key default` does",
    **{f"balancer {verb}": "needs a balancer" for verb in ("add", "drain", "remove", "rules", "status", "stop", "top", "vrrp", "weight", "where")},
    **{f"service {verb}": "needs a service" for verb in ("drain", "graph", "links", "statistics", "status", "stop")},
}


def leaves():
    """Every verb, from the manual pages."""
    with tempfile.TemporaryDirectory(prefix="nw-man-") as folder:
        subprocess.run([NW, "man", folder], check=True)
        pages = {page.stem: page.read_text() for page in Path(folder).glob("*.1")}
    groups = {stem for stem, text in pages.items() if ".SH SUBCOMMANDS" in text}

    def words(stem):
        """`nw-bench-run` is `bench run`, `nw-ping-server` is `ping-server`."""
        for group in sorted(groups, key=len, reverse=True):
            if stem.startswith(group + "-"):
                return " ".join([*group.split("-")[1:], stem.removeprefix(group + "-")])

    return sorted(words(stem) for stem in pages if stem not in groups)


class Output(CommandLine):
    def setUp(self):
        super().setUp()
        self.r = self.router()
        home = Path(self.folder) / "home"
        home.mkdir()
        self.environment = {**self.r.environment(), "HOME": str(home), "RUST_BACKTRACE": "0"}
        file = lambda name, content: (Path(self.folder) / name).write_bytes(content) and Path(self.folder) / name
        self.values = {
            "routes": file("routes", b"/many 1\n"),
            "packet": file("packet", bytes.fromhex("050907070801740802" + "7830")),
            "config": self.r.config,
            "passphrase": file("passphrase", b"secret\n"),
            "graph": GRAPH,
            "free": 9,
        }
        self.served, _ = self.put(self.r, "/served", b"content" * 1000)
        self.say("key", "generate", "/of/me")
        self.values["face"] = self.face("udp4://127.0.0.1:10")
        self.say("route", "add", "/gone", self.values["face"])
        self.say("route", "add", "/t", self.values["face"])
        # Something to see for `nw tap` and `nw face events`: each command makes a face, and packets.
        self.is_over = threading.Event()
        self.addCleanup(self.is_over.set)
        threading.Thread(target=self.keep_busy, daemon=True).start()

    def keep_busy(self):
        while not self.is_over.wait(0.2):
            subprocess.run([NW, "peek", "/t", "--lifetime", "50"], env=self.environment, capture_output=True)

    def say(self, *words):
        return subprocess.run([NW, *map(str, words)], env=self.environment, check=True, capture_output=True, timeout=PATIENCE_S).stdout

    def face(self, uri):
        import json

        return json.loads(self.say("face", "create", "--json", uri))["face_id"]

    def run_into(self, words, stdout):
        done = subprocess.run(
            [NW, *words], env=self.environment, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, timeout=PATIENCE_S, cwd=self.folder
        )
        return done.returncode, done.stderr.decode()

    def each(self):
        for line in LINES.strip().splitlines():
            if "{other}" in line:
                self.values["other"] = self.face("udp4://127.0.0.1:11")
            yield line.format(**self.values).split()

    def test_output_full_is_an_error_with_one_sentence(self):
        for words in self.each():
            with self.subTest(" ".join(words)), open("/dev/full", "wb") as full:
                code, said = self.run_into(words, full)
                self.assertNotIn("panicked", said)
                self.assertEqual(said.count("No space left on device"), 1, said)
                self.assertEqual(code, 1, said)

    def test_output_ended_is_no_error(self):
        for words in self.each():
            reader, writer = os.pipe()
            os.close(reader)
            with self.subTest(" ".join(words)):
                code, said = self.run_into(words, writer)
                self.assertNotIn("panicked", said)
                self.assertNotIn("roken pipe", said)
                self.assertEqual(code, 0, said)
            os.close(writer)

    def test_output_of_every_verb_is_tried(self):
        lines = [line.split() for line in LINES.strip().splitlines()]
        tried = {" ".join(words[:n]) for words in lines for n in (1, 2)}
        for verb in leaves():
            self.assertTrue(verb in tried or verb in SILENT, f"nw {verb}: add a line to LINES or a reason to SILENT")

    def test_help_full_and_ended(self):
        for verb in ["", *leaves()]:
            if verb == "graph help":
                continue
            words = [*verb.split(), "--help"]
            with self.subTest(verb), open("/dev/full", "wb") as full:
                code, said = self.run_into(words, full)
                self.assertEqual((code, said.count("No space left on device")), (1, 1), said)
        for words in (["--help"], ["--version"], ["face", "create", "--help"]):
            reader, writer = os.pipe()
            os.close(reader)
            with self.subTest(words):
                self.assertEqual(self.run_into(words, writer), (0, ""))
            os.close(writer)

    def test_standard_error_full_ends_nothing(self):
        with open("/dev/full", "wb") as full:
            for words, expected in (["face", "show", "999999"], 3), (["no-such-verb"], 2), (["cat", "/served"], 0):
                with self.subTest(words):
                    done = subprocess.run([NW, *words], env=self.environment, stdout=subprocess.PIPE, stderr=full, timeout=PATIENCE_S)
                    self.assertEqual(done.returncode, expected)


if __name__ == "__main__":
    unittest.main()
