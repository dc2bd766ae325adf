"""A network is started, heals, is left and found again, and is stopped."""

import json
import os
import signal
import time
import unittest

from network import SCALED, NetworkTest


class Up(NetworkTest):
    def test_network_from_nothing_answers_and_stops_without_a_rest(self):
        self.producer()
        begun = time.monotonic()
        manager = self.up(self.file())
        consumer = self.consumer()
        consumer.wait_answered(1)
        seconds = time.monotonic() - begun
        consumer.wait_answered(500)
        self.check_lossless(consumer.finish())
        # A debug build on a busy machine; the release build takes a fraction.
        self.assertLess(seconds, 10, "from nothing to the first packet")
        self.assertEqual(self.instances(), ["br~1", "front~1", "nr~1"])
        graph = self.graph()
        self.assertTrue(all(link["up"] for link in graph["links"]), graph["links"])
        self.assertEqual(len(graph["links"]), 2)
        self.assertEqual(len(self.service_processes()), 3)
        self.stop(manager)
        log = self.log(manager)
        self.assertRegex(log, r"start front~1 on here: done in \d+ ms")
        self.assertRegex(log, r"drain br~1 on here: done in \d+ ms")
        self.assertEqual(self.service_processes(), [])
        self.assertEqual(list((self.home / "i").iterdir()), [])
        self.assertFalse(self.control.exists())

    def test_file_without_network_lines_runs_as_one_service(self):
        self.producer()
        text = (
            "face c listens unix://{folder}/c.sock\nface up = unix://{folder}/p.sock\n"
            'fib = router(routes = ["/ up"])\ndiscard = sink\nsorter = packet_dispatcher\n'
            "faces -> sorter.packet\nsorter.interest -> fib.interest -> faces\n"
            "sorter.data -> fib.data -> faces\nsorter.nack -> fib.nack -> faces\n"
            "fib.route_event -> discard\n"
        )
        manager = self.up(self.file(text=text))
        consumer = self.consumer()
        consumer.wait_answered(200)
        self.check_lossless(consumer.finish())
        self.assertEqual(len(self.service_processes()), 1)
        self.stop(manager)

    def test_service_killed_comes_back_and_answers(self):
        self.producer()
        manager = self.up(self.file())
        for name in ("br~1", "nr~1", "front~1"):
            before = self.pids()
            os.kill(before[name], signal.SIGKILL)
            self.until(
                lambda name=name, before=before: self.pids()[name] not in (None, before[name]),
                f"{name} runs again",
            )
            self.wait_converged()
            after = self.pids()
            self.assertEqual(
                {n: p for n, p in after.items() if n != name},
                {n: p for n, p in before.items() if n != name},
                "other services were not touched",
            )
            consumer = self.consumer()
            consumer.wait_answered(50)
            consumer.finish()
            text = f"{name} on here has ended by itself"
            self.until(lambda text=text: text in self.log(manager), "its end is reported")
        self.stop(manager)

    def test_service_that_always_ends_is_started_less_and_less_often(self):
        # A face that can't be opened: the service ends right after its start.
        taken = self.folder / "c.sock"
        taken.write_text("not a socket")
        manager = self.up(self.file(), wait=False)
        self.until(lambda: self.graph()["state"] == "retrying", "it is noticed")
        self.until(lambda: self.graph()["conditions"], "a condition is shown")
        time.sleep(3)
        reasons = json.dumps(self.graph()["conditions"])
        self.assertRegex(reasons, "c.sock|has ended")
        starts = self.log(manager).count("start front~1 on here: done")
        self.assertLess(starts, 6, self.log(manager))
        # The cause is removed: the network comes up by itself.
        taken.unlink()
        self.producer()
        self.wait_converged()
        self.assertEqual(self.graph()["conditions"], [])
        consumer = self.consumer()
        consumer.wait_answered(50)
        consumer.finish()
        self.stop(manager)

    def test_services_left_by_keep_are_adopted_by_next_up(self):
        self.producer()
        first = self.up(self.file(), "--keep")
        pids = self.pids()
        consumer = self.consumer()
        consumer.wait_answered(50)
        first.send_signal(signal.SIGTERM)
        self.assertEqual(first.wait(10), 0, self.log(first))
        consumer.wait_answered(500)
        # Without a file: the document of the store.
        second = self.up("--name", "n")
        self.assertEqual(self.pids(), pids)
        self.until(lambda: "3 instances found" in self.log(second), "they are reported")
        self.assertNotIn(": done in", self.log(second), "nothing was to be done")
        consumer.wait_answered(50)
        self.check_lossless(consumer.finish())
        self.stop(second)
        self.assertEqual(self.service_processes(), [])

    def test_detached_manager_returns_when_converged_and_down_ends_all(self):
        self.producer()
        completed = self.nw("up", self.file(extra=SCALED), "--detach")
        self.assertIn("the manager runs as process", completed.stderr)
        consumer = self.consumer()
        consumer.wait_answered(50)
        consumer.finish()
        self.assertEqual(self.graph()["state"], "converged")
        # Twice: the second one says who manages it.
        again = self.nw("up", self.file(), "--detach", code=1)
        self.assertRegex(again.stderr, r"is managed by process \d+ already")
        self.nw("down", "--keep")
        self.assertEqual(len(self.service_processes()), 3)
        self.nw("up", "--name", "n", "--detach")
        output = self.nw("down").stdout
        self.assertIn("the manager ends", output)
        self.assertEqual(self.service_processes(), [])
        self.assertIn("no network is managed", self.nw("show", code=4).stderr)


if __name__ == "__main__":
    unittest.main()
