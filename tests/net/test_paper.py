"""A paper's experiment, repeated: a figure measured, Ctrl-C, what is refused.

Needs root, `ip`, `tc`, a kernel with XDP; skips with a word where they are missing. Usage: python3 tests/net/test_paper.py [unittest's arguments]
The command is target/release/nw, or $NW_BIN."""

import json
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from cluster import NW, why_not
from waiting import until

WHY_NOT = why_not()
SPACES = Path("/run/netns")


def laboratories():
    return {path.name for path in SPACES.glob("nwlab*")}


@unittest.skipIf(WHY_NOT, WHY_NOT or "")
class Paper(unittest.TestCase):
    def setUp(self):
        self.place = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.before = laboratories()

    def paper(self, *words):
        return [str(NW), "paper", "csr", "--quick", "--output", str(self.place / "out"), *words]

    def holds(self, check):
        here, wanted, relation = check["here"], check["wanted"], check["relation"]
        if relation == "at_most":
            return here <= wanted
        if relation == "at_least":
            return here >= wanted
        return abs(here - wanted) <= relation["within"] * abs(wanted)

    def test_a_point_is_measured_beside_one_member(self):
        done = subprocess.run(self.paper("--figures", "11"), capture_output=True, text=True, timeout=180)
        self.assertIn("figures agree with the paper's", done.stdout, done.stderr)
        report = json.loads((self.place / "out/csr.json").read_text())
        self.assertGreater(report["multicast"]["capacity_mbit"], 0)
        self.assertEqual(report["conditions"]["points"], 1)
        self.assertIsNotNone(report["conditions"]["quota_used_min"])
        # A run under inconclusive conditions says so on the terminal as on the page.
        if report["conditions"]["busy_before"] > 0.15:
            self.assertIn("inconclusive", done.stdout)
            self.assertIn("inconclusive", (self.place / "out/csr.html").read_text())
            self.assertEqual(done.returncode, 1)

    def test_an_ordinary_user_is_told_what_is_needed(self):
        if not shutil.which("setpriv"):
            self.skipTest("setpriv is missing")
        self.place.chmod(0o777)
        binary = self.place / "nw"
        shutil.copy(NW, binary)
        binary.chmod(0o755)
        words = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", binary, *self.paper("--figures", "12")[1:]]
        done = subprocess.run(words, capture_output=True, text=True, timeout=30)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("need the rights of root: try sudo", done.stderr)

    def test_a_figure_is_measured_and_drawn(self):
        done = subprocess.run(self.paper("--figures", "12,13", "--json"), capture_output=True, text=True, timeout=180)
        report = json.loads(done.stdout)
        agrees = all(self.holds(check) for finding in report["findings"] for check in finding["checks"])
        conditions = report["conditions"]
        self.assertGreater(conditions["started_unix_s"], 1_700_000_000)
        sound = conditions["busy_before"] <= 0.15 and not conditions["points_saturated"] and not conditions["points_below_quota"]
        self.assertEqual(done.returncode, 0 if agrees and sound else 1, done.stderr)
        self.assertEqual(json.loads((self.place / "out/csr.json").read_text()), report)
        self.assertEqual([finding["figure"] for finding in report["findings"]], [12, 13])
        self.assertNotIn("scale", report)
        # What does not depend on how busy this machine is: the second download came from the caches.
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
            _, said = process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("interrupted", said)
        self.assertEqual(laboratories() - self.before, set())

    def test_figures_that_are_none_are_refused(self):
        done = subprocess.run(self.paper("--figures", "5"), capture_output=True, text=True, timeout=30)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("6..=14", done.stderr)


if __name__ == "__main__":
    unittest.main()
