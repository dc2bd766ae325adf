"""The manager is killed at boundaries of steps: at some, or at all with NW_NETWORK_BOUNDARIES=all.
Services run on without a manager."""

import itertools
import os
import re
import signal
import time
import unittest
from pathlib import Path

from network import NW, SCALED, NetworkTest

# Programs with debug assertions have it.
SWITCH = "NW_NETWORK_TEST_KILL_AT"


class Crash(NetworkTest):
    def test_services_carry_traffic_without_a_manager(self):
        self.producer()
        manager = self.up(self.file())
        consumer = self.consumer()
        consumer.wait_answered(100)
        manager.kill()
        manager.wait()
        consumer.wait_answered(1000)
        pids = self.service_processes()
        # A service that dies meanwhile comes back with the next manager.
        second = self.up("--name", "n")
        self.assertEqual(self.service_processes(), pids)
        consumer.wait_answered(100)
        self.check_lossless(consumer.finish())
        self.stop(second)

    def test_service_killed_while_no_manager_ran_comes_back_with_the_next(self):
        self.producer()
        manager = self.up(self.file())
        victim = self.pids()["br~1"]
        manager.kill()
        manager.wait()
        os.kill(victim, signal.SIGKILL)
        second = self.up("--name", "n")
        self.assertNotEqual(self.pids()["br~1"], victim)
        consumer = self.consumer()
        consumer.wait_answered(100)
        self.check_lossless(consumer.finish())
        self.stop(second)

    def boundaries(self, log):
        """Returns how many boundaries a manager has met: three for each step that was done."""
        return 3 * len(re.findall(r": done in \d+ ms", log))

    def need_switch(self):
        if SWITCH.encode() not in Path(NW).read_bytes():
            self.skipTest("a release has no switch to kill the manager at a boundary")

    def check_changes(self, attempts):
        """Kills managers that change the number of instances, each at a boundary, until a plan ends
        before it in each direction. Each next manager must reach the target."""
        self.need_switch()
        self.producer()
        manager = self.up(self.file(extra=SCALED), "--keep")
        graphs = {1: self.graphs()}
        self.nw("scale", "br", 2)
        self.wait_converged()
        graphs[2] = self.graphs()
        self.assertNotEqual(graphs[1], graphs[2])
        self.nw("scale", "br", 1)
        self.wait_converged()
        manager.send_signal(signal.SIGTERM)
        manager.wait(10)
        consumer = self.consumer()
        consumer.wait_answered(100)
        ended = set()
        for boundary, target in attempts:
            environment = {SWITCH: str(boundary)}
            victim = self.up("--name", "n", "--keep", environment=environment)
            # The manager may die before it answers: then the number is in the store already.
            self.nw_any("scale", "br", target)
            if self.is_killed(victim):
                self.assertEqual(victim.returncode, -signal.SIGKILL, self.log(victim))
                begun = time.monotonic()
                victim = self.up("--name", "n", "--keep")
                self.assertLess(time.monotonic() - begun, 10, self.log(victim))
            else:
                # It has met all of its boundaries.
                self.assertGreater(boundary, self.boundaries(self.log(victim)), self.log(victim))
                ended.add(target)
            self.assertEqual(self.graphs(), graphs[target], f"at {boundary}")
            consumer.wait_answered(20)
            victim.send_signal(signal.SIGTERM)
            victim.wait(10)
            if len(ended) == 2:
                break
        self.assertGreater(boundary, 15)
        self.check_lossless(consumer.finish())

    def check_start(self, boundaries):
        """Kills managers that start a network, each at a boundary, until a start ends before it."""
        self.need_switch()
        self.producer()
        path = self.file()
        for boundary in boundaries:
            victim = self.up(path, "--keep", environment={SWITCH: str(boundary)}, wait=False)
            if not self.is_killed(victim):
                self.assertGreater(boundary, self.boundaries(self.log(victim)), self.log(victim))
                self.assertEqual(len(self.service_processes()), 3)
                self.stop(victim)
                break
            self.assertEqual(victim.returncode, -signal.SIGKILL, self.log(victim))
            healed = self.up(path)
            self.assertEqual(len(self.service_processes()), 3)
            self.stop(healed)
            self.assertEqual(self.service_processes(), [])
        self.assertGreater(boundary, 10)

    if os.environ.get("NW_NETWORK_BOUNDARIES") == "all":

        def test_manager_killed_at_every_boundary_of_changes_heals(self):
            self.check_changes((n, target) for n in itertools.count(1) for target in (2, 1))

        def test_manager_killed_at_every_boundary_of_start_heals(self):
            self.check_start(itertools.count(1))

    else:

        def test_manager_killed_at_every_second_boundary_heals(self):
            # All boundaries of a step are met: the stride is not a multiple of three.
            self.check_changes((n, 2 - n // 2 % 2) for n in itertools.count(1, 2))

        def test_manager_killed_at_some_boundaries_of_start_heals(self):
            self.check_start((1, 2, 3, 5, 8, 11, 14))

    def is_killed(self, victim):
        """Waits until the manager is killed, or the network is as described."""

        def is_over():
            if victim.poll() is not None:
                return True
            graph = self.graph()
            return graph["state"] == "converged" and graph["plan"] is None

        self.until(is_over, "the manager is killed, or done", timeout=15)
        # The state may have been that before the kill.
        time.sleep(0.3)
        return victim.poll() is not None

    def nw_any(self, *args):
        """Runs a command whose result does not matter."""
        try:
            self.nw(*args, timeout=15)
        except AssertionError:
            pass


if __name__ == "__main__":
    unittest.main()
