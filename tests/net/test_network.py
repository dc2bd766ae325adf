"""`nw lab run`: scenarios of the simulator with router processes in network namespaces.

Needs root and iproute2; prints a reason and skips without them. NW_NETWORKS=all also runs the
largest examples with processes; by default they run in the simulator, one with processes.
"""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from waiting import until

ROOT = Path(__file__).resolve().parents[2]
NW = os.environ.get("NW_BIN", str(ROOT / "target/release/nw"))
SCENARIOS = ROOT / "examples/scenarios"
# A run of a few seconds takes this long at most on a busy machine.
RUN_S = 120

LINE = """
[run]
duration_s = 3
[topology]
file = "line.conf"
[routers]
store_packets = 0
[[producer]]
prefix = "/p"
at = ["c"]
[[consumer]]
name = "pings"
kind = "rate"
at = ["a"]
prefix = "/p"
rate_per_s = 40
arrivals = "even"
stop_s = 2
"""
# Mini-NDN's form: a to c takes 2 × 30 ms there and back, plus what the loop needs.
LINE_CONF = """
[nodes]
a: _ nfd-log-level=DEBUG
b: _
c: _
[links]
a:b delay=10ms bw=20
b:c delay=20ms bw=20 loss=0
"""
RING = """
[run]
duration_s = 5
at = ["1500ms link a-b down"]
[links]
delay_ms = 2
[routers]
store_packets = 0
[routing]
convergence_ms = 300
[[link]]
from = "a"
to = "b"
[[link]]
from = "a"
to = "c"
[[link]]
from = "c"
to = "b"
[[producer]]
prefix = "/p"
at = ["b"]
[[consumer]]
name = "early"
kind = "rate"
at = ["a"]
prefix = "/p"
rate_per_s = 20
stop_s = 1
[[consumer]]
name = "late"
kind = "rate"
at = ["a"]
prefix = "/p"
rate_per_s = 20
start_s = 3
stop_s = 4
"""


def missing():
    if os.geteuid() != 0:
        return "network namespaces need root"
    return None if shutil.which("ip") else "there is no ip: apt install iproute2"


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="nw-network-")))

    def scenario(self, text):
        (self.folder / "line.conf").write_text(LINE_CONF)
        path = self.folder / "net.toml"
        path.write_text(text)
        return path

    def nw(self, *args, code=0, prefix=()):
        completed = subprocess.run(
            [*prefix, NW, *map(str, args)],
            check=False,
            capture_output=True,
            text=True,
            timeout=RUN_S,
        )
        self.assertEqual(completed.returncode, code, completed.stdout + completed.stderr)
        return completed

    def outcome(self, *args, host="lab"):
        return json.loads(self.nw(host, "run", *args, "--json").stdout)

    def table(self, folder, name):
        with (self.folder / folder / f"{name}.csv").open() as rows:
            return list(csv.DictReader(rows))


class Examples(Run):
    def test_known_networks_hold_their_expectations_in_simulator(self):
        for name in ("ndn-testbed", "geant", "sprint"):
            with self.subTest(name):
                self.nw("sim", "run", SCENARIOS / f"{name}.toml")


@unittest.skipIf(missing(), missing() or "")
class Network(Run):
    def labs(self):
        """Returns the namespaces of laboratories."""
        names = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
        return {line.split()[0] for line in names.stdout.splitlines() if line.startswith("nwlab")}

    def nothing_is_left(self, before):
        until(lambda: self.labs() <= before, "the namespaces are removed", RUN_S)

    def test_same_file_gives_same_tables_and_comparable_figures(self):
        before = self.labs()
        path = self.scenario(LINE)
        self.nw("lab", "run", path, "--out", self.folder / "lab")
        self.nw("sim", "run", path, "--out", self.folder / "sim")
        self.nothing_is_left(before)
        for name in ("totals", "applications", "links", "nodes", "series"):
            lab, sim = self.table("lab", name), self.table("sim", name)
            self.assertEqual(list(lab[0]), list(sim[0]), name)
            self.assertEqual(len(lab), len(sim), name)
        lab = self.table("lab", "applications")[1]
        sim = self.table("sim", "applications")[1]
        self.assertEqual((lab["name"], lab["kind"]), (sim["name"], sim["kind"]))
        self.assertEqual(lab["sent"], sim["sent"])
        self.assertEqual(lab["satisfied"], lab["sent"], "no loss on these links")
        # Packets can't be faster than the links: 60 ms for the round trip.
        self.assertGreaterEqual(float(lab["rtt_p50_ms"]), 59.0)
        print(f"lab {lab['rtt_p50_ms']} ms, sim {sim['rtt_p50_ms']} ms", file=sys.stderr)
        for lab, sim in zip(self.table("lab", "links"), self.table("sim", "links"), strict=True):
            self.assertEqual((lab["from"], lab["to"]), (sim["from"], sim["to"]))
            self.assertGreaterEqual(int(lab["delivered"]), 80)
        nodes = {row["name"]: row for row in self.table("lab", "nodes")}
        self.assertGreaterEqual(int(nodes["b"]["pit_satisfied"]), 80)
        page = (self.folder / "lab/report.html").read_text()
        self.assertIn("Measured on real router processes", page)
        self.assertIn("Time from Interest to Data by share", page)

    def test_link_cut_is_counted_and_routed_around(self):
        record = self.folder / "run.json"
        outcome = self.outcome(self.scenario(RING), "--record", record)
        self.check_recording(json.loads(record.read_text()))
        links = {(row["from"], row["to"]): row for row in outcome["links"]}
        apps = {row["name"].split("@")[0]: row for row in outcome["applications"]}
        for name in ("early", "late"):
            self.assertGreater(apps[name]["sent"], 5)
            self.assertEqual(apps[name]["satisfied"], apps[name]["sent"], name)
        # Before the cut one link carries all, after it the two others.
        self.assertGreaterEqual(links["a", "b"]["packets"], apps["early"]["sent"])
        self.assertGreaterEqual(links["a", "c"]["packets"], apps["late"]["sent"])
        self.assertGreaterEqual(links["c", "b"]["packets"], apps["late"]["sent"])
        self.assertEqual(outcome["violations"], [])

    def check_recording(self, recording):
        """Checks the recording of a run in which the link a-b goes down."""
        kinds = {node["name"]: node["kind"] for node in recording["nodes"]}
        self.assertEqual(kinds, {"a": "consumer", "b": "producer", "c": "router"})
        frames = recording["frames"]
        self.assertGreater(len(frames), 20)
        self.assertGreaterEqual(frames[-1]["at_ms"], 5000)
        names = [node["name"] for node in recording["nodes"]]
        ends = [{names[link["from"]], names[link["to"]]} for link in recording["links"]]
        cut = ends.index({"a", "b"})
        self.assertEqual(frames[-1]["links"][cut]["health"], "failed")
        self.assertTrue(any(frame["links"][cut]["rate"] > 0 for frame in frames))
        texts = [frame["text"] for frame in frames if frame["text"]]
        self.assertEqual(texts, ["the link a-b fails"])

    def test_lossy_link_loses_its_share_and_restarted_router_forwards_again(self):
        lossy = LINE.replace("duration_s = 3", 'duration_s = 6\nat = ["1s node b restart"]')
        # Mini-NDN counts in percent.
        (self.folder / "lossy.conf").write_text(LINE_CONF.replace("loss=0", "loss=30"))
        path = self.scenario(lossy.replace("stop_s = 2", "start_s = 4\nstop_s = 5"))
        outcome = self.outcome(path, "--topology", self.folder / "lossy.conf")
        links = {(row["from"], row["to"]): row for row in outcome["links"]}
        self.assertGreater(links["b", "c"]["lost"], 0)
        self.assertEqual(links["a", "b"]["lost"], 0)
        self.assertGreater(outcome["applications"][1]["satisfied"], 0)

    def test_known_networks_run_with_processes(self):
        names = ["ndn-testbed", "geant", "sprint"]
        if os.environ.get("NW_NETWORKS") != "all":
            names = names[:1]
            print("geant and sprint run with processes with NW_NETWORKS=all", file=sys.stderr)
        for name in names:
            with self.subTest(name):
                started = time.monotonic()
                path = SCENARIOS / f"{name}.toml"
                text = path.read_text().replace("duration_s = 10", "duration_s = 3")
                text = "\n".join(
                    line for line in text.splitlines() if not line.startswith('at = ["4s')
                )
                text = "\n".join(
                    line for line in text.splitlines() if not line.startswith("expect")
                )
                outcome = self.outcome(self.scenario(text))
                seconds = time.monotonic() - started
                print(f"{name}: {outcome['nodes_count']} routers, {seconds:.1f} s", file=sys.stderr)
                self.assertGreater(outcome["totals"]["satisfied"], 0.5)
                self.assertEqual(len(outcome["nodes"]), outcome["nodes_count"])

    def started(self, before):
        """Starts a long run, and waits for its three routers."""
        process = subprocess.Popen(
            [NW, "lab", "run", self.scenario(LINE), "--duration", "600"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        until(lambda: len(self.labs() - before) == 3, "the namespaces exist", RUN_S)
        return process

    def test_signals_remove_everything(self):
        for sent in (signal.SIGINT, signal.SIGTERM):
            before = self.labs()
            process = self.started(before)
            process.send_signal(sent)
            _, errors = process.communicate(timeout=RUN_S)
            self.assertIn("stopped before the end; everything is removed", errors)
            self.assertEqual(self.labs() - before, set())

    def test_killed_run_is_removed_by_clean(self):
        before = self.labs()
        process = self.started(before)
        own = self.labs() - before
        process.kill()
        process.wait()
        self.nw("lab", "clean")
        self.assertFalse(own & self.labs())

    def test_run_without_rights_says_what_helps_and_makes_nothing(self):
        before = self.labs()
        # A copy that another user can read.
        binary = self.folder / "nw"
        shutil.copy(NW, binary)
        self.folder.chmod(0o755)
        words = [binary, "lab", "run", "--topology", "line:2", "--duration", "1"]
        completed = subprocess.run(
            ["setpriv", "--reuid=65534", "--clear-groups", *words],
            check=False,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            cwd="/",
        )
        self.assertEqual(completed.returncode, 1, completed.stderr)
        self.assertIn("network namespaces need the rights of root: try sudo", completed.stderr)
        self.assertEqual(self.labs(), before)

    def test_impossible_plans_are_refused_with_advice(self):
        before = self.labs()
        cases = {
            "[links]\nrate_mbps = 20000": "of 20000 Mbit/s is impossible here",
            '[[link]]\nfrom = "a"\nto = "b"\nrate_mbps = -3': "expected a number of megabits",
        }
        for extra, expected in cases.items():
            text = LINE.replace('file = "line.conf"', 'generate = "line:3"')
            text = text.replace('"a"', '"n0"').replace('"c"', '"n2"')
            output = self.nw("lab", "run", self.scenario(text + extra), code=1)
            self.assertIn(expected, output.stderr)
        many = self.nw("lab", "run", "--topology", "line:300", code=1)
        self.assertIn("300 routers are too many for real processes", many.stderr)
        self.scenario(LINE)
        (self.folder / "line.conf").write_text(LINE_CONF + "[aps]\nx: y\n")
        output = self.nw("lab", "run", self.folder / "net.toml", code=1)
        self.assertIn("saw the section [aps]; expected [nodes], [links]", output.stderr)
        self.assertEqual(self.labs(), before)


if __name__ == "__main__":
    unittest.main()
