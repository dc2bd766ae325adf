"""The experiments of the Blackadder paper in their quick mode. Rates and times depend on the
machine and its load and are not judged here; what must hold on any machine is."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import bounds
from node import NW

TIMEOUT_S = 120
NETWORK_FIGURES = {5, 7, 9, 10}


class PaperTest(unittest.TestCase):
    def run_paper(self, *words):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        output = Path(folder.name) / "out"
        completed = subprocess.run(
            [NW, "paper", "blackadder", "--quick", "--output", output, *words],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        self.assertNotIn("panicked", completed.stderr)
        self.assertTrue((output / "blackadder.json").exists(), completed.stderr)
        report = json.loads((output / "blackadder.json").read_text())
        bounds.check_verdict(self, completed, report)
        return completed, report, (output / "blackadder.html").read_text()

    def test_quick_run_measures_the_figures_within_a_node_and_loses_nothing(self):
        completed, report, page = self.run_paper("--figures", "4,8")
        self.assertIn("blackadder.html", completed.stdout)
        own = [point for point in report["points"] if point["figure"] == 4]
        places = {(point["series"], point["x"]) for point in own}
        self.assertEqual(len(places), 8, "four payloads, 1 and 10 subscribers")
        for point in own:
            self.assertGreater(point["value"], 0, point)
            self.assertGreater(point["cpu_us"], 0, point)
            self.assertEqual(point["lost"], 0, point)
        pieces = [point for point in report["points"] if point["figure"] == 8]
        self.assertEqual(len(pieces), 4, "two sizes, two systems")
        self.assertTrue(all(point["value"] > 0 for point in pieces), pieces)
        for text in ("Figure 4", "Figure 8", "the paper", "<svg"):
            self.assertIn(text, page)
        self.assertNotIn("Figure 5:", page)

    def test_quick_run_measures_rendezvous_chains_and_sockets(self):
        _, report, page = self.run_paper("--figures", "5,6,7,9,10")
        figures = {point["figure"] for point in report["points"]}
        if os.getuid() != 0:
            self.assertEqual(figures, {6})
            self.assertTrue(any("root" in text for text in report["left_out"]), report["left_out"])
            return
        self.assertEqual(figures, {6} | NETWORK_FIGURES)
        for point in report["points"]:
            self.assertGreater(point["value"], 0, point)
        # Each subscription within a node is answered, and what is lost on a busy machine's chain is
        # counted.
        local = [p for p in report["points"] if p["series"] == "node-local"]
        self.assertEqual([(p["x"], p["lost"]) for p in local], [(1, 0), (20, 0)])
        self.assertTrue(any("PlanetLab" in text for text in report["left_out"]))
        for figure in sorted(figures):
            self.assertIn(f"Figure {figure}:", page)


if __name__ == "__main__":
    unittest.main()
