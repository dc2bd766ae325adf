"""The experiments of the µNDN paper in their quick mode. Figures depend on the machine and its load
and are not judged here; what must hold on any machine is."""

import json
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import bounds
from network import NW, NetworkTest

TIMEOUT_S = 150
ROWS = 10


class Paper(NetworkTest):
    def test_quick_run_measures_all_parts_and_loses_nothing_while_it_scales(self):
        output = self.folder / "out"
        completed = subprocess.run(
            [NW, "paper", "mundn", "--quick", "--output", output],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        self.assertNotIn("panicked", completed.stderr)
        self.assertIn("mundn.html", completed.stdout, completed.stderr)
        report = json.loads((output / "mundn.json").read_text())
        bounds.check_verdict(self, completed, report)
        self.assertEqual(len(report["processes"]), ROWS)
        for result in report["processes"]:
            self.assertGreater(result["mbit"], 0, result)
            self.assertGreater(result["cpu_us"], 0, result)
        for name in ("chain", "router"):
            self.assertGreater(report[name]["mbit"], 0, name)
        self.assertEqual(sorted(report["chain"]["cpu_percent"]), ["br~1", "cs~1", "nr~1", "pd~1"])
        scaling = report["scaling"]
        self.assertGreaterEqual(len(scaling["decisions"]), 2, "up and down again")
        self.assertIn("2 instances instead of 1", scaling["decisions"][0])
        poisoning = report["poisoning"]
        self.assertEqual(len(poisoning["attacks"]), 1, poisoning)
        attack = poisoning["attacks"][0]
        self.assertGreater(attack["fakes_before"], 0, attack)
        self.assertEqual(attack["places"][:2], ["cs1", "br"], "towards the origin")
        order = ("start", "detected", "verifier", "confirmed", "isolated", "end", "gone")
        times = [attack[f"{name}_s"] for name in order]
        self.assertEqual(times, sorted(times), attack)
        self.assertIsNotNone(attack["recovered_s"], attack)
        page = (output / "mundn.html").read_text()
        parts = ("Table 3", "Table 4", "Figure 5", "Figure 7", "Signature Verifier (ECDSA256)")
        for text in (*parts, "<svg"):
            self.assertIn(text, page)


if __name__ == "__main__":
    unittest.main()
