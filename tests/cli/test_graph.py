"""nw graph as a user runs it: wrong files, drawings, tests in files, a running graph that is
changed."""

import json
import re
import signal
import subprocess
import time
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from command_line import NW, TIMEOUT_S, CommandLine, free_port

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/graphs"

# Each test adds the faces.
ROUTER = """
pd = packet_dispatcher
cs = content_store(mib = 16)
fib = router(routes = ["/ up"])
discard = sink
faces -> pd.packet
pd.interest -> cs.interest
cs.hit -> faces
cs.miss -> fib.interest -> faces
pd.data -> fib.data -> cs.data -> faces
pd.nack -> fib.nack -> faces
fib.route_event -> discard
"""


class Graphs(CommandLine):
    def file(self, text, name="my.graph"):
        path = Path(self.folder) / name
        path.write_text(text)
        return path


class GraphFiles(Graphs):
    def test_example_graphs_pass_check_and_tests(self):
        files = sorted(EXAMPLES.glob("*.graph"))
        self.assertTrue(files)
        output = self.nw("graph", "check", *files).stdout.decode()
        self.assertEqual(output.count("is a graph that can run"), len(files))
        output = self.nw("graph", "test", *files, timeout=120).stdout.decode()
        self.assertRegex(output, r"\d+ passed, 0 failed\n$")

    def test_wrong_file_lists_all_mistakes(self):
        path = self.file(
            "face north = udp4://192.0.2.1:6363\ncs = contentstore\npd = packet_dispatcher\nfaces -> pd\npd.data -> nroth\n"
        )
        output = self.nw("graph", "check", path, code=1).stderr.decode()
        self.assertIn(
            "my.graph:2:6: no element is called `contentstore`; did you mean `content_store`?",
            output,
        )
        self.assertIn(
            "my.graph:5:12: nothing in this graph is called `nroth`; did you mean `north`?", output
        )
        self.assertIn("my.graph:3:1: `pd.interest` is not connected", output)
        lines = self.nw("graph", "check", "--json", path, code=1).stdout.decode().splitlines()
        [found] = map(json.loads, lines)
        self.assertFalse(found["good"])
        self.assertEqual(
            [problem["line"] for problem in found["problems"]],
            sorted(p["line"] for p in found["problems"]),
        )
        self.assertEqual(set(found["problems"][0]), {"line", "column", "what", "remedy"})
        for verb in ("test", "run"):
            self.assertIn("contentstore", self.nw("graph", verb, path, code=1).stderr.decode())

    def test_missing_file_or_verb_is_refused(self):
        self.assertIn(
            "can't read",
            self.sentence(self.nw("graph", "check", Path(self.folder) / "none.graph", code=1)),
        )
        self.assertIn("Usage", self.nw("graph", code=2).stderr.decode())

    def test_failing_graph_test_names_its_line(self):
        text = (
            (EXAMPLES / "standard.graph")
            .read_text()
            .replace("Data /a content=x token=aabb", "Data /b content=x token=aabb", 1)
        )
        path = self.file(text)
        line = 1 + text[: text.index("Data /b content")].count("\n")
        output = self.nw("graph", "test", path, code=1, timeout=60).stdout.decode()
        self.assertRegex(output, r"FAILED +\S*my\.graph:\d+: an Interest goes north")
        self.assertIn(f"line {line}: out apps", output)
        self.assertIn('name: expected "/b", got "/a"', output)
        self.assertRegex(output, "2 passed, 1 failed")
        selected = self.nw(
            "graph", "test", "--only", "two Interests", "--json", path, timeout=60
        ).stdout.decode()
        self.assertTrue(json.loads(selected)["passed"])
        self.assertIn(
            "no test name contains",
            self.sentence(self.nw("graph", "test", "--only", "nothing", path, code=1)),
        )

    def test_draw_prints_each_format(self):
        chain = EXAMPLES / "chain.graph"
        output = self.nw("graph", "draw", chain).stdout.decode()
        for word in ("packet_dispatcher", "backward_router", "name_router", "▶", "╭", "┌"):
            self.assertIn(word, output)
        picture = Path(self.folder) / "chain.svg"
        self.nw("graph", "draw", chain, "--svg", picture)
        root = ElementTree.parse(picture).getroot()
        self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        self.assertEqual(self.nw("graph", "draw", chain, "--svg", "-").stdout, picture.read_bytes())
        output = self.nw("graph", "draw", chain, "--mermaid").stdout.decode()
        self.assertTrue(output.startswith("flowchart LR\n"))
        self.assertEqual(output.count("-->"), 13)

    def test_draw_of_incomplete_graph_succeeds(self):
        path = self.file("face a\npd = packet_dispatcher\na -> pd\n")
        completed = self.nw("graph", "draw", path, code=1)
        self.assertIn("packet_dispatcher", completed.stdout.decode())
        self.assertIn("nw graph check", self.sentence(completed))

    def test_element_help_is_made_from_contracts(self):
        output = self.nw("graph", "help").stdout.decode()
        names = [line.split()[0] for line in output.splitlines()]
        self.assertEqual(names, sorted(names))
        for name in names:
            self.assertIn("State:", self.nw("graph", "help", name).stdout.decode())
        output = self.nw("graph", "help", "content_store").stdout.decode()
        self.assertRegex(output, r"hit +Data\n")
        self.assertRegex(output, r"policy = \"lru\" .*live")
        [store] = [
            json.loads(line)
            for line in self.nw("graph", "help", "content_store", "--json").stdout.splitlines()
        ]
        self.assertEqual([port["name"] for port in store["outs"]], ["hit", "miss", "data"])
        self.assertEqual(len(self.nw("graph", "help", "--json").stdout.splitlines()), len(names))
        self.assertIn(
            "did you mean `router`?", self.sentence(self.nw("graph", "help", "ruoter", code=1))
        )


class RunningGraph(Graphs):
    def run_graph(self, router, *args, extra=ROUTER):
        """Runs a graph between applications and a router."""
        self.edge = Path(self.folder) / "edge.sock"
        path = self.file(
            f"face apps listens unix://{self.edge}\nface up = tcp4://127.0.0.1:{router.tcp}\n{extra}"
        )
        self.log = open(Path(self.folder) / "graph.log", "w+")
        process = subprocess.Popen(
            [NW, "graph", "run", path, *args],
            stdout=subprocess.PIPE,
            stderr=self.log,
            stdin=subprocess.DEVNULL,
        )

        def finish():
            if process.poll() is None:
                process.kill()
            process.communicate()
            self.log.close()

        self.addCleanup(finish)
        self.until(lambda: " running " in self.log_text(), "the graph runs")
        return path, process

    def log_text(self):
        return Path(self.log.name).read_text()

    def peek(self, name, code=0, *args):
        return self.nw("peek", name, "-s", f"unix://{self.edge}", *args, code=code)

    def end(self, process, signal_number=signal.SIGTERM):
        process.send_signal(signal_number)
        out, _ = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, 0, self.log_text())
        return out.decode()

    def test_running_graph_forwards_and_prints_counts_at_end(self):
        router = self.router()
        self.start(router, "poke", "/news", "today")
        _, process = self.run_graph(router)
        self.until(
            lambda: (
                self.nw(
                    "peek", "/news", "-s", f"unix://{self.edge}", "--lifetime", 500, code=None
                ).stdout
                == b"today"
            ),
            "an answer",
        )
        self.assertEqual(self.peek("/news").stdout, b"today")
        output = self.end(process)
        self.assertRegex(output, r"cs +out +hit +[1-9]")
        self.assertRegex(output, r"cache_hit +[1-9]")
        self.assertFalse(self.edge.exists())

    def nw(self, *args, code=0, **options):
        # code=None accepts any exit status.
        if code is not None:
            return super().nw(*args, code=code, **options)
        return subprocess.run(
            [NW, *map(str, args)], input=b"", capture_output=True, timeout=TIMEOUT_S
        )

    def test_running_graph_is_changed_without_loss(self):
        router = self.router()
        server = self.start(router, "ping-server", "/p")
        self.assertIn(b"answering", server.stderr.readline())
        path, process = self.run_graph(router, "--json")
        pinging = subprocess.Popen(
            [NW, "ping", "/p", "-s", f"unix://{self.edge}", "-i", "2", "-c", "1000", "--json"],
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )
        self.addCleanup(pinging.communicate)
        self.addCleanup(pinging.kill)
        text = path.read_text()
        with_counter = text.replace("discard = sink", "discard = sink\nseen = counter").replace(
            "cs.miss -> fib", "cs.miss -> seen -> fib"
        )
        for change in range(1, 5):
            path.write_text(with_counter if change % 2 else text)
            process.send_signal(signal.SIGHUP)
            self.until(lambda: self.log_text().count("graph changed") == change, f"change {change}")
            time.sleep(0.2)
        lines = pinging.communicate(timeout=TIMEOUT_S)[0].splitlines()
        end = json.loads(lines[-1])
        self.assertEqual((end["sent"], end["answered"]), (1000, 1000), end)
        path.write_text(text + "cs.hit -> pd\n")
        process.send_signal(signal.SIGHUP)
        self.until(lambda: "stays as it was" in self.log_text(), "a refusal")
        self.assertIn("is already connected", self.log_text())
        report = json.loads(self.end(process).splitlines()[-1])
        self.assertEqual(report["sent"][1], 1000)

    def test_peer_connecting_late_or_again_is_served(self):
        router = self.router()
        port, config = router.tcp, router.config
        self.assertEqual(router.end(), 0)
        _, process = self.run_graph(router)
        self.until(lambda: "not open, trying again" in self.log_text(), "a warning")
        second_router = subprocess.Popen(
            [NW, "run", "-c", config], stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        )
        self.addCleanup(second_router.wait)
        self.addCleanup(second_router.terminate)
        self.until(
            lambda: re.search(rf"face=.?up.? .*{port}", self.log_text().split("not open")[-1]),
            "the peer",
        )
        self.end(process, signal.SIGINT)

    def test_status_lines_are_printed(self):
        router = self.router()
        _, process = self.run_graph(router, "--every", "1")
        self.assertRegex(
            process.stdout.readline().decode(),
            r"^\d s: \d faces; received \d+ Interests, .* dropped$",
        )
        self.end(process)

    def test_unavailable_faces_are_reported(self):
        path = self.file(
            f"face apps listens unix://{self.folder}\nface up = tcp4://127.0.0.1:{free_port()}\n{ROUTER}"
        )
        self.assertRegex(self.sentence(self.nw("graph", "run", path, code=1)), "face `apps`: ")
        path = self.file(f"face apps\nface up = tcp4://127.0.0.1:1\n{ROUTER}")
        self.assertIn(
            "face `apps` has no URI", self.sentence(self.nw("graph", "run", path, code=1))
        )


if __name__ == "__main__":
    unittest.main()
