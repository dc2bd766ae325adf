"""The control socket of a manager: map, events, plans, history, scale, metrics."""

import json
import os
import stat
import time
import unittest
from pathlib import Path

from network import SCALED, NetworkTest, UnixHttp


class Rest(NetworkTest):
    def setUp(self):
        super().setUp()
        self.producer()
        self.manager = self.up(self.file(extra=SCALED))

    def events(self, count, after=None):
        """Reads a number of events of a stream; returns pairs of id and data."""
        connection = UnixHttp(self.control)
        headers = {"Last-Event-ID": after} if after else {}
        connection.request("GET", "/v1/events", headers=headers)
        response = connection.getresponse()
        self.assertEqual(response.status, 200)
        self.assertEqual(response.headers["content-type"], "text/event-stream")
        found, event_id = [], None
        while len(found) < count:
            line = response.readline().decode().rstrip("\n")
            if line.startswith("id: "):
                event_id = line[4:]
            elif line.startswith("data: ") and line != "data: {}":
                found.append((event_id, json.loads(line[6:])))
        connection.close()
        return found

    def test_map_has_instances_links_rates_and_positions(self):
        self.assertEqual(stat.S_IMODE(os.stat(self.control).st_mode), 0o600)
        consumer = self.consumer()
        consumer.wait_answered(500)
        self.until(
            lambda: all(i["rates"]["interests"] > 0 for i in self.graph()["instances"]),
            "rates are seen",
        )
        graph = self.graph()
        self.check_tap()
        consumer.finish()
        by_name = {i["name"]: i for i in graph["instances"]}
        columns = [by_name[name]["position"]["x"] for name in ("front~1", "br~1", "nr~1")]
        self.assertEqual(columns, sorted(set(columns)), "from the consumers to the producers")
        self.assertGreater(by_name["br~1"]["resident_bytes"], 1_000_000)
        self.assertGreater(by_name["front~1"]["cached_packets"], 400)
        self.assertEqual(by_name["front~1"]["hit_ratio"], 0.0)
        self.assertEqual({e["name"] for e in by_name["front~1"]["elements"]}, {"pd", "cs"})
        link = next(x for x in graph["links"] if x["to"]["instance"] == "nr~1")
        self.assertGreater(link["forward"]["interests"], 0)
        self.assertGreater(link["backward"]["data"], 0)
        edges = {edge["end"]["instance"]: edge for edge in graph["edges"]}
        self.assertGreater(edges["front~1"]["inward"]["interests"], 0)
        self.assertTrue(edges["nr~1"]["up"])
        self.assertEqual(graph["hosts"][0]["instances"], 3)
        positions = [{"instance": "br~1 on here", "position": {"x": 7.5, "y": 2.0}}]
        status, _ = self.rest("PUT", "/v1/positions", {"positions": positions})
        self.assertEqual(status, 204)
        moved = next(i for i in self.graph()["instances"] if i["name"] == "br~1")
        self.assertEqual(moved["position"], {"x": 7.5, "y": 2.0, "fixed": True})

    def check_tap(self):
        """A tap prints the packets that its options choose, and ends after their number."""
        options = ("--kind", "data", "--direction", "in", "--count", "5", "--json")
        lines = [json.loads(line) for line in self.nw("tap", "br~1", *options).stdout.splitlines()]
        self.assertEqual(len(lines), 5)
        self.assertEqual({(line["kind"], line["direction"]) for line in lines}, {("Data", "in")})
        self.assertTrue(all(line["name"].startswith("/") for line in lines), lines)
        plain = self.nw("tap", "br~1", "--kind", "interest", "--count", "1").stdout
        self.assertIn("Interest", plain)
        self.assertIn("no~1", self.nw("tap", "no~1", code=3).stderr)
        inside = self.nw("tap", "front~1", "--element", "cs.miss", "--count", "3", "--json").stdout
        lines = [json.loads(line) for line in inside.splitlines()]
        seen = [(line["interface"], line["kind"]) for line in lines]
        self.assertEqual(seen, 3 * [("cs.miss", "Interest")])
        refused = self.nw("tap", "front~1", "--element", "none", code=3).stderr
        self.assertIn("it has pd, cs", refused)

    def test_events_are_numbered_resumable_and_end_with_the_manager(self):
        first = self.events(5)
        self.assertEqual([event["number"] for _, event in first], [1, 2, 3, 4, 5])
        self.assertEqual(first[0][1]["kind"], "started")
        resumed = self.events(2, after=first[2][0])
        self.assertEqual([event["number"] for _, event in resumed], [4, 5])
        other_start = self.events(1, after="5-77")
        self.assertEqual(other_start[0][1]["number"], 1)
        self.assertEqual(self.rest("GET", "/v1/events?after=x")[0], 400)
        lines = self.nw("events", "--past", "--json").stdout.splitlines()
        kinds = [json.loads(line)["kind"] for line in lines]
        self.assertEqual(kinds[:2], ["started", "plan-started"])
        self.assertIn("step-done", kinds)

    def test_plans_scale_history_and_errors(self):
        status, plan = self.rest("POST", "/v1/plan", {"replicas": {"br": 2}})
        self.assertEqual(status, 200)
        self.assertIn("br~2", {step["instance"] for step in plan["steps"]})
        self.assertEqual(self.rest("GET", f"/v1/plans/{plan['id']}"), (200, plan))
        self.assertEqual(self.rest("GET", "/v1/plans/none")[0], 404)
        status, scale = self.rest("PUT", "/v1/scale/br", {"instances": 2})
        self.assertEqual((status, scale["wanted"]), (200, 2))
        self.wait_converged(self.manager)
        done = self.rest("GET", f"/v1/plans/{plan['id']}")[1]
        self.assertEqual(done["state"], "done", "the plan that was shown was carried out")
        self.assertTrue(all(step["state"] == "done" for step in done["steps"]), done)
        self.assertEqual(self.rest("PUT", "/v1/scale/br", {"instances": 7})[0], 400)
        self.assertEqual(self.rest("PUT", "/v1/scale/none", {"instances": 1})[0], 404)
        status, dry = self.rest(
            "PUT", "/v1/network?dry_run=true", {"text": self.file("d.graph").read_text()}
        )
        self.assertEqual(status, 200, dry)
        self.assertEqual(self.rest("GET", "/v1/network")[1]["version"], 1)
        self.assertEqual(len(self.rest("GET", "/v1/history")[1]), 1)
        self.assertEqual(self.rest("POST", "/v1/undo", {})[0], 409)
        self.assertEqual(self.rest("GET", "/v1/nothing")[0], 404)
        routes = self.rest("GET", "/v1/routes")[1]
        self.assertEqual([route["prefix"] for route in routes], ["/"])

    def test_instance_logs_and_metrics(self):
        status, detail = self.rest("GET", "/v1/instances/br~1")
        self.assertEqual(status, 200)
        self.assertEqual(detail["graph"], detail["wanted_graph"])
        log = self.rest("GET", "/v1/instances/br~1@here/logs?lines=5")[1]
        self.assertTrue(any("running" in line for line in log["lines"]), log)
        self.assertEqual(self.rest("GET", "/v1/instances/no~1")[0], 404)
        self.assertEqual(self.rest("GET", "/v1/instances/br~1/logs?lines=0")[0], 400)
        shown = self.nw("show", "br~1").stdout
        self.assertIn("br = backward_router", shown)
        self.assertIn("running", self.nw("show", "br~1", "--logs", "5").stdout)
        status, text = self.rest("GET", "/metrics")
        self.assertEqual(status, 200)
        self.assertIn('nw_network_instance_up{instance="br~1",host="here"} 1', text)
        self.assertIn("nw_network_converged 1", text)
        openapi = json.loads(self.nw("openapi").stdout)
        self.assertEqual(self.rest("GET", "/openapi.json")[1], openapi)

    def test_idle_manager_uses_little_processor_time(self):
        def cpu_s():
            text = Path(f"/proc/{self.manager.pid}/stat").read_text()
            fields = text.rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

        def wakeups():
            """Returns how often the thread that prints events has waited for something."""
            path = Path(f"/proc/{self.manager.pid}/task/{self.manager.pid}/status")
            line = next(x for x in path.read_text().splitlines() if x.startswith("voluntary"))
            return int(line.split()[1])

        before, begun, waited = cpu_s(), time.monotonic(), wakeups()
        time.sleep(4)
        share = (cpu_s() - before) / (time.monotonic() - begun)
        # It is woken by events. To look for them would be several wakeups a second.
        self.assertLess(wakeups() - waited, 8)
        # Three services; a debug build takes several times what a release build does.
        self.assertLess(share, 0.1)


if __name__ == "__main__":
    unittest.main()
