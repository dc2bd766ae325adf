"""A paper's experiment, repeated: a measured figure, Ctrl-C, refusals.

Needs root, `ip`, `tc`, a kernel with XDP; prints a reason and skips without them.

Usage: python3 tests/net/test_paper.py [unittest's arguments]

The command is target/release/nw, or $NW_BIN.
"""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import bounds
from cluster import NW, missing_requirement
from waiting import until

SKIP_REASON = missing_requirement()
SPACES = Path("/run/netns")


def laboratories():
    return {path.name for path in SPACES.glob("nwlab*")}


@unittest.skipIf(SKIP_REASON, SKIP_REASON or "")
class Paper(unittest.TestCase):
    def setUp(self):
        self.place = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.before = laboratories()

    def paper(self, *args):
        return [str(NW), "paper", "csr", "--quick", "--output", str(self.place / "out"), *args]

    def test_point_is_measured_against_one_member(self):
        completed = subprocess.run(
            self.paper("--figures", "11"), capture_output=True, text=True, timeout=180
        )
        self.assertIn("figures agree with the paper's", completed.stdout, completed.stderr)
        report = json.loads((self.place / "out/csr.json").read_text())
        self.assertGreater(report["multicast"]["capacity_mbit"], 0)
        self.assertEqual(report["conditions"]["points"], 1)
        self.assertIsNotNone(report["conditions"]["quota_used_min"])
        # A run under inconclusive conditions is marked as such on the terminal and on the page.
        verdict = bounds.check_verdict(self, completed, report)
        if report["conditions"]["busy_before"] > 0.15:
            self.assertEqual(verdict, "inconclusive")
            self.assertIn("inconclusive", (self.place / "out/csr.html").read_text())

    def test_ordinary_user_is_refused_with_advice(self):
        if not shutil.which("setpriv"):
            self.skipTest("setpriv is missing")
        self.place.chmod(0o777)
        binary = self.place / "nw"
        shutil.copy(NW, binary)
        binary.chmod(0o755)
        args = [
            "setpriv",
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            binary,
            *self.paper("--figures", "12")[1:],
        ]
        completed = subprocess.run(args, capture_output=True, text=True, timeout=30)
        self.assertNotEqual(completed.returncode, 0)
        self.assertIn("need the rights of root: try sudo", completed.stderr)

    def test_figure_is_measured_and_drawn(self):
        completed = subprocess.run(
            self.paper("--figures", "12,13", "--json"), capture_output=True, text=True, timeout=180
        )
        report = json.loads(completed.stdout)
        statements = [check for finding in report["findings"] for check in finding["checks"]]
        self.assertEqual(report["checks"], statements)
        bounds.check_verdict(self, completed, report)
        conditions = report["conditions"]
        self.assertGreater(conditions["started_unix_s"], 1_700_000_000)
        is_sound = (
            conditions["busy_before"] <= 0.15
            and not conditions["points_saturated"]
            and not conditions["points_below_quota"]
        )
        self.assertEqual(report["problems"] == [], is_sound, conditions)
        self.assertEqual(json.loads((self.place / "out/csr.json").read_text()), report)
        self.assertEqual([finding["figure"] for finding in report["findings"]], [12, 13])
        self.assertNotIn("scale", report)
        # A result that does not depend on the machine's load: the second download came from the
        # caches.
        first, second = report["caching"]["producer_bytes"]
        self.assertLess(second, first / 20, report["caching"])
        page = (self.place / "out/csr.html").read_text()
        self.assertEqual(page.count("<section"), 2)
        self.assertGreaterEqual(page.count("<svg"), 3)
        self.assertEqual(laboratories() - self.before, set())

    def test_ctrl_c_leaves_nothing(self):
        process = subprocess.Popen(self.paper("--figures", "14"), stderr=subprocess.PIPE, text=True)
        with process:
            until(lambda: laboratories() - self.before, "a laboratory is there")
            process.send_signal(signal.SIGINT)
            _, output = process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("interrupted", output)
        self.assertEqual(laboratories() - self.before, set())

    def test_unknown_figures_are_refused(self):
        completed = subprocess.run(
            self.paper("--figures", "5"), capture_output=True, text=True, timeout=30
        )
        self.assertNotEqual(completed.returncode, 0)
        self.assertIn("6..=14", completed.stderr)


if __name__ == "__main__":
    unittest.main()
