"""The elements of running services over their control sockets: state, erasure, hand-over of cached
packets, routes, registrations by faces, events."""

import base64
import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

from command_line import NW, TIMEOUT_S
from control_socket import http, until
from test_service import Services

CONTENT_BYTES = 400_000
SEGMENTS = CONTENT_BYTES // 8000
PUBLICATIONS = Path(__file__).resolve().parents[2] / "examples/graphs/publications.graph"


class ServiceControl(Services):
    def control(self, name):
        return Path(self.folder) / f"nw-service-{name}.sock"

    def request(self, name, request, content=None, code=200):
        body = b"" if content is None else json.dumps(content).encode()
        status, answer = http(self.control(name), request, body)
        self.assertEqual(status, code, answer)
        return json.loads(answer) if answer else None

    def element(self, name, element):
        return self.request(name, f"GET /v1/elements/{element}")

    def values(self, name, element):
        return self.element(name, element)["values"]

    def store(self, name, router, **parameters):
        """Starts a content store before a router. Returns its address for consumers."""
        near = Path(self.folder) / f"{name}.near"
        given = [f"{key}={value}" for key, value in parameters.items()]
        ends = ["--listen", f"unix://{near}", "--to", f"next=unix://{router.socket}"]
        self.service(name, "content_store", *given, *ends, "--name", name)
        return near

    def cat(self, near, name):
        return self.nw("cat", "-s", f"unix://{near}", name).stdout


class State(ServiceControl):
    def test_status_shows_version_processor_time_and_memory(self):
        ends = ["--listen", f"unix://{self.near}", "--to", f"next=unix://{self.folder}/none"]
        process = self.service("content_store", "content_store", *ends)
        status = self.request("content_store", "GET /v1/service")
        self.assertRegex(status["version"], r"^namewire \d+\.")
        self.assertEqual(status["pid"], process.pid)
        self.assertTrue(1 << 20 < status["resident_bytes"] < 1 << 30, status)

        def cpu_s():
            status = self.request("content_store", "GET /v1/service")
            return status["cpu_user_s"] + status["cpu_system_s"]

        before = cpu_s()
        self.assertTrue(until(lambda: cpu_s() > before), "each request costs processor time")

    def test_tap_shows_packets_with_the_name_of_their_face(self):
        router = self.router("producer")
        near = self.store("cs", router, mib=8)
        self.put(router, "/film", b"content")
        tap = subprocess.Popen(
            [NW, "service", "tap", "--json", "--count", "4", self.control("cs")],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(tap.communicate)
        self.addCleanup(tap.kill)
        # The first packets may pass before the capture has begun.
        self.assertTrue(until(lambda: self.cat(near, "/film") and tap.poll() is not None))
        lines = [json.loads(line) for line in tap.stdout]
        self.assertEqual(len(lines), 4)
        self.assertTrue(all(line["name"].startswith("/film") for line in lines), lines)
        self.assertIn("Data", {line["kind"] for line in lines})
        self.assertIn("near", {line["interface"] for line in lines})
        self.assertEqual({line["direction"] for line in lines}, {"in", "out"})

    def test_tap_number_is_bounded_and_a_wrong_filter_is_refused(self):
        router = self.router("producer")
        self.store("cs", router, mib=8)
        taps = []
        for _ in range(4):
            tap = socket.socket(socket.AF_UNIX)
            self.addCleanup(tap.close)
            tap.connect(str(self.control("cs")))
            tap.sendall(b"GET /v1/tap HTTP/1.0\r\nHost: localhost\r\n\r\n")
            self.assertIn(b" 200 ", tap.recv(64))
            taps.append(tap)
        self.request("cs", "GET /v1/tap", code=503)
        self.request("cs", "GET /v1/tap?kind=cheese", code=400)
        taps.pop().close()
        path = Path(self.folder) / "tap.pcapng"
        command = ["service", "tap", "--write", path, self.control("cs")]
        process = None

        def starts():
            nonlocal process
            process = subprocess.Popen([NW, *command], stderr=subprocess.PIPE)
            # One that is refused ends; one that runs has written the head of the file.
            return (
                until(lambda: process.poll() is not None or path.exists() and path.stat().st_size)
                and process.poll() is None
            )

        self.assertTrue(until(starts), "a capture that ends makes room for another one")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, 0)

    def test_elements_show_pending_interests_hits_and_failures(self):
        router = self.router("producer")
        ends = ["--listen", f"unix://{self.near}", "--to", f"next=unix://{router.socket}"]
        self.service("br", "backward_router", *ends, "--name", "br")
        silent = socket.socket(socket.AF_UNIX)
        self.addCleanup(silent.close)
        # A producer that never answers.
        server = subprocess.Popen(
            [NW, "ping-server", "/p"], env=router.environment(), stderr=subprocess.PIPE
        )
        self.addCleanup(server.communicate)
        self.addCleanup(server.kill)
        self.assertIn(b"answering", server.stderr.readline())
        server.send_signal(signal.SIGSTOP)
        self.assertEqual(self.values("br", "backward_router")["pending"], 0)
        silent.connect(str(self.near))
        silent.sendall(bytes([5, 17, 7, 9, 8, 1, 112, 8, 4, 112, 105, 110, 103, 10, 4, 1, 2, 3, 4]))
        self.assertTrue(until(lambda: self.values("br", "backward_router")["pending"] == 1))
        self.assertFalse(self.element("br", "backward_router")["idle"])
        self.request("br", "GET /v1/elements/none", code=404)
        server.send_signal(signal.SIGCONT)

    def test_verifier_names_failed_packets_and_reason(self):
        router = self.router("producer")
        ends = ["--listen", f"unix://{self.near}", "--to", f"next=unix://{router.socket}"]
        self.service("sv", "signature_verifier", *ends, "--name", "sv")
        answer = self.start(router, "bench", "answer", "--json")
        self.assertTrue(answer.stdout.readline())
        args = ["--window", 1, "--packets", 3, "--lifetime", 300, "--json", "--seconds", 2]
        self.nw("bench", "generate", "-s", f"unix://{self.near}", *args, code=1)
        state = self.element("sv", "signature_verifier")
        self.assertGreater(state["values"]["invalid"], 0)
        failure = state["failures"][0]
        self.assertTrue(failure["name"].startswith("/bench/"), failure)
        self.assertEqual((failure["link"], bool(failure["reason"])), ("next", True))
        text = self.nw("service", "elements", "sv").stdout.decode()
        self.assertIn(f"signature_verifier: {failure['name']} from next", text)
        stream = EventStream(self.control("sv"))
        self.addCleanup(stream.close)
        event = stream.until("verification-failed")
        self.assertTrue(event["name"].startswith("/bench/"), event)


class TapInside(ServiceControl):
    """Taps between the elements of a service, while a generator sends through it."""

    def setUp(self):
        super().setUp()
        router = self.router("producer")
        answer = self.start(router, "bench", "answer", "--json")
        self.assertTrue(answer.stdout.readline())
        self.file = self.graph(router)
        self.service("chain", "--graph", self.file, "--name", "chain")

    def load(self, seconds):
        args = ["-s", f"unix://{self.near}", "--seconds", str(seconds), "--json"]
        load = subprocess.Popen([NW, "bench", "generate", *args], stdout=subprocess.PIPE)
        self.addCleanup(load.communicate)
        self.addCleanup(load.kill)
        return load

    def finish(self, load):
        """Waits for the end of the load, of which no packet may be lost."""
        result = json.loads(load.communicate(timeout=TIMEOUT_S)[0])
        self.assertEqual(result["lost"], 0, result)
        self.assertGreater(result["answered"], 0, result)

    def tap(self, element, *args):
        """Starts a tap that writes a file, and returns when it captures."""
        path = Path(self.folder) / f"{time.monotonic_ns()}.pcapng"
        command = [NW, "service", "tap", "chain", "--element", element, "--write", path, *args]
        tap = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.addCleanup(tap.communicate)
        self.addCleanup(tap.kill)
        self.assertTrue(until(lambda: path.exists() and path.stat().st_size > 0))
        return tap

    def counts(self, tap):
        """Ends a tap and returns how many packets it saw, and how many it lost."""
        tap.send_signal(signal.SIGINT)
        text = tap.communicate(timeout=TIMEOUT_S)[1]
        self.assertEqual(tap.returncode, 0, text)
        found = re.search(r"(\d+) packets?(?:, (\d+) lost)?", text)
        return int(found[1]), int(found[2] or 0)

    def test_each_packet_is_seen_or_counted_as_lost(self):
        taps = {"miss": self.tap("cs.miss"), "data": self.tap("cs.data"), "all": self.tap("cs")}
        self.finish(self.load(2))
        # The last packets are fetched within some 50 ms.
        time.sleep(1)
        passed = self.packets("chain")
        out = {port: passed["cs", "out", port] for port in ("hit", "miss", "data")}
        self.assertGreater(out["miss"], 0)
        seen = {name: self.counts(tap) for name, tap in taps.items()}
        self.assertEqual(sum(seen["miss"]), out["miss"], seen)
        self.assertEqual(sum(seen["data"]), out["data"], seen)
        self.assertEqual(sum(seen["all"]), sum(out.values()), seen)
        # More than 5,000 packets a second pass: some are lost for the tap, none of the traffic.
        self.assertGreater(min(seen["all"]), 0, seen)

    def test_opening_and_closing_taps_loses_no_packet_of_the_traffic(self):
        load = self.load(4)
        for number in range(12):
            element = ("pd", "cs.miss", "br", "nr")[number % 4]
            tap = self.tap(element)
            if number % 3 == 0:
                tap.kill()
                tap.wait()
            else:
                tap.send_signal(signal.SIGINT)
                self.assertEqual(tap.wait(TIMEOUT_S), 0)
        lines = self.nw(
            "service", "tap", "chain", "--element", "br", "--count", 40, "--json"
        ).stdout
        shown = [json.loads(line) for line in lines.splitlines()]
        self.assertEqual(len(shown), 40)
        self.assertEqual({line["direction"] for line in shown}, {"out"})
        ports = {(line["interface"], line["kind"]) for line in shown}
        self.assertTrue(ports <= {("br.interest", "Interest"), ("br.data", "Data")}, ports)
        self.assertIsNone(load.poll(), "taps were opened and closed while packets passed")
        self.finish(load)

    def test_number_is_bounded_and_a_killed_client_makes_room(self):
        taps = [self.tap("cs.miss") for _ in range(4)]
        refused = self.nw("service", "tap", "chain", "--element", "cs", code=6).stderr.decode()
        self.assertIn("too many captures are running", refused)
        self.request("chain", "GET /v1/tap?count=1", code=503)
        taps[0].send_signal(signal.SIGKILL)
        taps[0].wait()

        def opens():
            status = http(self.control("chain"), "GET /v1/tap?element=cs&count=0")[0]
            self.assertIn(status, (200, 503))
            return status == 200

        started = time.monotonic()
        self.assertTrue(until(opens), "the tap of a killed client is taken out")
        self.assertLess(time.monotonic() - started, 5, "at once, not when its time is over")

    def test_wrong_selections_are_refused_with_the_names_there_are(self):
        for selection, words in (
            ("store", 'no element of this graph is called "store": it has pd, cs, br, nr'),
            ("cs.mis", 'cs has no output called "mis": it has hit, miss, data'),
        ):
            refused = self.nw("service", "tap", "chain", "--element", selection, code=3)
            self.assertIn(words, refused.stderr.decode())
        self.request("chain", "GET /v1/tap?port=miss", code=400)
        self.request("chain", "GET /v1/tap?element=cs&face=256", code=400)
        self.request("chain", "GET /v1/tap?element=cs&direction=in", code=400)
        self.nw("service", "tap", "chain", "--element", "cs", "--face", 256, code=2)
        self.nw("service", "tap", "chain", "--element", ".miss", code=2)

    def test_tap_ends_when_a_change_removes_its_element(self):
        tap = self.tap("cs")
        text = self.file.read_text()
        for line in (
            r"cs = .*\n",
            r"-> cs\.interest\ncs\.miss +",
            r"cs\.hit .*\n",
            r"-> cs\.data ",
        ):
            text = re.sub(line, "", text)
        self.assertNotIn("cs.", text)
        self.file.write_text(text)
        self.nw("service", "graph", "chain", "--set", self.file)
        self.assertEqual(tap.wait(TIMEOUT_S), 0)


class Erase(ServiceControl):
    def test_erase_removes_prefix_and_leaves_others(self):
        router, content = self.router("producer"), os.urandom(CONTENT_BYTES)
        near = self.store("cs", router)
        for name in ("/t/one", "/t/two"):
            self.put(router, name, content)
            self.assertEqual(self.cat(near, name), content)
        packets = self.values("cs", "content_store")["packets"]
        self.assertGreater(packets, 2 * SEGMENTS)
        text = self.nw("service", "erase", "cs", "/t/one").stdout.decode()
        erased = int(re.match(r"erased (\d+) packets under /t/one", text)[1])
        self.assertGreaterEqual(erased, SEGMENTS)
        values = self.values("cs", "content_store")
        self.assertEqual(values["packets"], packets - erased)
        self.assertEqual(self.cat(near, "/t/two"), content)
        self.assertGreaterEqual(self.values("cs", "content_store")["hits"], SEGMENTS)
        body = {"prefix": "/t", "packets_max": 5}
        self.assertEqual(
            self.request("cs", "POST /v1/elements/content_store/erase", body)["erased"], 5
        )
        self.request("cs", "POST /v1/elements/none/erase", {"prefix": "/t"}, code=404)
        self.request("cs", "POST /v1/elements/content_store/erase", {"prefix": "t"}, code=422)


class HandOver(ServiceControl):
    def test_packets_of_one_store_answer_from_the_other_meanwhile_forwarding_goes_on(self):
        router, content = self.router("producer"), os.urandom(2_000_000)
        old, new = self.store("old", router), self.store("new", router)
        process, ready = self.put(router, "/t/file", content)
        name = ready["versioned"]
        self.assertEqual(self.cat(old, name), content)
        answer = self.start(router, "bench", "answer", "--json")
        self.assertTrue(answer.stdout.readline())
        load = subprocess.Popen(
            [NW, "bench", "generate", "-s", f"unix://{old}", "--seconds", "2", "--json"],
            stdout=subprocess.PIPE,
        )
        self.addCleanup(load.kill)
        time.sleep(0.3)
        text = self.nw("service", "hand-over", "old", "new").stdout.decode()
        stored = int(re.match(r"(\d+) packets stored", text)[1])
        self.assertGreaterEqual(stored, len(content) // 8800)
        self.assertEqual(json.loads(load.communicate(timeout=TIMEOUT_S)[0])["lost"], 0)
        # The producer is gone: only the new store can answer.
        process.kill()
        process.wait()
        router.end()
        self.assertEqual(self.cat(new, name), content)

    def test_slices_are_newest_first_bounded_and_complete(self):
        router, near = self.router("producer"), None
        near = self.store("cs", router)
        server = self.start(router, "ping-server", "/p")
        self.assertIn(b"answering", server.stderr.readline())
        self.nw("ping", "/p", "-s", f"unix://{near}", "-c", 20, "-i", 1)
        path = "/v1/elements/content_store/packets"
        names, after = [], ""
        while True:
            part = self.request("cs", f"GET {path}?bytes=300{after}")
            self.assertLessEqual(len(part["packets"]), 6)
            wires = [base64.b64decode(packet["data"]) for packet in part["packets"]]
            names += [int(re.search(rb"ping\x08.(\d+)", wire, re.DOTALL)[1]) for wire in wires]
            if part["next"] is None:
                break
            last, after = after, f"&after={part['next']}"
        self.assertEqual(len(names), 20)
        self.assertEqual(names, sorted(names, reverse=True))
        self.request("cs", f"GET {path}?bytes=300{last}", code=404)
        self.request("cs", f"GET {path}?bytes=0", code=400)
        self.request("cs", "GET /v1/elements/none/packets", code=404)

    def test_import_refuses_what_is_no_data_and_evicts_nothing(self):
        router = self.router("producer")
        near = self.store("cs", router, packets=8)
        server = self.start(router, "ping-server", "/p")
        self.assertIn(b"answering", server.stderr.readline())
        self.nw("ping", "/p", "-s", f"unix://{near}", "-c", 5, "-i", 1)
        path = "/v1/elements/content_store/packets"
        known = self.request("cs", f"GET {path}")["packets"]
        self.assertEqual(len(known), 5)
        bad = [{"data": "no base64!"}, {"data": base64.b64encode(b"\x05\x00").decode()}]
        result = self.request("cs", f"POST {path}", {"packets": known + bad})
        self.assertEqual(result, {"stored": 0, "known": 5, "rejected": 2, "full": 0})
        other = self.store("other", router, packets=3)
        result = self.request("other", f"POST {path}", {"packets": known})
        self.assertEqual(result, {"stored": 3, "known": 0, "rejected": 0, "full": 2})
        self.assertTrue(other.exists())


class Routes(ServiceControl):
    def setUp(self):
        super().setUp()
        self.producers = [self.router(name) for name in ("one", "two")]
        ends = ["--listen", f"unix://{self.near}"]
        for number, router in enumerate(self.producers):
            server = self.start(router, "ping-server", "/p")
            self.assertIn(b"answering", server.stderr.readline())
            ends += ["--to", f"up{number}=unix://{router.socket}"]
        self.service("nr", "name_router", "routes=[]", *ends, "--name", "nr")
        self.path = "/v1/elements/name_router/routes"

    def routes(self):
        routes = self.request("nr", f"GET {self.path}")["routes"]
        return [(r["prefix"], r["link"], r["cost"], r["origin"]) for r in routes]

    def test_routes_are_set_changed_and_removed_while_running(self):
        self.assertEqual(self.ping("-c", 1, "--timeout", 500)[1], 0)
        route = {"prefix": "/p", "link": "up0"}
        change = {"version": 5, "add": [route]}
        for _ in range(2):
            answer = self.request("nr", f"POST {self.path}", change)
            self.assertEqual(answer["version"], 5)
        self.assertEqual(self.routes(), [("/p", "up0", 0, "control")])
        self.assertEqual(self.ping("-c", 3, "-i", 1), (3, 3))
        self.request("nr", f"POST {self.path}", {**change, "version": 4}, code=409)
        self.request("nr", f"PUT {self.path}", {"version": 0, "routes": []}, code=422)
        unknown = {"version": 6, "add": [{"prefix": "/q", "link": "none"}]}
        self.request("nr", f"POST {self.path}", unknown, code=404)
        self.assertEqual(self.routes(), [("/p", "up0", 0, "control")])
        two = [
            {"prefix": "/p", "link": "up0", "cost": 9},
            {"prefix": "/p", "link": "up1", "cost": 1},
        ]
        self.request("nr", f"PUT {self.path}", {"version": 6, "routes": two})
        before = self.packets_to("up1")
        self.assertEqual(self.ping("-c", 3, "-i", 1), (3, 3))
        self.assertGreater(self.packets_to("up1"), before, "the cheaper one is used")
        self.request("nr", f"POST {self.path}", {"version": 7, "remove": two})
        self.assertEqual(self.routes(), [])
        self.assertEqual(self.ping("-c", 1, "--timeout", 500)[1], 0)

    def packets_to(self, link):
        links = {link["name"]: link for link in self.links("nr")}
        return links[link]["sent"][0]

    def test_routes_of_control_survive_a_lost_link_and_a_changed_graph(self):
        route = {"prefix": "/p", "link": "up0"}
        self.request("nr", f"PUT {self.path}", {"version": 1, "routes": [route]})
        graph = self.nw("service", "graph", "nr").stdout.decode()
        changed = Path(self.folder) / "changed.graph"
        changed.write_text(graph.replace("routes = []", 'routes = ["/q up1"]'))
        self.nw("service", "graph", "nr", "--set", changed)
        self.assertEqual(self.routes(), [("/p", "up0", 0, "control"), ("/q", "up1", 0, "graph")])
        self.assertEqual(self.ping("-c", 2, "-i", 1), (2, 2))
        self.producers[0].end()
        self.until(lambda: not self.link_is_up("up0"), "the link is down")
        self.assertEqual(self.routes()[0], ("/p", "up0", 0, "control"))

    def link_is_up(self, name):
        return any(link["name"] == name and link["up"] for link in self.links("nr"))


class Registration(ServiceControl):
    """Producers register with a name router as with any forwarder."""

    def start_router(self, *parameters):
        args = ["name_router", *parameters, "--listen", f"unix://{self.near}", "--name", "nr"]
        return self.service("nr", *args)

    def serve(self, prefix, *args):
        server = subprocess.Popen(
            [NW, "ping-server", prefix, "-s", f"unix://{self.near}", *map(str, args)],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

        def finish():
            server.kill()
            server.communicate()

        self.addCleanup(finish)
        return server

    def registered(self):
        routes = self.request("nr", "GET /v1/elements/name_router/routes")["routes"]
        return [route["prefix"] for route in routes if route["origin"] == "registration"]

    def test_producer_registers_is_reached_and_its_route_goes_with_its_face(self):
        self.start_router('commands=["localhost"]')
        server = self.serve("/p")
        self.assertIn(b"answering", server.stderr.readline())
        self.assertEqual(self.registered(), ["/p/ping"])
        self.assertEqual(self.ping("-c", 5, "-i", 1), (5, 5))
        server.kill()
        server.wait()
        self.until(lambda: self.registered() == [], "the route is gone")
        stream = EventStream(self.control("nr"))
        self.addCleanup(stream.close)
        self.assertEqual(stream.until("route-registered")["name"], "/p/ping")
        self.assertEqual(stream.until("route-unregistered")["name"], "/p/ping")

    def test_without_commands_a_registration_is_refused(self):
        self.start_router()
        server = self.serve("/p")
        self.assertIn(b"NoRoute", server.communicate(timeout=TIMEOUT_S)[1])

    def test_rules_say_which_key_may_register_what(self):
        store = ["--store", Path(self.folder) / "keys"]
        self.nw("key", "generate", "/site/alice", *store)
        anchor = self.nw("cert", "export", "/site/alice", *store).stdout.decode()
        anchor = "".join(anchor.split())
        self.start_router(
            'commands=["localhost"]',
            "command_unverified=nowhere",
            f'command_anchors=["{anchor}"]',
            'command_rules=["/site/<who>/<..> by /site/<who>/KEY/<_>"]',
        )
        unsigned = self.serve("/site/alice/x")
        self.assertIn(b"refused", unsigned.communicate(timeout=TIMEOUT_S)[1])
        for prefix, is_allowed in (("/site/alice/x", True), ("/site/bob/x", False)):
            server = self.serve(prefix, "--key", "/site/alice", *store)
            line = server.stderr.readline()
            self.assertEqual(b"answering" in line, is_allowed, line)
        # Its certificate is served, too.
        registered = self.registered()
        self.assertIn("/site/alice/x/ping", registered)
        self.assertFalse([name for name in registered if not name.startswith("/site/alice/")])
        failures = self.element("nr", "name_router")["failures"]
        self.assertEqual(len(failures), 2)
        self.assertIn("no rule allows", failures[-1]["reason"])

    def test_missing_certificate_is_wanted_and_accepted_when_control_gives_it(self):
        store = ["--store", Path(self.folder) / "keys"]
        for identity in ("/site", "/site/alice"):
            self.nw("key", "generate", identity, *store)
        request = self.nw("cert", "request", "/site/alice", *store).stdout
        sign = ["cert", "sign", "-", "--signer", "/site", "--issuer", "boss", *store]
        certificate = self.nw(*sign, stdin=request).stdout
        path = Path(self.folder) / "alice.cert"
        path.write_bytes(certificate)
        self.nw("cert", "install", path, *store)
        base64_of = lambda output: "".join(output.decode().split())
        anchor = base64_of(self.nw("cert", "export", "/site", *store).stdout)
        self.start_router(
            'commands=["localhost"]',
            "command_unverified=nowhere",
            f'command_anchors=["{anchor}"]',
            'command_rules=["/site/<who>/<..> by /site/<who>/KEY/<_>"]',
        )
        refused = self.serve("/site/alice/x", "--key", "/site/alice", *store)
        self.assertIn(b"certificate", refused.communicate(timeout=TIMEOUT_S)[1])
        wanted = self.element("nr", "name_router")["wanted_certificates"]
        self.assertEqual(len(wanted), 1)
        self.assertTrue(wanted[0].startswith("/site/alice/KEY/"), wanted)
        stream = EventStream(self.control("nr"))
        self.addCleanup(stream.close)
        self.assertEqual(stream.until("certificate-wanted")["name"], wanted[0])
        graph = self.request("nr", "GET /v1/graph")["graph"]
        given = f'command_certificates = ["{base64_of(certificate)}"]'
        changed = graph.replace("command_unverified", f"{given}, command_unverified")
        self.request("nr", "PUT /v1/graph", {"graph": changed})
        self.assertEqual(self.element("nr", "name_router")["wanted_certificates"], [])
        server = self.serve("/site/alice/x", "--key", "/site/alice", *store)
        self.assertIn(b"answering", server.stderr.readline())
        self.assertIn("/site/alice/x/ping", self.registered())


class EventStream:
    """Reads Server-Sent Events from a control socket."""

    def __init__(self, path, last_id=None):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect(str(path))
        field = f"Last-Event-ID: {last_id}\r\n" if last_id else ""
        self.socket.sendall(f"GET /v1/events HTTP/1.0\r\nHost: x\r\n{field}\r\n".encode())
        self.lines = self.socket.makefile("r")
        self.head = [line for line in iter(lambda: self.lines.readline().strip(), "")]
        self.last_id = None

    def close(self):
        self.lines.close()
        self.socket.close()

    def next(self):
        fields = {}
        while True:
            line = self.lines.readline()
            if not line:
                return None
            name, _, value = line.rstrip("\n").partition(": ")
            if name:
                fields[name] = value
            elif "data" in fields:
                self.last_id = fields["id"]
                event = json.loads(fields["data"])
                assert event["kind"] == fields["event"], fields
                return event

    def until(self, kind):
        while True:
            event = self.next()
            if event is None or event["kind"] == kind:
                return event


class Events(ServiceControl):
    def setUp(self):
        super().setUp()
        self.producer_router = self.router("producer")
        self.near = self.store("cs", self.producer_router)

    def stream(self, last_id=None):
        stream = EventStream(self.control("cs"), last_id)
        self.addCleanup(stream.close)
        return stream

    def test_events_are_numbered_and_resumed_where_they_ended(self):
        stream = self.stream()
        self.assertIn("200", stream.head[0])
        first = stream.next()
        self.assertEqual((first["number"], first["kind"], first["link"]), (1, "link-up", "next"))
        graph = Path(self.folder) / "same.graph"
        graph.write_text(self.nw("service", "graph", "cs").stdout.decode())
        self.nw("service", "graph", "cs", "--set", graph)
        changed = stream.until("graph-changed")
        stream.close()
        self.nw("service", "graph", "cs", "--set", graph)
        resumed = self.stream(stream.last_id)
        self.assertEqual(resumed.next()["number"], changed["number"] + 1)
        resumed.until("graph-changed")
        # After a restart numbers begin again: the reader learns that it may have missed some.
        other = self.stream("1-7")
        self.assertEqual(other.next()["kind"], "missed")
        self.assertEqual(other.next()["number"], 1)
        self.assertIn("400", self.stream("seven").head[0])

    def test_lost_link_and_drain_are_events(self):
        stream = self.stream()
        self.producer_router.end()
        self.assertEqual(stream.until("link-down")["link"], "next")
        self.nw("service", "drain", "cs")
        self.assertIsNotNone(stream.until("draining"))

    def test_command_prints_events(self):
        process = subprocess.Popen(
            [NW, "service", "events", "cs", "--json"], stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        event = json.loads(process.stdout.readline())
        self.assertEqual((event["kind"], event["link"]), ("link-up", "next"))
        self.nw("service", "stop", "cs")
        self.assertEqual(process.wait(TIMEOUT_S), 0)
        self.refused("events", "cs", "--after", "x", code=4)

    def test_reader_that_does_not_read_is_cut(self):
        first = self.stream()
        start_ms = first.next()["start_ms"]
        # From here on it is not read. Enough events fill the buffers of its connection.
        body = json.dumps(self.request("cs", "GET /v1/graph")).encode()
        for _ in range(900):
            self.assertEqual(http(self.control("cs"), "PUT /v1/graph", body)[0], 200)
        others = [self.stream(f"{start_ms}-{10**9}") for _ in range(7)]
        self.assertTrue(all("200" in stream.head[0] for stream in others))
        self.assertIn("503", self.stream().head[0])
        end = until(lambda: "200" in self.stream(f"{start_ms}-{10**9}").head[0], timeout_s=20)
        self.assertTrue(end, "the place of the reader that does not read becomes free")

    def test_streams_are_bounded_and_do_not_keep_others_out(self):
        streams = [self.stream() for _ in range(9)]
        self.assertEqual([("200" in stream.head[0]) for stream in streams], [True] * 8 + [False])
        self.assertIn("503", streams[-1].head[0])
        self.request("cs", "GET /v1/service")
        streams[0].close()
        self.until(lambda: "200" in self.stream().head[0], "its place is free again")


def publication(links, hop_limit):
    """A publication for the links with these numbers, in the table of single bits."""
    fid = sum(1 << link for link in links).to_bytes(32, "little")
    value = bytes([1, 0, 0, hop_limit, 0, 8, 1, 0]) + fid + bytes([1]) + b"sensors1" + b"21.5"
    return bytes([176, len(value)]) + value


class Publications(ServiceControl):
    def neighbour(self):
        """Returns the socket of a node beside the service, and its address in a graph."""
        neighbour = self.enterContext(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        neighbour.bind(("127.0.0.1", 0))
        neighbour.settimeout(TIMEOUT_S)
        return neighbour, "udp4://{}:{}".format(*neighbour.getsockname())

    def test_service_forwards_publications_by_the_links_they_name(self):
        text = PUBLICATIONS.read_text().replace("/tmp/nw-publications.sock", str(self.near))
        addresses = ("udp4://192.0.2.1:6363", "udp4://192.0.2.2:6363")
        sockets = []
        for address in (*addresses, "unix:///tmp/nw-subscribers.sock"):
            neighbour, own = self.neighbour()
            sockets.append(neighbour)
            text = text.replace(address, own)
        west, east, here = sockets
        path = Path(self.folder) / "lipsin.graph"
        path.write_text(text)
        self.service("lipsin", "--graph", path)
        uri = next(link["local"] for link in self.links("lipsin") if link["name"] == "west")
        service = ("127.0.0.1", int(uri.rpartition(":")[2]))
        # From the west to the east and to this node, with one hop less.
        west.sendto(publication([0, 3], 9), service)
        self.assertEqual(east.recv(9000), publication([0, 3], 8))
        self.assertEqual(here.recv(9000), publication([0, 3], 8))
        # From the east to the west, not back and not to this node.
        east.sendto(publication([1, 3], 9), service)
        self.assertEqual(west.recv(9000), publication([1, 3], 8))
        # From an application here, by a stream, to both neighbours.
        application = self.enterContext(socket.socket(socket.AF_UNIX))
        application.connect(str(self.near))
        application.sendall(2 * publication([0, 1, 3], 9))
        for neighbour in (west, east):
            for _ in range(2):
                self.assertEqual(neighbour.recv(9000), publication([0, 1, 3], 8))
        # What names no link of this node goes nowhere.
        west.sendto(publication([9], 9), service)
        received = lambda: self.packets("lipsin")["lipsin", "in", "packet"]  # noqa: E731
        self.assertTrue(until(lambda: received() == 5), self.log_text("lipsin"))
        sent = self.packets("lipsin")
        self.assertEqual((sent["lipsin", "out", "network"], sent["lipsin", "out", "local"]), (6, 1))
