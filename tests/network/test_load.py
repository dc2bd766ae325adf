"""Load adds and removes instances by itself: which service, when, and what is carried meanwhile."""

import json
import os
import signal
import subprocess
import time
import unittest
from pathlib import Path

from network import NW, NetworkTest

# The chain of the other tests; producers register at the name router.
STORE = """
host here = process
face consumers listens unix://{folder}/c.sock
face producer listens unix://{folder}/p.sock
pd = packet_dispatcher
cs = content_store(mib = 32)
br = backward_router
nr = name_router(commands = ["localhost"])
consumers -> pd.packet
pd.interest -> cs.interest
cs.miss -> br.interest -> nr.interest -> faces
cs.hit -> faces
producer -> nr.data -> br.data -> cs.data -> faces
producer -> nr.nack -> br.nack -> faces
producer -> nr.interest
pd.data -> br.data
pd.nack -> br.nack
{extra}
"""
# Shares are of small quotas: a fraction of a busy machine is enough to reach them.
ONE_TO_ONE = """
service front {{ pd }}
service cs quota=20% {{ cs }}
scale cs 1..2 target=14% low=9% hold=600ms cool=2s by=name
"""
FULL_NEXT = """
service front {{ pd, cs }}
service br quota=20% {{ br }}
service nr quota=2% {{ nr }}
scale br 1..3 target=8% low=0% hold=3s cool=1s
"""
COOLING = """
service front {{ pd, cs }}
service br quota=20% {{ br }}
scale br 1..4 target=20% low=0% hold=300ms cool=300s
"""
EXTRA = "service extra { nr }\n"
PATIENCE_S = 90
PERIOD = ("--period-ms", "700")


class Load(NetworkTest):
    def start(self, extra):
        text = STORE.replace("{extra}", extra)
        manager = self.up(self.file(text=text), *PERIOD)
        self.bench("answer", "p.sock", "--freshness", 3_600_000, "--payload", 100)
        self.until(self.is_registered, "the producer registers its prefix")
        return manager

    def is_registered(self):
        routes = self.rest("GET", "/v1/routes")[1]
        return any(route["prefix"] == "/bench" for route in routes)

    def bench(self, verb, socket, *args):
        """Starts `nw bench`, which prints one JSON object at its end."""
        process = subprocess.Popen(
            [NW, "bench", verb, "--json", "--socket", f"unix://{self.folder}/{socket}"]
            + [str(argument) for argument in args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

        def finish():
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()

        self.addCleanup(finish)
        return process

    def load(self, *args):
        """Starts a load with 32 Interests under way, until it is ended."""
        fixed = ("--window", 32, "--payload", 100, "--lifetime", 8000)
        # Names that all come again: the stores answer them.
        known = ("--pattern", "sequential", "--names", 200, "--seconds", PATIENCE_S)
        return self.bench("generate", "c.sock", *fixed, *(args or known))

    def counts(self, process, interrupt=True):
        """Ends a load and returns what it counted, which must be without loss."""
        if interrupt:
            process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=PATIENCE_S)
        counts = json.loads(output)
        keys = ("asked", "answered", "lost", "unexpected", "refused", "unanswered")
        counts = {key: counts[key] for key in keys}
        bad = (counts["lost"], counts["unexpected"], counts["refused"])
        self.assertEqual(bad, (0, 0, {}), f"{counts}\n{self.diagnosis()}")
        self.assertGreater(counts["answered"], 100)
        return counts

    def service(self, name):
        return next(s for s in self.graph()["services"] if s["name"] == name)

    def carrying(self, service):
        instances = [i for i in self.graph()["instances"] if i["service"] == service]
        return sum(i["rates"]["interests"] > 0 for i in instances)

    def elements(self, kind):
        """Returns values of all elements of a kind, summed, from the services' own sockets."""
        sums = {}
        for path in sorted((self.home / "i").glob("*/control.sock")):
            for element in self.rest("GET", "/v1/elements", control=path)[1]:
                if element["element"] == kind:
                    for key, value in element["values"].items():
                        sums[key] = sums.get(key, 0) + value
        return sums

    def scaled(self):
        """Returns the times and texts of decisions."""
        lines = self.nw("events", "--past", "--json", "--name", "n").stdout.splitlines()
        events = [json.loads(line) for line in lines]
        return [(e["at_ms"], e["text"]) for e in events if e["kind"] == "scaled"]

    def misses(self, names, *args):
        """Asks for some names in their order; returns how many the stores had not."""
        before = self.elements("content_store")["misses"]
        load = self.load("--pattern", "sequential", "--names", names, "--seed", 7, *args)
        self.counts(load, interrupt=False)
        return self.elements("content_store")["misses"] - before

    def test_load_clones_a_store_by_name_and_its_end_removes_the_clone_with_its_packets(self):
        manager = self.start(ONE_TO_ONE)
        before = self.graphs()
        load = self.load()
        self.until(
            lambda: self.carrying("cs") == 2,
            "a clone carries traffic",
            timeout=PATIENCE_S,
        )
        # While both run, each name has one store: a name that comes again is found there.
        self.assertEqual(self.misses(500, "--packets", 1500), 500)
        self.counts(load)
        self.until(lambda: self.service("cs")["running"] == 1, "the clone goes", PATIENCE_S)
        self.wait_converged()
        (up_ms, up), (down_ms, down) = self.scaled()
        self.assertRegex(
            up, r"^cs: 2 instances instead of 1: load \d+ % of 1 instances, above 14 %"
        )
        self.assertRegex(down, r"^cs: 1 instances instead of 2: .* would have \d+ %, below 9 %")
        self.assertGreaterEqual(down_ms - up_ms, 2000, "the cool-down was kept")
        self.assertIn("packets handed over", self.log(manager))
        # What the clone had is found in the store that stays.
        self.assertEqual(self.misses(500, "--packets", 500), 0)
        self.assertEqual(self.graphs(), before, "the end state is the first one")
        self.assertEqual(len(self.service_processes()), 4)
        self.stop(manager)

    def test_service_before_a_full_one_is_not_scaled_and_the_reason_is_shown(self):
        manager = self.start(FULL_NEXT)
        # New names: all pass the backward router and the name router.
        load = self.load("--names", 1, "--hit-ratio", 0, "--seconds", PATIENCE_S)
        self.until(
            lambda: ", but nr has " in self.service("br")["reason"],
            "the reason is shown",
            timeout=PATIENCE_S,
        )
        shown = self.nw("show", "--name", "n").stdout
        self.assertRegex(shown, r"br +1 of 1 +1\.\.3 +load \d+ % of 1 instances, but nr has")
        self.assertIn("another instance could carry at most", shown)
        # Many further samples change nothing.
        time.sleep(4)
        self.assertIsNone(load.poll(), "the load goes on")
        self.counts(load)
        self.assertEqual(self.scaled(), [])
        self.assertEqual(self.service("br")["running"], 1)
        self.stop(manager)

    def test_load_that_stays_high_waits_for_the_cool_down(self):
        manager = self.start(COOLING)
        load = self.load("--names", 1, "--hit-ratio", 0, "--seconds", PATIENCE_S)
        self.until(
            lambda: "waits after the last change (cool)" in self.service("br")["reason"],
            "the cool-down is shown",
            timeout=PATIENCE_S,
        )
        self.wait_converged()
        self.assertEqual(len(self.scaled()), 1)
        self.assertIn(self.service("br")["running"], (2, 3, 4))
        self.counts(load)
        self.stop(manager)

    def limit(self, pid):
        """Returns the limit of a process by its control group, as a share of a core."""
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if "cpu" in controllers.split(","):
                group = Path("/sys/fs/cgroup/cpu") / path.lstrip("/")
                quota = int((group / "cpu.cfs_quota_us").read_text())
                return quota / int((group / "cpu.cfs_period_us").read_text())
            if not controllers and (Path("/sys/fs/cgroup") / path[1:] / "cpu.max").exists():
                text = (Path("/sys/fs/cgroup") / path[1:] / "cpu.max").read_text().split()
                return None if text[0] == "max" else int(text[0]) / int(text[1])
        return None

    def test_quota_is_in_effect_or_its_lack_is_a_condition_and_follows_the_document(self):
        self.producer()
        quota = "service br quota={quota}% {{ br }}\n"
        path = self.file(extra=quota.format(quota=40))
        manager = self.up(path)
        pid = self.pids()["br~1"]

        def conditions():
            return [c["subject"] for c in self.graph()["conditions"] if "Quota" in c["kind"]]

        if self.limit(pid) is None:
            # No rights, or no control groups: it says so.
            self.until(lambda: conditions() == ["instance br~1 on here"], "it says so")
            self.assertIn("the quota is not in effect", self.nw("show", "--name", "n").stdout)
        else:
            self.assertEqual(self.limit(pid), 0.4)
            self.assertEqual(conditions(), [])
            self.file(extra=quota.format(quota=25))
            self.nw("apply", path, "--name", "n")
            self.until(lambda: self.limit(pid) == 0.25, "the new quota is in effect")
            self.assertEqual(self.pids()["br~1"], pid)
        self.stop(manager)


class Orphans(NetworkTest):
    def orphaned(self, *args):
        """Starts a network, kills its manager, loses its store, and starts another one with a
        document that lacks a service. Returns the manager and the pids before."""
        self.producer()
        first = self.up(self.file(extra=EXTRA))
        pids = self.pids()
        first.kill()
        first.wait()
        for path in self.home.glob("manager.db*"):
            os.unlink(path)
        second = self.up(self.file(), *args, wait=False)
        self.until(
            lambda: self.rest("GET", "/v1/network")[1]["state"] == "converged", "it converges"
        )
        return second, pids

    def orphans(self):
        return [i["name"] for i in self.graph()["instances"] if i["origin"] == "orphan"]

    def test_orphan_is_listed_and_removed_after_the_grace_and_the_others_are_adopted(self):
        manager, before = self.orphaned("--orphan-grace-s", "3")
        self.assertEqual(self.orphans(), ["extra~1"])
        shown = self.nw("show", "--name", "n").stdout
        self.assertIn("instance extra~1 on here: Orphan: no version of the document", shown)
        os.kill(before["extra~1"], 0)
        self.until(lambda: self.orphans() == [], "it is removed after the grace")
        self.wait_converged()
        after = self.pids()
        self.assertEqual(sorted(after), ["br~1", "front~1", "nr~1"])
        for name in ("br~1", "front~1"):
            self.assertEqual(after[name], before[name], "it runs on")
        self.assertEqual(self.graph()["conditions"], [])
        consumer = self.consumer()
        consumer.wait_answered(100)
        self.check_lossless(consumer.finish())
        self.stop(manager)

    def test_orphan_that_a_document_names_again_is_adopted(self):
        manager, before = self.orphaned("--orphan-grace-s", "600")
        self.assertEqual(self.orphans(), ["extra~1"])
        path = self.file("again.graph", extra=EXTRA)
        self.nw("apply", path, "--name", "n")
        self.wait_converged(version=2)
        self.assertEqual(self.pids()["extra~1"], before["extra~1"], "it was not restarted")
        self.assertEqual((self.orphans(), self.graph()["conditions"]), ([], []))
        consumer = self.consumer()
        consumer.wait_answered(100)
        self.check_lossless(consumer.finish())
        self.stop(manager)

    def test_network_that_is_stopped_leaves_no_orphan(self):
        manager, _ = self.orphaned("--orphan-grace-s", "600")
        self.stop(manager)
        self.assertEqual(self.service_processes(), [])


if __name__ == "__main__":
    unittest.main()
