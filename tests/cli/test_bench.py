"""nw bench as a user runs it: each transport, both ends, its output and its exit."""

import json
import re
import signal
import time
import unittest
from pathlib import Path

from command_line import CommandLine


class Bench(CommandLine):
    def run_json(self, *args, router=None, **options):
        completed = self.nw("bench", "run", "--json", *args, router=router, **options)
        return json.loads(completed.stdout)

    def transports(self, router):
        control = ["--control", f"unix://{router.socket}"]
        return {
            "unix": ["--socket", f"unix://{router.socket}"],
            "tcp": ["--socket", f"tcp4://127.0.0.1:{router.tcp}"],
            "udp": ["--socket", f"udp4://127.0.0.1:{router.udp}", *control],
        }

    def test_closed_loop_over_each_transport_answers_all(self):
        router = self.router()
        for transport, args in self.transports(router).items():
            with self.subTest(transport):
                result = self.run_json(
                    *args, "--packets", 2000, "--window", 16, "--can-be-prefix", 0.1, router=router
                )
                self.assertTrue(result["complete"])
                self.assertEqual(result["asked"], 2000)
                self.assertEqual(result["asked"], result["answered"] + result["lost"])
                self.assertLessEqual(result["lost"], 20, result)
                self.assertIn(transport, result["over"])
                self.assertGreater(result["latency_us"]["p50"], 0)
                self.assertGreater(result["answered_by_sink"], 0)

    def test_generate_over_shared_memory_answers_all(self):
        result = self.run_json(
            "--over", "memory", "--packets", 20000, "--hit-ratio", 0.3, "--names", 1000
        )
        self.assertEqual((result["answered"], result["lost"], result["over"]), (20000, 0, "memory"))
        self.assertAlmostEqual(result["hit_ratio"], 0.3, delta=0.015)

    def test_open_loop_keeps_its_rate(self):
        result = self.run_json("--over", "memory", "--rate", 500, "--seconds", 2)
        self.assertEqual(result["load"], {"open": {"rate": 500.0, "arrivals": "even"}})
        self.assertEqual((result["asked"], result["answered"], result["unsent"]), (1000, 1000, 0))
        self.assertAlmostEqual(result["seconds"], 2, delta=0.5)
        poisson = self.run_json("--over", "memory", "--rate", 500, "--poisson", "--seconds", 2)
        self.assertAlmostEqual(poisson["asked"], 1000, delta=200)

    def test_same_seed_makes_same_traffic(self):
        args = [
            "--over",
            "memory",
            "--packets",
            3000,
            "--window",
            1,
            "--names",
            500,
            "--payload",
            "10-2000",
            "--components",
            "4-8",
            "--name-bytes",
            "70-120",
        ]
        first, same_seed, other_seed = (self.run_json(*args, "--seed", seed) for seed in (7, 7, 8))
        self.assertEqual(first["answered_by_sink"], same_seed["answered_by_sink"])
        self.assertNotEqual(first["answered_by_sink"], other_seed["answered_by_sink"])

    def test_hit_ratio_through_router_is_reached(self):
        router = self.router()
        result = self.run_json(
            "--hit-ratio", 0.5, "--names", 500, "--packets", 20000, router=router
        )
        self.assertAlmostEqual(result["hit_ratio"], 0.5, delta=0.03)

    def test_generate_and_answer_in_two_processes_agree(self):
        router = self.router()
        sink = self.start(router, "bench", "answer", "--prefix", "/far/bench", "--json")
        self.assertEqual(
            json.loads(sink.stdout.readline()), {"event": "ready", "prefix": "/far/bench"}
        )
        completed = self.nw(
            "bench", "generate", "--prefix", "/far/bench", "--packets", 500, "--json", router=router
        )
        result = json.loads(completed.stdout)
        self.assertEqual(
            (result["answered"], result["answered_by_sink"], result["hit_ratio"]), (500, None, None)
        )
        # The generator does not know the content of the Data, only its size.
        self.assertIsNone(result["workload"]["payload"])
        self.assertGreater(result["data_bytes"]["min"], 1000)
        text = self.nw(
            "bench", "generate", "--prefix", "/far/bench", "--packets", 50, router=router
        ).stdout.decode()
        self.assertNotIn("bytes of content", text)
        self.assertRegex(text, r"data size +\d+")
        sink.send_signal(signal.SIGINT)
        end = json.loads(sink.stdout.readline())
        self.assertEqual((end["event"], end["answered"] > 0, sink.wait(10)), ("end", True, 0))

    def test_short_runs_print_complete_results(self):
        page = Path(self.folder) / "page.html"
        args = ("--over", "memory", "--packets", 1, "--json", "--html", page)
        result = json.loads(self.nw("bench", "run", *args).stdout)
        latency_us = result["latency_us"]
        self.assertEqual(len(set(latency_us.values())), 1, "all values of one sample are equal")
        # On a slow machine the only answer arrives in another interval than its request.
        charts = 2 if len(result["series"]) == 1 else 4
        self.assertEqual(page.read_text().count("<svg"), charts, "over time from two intervals on")
        self.nw("bench", "run", "--over", "memory", "--packets", 20000, "--html", page)
        self.assertEqual(page.read_text().count("<svg"), 4)

    def test_answer_with_limit_ends_by_itself(self):
        router = self.router()
        started = time.monotonic()
        self.nw("bench", "answer", "--seconds", 0.5, router=router)
        self.assertLess(time.monotonic() - started, 10)

    def test_ctrl_c_prints_results_so_far(self):
        router = self.router()
        for verb in (["--over", "memory"], []):
            process = self.start(
                router, "bench", "run", "--rate", 200, "--seconds", 600, "--json", *verb
            )
            time.sleep(1.5)
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=10)
            result = json.loads(out)
            self.assertEqual((process.returncode, result["complete"]), (0, False))
            self.assertGreater(result["answered"], 20)
            self.assertLess(result["seconds"], 10)

    def test_router_ending_early_is_reported(self):
        router = self.router()
        process = self.start(router, "bench", "run", "--rate", 200, "--seconds", 600, "--json")
        time.sleep(1)
        router.end()
        out, error = process.communicate(timeout=10)
        self.assertEqual(process.returncode, 1)
        self.assertFalse(json.loads(out)["complete"])
        self.assertRegex(error.decode(), "^nw: .*ended early")
        self.assertNotIn("panicked", error.decode())

    def test_unanswered_requests_are_reported(self):
        router = self.router()
        completed = self.nw(
            "bench", "generate", "--packets", 10, "--lifetime", 200, router=router, code=1
        )
        self.assertRegex(
            completed.stderr.decode(),
            "nw: no Interest under /bench was answered: .*nw bench answer",
        )
        self.assertRegex(completed.stdout.decode(), r"refused +10 +Nack\(NoRoute\)")

    def test_bench_without_router_fails(self):
        for verb in ("run", "generate", "answer"):
            self.assertIn("nw run", self.sentence(self.nw("bench", verb, code=4)))

    def test_wrong_arguments_are_refused(self):
        for code, args, expected in [
            (1, ["run", "--components", 1], "--components"),
            (1, ["run", "--name-bytes", 8], "--name-bytes"),
            (1, ["run", "--hit-ratio", 2], "--hit-ratio"),
            (1, ["generate", "--zipf", 99], "--zipf"),
            (1, ["answer", "--payload", 9000], "--payload"),
            (1, ["run", "--over", "memory", "--html", "no/such/folder/x.html"], "does not exist"),
            (1, ["run", "--over", "memory", "--socket", "unix:///nowhere"], "--socket"),
            (2, ["run", "--rate", 0], "requests per second"),
            (2, ["run", "--rate", 10, "--window", 3], "cannot be used"),
            (2, ["run", "--poisson"], "--rate"),
            (2, ["run", "--payload", "9-3"], "smaller number first"),
            (2, ["run", "--seconds", "soon"], "number of seconds"),
            (2, ["run", "--over", "wire"], "memory"),
            (
                1,
                ["generate", "--xdp", "no-such-card", "--socket", "udp4://192.0.2.1:6363"],
                "no network interface no-such-card",
            ),
            (1, ["answer", "--xdp", "no-such-card"], "no network interface no-such-card"),
            (2, ["answer", "--xdp", "eth0", "--no-register"], "cannot be used"),
            (2, ["answer", "--port", 7000], "--xdp"),
        ]:
            with self.subTest(args):
                completed = self.nw("bench", *args, code=code)
                self.assertIn(expected, completed.stderr.decode())

    def test_results_are_printed_as_table(self):
        out = self.nw(
            "bench", "run", "--over", "memory", "--packets", 1000, "--rate", 5000
        ).stdout.decode()
        self.assertRegex(out, r"open loop, 5000 requests a second over memory")
        self.assertRegex(out, r"answered +1000 +\d+ a second, [\d.]+ Mbit/s")
        self.assertRegex(out, r"lost +0 +0\.000 %")
        self.assertRegex(out, r"µs +min +mean +50 % +90 % +99 % +99\.9 % +max\nlatency +[\d.]+")

    def test_report_is_self_contained(self):
        path = Path(self.folder) / "report.html"
        self.nw("bench", "run", "--over", "memory", "--packets", 5000, "--html", path)
        page = path.read_text()
        self.assertEqual(page.count("<svg"), 4)
        for label in (
            "latency (µs)",
            "time since the start (s)",
            "requests a second",
            "share of requests (%)",
        ):
            self.assertIn(label, page)
        self.assertEqual(
            set(re.findall(r"https?://[^\"< ]+", page)), {"http://www.w3.org/2000/svg"}
        )
        self.assertNotRegex(page, "<script|src=|href=|NaN|inf[^o]")


if __name__ == "__main__":
    unittest.main()
