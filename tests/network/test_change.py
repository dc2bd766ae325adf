"""Documents are changed while packets flow."""

import unittest

from network import SCALED, NetworkTest



class Change(NetworkTest):
    def with_counter(self, name="with.graph", order=""):
        """The chain with a counter in a process of its own."""
        path = self.file(name)
        text = path.read_text()
        text = text.replace("cs.miss -> br.interest", "cs.miss -> seen -> br.interest")
        path.write_text(text.replace("route /", f"seen = counter\n{order}\nroute /"))
        return path

    def test_service_put_in_between_and_taken_out_under_load_loses_nothing(self):
        self.producer()
        plain, with_counter = self.file(), self.with_counter()
        manager = self.up(plain)
        before = self.graphs()
        consumer = self.consumer()
        consumer.wait_answered(200)
        plan = self.json("plan", with_counter)
        self.assertTrue(any(s["instance"] == "seen~1" for s in plan["steps"]), plan)
        self.assertEqual(self.instances(), ["br~1", "front~1", "nr~1"], "a plan changes nothing")
        output = self.nw("apply", with_counter, "--plan", plan["id"]).stdout
        self.assertIn("start seen~1 on here: done", output)
        self.wait_converged(version=2)
        consumer.wait_answered(200)
        status, detail = self.rest("GET", "/v1/instances/seen~1")
        self.assertEqual(status, 200)
        self.assertGreater(detail["instance"]["uptime_s"], 0)
        self.until(
            lambda: any(
                i["name"] == "seen~1" and i["rates"]["interests"] > 0
                for i in self.graph()["instances"]
            ),
            "Interests pass the new service",
        )
        self.nw("apply", plain)
        self.wait_converged(version=3)
        consumer.wait_answered(200)
        self.check_lossless(consumer.finish())
        self.assertEqual(self.graphs(), before, "the end state is the first one")
        self.stop(manager)

    def test_element_put_into_running_service_under_load_starts_no_process(self):
        self.producer()
        plain = self.file()
        manager = self.up(plain)
        pids = self.pids()
        consumer = self.consumer()
        consumer.wait_answered(200)
        path = self.file("inside.graph")
        text = path.read_text().replace("cs.miss -> br.interest", "cs.miss -> seen -> br.interest")
        text = text.replace("service front { pd, cs }", "seen = counter\nservice front { pd, cs, seen }")
        path.write_text(text)
        self.nw("apply", path)
        self.wait_converged(version=2)
        consumer.wait_answered(200)
        self.check_lossless(consumer.finish())
        self.assertEqual(self.pids(), pids)
        self.assertIn("seen = counter", self.graphs()["front~1@here"])
        self.stop(manager)

    def test_orders_buffer_and_drop_end_in_the_target(self):
        self.producer()
        plain = self.file()
        manager = self.up(plain)
        for number, order in enumerate(("buffer", "drop")):
            consumer = self.consumer()
            consumer.wait_answered(200)
            self.nw("apply", self.with_counter(f"{order}.graph", f"insert {order}"))
            self.wait_converged(version=2 + 2 * number)
            consumer.wait_answered(200)
            self.nw("apply", plain)
            self.wait_converged(version=3 + 2 * number)
            consumer.wait_answered(100)
            counts = consumer.finish()
            self.assertEqual(counts["duplicates"], 0, counts)
            if order == "buffer":
                self.check_lossless(counts)
            else:
                # What was under way may be lost: at most the window, at each of two changes.
                self.assertLessEqual(counts["lost"] + counts["nacks"], 2 * 16, counts)
        self.stop(manager)

    def test_versions_are_listed_compared_and_returned_to(self):
        self.producer()
        plain, with_counter = self.file(), self.with_counter()
        manager = self.up(plain)
        self.nw("apply", with_counter, "--reason", "count Interests")
        self.wait_converged(version=2)
        versions = [line.split() for line in self.nw("history").stdout.splitlines()]
        self.assertEqual([row[0] for row in versions], ["version", "2", "1"])
        self.assertIn("count Interests", self.nw("history").stdout)
        self.assertEqual(self.nw("history", "--text", "1").stdout, plain.read_text())
        difference = self.nw("diff", code=1).stdout
        self.assertIn("+ seen = counter", difference)
        self.assertEqual(self.nw("diff", with_counter).stdout, "")
        self.assertIn("- seen = counter", self.nw("diff", plain, code=1).stdout)
        self.assertIn("version 3 is in effect", self.nw("undo").stdout)
        self.wait_converged(version=3)
        self.assertEqual(self.instances(), ["br~1", "front~1", "nr~1"])
        self.nw("undo", "2")
        self.wait_converged(version=4)
        self.assertEqual(self.instances(), ["br~1", "front~1", "nr~1", "seen~1"])
        self.assertIn("there is no version 9", self.nw("undo", "9", code=3).stderr)
        audit = self.nw("history", "--audit").stdout
        self.assertIn("document version 4", audit)
        self.assertIn("there is no version 9", audit)
        self.stop(manager)

    def test_plan_and_version_that_are_no_longer_valid_are_refused(self):
        self.producer()
        plain, with_counter = self.file(extra=SCALED), self.with_counter()
        manager = self.up(plain)
        plan = self.json("plan", with_counter)
        self.nw("scale", "br", "2")
        self.wait_converged()
        refused = self.nw("apply", with_counter, "--plan", plan["id"], code=6).stderr
        self.assertIn("the network has changed since plan", refused)
        refused = self.nw("apply", with_counter, "--version", "7", code=6).stderr
        self.assertIn("version 1 is in effect, not 7", refused)
        self.assertEqual(self.graph()["version"], 1)
        self.stop(manager)

    def test_changes_that_are_held_wait_until_they_go_on(self):
        self.producer()
        plain, with_counter = self.file(), self.with_counter()
        manager = self.up(plain)
        self.nw("hold")
        completed = self.nw("apply", with_counter, code=1)
        self.assertIn("the network is held", completed.stderr)
        self.assertEqual(self.instances(), ["br~1", "front~1", "nr~1", "seen~1"])
        self.assertIsNone(self.pids()["seen~1"], "wanted, but not started")
        self.nw("resume")
        self.wait_converged(version=2)
        self.assertIsNotNone(self.pids()["seen~1"])
        self.stop(manager)

    def test_graph_changed_behind_the_back_of_the_manager_is_put_right(self):
        self.producer()
        manager = self.up(self.file())
        before = self.graphs()
        control = self.home / "i/front~1@here/control.sock"
        text = before["front~1@here"].replace("16", "8")
        status, _ = self.rest("PUT", "/v1/graph", {"graph": text}, control=control)
        self.assertEqual(status, 200)
        self.until(lambda: self.graphs() == before, "the graph is as wanted again")
        self.stop(manager)


if __name__ == "__main__":
    unittest.main()
