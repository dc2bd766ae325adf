"""nw graph as a user types it: files that are wrong, drawings, tests in files, a graph that runs and is changed."""

import json
import re
import signal
import subprocess
import time
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from test_cli import NW, PATIENCE_S, CommandLine, free_port

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/graphs"

# Faces are filled in by each test.
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


class Files(Graphs):
    def test_the_examples_are_good_and_their_tests_pass(self):
        files = sorted(EXAMPLES.glob("*.graph"))
        self.assertTrue(files)
        said = self.nw("graph", "check", *files).stdout.decode()
        self.assertEqual(said.count("is a graph that can run"), len(files))
        said = self.nw("graph", "test", *files, timeout=120).stdout.decode()
        self.assertRegex(said, r"\d+ passed, 0 failed\n$")

    def test_all_that_is_wrong_is_said_at_once(self):
        path = self.file("face north = udp4://192.0.2.1:6363\ncs = contentstore\npd = packet_dispatcher\nfaces -> pd\npd.data -> nroth\n")
        said = self.nw("graph", "check", path, code=1).stderr.decode()
        self.assertIn("my.graph:2:6: no element is called `contentstore`; did you mean `content_store`?", said)
        self.assertIn("my.graph:5:12: nothing in this graph is called `nroth`; did you mean `north`?", said)
        self.assertIn("my.graph:3:1: `pd.interest` is not connected", said)
        lines = self.nw("graph", "check", "--json", path, code=1).stdout.decode().splitlines()
        [found] = map(json.loads, lines)
        self.assertFalse(found["good"])
        self.assertEqual([problem["line"] for problem in found["problems"]], sorted(p["line"] for p in found["problems"]))
        self.assertEqual(set(found["problems"][0]), {"line", "column", "what", "remedy"})
        for verb in ("test", "run"):
            self.assertIn("contentstore", self.nw("graph", verb, path, code=1).stderr.decode())

    def test_no_file_and_no_verb(self):
        self.assertIn("can't read", self.sentence(self.nw("graph", "check", Path(self.folder) / "none.graph", code=1)))
        self.assertIn("Usage", self.nw("graph", code=2).stderr.decode())

    def test_a_test_that_fails_names_its_line(self):
        text = (EXAMPLES / "standard.graph").read_text().replace("Data /a content=x token=aabb", "Data /b content=x token=aabb", 1)
        path = self.file(text)
        line = 1 + text[: text.index("Data /b content")].count("\n")
        said = self.nw("graph", "test", path, code=1, timeout=60).stdout.decode()
        self.assertRegex(said, rf"FAILED +\S*my\.graph:\d+: an Interest goes north")
        self.assertIn(f"line {line}: out apps", said)
        self.assertIn("name: expected \"/b\", got \"/a\"", said)
        self.assertRegex(said, "2 passed, 1 failed")
        one = self.nw("graph", "test", "--only", "two Interests", "--json", path, timeout=60).stdout.decode()
        self.assertTrue(json.loads(one)["passed"])
        self.assertIn("no test name contains", self.sentence(self.nw("graph", "test", "--only", "nothing", path, code=1)))

    def test_drawings(self):
        chain = EXAMPLES / "chain.graph"
        said = self.nw("graph", "draw", chain).stdout.decode()
        for word in ("packet_dispatcher", "backward_router", "name_router", "▶", "╭", "┌"):
            self.assertIn(word, said)
        picture = Path(self.folder) / "chain.svg"
        self.nw("graph", "draw", chain, "--svg", picture)
        root = ElementTree.parse(picture).getroot()
        self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        self.assertEqual(self.nw("graph", "draw", chain, "--svg", "-").stdout, picture.read_bytes())
        said = self.nw("graph", "draw", chain, "--mermaid").stdout.decode()
        self.assertTrue(said.startswith("flowchart LR\n"))
        self.assertEqual(said.count("-->"), 13)

    def test_what_is_not_ready_is_drawn_too(self):
        path = self.file("face a\npd = packet_dispatcher\na -> pd\n")
        done = self.nw("graph", "draw", path, code=1)
        self.assertIn("packet_dispatcher", done.stdout.decode())
        self.assertIn("nw graph check", self.sentence(done))

    def test_help_is_made_from_contracts(self):
        said = self.nw("graph", "help").stdout.decode()
        names = [line.split()[0] for line in said.splitlines()]
        self.assertEqual(names, sorted(names))
        for name in names:
            self.assertIn("State:", self.nw("graph", "help", name).stdout.decode())
        said = self.nw("graph", "help", "content_store").stdout.decode()
        self.assertRegex(said, r"hit +Data\n")
        self.assertRegex(said, r"policy = \"lru\" .*live")
        [store] = [json.loads(line) for line in self.nw("graph", "help", "content_store", "--json").stdout.splitlines()]
        self.assertEqual([port["name"] for port in store["outs"]], ["hit", "miss", "data"])
        self.assertEqual(len(self.nw("graph", "help", "--json").stdout.splitlines()), len(names))
        self.assertIn("did you mean `router`?", self.sentence(self.nw("graph", "help", "ruoter", code=1)))


class Running(Graphs):
    def run_graph(self, router, *words, more=ROUTER):
        """A graph between applications and a router, with what is needed to ask through it."""
        self.edge = Path(self.folder) / "edge.sock"
        path = self.file(f"face apps listens unix://{self.edge}\nface up = tcp4://127.0.0.1:{router.tcp}\n{more}")
        self.log = open(Path(self.folder) / "graph.log", "w+")
        process = subprocess.Popen([NW, "graph", "run", path, *words], stdout=subprocess.PIPE, stderr=self.log, stdin=subprocess.DEVNULL)

        def finish():
            if process.poll() is None:
                process.kill()
            process.communicate()
            self.log.close()

        self.addCleanup(finish)
        self.until(lambda: " running " in self.said(), "the graph runs")
        return path, process

    def said(self):
        return Path(self.log.name).read_text()

    def peek(self, name, code=0, *words):
        return self.nw("peek", name, "-s", f"unix://{self.edge}", *words, code=code)

    def ending(self, process, how=signal.SIGTERM):
        process.send_signal(how)
        out, _ = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 0, self.said())
        return out.decode()

    def test_it_forwards_and_ends_with_what_it_counted(self):
        router = self.router()
        self.start(router, "poke", "/news", "today")
        _, process = self.run_graph(router)
        self.until(lambda: self.nw("peek", "/news", "-s", f"unix://{self.edge}", "--lifetime", 500, code=None).stdout == b"today", "an answer")
        self.assertEqual(self.peek("/news").stdout, b"today")
        said = self.ending(process)
        self.assertRegex(said, r"cs +out +hit +[1-9]")
        self.assertRegex(said, r"cache_hit +[1-9]")
        self.assertFalse(self.edge.exists())

    def nw(self, *words, code=0, **more):
        # None: whatever comes of it.
        if code is not None:
            return super().nw(*words, code=code, **more)
        return subprocess.run([NW, *map(str, words)], input=b"", capture_output=True, timeout=PATIENCE_S)

    def test_it_is_changed_while_it_runs(self):
        router = self.router()
        server = self.start(router, "ping-server", "/p")
        self.assertIn(b"answering", server.stderr.readline())
        path, process = self.run_graph(router, "--json")
        pinging = subprocess.Popen([NW, "ping", "/p", "-s", f"unix://{self.edge}", "-i", "2", "-c", "1000", "--json"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        self.addCleanup(pinging.communicate)
        self.addCleanup(pinging.kill)
        text = path.read_text()
        with_counter = text.replace("discard = sink", "discard = sink\nseen = counter").replace("cs.miss -> fib", "cs.miss -> seen -> fib")
        for turn in range(1, 5):
            path.write_text(with_counter if turn % 2 else text)
            process.send_signal(signal.SIGHUP)
            self.until(lambda: self.said().count("graph changed") == turn, f"change {turn}")
            time.sleep(0.2)
        lines = pinging.communicate(timeout=PATIENCE_S)[0].splitlines()
        end = json.loads(lines[-1])
        self.assertEqual((end["sent"], end["answered"]), (1000, 1000), end)
        path.write_text(text + "cs.hit -> pd\n")
        process.send_signal(signal.SIGHUP)
        self.until(lambda: "stays as it was" in self.said(), "a refusal")
        self.assertIn("is already connected", self.said())
        report = json.loads(self.ending(process).splitlines()[-1])
        self.assertEqual(report["sent"][1], 1000)

    def test_a_peer_may_come_later_and_again(self):
        router = self.router()
        port, config = router.tcp, router.config
        self.assertEqual(router.end(), 0)
        _, process = self.run_graph(router)
        self.until(lambda: "not open, trying again" in self.said(), "a warning")
        again = subprocess.Popen([NW, "run", "-c", config], stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        self.addCleanup(again.wait)
        self.addCleanup(again.terminate)
        self.until(lambda: re.search(rf"face=.?up.? .*{port}", self.said().split("not open")[-1]), "the peer")
        self.ending(process, signal.SIGINT)

    def test_status_lines(self):
        router = self.router()
        _, process = self.run_graph(router, "--every", "1")
        self.assertRegex(process.stdout.readline().decode(), r"^\d s: \d faces; received \d+ Interests, .* dropped$")
        self.ending(process)

    def test_what_can_not_be_opened(self):
        path = self.file(f"face apps listens unix://{self.folder}\nface up = tcp4://127.0.0.1:{free_port()}\n{ROUTER}")
        self.assertRegex(self.sentence(self.nw("graph", "run", path, code=1)), "face `apps`: ")
        path = self.file(f"face apps\nface up = tcp4://127.0.0.1:1\n{ROUTER}")
        self.assertIn("face `apps` has no URI", self.sentence(self.nw("graph", "run", path, code=1)))


if __name__ == "__main__":
    unittest.main()
