"""Attacks on a router's state, by nw bench attack: what bystanders keep."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import bounds
from router import Router, json_lines, nw

# Bystanders that a router locks out keep nothing.
SCENARIOS = (
    "few-faces",
    "many-faces",
    "unanswered",
    "slow-producer",
    "collusion",
    "hijack",
    "spoofed-udp",
)


class Attack(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.router = Router()
        cls.addClassCleanup(cls.router.close)

    def attack(self, scenario, seconds=1, rate=1000):
        completed = nw(
            "bench", "attack", "--socket", self.router.uri, "--attack", self.router.udp,
            "--scenario", scenario, "--attackers", 4, "--rate", rate, "--seconds", seconds,
            "--bystander-rate", 200, "--pid", self.router.process.pid, "--json",
        )  # fmt: skip
        self.assertEqual(completed.returncode, 0, completed.stderr)
        return json_lines(completed.stdout)[0]

    def test_every_attack_leaves_bystanders_their_throughput(self):
        for scenario in SCENARIOS:
            with self.subTest(scenario):
                result = self.attack(scenario)
                bounds.check(self, "overload/attack/*.bystander_share", result["bystander_share"])
                self.assertGreater(result["attack"]["sent"], 0)
                self.assertGreater(result["state"]["memory_kib"], 0)

    def test_unanswered_interests_are_pending_and_end(self):
        result = self.attack("unanswered")
        self.assertGreater(result["state"]["pending"], 1000)

    def test_hijack_from_outside_registers_nothing(self):
        result = self.attack("hijack")
        self.assertEqual(result["attack"]["registered"], 0)
        self.assertGreater(result["attack"]["lost"], 0)

    def test_slow_producer_answers_at_last(self):
        result = self.attack("slow-producer", seconds=5, rate=50)
        self.assertGreater(result["attack"]["data"], 0)


class Mistakes(unittest.TestCase):
    def refused(self, *arguments):
        completed = nw("bench", "attack", "--socket", "unix:///nowhere/nw.sock", *arguments)
        self.assertNotEqual(completed.returncode, 0)
        return completed.stderr

    def test_impossible_numbers_are_refused_with_advice(self):
        text = self.refused("--scenario", "few-faces", "--attackers", "0")
        self.assertIn("give a number from 1 to 256", text)
        text = self.refused("--scenario", "few-faces", "--rate", "nan")
        self.assertIn("give a number from 1 to 10000000", text)

    def test_spoofed_udp_without_address_says_which(self):
        text = self.refused("--scenario", "spoofed-udp")
        self.assertIn("--attack udp4://127.0.0.1:6363", text)
