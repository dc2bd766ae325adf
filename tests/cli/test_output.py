"""Standard output that is closed or full: no verb panics, each ends with its status and at most one
sentence."""

import os
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

from command_line import NW, CommandLine

ROOT = Path(__file__).resolve().parents[2]
GRAPH = ROOT / "examples/graphs/chain.graph"
TIMEOUT_S = 60

# Arguments with which a verb prints something. {r}: a router runs; other names in braces are files
# of this test.
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
network openapi
balancer config
balancer openapi
"""

# Those of a program with the feature `kubernetes`.
KUBERNETES_LINES = """
network kubernetes crd
network kubernetes manifests
"""

# Verbs without output in this test, and the reason.
SILENT = {
    "run": "logs to standard error",
    "join": "changes the router once only; tests/net/test_join.py",
    "leave": "needs a router that has joined; tests/net/test_join.py",
    "ping-server": "prints one line when it is ended",
    "poke": "prints nothing",
    "demo": "takes minutes; its lines go through the same writer",
    "paper csr": "builds a laboratory",
    "lab cluster": "builds a laboratory",
    "lab clean": "removes what other tests may use",
    "bench generate": "prints as `bench run` does, after traffic",
    "balancer run": "needs the kernel's rights",
    "balancer agent": "logs to standard error",
    "balancer host add": "needs a state directory: test_balancer",
    "balancer host list": "needs a state directory: test_balancer",
    "balancer host remove": "needs a state directory: test_balancer",
    "graph run": "ends by a signal only",
    "graph split": "writes files",
    "service run": "logs to standard error",
    "key import": "needs an exported key; prints as `key default` does",
    "key delete": "prints as `key default` does",
    "cert sign": "writes as `cert export` does",
    "cert install": "prints as `key default` does",
    "cert default": "prints as `key default` does",
    "cert delete": "prints as `key default` does",
    **{
        f"balancer {verb}": "needs a balancer"
        for verb in (
            "add",
            "drain",
            "remove",
            "rules",
            "status",
            "stop",
            "top",
            "vrrp",
            "weight",
            "where",
        )
    },
    **{
        f"pubsub {verb}": "needs the service: tests/pubsub"
        for verb in (
            "answer",
            "ask",
            "border",
            "events",
            "gateway",
            "graph",
            "group",
            "scope",
            "status",
            "tap",
            "top",
            "trace",
        )
    },
    "pub": "needs the service: tests/pubsub",
    "sub": "needs the service: tests/pubsub",
    "sync": "needs other members: tests/interop/test_sync",
    "open": "needs a page: tests/page",
    "paper bulk": "takes a minute; prints as `paper csr` does",
    "paper mundn": "takes minutes; tests/network runs it",
    "paper augustus": "measures the machine; prints as `paper csr` does",
    "paper blackadder": "takes seconds; tests/pubsub runs it",
    "lab chain": "builds a laboratory",
    "lab run": "builds a laboratory",
    "bench attack": "attacks for seconds; prints as `bench bulk` does",
    "bench bulk": "needs a producer: tests/overload",
    "image build": "writes a file: tests/image",
    "network agent": "logs to standard error",
    "network operator": "logs to standard error: tests/kubernetes",
    "network export": "writes a file: test_tosca",
    "network import": "reads a package: test_tosca",
    "network host add": "needs a network: test_network_agent",
    "network host list": "needs a network: test_network_agent",
    "network edge": "needs a network and a router: tests/net/test_edge",
    "network host remove": "needs a network: test_network_agent",
    **{
        f"network {verb}": "needs a network: tests/network"
        for verb in (
            "apply",
            "defence",
            "audit",
            "diff",
            "down",
            "events",
            "history",
            "hold",
            "key add",
            "key allow",
            "key forbid",
            "key list",
            "key remove",
            "plan",
            "resume",
            "route add",
            "route list",
            "route remove",
            "scale",
            "show",
            "tap",
            "token add",
            "token list",
            "token remove",
            "undo",
            "up",
        )
    },
    **{
        f"service {verb}": "needs a service"
        for verb in (
            "drain",
            "elements",
            "erase",
            "events",
            "graph",
            "hand-over",
            "links",
            "tap",
            "routes",
            "statistics",
            "status",
            "stop",
        )
    },
}


def leaves():
    """Returns all verbs, taken from the manual pages."""
    with tempfile.TemporaryDirectory(prefix="nw-man-") as folder:
        subprocess.run([NW, "man", folder], check=True)
        pages = {page.stem: page.read_text() for page in Path(folder).glob("*.1")}
    groups = {stem for stem, text in pages.items() if ".SH SUBCOMMANDS" in text}

    def verb_of(stem):
        """`nw-bench-run` is `bench run`, `nw-ping-server` is `ping-server`."""
        for group in sorted(groups, key=len, reverse=True):
            if stem.startswith(group + "-"):
                return " ".join([*group.split("-")[1:], stem.removeprefix(group + "-")])

    return sorted(verb_of(stem) for stem in pages if stem not in groups)


def lines():
    """Returns the lines for the verbs that this program has."""
    more = KUBERNETES_LINES if "network operator" in leaves() else ""
    return (LINES + more).strip().splitlines()


class Output(CommandLine):
    def setUp(self):
        super().setUp()
        self.r = self.router()
        home = Path(self.folder) / "home"
        home.mkdir()
        self.environment = {**self.r.environment(), "HOME": str(home), "RUST_BACKTRACE": "0"}
        file = lambda name, content: (
            (Path(self.folder) / name).write_bytes(content) and Path(self.folder) / name
        )
        self.values = {
            "routes": file("routes", b"/many 1\n"),
            "packet": file("packet", bytes.fromhex("050907070801740802" + "7830")),
            "config": self.r.config,
            "passphrase": file("passphrase", b"secret\n"),
            "graph": GRAPH,
            "free": 9,
        }
        self.served, _ = self.put(self.r, "/served", b"content" * 1000)
        self.run_nw("key", "generate", "/of/me")
        self.values["face"] = self.face("udp4://127.0.0.1:10")
        self.run_nw("route", "add", "/gone", self.values["face"])
        self.run_nw("route", "add", "/t", self.values["face"])
        # Traffic for `nw tap` and `nw face events`: each command creates a face and packets.
        self.is_over = threading.Event()
        self.addCleanup(self.is_over.set)
        threading.Thread(target=self.keep_busy, daemon=True).start()

    def keep_busy(self):
        while not self.is_over.wait(0.2):
            subprocess.run(
                [NW, "peek", "/t", "--lifetime", "50"], env=self.environment, capture_output=True
            )

    def run_nw(self, *args):
        return subprocess.run(
            [NW, *map(str, args)],
            env=self.environment,
            check=True,
            capture_output=True,
            timeout=TIMEOUT_S,
        ).stdout

    def face(self, uri):
        import json

        return json.loads(self.run_nw("face", "create", "--json", uri))["face_id"]

    def run_into(self, args, stdout):
        completed = subprocess.run(
            [NW, *args],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT_S,
            cwd=self.folder,
        )
        return completed.returncode, completed.stderr.decode()

    def command_lines(self):
        for line in lines():
            if "{other}" in line:
                self.values["other"] = self.face("udp4://127.0.0.1:11")
            yield line.format(**self.values).split()

    def test_output_full_is_an_error_with_one_sentence(self):
        for args in self.command_lines():
            with self.subTest(" ".join(args)), open("/dev/full", "wb") as full:
                code, output = self.run_into(args, full)
                self.assertNotIn("panicked", output)
                self.assertEqual(output.count("No space left on device"), 1, output)
                self.assertEqual(code, 1, output)

    def test_output_closed_is_not_an_error(self):
        for args in self.command_lines():
            reader, writer = os.pipe()
            os.close(reader)
            with self.subTest(" ".join(args)):
                code, output = self.run_into(args, writer)
                self.assertNotIn("panicked", output)
                self.assertNotIn("roken pipe", output)
                self.assertEqual(code, 0, output)
            os.close(writer)

    def test_every_verb_is_in_the_table(self):
        tried = {" ".join(line.split()[:n]) for line in lines() for n in (1, 2, 3)}
        for verb in leaves():
            self.assertTrue(
                verb in tried or verb in SILENT,
                f"nw {verb}: add a line to LINES or a reason to SILENT",
            )

    def test_help_into_full_or_closed_output_ends_quietly(self):
        for verb in ["", *leaves()]:
            if verb == "graph help":
                continue
            args = [*verb.split(), "--help"]
            with self.subTest(verb), open("/dev/full", "wb") as full:
                code, output = self.run_into(args, full)
                self.assertEqual((code, output.count("No space left on device")), (1, 1), output)
        for args in (["--help"], ["--version"], ["face", "create", "--help"]):
            reader, writer = os.pipe()
            os.close(reader)
            with self.subTest(args):
                self.assertEqual(self.run_into(args, writer), (0, ""))
            os.close(writer)

    def test_standard_error_full_does_not_end_command(self):
        with open("/dev/full", "wb") as full:
            for args, expected in (
                (["face", "show", "999999"], 3),
                (["no-such-verb"], 2),
                (["cat", "/served"], 0),
            ):
                with self.subTest(args):
                    completed = subprocess.run(
                        [NW, *args],
                        env=self.environment,
                        stdout=subprocess.PIPE,
                        stderr=full,
                        timeout=TIMEOUT_S,
                    )
                    self.assertEqual(completed.returncode, expected)


if __name__ == "__main__":
    unittest.main()
