"""The manager is killed at every boundary of a step; services run on without a manager."""

import os
import re
import signal
import time
import unittest

from network import SCALED, NetworkTest


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
        """Returns how many boundaries a plan had: three for each step that was done."""
        return 3 * len(re.findall(r": done in \d+ ms", log))

    def test_manager_killed_at_every_boundary_of_a_change_ends_in_the_target(self):
        self.producer()
        path = self.file(extra=SCALED)
        # How many boundaries a scale-up has, and what its end looks like.
        manager = self.up(path, "--keep")
        started = self.boundaries(self.log(manager))
        one = self.graphs()
        self.nw("scale", "br", 2)
        self.wait_converged()
        boundaries = self.boundaries(self.log(manager)) - started
        two = self.graphs()
        self.assertNotEqual(one, two)
        self.nw("scale", "br", 1)
        self.wait_converged()
        manager.send_signal(signal.SIGTERM)
        manager.wait(10)
        self.assertGreater(boundaries, 15)
        consumer = self.consumer()
        consumer.wait_answered(100)
        # All boundaries of a step are met: the stride is not a multiple of three.
        tried = range(1, boundaries + 1, 2)
        for count, boundary in enumerate(tried):
            target = 2 if count % 2 == 0 else 1
            environment = {"NW_NETWORK_TEST_KILL_AT": str(boundary)}
            victim = self.up("--name", "n", "--keep", environment=environment)
            # The manager may die before it answers: then the number is in the store already.
            self.nw_any("scale", "br", target)
            if not self.is_killed(victim):
                # A plan has some steps more or less than another one, as states differ.
                self.assertGreater(boundary, 2 * boundaries // 3, self.log(victim))
                victim.send_signal(signal.SIGTERM)
                victim.wait(10)
                break
            self.assertEqual(victim.returncode, -signal.SIGKILL, self.log(victim))
            begun = time.monotonic()
            healed = self.up("--name", "n", "--keep")
            self.assertLess(time.monotonic() - begun, 10, self.log(healed))
            self.assertEqual(self.graphs(), two if target == 2 else one, f"at {boundary}")
            consumer.wait_answered(20)
            healed.send_signal(signal.SIGTERM)
            healed.wait(10)
        self.check_lossless(consumer.finish())

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

    def test_manager_killed_at_every_third_boundary_of_the_start_ends_in_the_target(self):
        self.producer()
        path = self.file()
        for boundary in (1, 2, 3, 5, 8, 11, 14):
            environment = {"NW_NETWORK_TEST_KILL_AT": str(boundary)}
            victim = self.up(path, "--keep", environment=environment, wait=False)
            self.until(lambda v=victim: v.poll() is not None, "the manager is killed", timeout=15)
            self.assertEqual(victim.returncode, -signal.SIGKILL, self.log(victim))
            healed = self.up(path)
            self.assertEqual(len(self.service_processes()), 3)
            self.stop(healed)
            self.assertEqual(self.service_processes(), [])


if __name__ == "__main__":
    unittest.main()
