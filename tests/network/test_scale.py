"""Instances are added and removed under load, by command and by load."""

import os
import signal
import unittest

from network import SCALED, NetworkTest


class Scale(NetworkTest):
    def test_clones_added_and_removed_by_command_under_load_lose_and_double_nothing(self):
        self.producer()
        manager = self.up(self.file(extra=SCALED))
        before = self.graphs()
        consumer = self.consumer()
        consumer.wait_answered(200)
        for count in (2, 3, 2, 1):
            output = self.nw("scale", "br", count).stdout
            self.wait_converged()
            consumer.wait_answered(300)
            running = [name for name in self.instances() if name.startswith("br~")]
            self.assertEqual(len(running), count, output)
            if count > 1:
                self.until(
                    lambda: all(
                        i["rates"]["interests"] > 0
                        for i in self.graph()["instances"]
                        if i["service"] == "br"
                    ),
                    "every clone carries traffic",
                )
        self.check_lossless(consumer.finish())
        self.assertEqual(self.graphs(), before, "the end state is the first one")
        self.assertEqual(len(self.service_processes()), 3)
        self.stop(manager)

    def test_store_scaled_down_hands_its_packets_over(self):
        producer = self.producer()
        extra = "scale cs 1..2 target=99% low=0% hold=60s cool=60s"
        path = self.file(extra=extra)
        # The store is a service of its own, or it would not be scaled.
        path.write_text(path.read_text().replace("service front { pd, cs }\n", ""))
        manager = self.up(path)
        self.nw("scale", "cs", 2)
        self.wait_converged()
        consumer = self.consumer()
        consumer.wait_answered(300)
        names = consumer.finish()["answered"]
        self.nw("scale", "cs", 1)
        self.wait_converged()
        asked = producer.answered
        again = self.consumer()
        again.prefix = consumer.prefix
        again.wait_answered(min(names, 200))
        # The consumer asks for the same names from 0 on: stores have them, the producer is spared.
        self.assertLess(producer.answered - asked, 100, "the packets were handed over")
        again.finish()
        self.stop(manager)

    def test_number_set_by_a_person_survives_and_is_released(self):
        self.producer()
        manager = self.up(self.file(extra=SCALED), "--keep")
        self.nw("scale", "br", 2)
        self.wait_converged()
        manager.send_signal(signal.SIGTERM)
        manager.wait(10)
        second = self.up("--name", "n")
        self.assertEqual(self.json("scale", "br")["running"], 2)
        self.assertTrue(self.json("scale", "br")["pinned"])
        self.nw("scale", "br", "auto")
        self.assertFalse(self.json("scale", "br")["pinned"])
        refused = self.nw("scale", "br", 9, code=6).stderr
        self.assertIn("br may have 1 to 3 instances, not 9", refused)
        refused = self.nw("scale", "nr", 2, code=6).stderr
        self.assertIn("add a line such as `scale nr 1..4`", refused)
        refused = self.nw("scale", "none", 2, code=3).stderr
        self.assertIn("the document has no service none; it has front, br, nr", refused)
        self.assertIn("give a number of at least 1", self.nw("scale", "br", "x", code=2).stderr)
        self.stop(second)

    def test_clone_killed_under_load_comes_back(self):
        self.producer()
        manager = self.up(self.file(extra=SCALED))
        self.nw("scale", "br", 2)
        self.wait_converged()
        before = self.pids()
        os.kill(before["br~2"], signal.SIGKILL)
        self.until(lambda: self.pids()["br~2"] not in (None, before["br~2"]), "it runs again")
        self.wait_converged()
        consumer = self.consumer()
        consumer.wait_answered(200)
        self.check_lossless(consumer.finish())
        self.stop(manager)


if __name__ == "__main__":
    unittest.main()
