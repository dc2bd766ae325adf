"""The experiments of the µNDN paper in their quick mode. Figures depend on the machine and its load
and are not judged here; what must hold on any machine is."""

import json
import subprocess
import unittest

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
        # 1: a bound was missed, or the machine was too busy. Both are told, and judged by
        # `make bench`.
        self.assertIn(completed.returncode, (0, 1), completed.stderr)
        self.assertNotIn("panicked", completed.stderr)
        self.assertIn("mundn.html", completed.stdout, completed.stderr)
        report = json.loads((output / "mundn.json").read_text())
        self.assertEqual(len(report["processes"]), ROWS)
        for result in report["processes"]:
            self.assertGreater(result["mbit"], 0, result)
            self.assertGreater(result["cpu_us"], 0, result)
        for name in ("chain", "router"):
            self.assertGreater(report[name]["mbit"], 0, name)
        self.assertEqual(sorted(report["chain"]["cpu_percent"]), ["br~1", "cs~1", "nr~1", "pd~1"])
        scaling = report["scaling"]
        counts = [scaling[name] for name in ("lost", "duplicates", "refused")]
        self.assertEqual(counts, [0, 0, 0], scaling)
        self.assertTrue(scaling["end_equals_start"], scaling)
        self.assertGreaterEqual(len(scaling["decisions"]), 2, "up and down again")
        self.assertIn("2 instances instead of 1", scaling["decisions"][0])
        poisoning = report["poisoning"]
        self.assertEqual(poisoning["false_alarms"], 0, poisoning)
        self.assertTrue(poisoning["end_equals_start"], poisoning)
        self.assertEqual(len(poisoning["attacks"]), 1, poisoning)
        attack = poisoning["attacks"][0]
        self.assertGreater(attack["fakes_before"], 0, attack)
        self.assertEqual(attack["fakes_after"], 0, attack)
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
