"""nw sim as a user runs it: valid and wrong scenarios, reproducible results, output files,
failures."""

import csv
import json
import re
import shlex
import tempfile
import unittest
from pathlib import Path

from command_line import CommandLine


class Sim(CommandLine):
    def setUp(self):
        super().setUp()
        self.place = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def sim(self, *args, code=0):
        completed = self.nw("sim", *args, code=code)
        return completed.stdout.decode(), completed.stderr.decode()

    def run_json(self, *args):
        return json.loads(self.sim("run", "--json", *args)[0])

    def test_example_scenario_writes_tables(self):
        net = self.place / "net.toml"
        net.write_text(self.sim("example")[0])
        shown, _ = self.sim("run", net, "--out", self.place / "out")
        self.assertIn("as expected: satisfied >= 0.9", shown)
        with open(self.place / "out/links.csv", newline="") as file:
            links = list(csv.DictReader(file))
        self.assertEqual(len(links), 28)
        for link in links:
            parts = sum(
                int(link[key])
                for key in ("delivered", "dropped_queue", "lost", "dropped_down", "in_flight")
            )
            self.assertEqual(int(link["packets"]), parts, link)
        page = (self.place / "out/report.html").read_text()
        self.assertEqual(page.count("<svg"), 6)
        self.assertNotIn("<script", page)

    def test_times_of_equal_links_are_exact(self):
        net = self.place / "two.toml"
        net.write_text(
            '[topology]\ngenerate = "line:2"\n[[producer]]\nprefix = "/d"\nat = ["n1"]\n'
            '[[consumer]]\nkind = "ping"\nat = ["n0"]\nprefix = "/d"\nrate_per_s = 20\n'
        )
        rows = [
            row
            for row in self.run_json(net, "--duration", 2)["applications"]
            if row["kind"] != "producer"
        ]
        for row in rows:
            self.assertLessEqual(row["rtt_p50_ms"], row["rtt_p99_ms"])
            self.assertLessEqual(row["rtt_p99_ms"], row["rtt_max_ms"])
            self.assertAlmostEqual(
                row["rtt_max_ms"], row["rtt_mean_ms"], delta=row["rtt_max_ms"] / 1000
            )

    def test_same_seed_gives_same_result(self):
        args = ["--topology", "random:20:3", "--duration", 1]
        first, same_seed, other_seed = (
            self.sim("run", "--json", *args, "--seed", seed)[0] for seed in (7, 7, 8)
        )
        self.assertEqual(first, same_seed)
        self.assertNotEqual(first, other_seed)

    def test_many_runs_are_summarised(self):
        shown, _ = self.sim(
            "run", "--topology", "ring:5", "--duration", 1, "--runs", 3, "--seed", 5
        )
        self.assertEqual(
            [line.split()[0] for line in shown.splitlines()], ["seed", "5", "6", "7", "mean"]
        )
        alone = self.run_json("--topology", "ring:5", "--duration", 1, "--seed", 6)
        self.assertIn(f"6     {alone['totals']['sent']} ", shown)

    def test_failing_run_prints_how_to_repeat_it(self):
        args = [
            "--topology",
            "line:3",
            "--duration",
            1,
            "--expect",
            "rtt_p99_ms < 1",
            "--at",
            "0.5s node n1 restart",
        ]
        _, errors = self.sim("run", *args, code=1)
        command = re.search(r"repeat it with: nw sim (.*)", errors)[1]
        self.assertEqual(errors, self.sim(*shlex.split(command), code=1)[1])

    def test_wrong_scenario_lists_all_mistakes(self):
        net = self.place / "net.toml"
        net.write_text(
            '[links]\nloss = 2\n[topology]\ngenerate = "grid:3"\n[[consumer]]\nkind = "zip"\n'
        )
        _, errors = self.sim("run", net, code=1)
        for place in (
            ":2: links.loss",
            ":4: topology.generate",
            ":6: consumer[0].kind",
            "consumer[0].prefix",
        ):
            self.assertIn(place, errors)

    def test_topology_formats_are_read(self):
        self.assertIn("grid:WxH", self.sim("topology")[0])
        self.assertEqual(self.sim("topology", "nsfnet")[0].count("[[link]]"), 21)
        self.assertEqual(self.sim("topology", "abilene", "--as", "dot")[0].count(" -- "), 14)
        links = self.place / "links"
        links.write_text("a b 1\nb c\n")
        self.assertIn("<svg", self.sim("topology", links, "--as", "svg")[0])

    def test_measures_and_topologies_are_listed(self):
        self.assertIn("[[consumer]]", self.sim("options")[0])
        self.assertIn("cs_hit_ratio", self.sim("measures")[0])


if __name__ == "__main__":
    unittest.main()
