"""nw bench bulk through one router, nw paper bulk in the simulator, and mistakes."""

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import bounds
from router import NW, Router, end_process, json_lines, nw, skip


class Bulk(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.router = Router()
        cls.addClassCleanup(cls.router.close)

    def produce(self):
        process = subprocess.Popen(
            [NW, "bench", "answer", "--socket", self.router.uri, "--prefix", "/bulk",
             "--payload", "8000", "--json"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.addCleanup(process.stdout.close)
        self.addCleanup(end_process, process)
        self.assertIn("ready", process.stdout.readline())

    def test_files_complete_and_tables_agree(self):
        self.produce()
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        completed = nw(
            "bench", "bulk", "--socket", self.router.uri, "--prefix", "/bulk", "--files-per-s", 20,
            "--seconds", 1, "--size", 400_000, "--output", folder, "--json",
        )  # fmt: skip
        self.assertEqual(completed.returncode, 0, completed.stderr)
        result = json_lines(completed.stdout)[0]
        self.assertEqual((result["summary"]["files"], result["summary"]["complete"]), (20, 20))
        with (folder / "files.csv").open() as file:
            files = list(csv.DictReader(file))
        self.assertEqual(len(files), 20)
        self.assertTrue(all(float(file["stop_s"]) > float(file["start_s"]) for file in files))
        with (folder / "samples.csv").open() as file:
            samples = list(csv.DictReader(file))
        content = 0.0
        before = 0.0
        for sample in samples:
            at = float(sample["at_s"])
            content += float(sample["goodput_mbit"]) * (at - before)
            before = at
        self.assertAlmostEqual(content, 20 * 0.4 * 8, delta=1)
        self.assertEqual(json.loads((folder / "bulk.json").read_text()), result)
        self.assertIn("<svg", (folder / "bulk.html").read_text())

    def test_without_producer_fails_with_advice(self):
        completed = nw(
            "bench", "bulk", "--socket", self.router.uri, "--prefix", "/missing",
            "--files-per-s", 1, "--seconds", 1, "--size", 8000,
        )  # fmt: skip
        self.assertEqual(completed.returncode, 1)
        self.assertIn("nw bench answer --prefix /missing", completed.stderr)

    def test_impossible_rates_are_refused_with_advice(self):
        for arguments, advice in (
            (("--files-per-s", "0"), "give a number from 0.01 to 100000"),
            (("--files-per-s", "nan"), "give a number from 0.01 to 100000"),
            (("--seconds", "0"), "give a number from 0.01 to 86400"),
            (("--size", "0"), "give a size"),
            (("--files-per-s", "100000", "--seconds", "80000"), "1 to 100000 files"),
            (("--link-rate", "0"), "give a number of Mbit/s"),
        ):
            with self.subTest(arguments):
                completed = nw("bench", "bulk", "--socket", self.router.uri, *arguments)
                self.assertNotEqual(completed.returncode, 0)
                self.assertIn(advice, completed.stderr)


class SteppingClock(unittest.TestCase):
    """The clock of the wall steps 100 s to and fro; nothing that measures or controls reads it."""

    def test_run_under_a_stepping_clock_is_as_any_other(self):
        compiler = shutil.which("cc")
        if compiler is None:
            skip("no C compiler for the clock that steps")
        folder = self.enterContext(tempfile.TemporaryDirectory())
        library = f"{folder}/stepping_clock.so"
        source = Path(__file__).with_name("stepping_clock.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
        env = {**os.environ, "LD_PRELOAD": library}
        self.check_clock_steps(env)
        router = Router(env)
        self.addCleanup(router.close)
        answer = subprocess.Popen(
            [NW, "bench", "answer", "--socket", router.uri, "--prefix", "/bulk",
             "--payload", "8000", "--json"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=env,
        )  # fmt: skip
        self.addCleanup(answer.stdout.close)
        self.addCleanup(end_process, answer)
        self.assertIn("ready", answer.stdout.readline())
        completed = nw(
            "bench", "bulk", "--socket", router.uri, "--prefix", "/bulk", "--files-per-s", 20,
            "--seconds", 1, "--size", 400_000, "--json", env=env,
        )  # fmt: skip
        self.assertEqual(completed.returncode, 0, completed.stderr)
        result = json_lines(completed.stdout)[0]
        self.assertEqual(result["summary"]["complete"], 20, result["summary"])
        times = [sample["at_s"] for sample in result["samples"]]
        self.assertEqual(times, sorted(times))
        self.assertLess(times[-1], 60)
        self.assertTrue(all(0 <= file["start_s"] < file["stop_s"] < 60 for file in result["files"]))

    def check_clock_steps(self, env):
        """The library works: a program that reads the clock of the wall sees it step."""
        program = "import time\nfor _ in range(8): print(time.time()); time.sleep(0.025)"
        completed = subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
        )
        times = [float(line) for line in completed.stdout.split()]
        self.assertGreater(max(times) - min(times), 90)


class Paper(unittest.TestCase):
    def test_simulated_experiment_holds_and_is_the_same_twice(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        texts = []
        for name in ("one", "two"):
            completed = nw(
                "paper", "bulk", "--quick", "--files-per-s", 2, "--output", folder / name
            )
            texts.append((folder / name / "bulk.json").read_text())
            verdict = bounds.check_verdict(self, completed, json.loads(texts[-1]))
            self.assertEqual(verdict, "holds")
            self.assertIn("All 6 statements hold", completed.stdout)
        self.assertEqual(*texts)
        page = (folder / "one" / "bulk.html").read_text()
        self.assertIn("150 s each", page)
