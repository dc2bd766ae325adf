"""Two real routers with one short link between them, in network namespaces."""

import json
import os
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import bounds
from router import NW, end_process, json_lines, nw, skip

IS_ROOT = os.geteuid() == 0


def namespaces(lab):
    """Returns the namespaces of a testbed, such as nwlab1."""
    names = os.listdir("/run/netns") if os.path.isdir("/run/netns") else []
    return [name for name in names if name.startswith(f"{lab}-")]


class Chain:
    """`nw lab chain` with a producer."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [NW, "lab", "chain", "--serve", "/bulk", "--json", *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("nw lab chain did not come up")
        ready = json.loads(line)
        self.near, self.far, self.link = ready["near"], ready["far"], ready["link"]
        self.lab = self.near.split("/")[-2]

    def command(self, text):
        print(text, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()

    def refused(self, text):
        """Gives a command that is refused, and returns the sentence about it."""
        print(text, file=self.process.stdin, flush=True)
        return self.process.stderr.readline().strip()

    def close(self):
        self.process.stdin.close()
        end_process(self.process)
        self.process.stdout.close()
        self.process.stderr.close()


class ShortLink(unittest.TestCase):
    def setUp(self):
        if not IS_ROOT:
            skip("network namespaces need root")

    def chain(self, *arguments):
        chain = Chain(*arguments)
        self.addCleanup(self.end, chain)
        return chain

    def end(self, chain):
        chain.close()
        self.assertEqual(namespaces(chain.lab), [])
        self.assertFalse(os.path.exists(f"/run/nwlab/{chain.lab}/r1.sock"))

    def bulk(self, chain, files_per_s, size, *more):
        return subprocess.Popen(
            [NW, "bench", "bulk", "--socket", chain.near, "--prefix", "/bulk", "--seconds", "1",
             "--files-per-s", str(files_per_s), "--size", str(size), "--json", *more],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def result(self, process):
        output, _ = process.communicate(timeout=60)
        return process.returncode, json_lines(output)[0]

    def test_hundred_downloads_share_the_link(self):
        for transport in ("tcp", "udp"):
            with self.subTest(transport):
                chain = self.chain("--by", transport, "--rate", 50)
                status, result = self.result(self.bulk(chain, 100, 160_000, "--link-rate", "50"))
                summary = result["summary"]
                self.assertEqual((status, summary["complete"]), (0, 100), summary)
                for unit in ("goodput_share", "retransmitted_share"):
                    bounds.check(self, f"overload/bulk/*.{unit}", summary[unit])
                self.assertLess(summary["pending_max"], 1000, summary)

    def test_link_that_changes_and_goes_during_a_run(self):
        chain = self.chain("--by", "udp", "--rate", 100)
        process = self.bulk(chain, 10, 1_000_000)
        time.sleep(0.5)
        self.assertEqual(chain.command("rate 20"), "rate 20: done")
        time.sleep(0.5)
        self.assertEqual(chain.command("down"), "down: done")
        time.sleep(1)
        self.assertEqual(chain.command("up"), "up: done")
        self.assertEqual(chain.command("rate 100"), "rate 100: done")
        status, result = self.result(process)
        self.assertEqual((status, result["summary"]["complete"]), (0, 10), result["summary"])

    def test_link_that_goes_for_good_ends_the_run_with_a_sentence(self):
        chain = self.chain("--by", "udp", "--rate", 20)
        process = subprocess.Popen(
            [NW, "bench", "bulk", "--socket", chain.near, "--prefix", "/bulk", "--seconds", "1",
             "--files-per-s", "4", "--size", "800000", "--lifetime", "300", "--json"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.addCleanup(end_process, process)
        time.sleep(0.7)
        self.assertEqual(chain.command("down"), "down: done")
        output, errors = process.communicate(timeout=60)
        summary = json_lines(output)[0]["summary"]
        self.assertEqual(process.returncode, 1, errors)
        self.assertLess(summary["complete"], 4, summary)
        self.assertRegex(errors, "no file was complete|of 4 files were not complete")

    def test_router_that_ends_during_a_run_is_named(self):
        chain = self.chain("--by", "udp", "--rate", 20)
        process = subprocess.Popen(
            [NW, "bench", "bulk", "--socket", chain.near, "--prefix", "/bulk", "--seconds", "1",
             "--files-per-s", "2", "--size", "8000000", "--json"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.addCleanup(end_process, process)
        time.sleep(0.7)
        print("end", file=chain.process.stdin, flush=True)
        _, errors = process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("the downloads ended early", errors)

    def test_impossible_changes_of_a_link_are_refused_and_it_goes_on(self):
        chain = self.chain("--by", "udp", "--rate", 20)
        for command in ("rate 0", "rate -5", "rate nan", "rate inf", "rate 1e9"):
            with self.subTest(command):
                self.assertIn("give 0.1 to 100000 Mbit/s", chain.refused(command))
        self.assertIn("use rate MBIT, down, up or end", chain.refused("rate fast"))
        self.assertEqual(chain.command("rate 30"), "rate 30: done")
        status, result = self.result(self.bulk(chain, 1, 80_000))
        self.assertEqual((status, result["summary"]["complete"]), (0, 1), result["summary"])

    def test_greedy_consumer_leaves_a_download_its_share(self):
        chain = self.chain("--by", "udp", "--rate", 50)
        greedy = subprocess.Popen(
            [NW, "bench", "generate", "--socket", chain.near, "--prefix", "/bulk/greedy",
             "--window", "500", "--lifetime", "4000", "--seconds", "9", "--payload", "8000",
             "--pattern", "sequential", "--names", "5000000", "--json"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.addCleanup(end_process, greedy)
        time.sleep(2)
        _, result = self.result(self.bulk(chain, 1, 12_000_000))
        # Half of the link is 24 Mbit/s of content.
        # Without shaping it gets less than 1.
        fair_share = result["summary"]["goodput_mbit"] / 24
        bounds.check(self, "overload/others.fair_share", fair_share)


class Mistakes(unittest.TestCase):
    def test_impossible_links_are_refused_and_leave_nothing(self):
        for arguments, advice in (
            (("--rate", "0"), "give 0.1 to 100000 Mbit/s"),
            (("--rate", "nan"), "give 0.1 to 100000 Mbit/s"),
            (("--queue", "1"), "give 16384 to 1073741824 bytes"),
        ):
            with self.subTest(arguments):
                completed = nw("lab", "chain", *arguments)
                self.assertNotEqual(completed.returncode, 0)
                self.assertIn(advice, completed.stderr)

    def test_delay_without_netem_is_refused_and_leaves_nothing(self):
        if not IS_ROOT:
            skip("network namespaces need root")
        completed = nw("lab", "chain", "--delay", "5")
        if completed.returncode == 0:
            self.assertIn("5 ms", completed.stdout)
        else:
            self.assertIn("this kernel can't delay packets", completed.stderr)

    def test_lab_without_rights_says_so(self):
        if not IS_ROOT:
            completed = nw("lab", "chain")
        else:
            completed = nw("lab", "chain", user=65534, group=65534, extra_groups=[])
        self.assertNotEqual(completed.returncode, 0)
        self.assertIn("root", completed.stderr)
