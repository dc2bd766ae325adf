"""nw service and nw graph split as a user runs them: a graph in four processes joined by sockets or
shared memory, of which one is killed, drained or changed; and wrong arguments."""

import json
import os
import signal
import socket
import subprocess
import time
import unittest
from pathlib import Path
from unittest import mock

from command_line import NW, TIMEOUT_S, CommandLine

CHAIN = Path(__file__).resolve().parents[2] / "examples/graphs/split_chain.graph"
FOUR = ("pd", "cs", "br", "nr")


class Services(CommandLine):
    def setUp(self):
        super().setUp()
        # Control sockets are in this folder, so a service is found by its name.
        patch = mock.patch.dict(os.environ, XDG_RUNTIME_DIR=self.folder)
        patch.start()
        self.addCleanup(patch.stop)
        self.near = Path(self.folder) / "near.sock"

    def service(self, name, *args):
        """Starts a service. Its log is in NAME.log, overwritten at each start."""
        with open(self.log(name), "w") as log:
            process = subprocess.Popen(
                [NW, "service", "run", *map(str, args)], stdin=subprocess.DEVNULL, stderr=log
            )

        def finish():
            if process.poll() is None:
                process.kill()
            process.wait()

        self.addCleanup(finish)
        self.until(lambda: " running " in self.log_text(name), f"{name} runs")
        return process

    def log(self, name):
        return Path(self.folder) / f"{name}.log"

    def log_text(self, name):
        return self.log(name).read_text()

    def refused(self, *args, code=1):
        return self.nw("service", *args, code=code).stderr.decode()

    def status(self, name):
        return json.loads(self.nw("service", "status", name, "--json").stdout)

    def links(self, name):
        return json.loads(self.nw("service", "links", name, "--json").stdout)

    def packets(self, name):
        """Returns packet counts by element, side and port."""
        ports = json.loads(self.nw("service", "statistics", name, "--json").stdout)["ports"]
        return {(port["element"], port["side"], port["port"]): port["packets"] for port in ports}

    def ping(self, *args):
        completed = subprocess.run(
            [NW, "ping", "/p", "-s", f"unix://{self.near}", "--json", *map(str, args)],
            capture_output=True,
            timeout=2 * TIMEOUT_S,
        )
        end = json.loads(completed.stdout.splitlines()[-1])
        return end["sent"], end["answered"]

    def producer(self):
        """Starts a router with a producer for /p."""
        router = self.router("producer")
        server = self.start(router, "ping-server", "/p")
        self.assertIn(b"answering", server.stderr.readline())
        return router

    def graph(self, router):
        text = (
            CHAIN.read_text()
            .replace("/tmp/nw-chain.sock", str(self.near))
            .replace("/tmp/nw-producer.sock", str(router.socket))
        )
        path = Path(self.folder) / "chain.graph"
        path.write_text(text)
        return path

    def chain(self, router, links="unix"):
        """Starts the four services of the example and waits until a ping passes all of them."""
        self.cut = Path(self.folder) / "cut"
        args = [word for name in FOUR for word in ("--service", f"{name}={name}")]
        output = self.nw(
            "graph", "split", self.graph(router), "--into", self.cut, "--links", links, *args
        ).stdout.decode()
        self.assertEqual(
            output.splitlines(),
            [f"nw service run --graph {self.cut}/{name}.graph" for name in FOUR],
        )
        self.nw("graph", "check", *(self.cut / f"{name}.graph" for name in FOUR))
        running = {name: self.start_piece(name) for name in FOUR}
        self.until(
            lambda: self.ping("-c", 1, "-i", 1, "--timeout", 500)[1] == 1,
            "a ping through all four is answered",
        )
        return running

    def start_piece(self, name):
        return self.service(name, "--graph", self.cut / f"{name}.graph")

    def check_ended(self, process, name):
        self.assertEqual(process.wait(TIMEOUT_S), 0, self.log_text(name))
        self.assertIn(" ended ", self.log_text(name).replace("\n", " "))
        self.assertFalse((Path(self.folder) / f"nw-service-{name}.sock").exists())


class SplitGraph(Services):
    def test_file_through_four_services_arrives_unchanged(self):
        router, content = self.producer(), os.urandom(500_000)
        running = self.chain(router)
        self.put(router, "/t/file", content)
        for _ in range(2):
            self.assertEqual(self.nw("cat", "-s", f"unix://{self.near}", "/t/file").stdout, content)
        self.assertRegex(
            self.nw("service", "status", "cs").stdout.decode(),
            r"^cs: running for \d+ s\n  process .* MiB\n  received [1-9]\d* Interests, [1-9]\d* Data",
        )
        links = {link["name"]: link for link in self.links("br")}
        self.assertEqual(set(links), {"to_pd", "to_cs", "to_nr"})
        self.assertTrue(all(link["up"] for link in links.values()), links)
        self.assertRegex(self.nw("service", "links", "br").stdout.decode(), r"to_nr +\d+ +unix://")
        # The second download came from the content store.
        segments = len(content) // 8800
        self.assertGreaterEqual(self.packets("cs")["cs", "out", "hit"], segments)
        self.assertIn("hit", self.nw("service", "statistics", "cs").stdout.decode())
        shown = self.nw("service", "graph", "br").stdout.decode()
        self.assertEqual(shown, (self.cut / "br.graph").read_text().split("\n", 1)[1])
        openapi = json.loads(self.nw("service", "openapi").stdout)
        self.assertIn("/v1/drain", openapi["paths"])
        # A service is also found by the path of its socket.
        self.nw("service", "stop", Path(self.folder) / "nw-service-pd.sock")
        self.check_ended(running["pd"], "pd")
        self.assertFalse(self.near.exists())
        for name in ("cs", "br"):
            self.nw("service", "drain", name)
            self.check_ended(running[name], name)
        running["nr"].send_signal(signal.SIGTERM)
        self.check_ended(running["nr"], "nr")

    def test_killed_service_over_unix_is_reconnected(self):
        self.check_killed_and_restarted("unix")

    def test_killed_service_over_shared_memory_is_reconnected(self):
        self.check_killed_and_restarted("shm")

    def check_killed_and_restarted(self, links):
        running = self.chain(self.producer(), links)
        running["br"].kill()
        running["br"].wait()
        self.assertEqual(self.ping("-c", 2, "-i", 1, "--timeout", 200), (2, 0))
        for name in ("pd", "cs", "nr"):
            self.assertIsNone(running[name].poll(), self.log_text(name))
            self.assertGreater(self.status(name)["received"][0], 0)
        for name in ("pd", "cs"):
            self.assertEqual(
                [link["up"] for link in self.links(name) if link["name"] == "to_br"],
                [False],
                self.links(name),
            )
        self.assertGreater(self.status("cs")["dropped"], 0)
        self.start_piece("br")
        self.until(
            lambda: self.ping("-c", 1, "-i", 1, "--timeout", 500)[1] == 1,
            "a ping through the new service is answered",
        )
        self.assertEqual(self.ping("-c", 200, "-i", 2), (200, 200))
        self.assertTrue(all(link["up"] for name in ("pd", "cs", "br") for link in self.links(name)))

    def test_file_through_shared_memory_arrives_unchanged(self):
        router, content = self.producer(), os.urandom(3_000_000)
        self.chain(router, "shm")
        self.put(router, "/t/file", content)
        for _ in range(2):
            self.assertEqual(self.nw("cat", "-s", f"unix://{self.near}", "/t/file").stdout, content)
        for name in FOUR:
            self.assertNotIn("down", self.log_text(name), "a link that was never up is not down")
        links = {link["name"]: link for link in self.links("br")}
        self.assertRegex(links["to_nr"]["uri"], r"^shm:///.*/br-nr\.sock$")
        self.assertRegex(links["to_cs"]["local"], r"^shm:///.*/cs-br\.sock$")
        # Each packet that one end sent, the other received.
        far = {link["name"]: link for link in self.links("nr")}["to_br"]
        self.assertEqual(
            (links["to_nr"]["sent"], links["to_nr"]["received"]), (far["received"], far["sent"])
        )
        self.assertGreater(sum(far["sent"]), len(content) // 8800)
        self.assertGreater(self.packets("cs")["cs", "out", "hit"], 300)

    def test_shared_memory_of_other_user_is_refused(self):
        if os.geteuid() != 0:
            self.skipTest("only root can run as another user")
        os.chmod(self.folder, 0o755)
        far = Path(self.folder) / "far.sock"
        self.service(
            "far",
            "counter",
            "--listen",
            f"shm://{far}",
            "--to",
            f"next=unix://{self.folder}/none.sock",
            "--name",
            "far",
        )
        self.assertEqual(far.stat().st_mode & 0o777, 0o600)
        other_folder = Path(self.folder) / "other"
        other_folder.mkdir()
        os.chown(other_folder, 65534, 65534)
        args = [
            "counter",
            "--listen",
            f"unix://{other_folder}/near.sock",
            "--to",
            f"far=shm://{far}",
            "--control",
            other_folder / "c.sock",
        ]
        with open(self.log("other"), "w") as log:
            try:
                process = subprocess.Popen(
                    [NW, "service", "run", *map(str, args)],
                    stdin=subprocess.DEVNULL,
                    stderr=log,
                    user=65534,
                    group=65534,
                    extra_groups=[],
                )
            except PermissionError:
                self.skipTest(f"only root may run {NW}")
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.until(
            lambda: "run as a user who may" in self.log_text("other"),
            "the missing privilege is logged",
        )
        self.assertEqual(
            [
                link["up"]
                for link in json.loads(
                    self.nw("service", "links", other_folder / "c.sock", "--json").stdout
                )
            ],
            [False],
        )

    def test_shared_memory_at_foreign_socket_waits_and_reports(self):
        near, far = Path(self.folder) / "plain.sock", Path(self.folder) / "far.sock"
        plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(plain.close)
        plain.bind(str(far))
        plain.listen()
        check_ended = lambda listen, to: ["--listen", listen, "--to", f"next={to}"]
        self.service(
            "wrong",
            "counter",
            *check_ended(f"unix://{self.near}", f"shm://{far}"),
            "--name",
            "wrong",
        )
        self.until(
            lambda: "write unix:// or shm:// on both sides" in self.log_text("wrong"),
            "the mistake is logged",
        )
        self.service(
            "unserved",
            "counter",
            *check_ended(f"unix://{near}", f"shm://{self.folder}/unserved.sock"),
            "--name",
            "unserved",
        )
        self.until(lambda: "no such path" in self.log_text("unserved"), "the mistake is logged")
        self.assertIn(
            "at an absolute path",
            self.refused("run", "counter", *check_ended("shm://near.sock", f"shm://{far}")),
        )
        # The address is in use by a running program; then only the socket file is left.
        args = check_ended(f"shm://{far}", f"unix://{self.folder}/unserved.sock")
        self.assertIn(
            "is in use by a running program",
            self.refused("run", "counter", *args, "--name", "late"),
        )
        plain.close()
        self.assertTrue(far.exists())
        self.service("late", "counter", *args, "--name", "late")
        self.until(
            lambda: json.loads(self.nw("service", "links", "wrong", "--json").stdout)[0]["up"],
            "the first service has connected to it",
        )

    def test_graph_changed_under_traffic_loses_nothing(self):
        self.chain(self.producer())
        text = self.nw("service", "graph", "cs").stdout.decode()
        path = Path(self.folder) / "other.graph"
        path.write_text(
            text.replace("cs.miss -> to_br", "seen = counter\ncs.miss -> seen -> to_br")
        )
        pinging = subprocess.Popen(
            [NW, "ping", "/p", "-s", f"unix://{self.near}", "-i", "2", "-c", "1000", "--json"],
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )
        self.addCleanup(pinging.communicate)
        self.addCleanup(pinging.kill)
        output = self.nw("service", "graph", "cs", "--set", path).stdout.decode()
        self.assertIn("seen = counter", output)
        self.assertEqual(self.nw("service", "graph", "cs").stdout.decode(), output)
        self.until(
            lambda: any(
                element == "seen" and count for (element, _, _), count in self.packets("cs").items()
            ),
            "the new element counts packets",
        )
        end = json.loads(pinging.communicate(timeout=TIMEOUT_S)[0].splitlines()[-1])
        self.assertEqual((end["sent"], end["answered"]), (1000, 1000), end)

    def test_invalid_graph_changes_nothing(self):
        path = self.file_of("bad.graph", "face up = unix:///a.sock\ncs = contentstore\nup -> pd\n")
        self.service(
            "alone",
            "counter",
            "--listen",
            f"unix://{self.near}",
            "--to",
            f"next=unix://{self.folder}/next.sock",
            "--name",
            "alone",
        )
        before = self.nw("service", "graph", "alone").stdout
        output = self.refused("graph", "alone", "--set", path)
        for part in (
            "bad.graph:2:6: no element is called `contentstore`; did you mean `content_store`?",
            "bad.graph:3:7: nothing in this graph is called `pd`",
        ):
            self.assertIn(part, output)
        self.assertIn(
            "has no URI",
            self.refused(
                "graph",
                "alone",
                "--set",
                self.file_of("none.graph", "face a\nface b\na -> b\nb -> a\n"),
                code=6,
            ),
        )
        self.assertIn(
            "can't read",
            self.refused("graph", "alone", "--set", Path(self.folder) / "missing.graph"),
        )
        good = self.file_of("good.graph", before.decode())
        self.assertIn(
            "is not one of drop, buffer, make-before-break",
            self.refused("graph", "alone", "--set", good, "--order", "soon"),
        )
        self.assertEqual(self.nw("service", "graph", "alone").stdout, before)
        # A request without this command gets the same error.
        body = json.dumps({"graph": path.read_text(), "order": "drop"}).encode()
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(f"{self.folder}/nw-service-alone.sock")
            s.sendall(
                b"PUT /v1/graph HTTP/1.0\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                % (len(body), body)
            )
            answer = b"".join(iter(lambda: s.recv(65536), b""))
        self.assertIn(b" 400 ", answer.splitlines()[0])
        self.assertIn(b"did you mean `content_store`?", answer)
        self.assertIn(b"nothing in this graph is called `pd`", answer)

    def file_of(self, name, text):
        path = Path(self.folder) / name
        path.write_text(text)
        return path

    def test_invalid_partition_is_refused(self):
        path, into = self.file_of("chain.graph", CHAIN.read_text()), Path(self.folder) / "cut"
        cut = lambda *services: self.nw(
            "graph",
            "split",
            path,
            "--into",
            into,
            *(w for s in services for w in ("--service", s)),
            code=1,
        ).stderr.decode()
        output = cut("a=pd,cs,xx", "b=cs,br")
        for part in (
            'nothing in the graph is called "xx"',
            '"cs" belongs to a and to b',
            '"nr" belongs to no service: list it in one',
        ):
            self.assertIn(part, output)
        self.assertIn("service a is given twice", cut("a=pd,cs", "a=br,nr"))
        self.assertIn("is not a service of the form NAME=ELEMENT,FACE,…", cut("a"))
        self.assertIn(
            "[possible values: unix, shm]",
            self.nw(
                "graph",
                "split",
                path,
                "--into",
                into,
                "--service",
                "a=pd",
                "--links",
                "wire",
                code=2,
            ).stderr.decode(),
        )
        self.assertIn("letters, digits and _", cut("a/b=pd"))
        self.assertFalse(into.exists(), "what is refused leaves nothing behind")
        into.write_text("in the way")
        self.assertIn(
            "can't create",
            self.sentence(
                self.nw(
                    "graph", "split", path, "--into", into, "--service", "all=pd,cs,br,nr", code=1
                )
            ),
        )


class SingleElement(Services):
    def endpoints(self):
        return ["--listen", f"unix://{self.near}", "--to", f"next=unix://{self.folder}/next.sock"]

    def test_content_store_before_router_answers_hits(self):
        router = self.producer()
        to = f"next=unix://{router.socket}"
        process = self.service(
            "content_store",
            "content_store",
            "mib=16",
            "--listen",
            f"unix://{self.near}",
            "--to",
            to,
        )
        self.put(router, "/t/file", b"x" * 100_000)
        for _ in range(2):
            self.assertEqual(
                self.nw("cat", "-s", f"unix://{self.near}", "/t/file").stdout, b"x" * 100_000
            )
        self.assertGreater(self.packets("content_store")["content_store", "out", "hit"], 5)
        self.assertEqual(self.ping("-c", 100, "-i", 2), (100, 100))
        self.assertRegex(
            self.nw("service", "graph", "content_store").stdout.decode(),
            r"content_store = content_store\(mib = 16\)",
        )
        started = time.monotonic()
        self.nw("service", "drain", "content_store", "--wait")
        self.assertLess(
            time.monotonic() - started, 2, "an idle service drains within half a second"
        )
        self.check_ended(process, "content_store")

    def test_sigterm_with_drain_on_term_drains_and_second_one_ends(self):
        # A backward router is not idle while an Interest is pending, here at a silent neighbour.
        silent = socket.socket(socket.AF_UNIX)
        self.addCleanup(silent.close)
        silent.bind(f"{self.folder}/silent.sock")
        silent.listen()
        to = f"next=unix://{self.folder}/silent.sock"
        arguments = ["--listen", f"unix://{self.near}", "--to", to]
        for idle in (True, False):
            name = "idle" if idle else "busy"
            process = self.service(
                name, "backward_router", *arguments, "--name", name, "--drain-on-term", "30"
            )
            self.until(lambda: Path(self.near).exists(), "the service listens")
            peek = None
            if not idle:
                peek = subprocess.Popen(
                    [NW, "peek", "-s", f"unix://{self.near}", "/unanswered", "--lifetime", "20000"],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    stdin=subprocess.DEVNULL,
                )
                self.addCleanup(peek.kill)
                time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
            if not idle:
                time.sleep(1)
                self.assertIsNone(process.poll(), "it waits for the pending reply")
                process.send_signal(signal.SIGTERM)
            started = time.monotonic()
            self.check_ended(process, name)
            self.assertLess(time.monotonic() - started, 2)
            if peek:
                peek.kill()
                peek.wait()

    def test_application_and_router_connect_by_shared_memory(self):
        router = self.producer()
        self.service(
            "store",
            "content_store",
            "mib=16",
            "--listen",
            f"shm://{self.near}",
            "--to",
            f"next=unix://{router.socket}",
            "--name",
            "store",
        )
        completed = self.nw(
            "ping", "/p", "-s", f"shm://{self.near}", "-i", 2, "-c", 100, "--json"
        ).stdout
        self.assertEqual(json.loads(completed.splitlines()[-1])["answered"], 100)
        other_router = self.router("other")
        self.nw("face", "create", f"shm://{self.near}", router=other_router)
        self.nw("route", "add", "/p", f"shm://{self.near}", router=other_router)
        completed = self.nw("ping", "/p", "-i", 2, "-c", 100, "--json", router=other_router).stdout
        self.assertEqual(json.loads(completed.splitlines()[-1])["answered"], 100)
        self.assertIn(
            f"shm://{self.near}", self.nw("face", "list", router=other_router).stdout.decode()
        )

    def test_wrong_arguments_are_refused(self):
        check_ended = self.endpoints()
        self.assertIn(
            "`nw graph help` lists all", self.refused("run", "contentstore", *check_ended)
        )
        output = self.refused("run", "content_store", "mib=much", "mibs=3", *check_ended)
        self.assertIn('"much" is not allowed: a whole number', output)
        self.assertIn("`mibs`: not known; there are packets, mib", output)
        self.assertIn(
            "nw graph help content_store", self.refused("run", "content_store", "mib", *check_ended)
        )
        self.assertIn(
            "--listen for downstreams and --to for the upstream",
            self.refused("run", "content_store"),
        )
        self.assertIn("give --to NAME=URI", self.refused("run", "content_store", *check_ended[:2]))
        self.assertIn(
            "is not of the form NAME=URI",
            self.refused("run", "content_store", *check_ended[:3], "unix:///x"),
        )
        self.assertIn(
            "expected scheme://",
            self.refused("run", "content_store", "--listen", "/x", *check_ended[2:]),
        )
        self.assertIn(
            "must not be empty or contain /",
            self.refused("run", "content_store", *check_ended, "--name", "a/b"),
        )
        self.assertIn(
            "can't read", self.refused("run", "--graph", Path(self.folder) / "none.graph")
        )
        self.assertIn("Usage", self.nw("service", "run", code=2).stderr.decode())
        self.assertFalse(self.near.exists())

    def test_commands_without_service_fail(self):
        for verb in ("status", "links", "statistics", "graph", "drain", "stop"):
            output = self.sentence(self.nw("service", verb, "unserved", code=4))
            self.assertIn(
                f"can't reach a service at {self.folder}/nw-service-unserved.sock", output
            )
            self.assertIn("is it running?", output)

    def last(self, *args):
        """Returns the last log line, the reason for the exit. Earlier lines may report a missing
        neighbour."""
        lines = self.refused("run", "counter", *args).splitlines()
        self.assertTrue(lines[-1].startswith("nw: "), lines)
        return lines[-1]

    def test_taken_name_or_address_is_refused(self):
        first = self.service("one", "counter", *self.endpoints(), "--name", "one")
        other_args = ["--listen", f"unix://{self.folder}/other.sock", *self.endpoints()[2:]]
        self.assertIn(
            "is in use by another service: choose another --name",
            self.last(*other_args, "--name", "one"),
        )
        self.assertFalse((Path(self.folder) / "other.sock").exists())
        # Another name, but the same listening address.
        output = self.last(*self.endpoints(), "--name", "two")
        self.assertIn("face `near`", output)
        self.assertIn(str(self.near), output)
        path = Path(self.folder) / "file"
        path.write_text("mine")
        output = self.last(*other_args, "--control", path)
        self.assertIn("exists and is not a socket: give another path", output)
        self.assertEqual(path.read_text(), "mine")
        output = self.last("--listen", f"unix://{path}", *other_args[2:])
        self.assertIn("face `near`", output)
        self.assertEqual(path.read_text(), "mine")
        self.assertIn(
            "can't listen on", self.last(*other_args, "--control", f"{self.folder}/no/c.sock")
        )
        # The first service was not affected. After it is killed, its socket files are taken over.
        self.assertEqual(self.status("one")["name"], "one")
        first.kill()
        first.wait()
        self.assertTrue(self.near.exists())
        second_service = self.service("one", "counter", *self.endpoints(), "--name", "one")
        self.nw("service", "stop", "one")
        self.check_ended(second_service, "one")


if __name__ == "__main__":
    unittest.main()
