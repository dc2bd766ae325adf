"""What the runners of the checks do with tests that can't run: they say so, and count them."""

import subprocess
import sys
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
CASE = "lp/reliability/off-by-default@udp"


def conformance(*options):
    """The suite without a UDP socket, so that the case can't run."""
    return subprocess.run(
        [sys.executable, TESTS / "conformance/run.py", "--unix", "/nonexistent", *options, CASE],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class Skips(unittest.TestCase):
    def test_skipped_case_is_printed_with_its_reason(self):
        done = conformance()
        self.assertIn(f"skipped: no udp socket given (1: {CASE})\n", done.stdout)
        self.assertIn("0 passed, 0 failed, 1 skipped\n", done.stdout)

    def test_skipped_case_of_complete_router_fails(self):
        done = conformance("--complete")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"FAIL {CASE}\n", done.stdout)
        self.assertIn("0 passed, 1 failed, 0 skipped\n", done.stdout)
        self.assertIn("--complete", (TESTS / "conformance/run-nw").read_text())


if __name__ == "__main__":
    unittest.main()
