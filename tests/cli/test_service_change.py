"""Changes of a service across processes, under load: an element is put into a chain and taken out
again, and what is lost is counted at the consumer."""

import json
import subprocess
import time
import unittest
from pathlib import Path

from command_line import NW, TIMEOUT_S
from test_service import Services

WINDOW = 64
GRAPH = """face near listens unix://{near}
face next = unix://{next} default
nr = name_router(routes = ["/ next"])
faces -> nr.interest
faces -> nr.data
faces -> nr.nack
nr.interest -> faces
nr.data -> faces
nr.nack -> faces
"""


class InsertUnderLoad(Services):
    """near ─▶ first ─▶ router with a producer, or near ─▶ first ─▶ middle ─▶ router."""

    def setUp(self):
        super().setUp()
        self.producer_router = self.router("producer")
        answer = self.start(self.producer_router, "bench", "answer", "--json")
        self.assertTrue(answer.stdout.readline())
        self.middle = Path(self.folder) / "middle.sock"
        self.write("first", self.near, self.producer_router.socket)
        self.write("middle", self.middle, self.producer_router.socket)
        for name in ("middle", "first"):
            self.service(name, "--graph", self.path(name))

    def path(self, name):
        return Path(self.folder) / f"{name}.graph"

    def write(self, name, near, next_socket):
        self.path(name).write_text(GRAPH.format(near=near, next=next_socket))

    def switch(self, next_socket, order):
        """Leads the face `next` of the first service elsewhere; its name stays."""
        self.write("first", self.near, next_socket)
        self.nw("service", "graph", "first", "--set", self.path("first"), "--order", order)

    def load(self):
        return subprocess.Popen(
            [NW, "bench", "generate", "-s", f"unix://{self.near}", "--window", str(WINDOW)]
            + ["--seconds", "3", "--lifetime", "2000", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def lost_in_changes(self, order):
        """Puts the middle service in and takes it out while packets flow. Returns exchanges and
        losses."""
        generate = self.load()
        self.addCleanup(generate.kill)
        time.sleep(0.5)
        for next_socket in (self.middle, self.producer_router.socket):
            self.switch(next_socket, order)
            time.sleep(0.8)
        stdout, stderr = generate.communicate(timeout=2 * TIMEOUT_S)
        self.assertTrue(stdout, stderr)
        result = json.loads(stdout)
        self.assertGreater(result["answered"], 1000, result)
        self.assertGreater(self.packets("middle")["nr", "in", "interest"], 100)
        return result["answered"], result["lost"]

    def test_element_inserted_and_removed_loses_nothing_where_promised(self):
        for order, lost_max in (("make-before-break", 0), ("buffer", 0), ("drop", 2 * WINDOW)):
            with self.subTest(order):
                _, lost = self.lost_in_changes(order)
                self.assertLessEqual(lost, lost_max)
                self.until(
                    lambda: not self.status("first")["changing"], "the old faces are closed"
                )
                self.assertEqual(len([x for x in self.links("first") if x["name"] == "next"]), 1)


if __name__ == "__main__":
    unittest.main()
