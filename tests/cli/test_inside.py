"""Looking into a running router: REST, metrics, top, trace, tap, logs, systemd; as a user does it."""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
import unittest
import urllib.request
from pathlib import Path

from test_cli import NW, PATIENCE_S, CommandLine, free_port

ROOT = Path(__file__).resolve().parents[2]


def until(what, patience_s=10):
    """Waits for something to become true; gives it."""
    deadline = time.monotonic() + patience_s
    while True:
        found = what()
        if found or time.monotonic() > deadline:
            return found
        time.sleep(0.02)


def http(place, request, body=b""):
    """One request over the control socket: the status and the body."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(PATIENCE_S)
        s.connect(str(place))
        head = f"{request} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        s.sendall(head.encode() + body)
        answer = b""
        while part := s.recv(65536):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


class Looking(CommandLine):
    def control(self, router):
        return router.socket.with_name(router.socket.name.replace(".sock", ".control.sock"))

    def answering(self, router, name="/p", *words):
        """A router where /p answers."""
        server = self.start(router, "ping-server", name, *words)
        self.assertIn(b"answering", server.stderr.readline())
        return server

    def traffic(self, router, name="/p", interval=2):
        words = [NW, "ping", name, "-i", str(interval), "--json"]
        process = subprocess.Popen(words, env=router.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process


class Rest(Looking):
    def test_a_default_router_has_it_for_its_owner(self):
        router = self.router()
        place = self.control(router)
        self.assertEqual(place.stat().st_mode & 0o777, 0o600)
        self.assertTrue(until(lambda: f"control place={place}" in router.said()))
        code, text = http(place, "GET /openapi.json")
        printed = json.loads(self.nw("openapi").stdout)
        self.assertEqual((code, json.loads(text)), (200, printed))
        self.assertEqual(router.end(), 0)
        self.assertFalse(place.exists())

    def test_metrics_count(self):
        router = self.router()
        self.answering(router)
        self.nw("ping", "/p", "-c", 20, "-i", 5, router=router)
        self.nw("peek", "/nobody", router=router, code=7)
        code, text = http(self.control(router), "GET /metrics")
        values = dict(line.rsplit(" ", 1) for line in text.decode().splitlines() if not line.startswith("#"))
        self.assertEqual(code, 200)
        self.assertGreaterEqual(float(values["nw_interests_satisfied_total"]), 20)
        self.assertGreaterEqual(float(values['nw_packets_total{direction="out",kind="data"}']), 20)
        self.assertGreaterEqual(float(values['nw_drops_total{reason="no_route"}']), 1)
        self.assertLess(abs(float(values["nw_start_time_seconds"]) - time.time()), 60)
        self.assertGreater(float(values["nw_loop_busy_seconds_total"]), 0)
        self.assertTrue(any(key.startswith("nw_face_bytes_total{face=") for key in values))

    def test_cache_hits_are_no_drops(self):
        router = self.router()
        self.put(router, "/f/cached", b"x" * 20_000)
        for _ in range(3):
            self.nw("cat", "-q", "/f/cached", router=router)
        values = dict(line.rsplit(" ", 1) for line in http(self.control(router), "GET /metrics")[1].decode().splitlines() if not line.startswith("#"))
        self.assertGreater(float(values['nw_packets_done_total{reason="cache_hit"}']), 2)
        self.assertNotIn('nw_drops_total{reason="cache_hit"}', values)
        self.assertEqual(values[f'nw_build_info{{version="{self.version()}"}}'], "1")
        look = json.loads(http(self.control(router), "GET /v1/look")[1])
        self.assertIn("cache_hit", [done["reason"] for done in look["done"]])
        for drops in (look["drops"], json.loads(http(self.control(router), "GET /v1/drops")[1])):
            self.assertNotIn("cache_hit", [drop["reason"] for drop in drops])
        rates = json.loads(self.nw("top", "--once", "--json", router=router).stdout)
        self.assertNotIn("cache_hit", [drop["reason"] for drop in rates["drops"]])

    def version(self):
        return self.nw("--version").stdout.decode().split()[-1]

    def test_face_metrics_can_be_left_out_and_control_too(self):
        router = self.router("r", "[control]\nface_metrics = false\n")
        self.assertNotIn(b'face="', http(self.control(router), "GET /metrics")[1])
        off = self.router("off", "[control]\nenabled = false\n")
        self.assertFalse(self.control(off).exists())
        self.assertIn("control socket", self.sentence(self.nw("log", "show", router=off, code=4)))
        path = Path(self.folder) / "elsewhere.sock"
        port = free_port(socket.SOCK_STREAM)
        token = Path(self.folder) / "token"
        token.write_text("0123456789abcdef\n")
        other = self.router("other", f'[control]\npath = "{path}"\nmode = 0o660\nlisten = ["127.0.0.1:{port}"]\ntoken_file = "{token}"\n')
        self.assertEqual(path.stat().st_mode & 0o777, 0o660)
        tcp = f"http://127.0.0.1:{port}"
        for words in ((path,), (tcp, "--token-file", token)):
            self.assertEqual(self.nw("log", "show", "--control", *words, router=other).stdout, b"info\n")
        self.assertIn("--token-file", self.sentence(self.nw("log", "show", "--control", tcp, router=other, code=6)))

    def test_tcp_without_a_token_is_for_monitoring(self):
        control, metrics = (free_port(socket.SOCK_STREAM) for _ in range(2))
        router = self.router("r", f'[control]\nlisten = ["127.0.0.1:{control}"]\nmetrics_listen = ["127.0.0.1:{metrics}"]\n')
        self.assertTrue(until(lambda: "there is no control.token_file" in router.said()))
        for port in (control, metrics):
            for path in ("/metrics", "/healthz", "/readyz"):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_S) as answer:
                    self.assertEqual(answer.status, 200)
            for words in (["log", "set", "debug"], ["top", "--once"], ["trace", "/a"], ["tap", "-c", "1"]):
                command = [NW, *words, "--control", f"http://127.0.0.1:{port}"]
                done = subprocess.run(command, env=router.environment(), capture_output=True, timeout=PATIENCE_S)
                self.assertNotEqual(done.returncode, 0)
                self.assertRegex(done.stderr.decode(), "control.token_file|for monitoring")
        self.assertEqual(self.nw("log", "show", router=router).stdout, b"info\n")

    def test_hostile_clients_do_not_disturb_forwarding(self):
        router = self.router("r", "[control]\nconnections = 8\n")
        self.answering(router)
        rates = []
        for hostile in (False, True):
            clients = []
            if hostile:
                for head in (b"GET /metrics HT", b"PUT /v1/log HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n{", b"\x00" * 999, b"GET /v1/look HTTP/1.1\r\nHost: x\r\n\r\n"):
                    for _ in range(8):
                        s = socket.socket(socket.AF_UNIX)
                        s.setblocking(False)
                        clients.append(s)
                        try:
                            s.connect(str(self.control(router)))
                            s.send(head)
                        except (BlockingIOError, BrokenPipeError):
                            pass
            lines = self.nw("ping", "/p", "-c", 300, "-i", 1, "--json", router=router).stdout.splitlines()
            rates.append(json.loads(lines[-1])["answered"])
            for s in clients:
                s.close()
        self.assertEqual(rates, [300, 300])
        self.assertEqual(until(lambda: http(self.control(router), "GET /v1/version")[0], 20), 200)


    def test_the_command_that_has_waited_longest_gives_way_to_the_next(self):
        router = self.router()
        ports = []
        for _ in range(66):
            # A listener whose queue is full: who connects waits.
            listener = socket.socket()
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            self.addCleanup(listener.close)
            for _ in range(2):
                filler = socket.socket()
                filler.setblocking(False)
                filler.connect_ex(listener.getsockname())
                self.addCleanup(filler.close)
            ports.append(listener.getsockname()[1])

        for port in ports:
            # A client that does not wait for the answer; the router does.
            body = json.dumps({"uri": f"tcp4://127.0.0.1:{port}"}).encode()
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(str(self.control(router)))
                s.sendall(b"POST /v1/faces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
                s.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
                time.sleep(0.02)
        counted = lambda: re.search(rb'nw_pool_shortages_total\{pool="commands"\} (\d+)', http(self.control(router), "GET /metrics")[1])[1]
        until(lambda: int(counted()) == 2, PATIENCE_S)
        self.assertEqual(int(counted()), 2)
        # The next is begun all the same.
        code, made = http(self.control(router), "POST /v1/faces", b'{"uri": "udp4://127.0.0.1:17999"}')
        self.assertEqual(code, 201, made)


class Logs(Looking):
    def test_levels_change_while_it_runs(self):
        router = self.router()
        self.assertEqual(self.nw("log", "show", router=router).stdout, b"info\n")
        for words in (("show",), ("set", "info")):
            self.assertEqual(json.loads(self.nw("log", *words, "--json", router=router).stdout), {"filter": "info"})
        self.assertNotIn("DEBUG", router.said())
        self.assertEqual(self.nw("log", "set", "router=debug", router=router).stdout, b"router=debug\n")
        self.nw("face", "create", f"udp4://127.0.0.1:{free_port()}", router=router)
        self.assertTrue(until(lambda: "DEBUG" in router.said()))
        self.assertIn("no log level", self.sentence(self.nw("log", "set", "loud", router=router, code=6)))
        # Reading the configuration again brings back what it says.
        router.write('[log]\nlevel = "warn"\n')
        router.process.send_signal(signal.SIGHUP)
        self.assertTrue(until(lambda: self.nw("log", "show", router=router).stdout == b"warn\n"))

    def test_lines_are_json_when_wanted(self):
        router = self.router("r", '[log]\nformat = "json"\n')
        # The last line of a start is written by the log's own thread, perhaps after the socket answers.
        self.assertTrue(until(lambda: '"running"' in router.said()), router.said())
        lines = router.said().splitlines()
        self.assertGreater(len(lines), 3)
        for line in lines:
            self.assertTrue({"timestamp", "level", "message"} <= json.loads(line).keys(), line)
        folder = Path(self.folder) / "second"
        folder.mkdir()
        config = folder / "nw.toml"
        config.write_text(f'[faces.unix]\npath = "{folder}/s.sock"\n[faces.udp]\nlisten = []\n[faces.tcp]\nlisten = []\n')
        process = subprocess.Popen([NW, "run", "-c", config, "--log-format", "json"], stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.terminate)
        json.loads(process.stderr.readline())


class Top(Looking):
    def test_once_and_json(self):
        router = self.router()
        self.answering(router)
        self.traffic(router)
        rates = json.loads(self.nw("top", "--once", "--json", "--depth", 1, router=router).stdout)
        # The first look switched the counting on.
        self.assertGreater(rates["in_packets"], 50)
        self.assertIn("/p", [prefix["prefix"] for prefix in rates["prefixes"]])
        self.assertGreater(sum(face["out_packets"][1] for face in rates["faces"]), 25)
        self.assertTrue(0 < rates["core_share"] < 1, rates["core_share"])
        text = self.nw("top", "--once", "-i", 300, router=router).stdout.decode()
        for word in ("namewire", "face", "in I/s", "/p/ping", "pending"):
            self.assertIn(word, text)
        self.assertIn("terminal", self.sentence(self.nw("top", router=router, code=1)))

    def test_without_a_control_socket_it_shows_what_all_may_see(self):
        router = self.router("r", "[control]\nenabled = false\n")
        self.answering(router)
        self.traffic(router)
        rates = json.loads(self.nw("top", "--once", "--json", router=router).stdout)
        self.assertGreater(rates["in_packets"], 50)
        self.assertEqual(rates["prefixes"], [])
        self.assertNotIn("core_share", rates)
        self.assertIn("can't reach", self.sentence(self.nw("top", "--once", code=4)))

    def screen(self, router, rows=30, columns=120, words=()):
        """nw top on a terminal of its own: the process, our end, and how the terminal was."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        before = termios.tcgetattr(theirs)
        process = subprocess.Popen(
            [NW, "top", "-i", "200", *words], stdin=theirs, stdout=theirs, stderr=theirs, env={**router.environment(), "TERM": "xterm"}, start_new_session=True
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(os.close, ours)
        self.addCleanup(os.close, theirs)
        return process, ours, theirs, before

    def read_until(self, fd, wanted, patience_s=10):
        seen, deadline = b"", time.monotonic() + patience_s
        while wanted not in seen and time.monotonic() < deadline:
            if select.select([fd], [], [], 0.1)[0]:
                seen += os.read(fd, 65536)
        self.assertIn(wanted, seen)
        return seen

    def ended_well(self, process, ours, theirs, before):
        seen = self.read_until(ours, b"\x1b[?1049l")
        self.assertEqual(process.wait(PATIENCE_S), 0)
        self.assertEqual(termios.tcgetattr(theirs), before, "the terminal is as it was")
        return seen

    def test_draws_ends_and_restores(self):
        router = self.router()
        self.answering(router)
        self.traffic(router)
        for how in ("q", "\x1b", "\x03", signal.SIGTERM):
            process, ours, theirs, before = self.screen(router)
            seen = self.read_until(ours, b"/p/ping")
            self.assertIn(b"\x1b[?1049h", seen)
            self.assertIn(b"namewire", seen)
            self.assertNotEqual(termios.tcgetattr(theirs), before)
            if isinstance(how, str):
                os.write(ours, how.encode())
            else:
                process.send_signal(how)
            self.ended_well(process, ours, theirs, before)

    def test_small_terminals_and_resizing(self):
        router = self.router()
        for rows, columns in ((1, 1), (2, 8), (5, 20), (60, 200)):
            process, ours, theirs, before = self.screen(router, rows, columns)
            self.read_until(ours, b"\x1b[?1049h")
            for size in ((3, 3), (40, 150), (1, 300)):
                fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
                process.send_signal(signal.SIGWINCH)
                time.sleep(0.1)
            for key in ("s", "r", " ", "j", "k", "\x1b[6~"):
                os.write(ours, key.encode())
            time.sleep(0.2)
            self.assertIsNone(process.poll())
            os.write(ours, b"q")
            self.ended_well(process, ours, theirs, before)

    def test_a_router_that_goes_is_told_and_one_that_comes_back_is_seen(self):
        router = self.router()
        process, ours, theirs, before = self.screen(router)
        self.read_until(ours, b"q quit")
        router.end(signal.SIGTERM)
        self.read_until(ours, b"can't")
        again = self.router()
        self.read_until(ours, b"q quit")
        self.assertIsNone(process.poll())
        os.write(ours, b"q")
        self.ended_well(process, ours, theirs, before)
        self.assertIsNone(again.process.poll())


class Trace(Looking):
    def words(self, router, *words, code=0):
        return self.nw("trace", *words, router=router, code=code, timeout=30).stdout.decode()

    def test_the_way_there_and_back(self):
        router = self.router()
        self.nw("cs", "config", "--capacity", 100, router=router)
        poke = self.start(router, "poke", "/t/a", "hello", "--freshness", "200")
        until(lambda: b"/t/a" in self.nw("route", "list", router=router).stdout)
        text = self.words(router, "/t/a")
        expected = [
            r"/t/a", r"Interest from face \d+, lifetime 4000 ms.*\[fd://", r"content store: miss$", r"PIT: new entry", r"FIB: /t/a has 1 next hop$",
            r"strategy: best-route/v=5", r"strategy: to face \d+ \(cost 0\), the only next hop that may be used; sent",
            r"Data from face \d+ after [\d.]+ (µs|ms): answers 1 pending Interest, fresh for 200 ms", r"content store: cached", r"Data to face \d+: sent",
        ]
        self.assertRegex(text, re.compile(r"[\s\S]*".join(expected), re.M))
        self.assertEqual(poke.wait(PATIENCE_S), 0)
        self.assertRegex(self.words(router, "/t/a"), r"content store: hit\n.*Data to face \d+: sent")
        time.sleep(0.3)
        stale = self.words(router, "/t/a", "--fresh", "--lifetime", "300", code=0)
        self.assertRegex(stale, r"content store: miss \(MustBeFresh, stale for [\d.]+ ")

    def test_refused_unanswered_and_waited_for(self):
        router = self.router()
        text = self.words(router, "/nobody")
        self.assertRegex(text, r"FIB: / has no next hop\n")
        self.assertRegex(text, r"ends here \(no_route\)|Nack \(NoRoute\) to face \d+: sent")
        silent = free_port()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
            sink.bind(("127.0.0.1", silent))
            other = free_port()
            self.nw("route", "add", "/silent", f"udp4://127.0.0.1:{silent}", "--cost", 5, router=router)
            self.nw("route", "add", "/silent", f"udp4://127.0.0.1:{other}", "--cost", 9, router=router)
            text = self.words(router, "/silent/x", "--lifetime", "300", "--seconds", "2")
            self.assertRegex(text, r"to face \d+ \(cost 5\), the cheapest of 2 that may be used; sent +\[udp4://127.0.0.1:%d\]" % silent)
            self.assertRegex(text, r"not to face \d+ \(cost 9\), others are preferred")
            self.assertRegex(text, r"PIT: expired after 3\d\d\.\d ms without an answer")
        waiting = self.start(router, "trace", "--wait", "--json", "--seconds", "5", "/waited")
        time.sleep(0.5)
        self.assertIn("another trace is running", self.sentence(self.nw("trace", "/other", router=router, code=6)))
        self.nw("peek", "/waited/for", "--lifetime", 100, router=router, code=7)
        self.nw("peek", "/not/waited", "--lifetime", 100, router=router, code=7)
        first = json.loads(waiting.stdout.readline())
        self.assertEqual((first["name"], first["step"], first["packet"]), ("/waited/for", "interest", 1))
        waiting.send_signal(signal.SIGINT)
        rest, _ = waiting.communicate(timeout=PATIENCE_S)
        for line in rest.splitlines():
            self.assertEqual(json.loads(line)["name"], "/waited/for")
        # It ended with its reader, so another may begin.
        self.assertTrue(until(lambda: subprocess.run([NW, "trace", "/nobody"], env=router.environment(), capture_output=True).returncode == 0))

    def test_aggregation_and_several_ways(self):
        router = self.router()
        ports = [free_port(), free_port()]
        for port in ports:
            self.nw("route", "add", "/m", f"udp4://127.0.0.1:{port}", router=router)
        self.nw("strategy", "set", "/m", "multicast", router=router)
        waiting = self.start(router, "trace", "--wait", "--seconds", "3", "/m")
        time.sleep(0.5)
        askers = [self.start(router, "peek", "/m/x", "--lifetime", "1500") for _ in range(2)]
        text, _ = waiting.communicate(timeout=PATIENCE_S)
        self.assertGreaterEqual(len(re.findall(r"as to all 2 that may be used; sent", text.decode())), 2, text)
        self.assertRegex(text.decode(), r"PIT: already pending, aggregated; 2 faces waiting")
        for asker in askers:
            asker.wait(PATIENCE_S)


def blocks(data):
    """A pcapng reader of its own: (type, body, total length) of each block."""
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        assert length % 4 == 0 and struct.unpack_from("<I", data, at + length - 4)[0] == length, "both lengths agree"
        yield kind, data[at + 8 : at + length - 4]
        at += length
    assert at == len(data)


def options(data):
    at, found = 0, {}
    while at + 4 <= len(data):
        code, length = struct.unpack_from("<HH", data, at)
        if code == 0:
            return found
        found[code] = data[at + 4 : at + 4 + length]
        at += 4 + (length + 3) // 4 * 4
    raise AssertionError("options have an end")


def tlv(data):
    kind, length = data[0], data[1]
    if length == 253:
        return kind, data[4 : 4 + struct.unpack_from(">H", data, 2)[0]]
    return kind, data[2 : 2 + length]


class Tap(Looking):
    def test_lines_with_filters(self):
        router = self.router()
        self.answering(router)
        self.traffic(router, interval=5)
        lines = self.nw("tap", "--count", 4, "--kind", "data", "--name", "/p", "--json", router=router).stdout.splitlines()
        packets = [json.loads(line) for line in lines]
        self.assertEqual(len(packets), 4)
        self.assertEqual({packet["kind"] for packet in packets}, {"Data"})
        self.assertEqual({packet["direction"] for packet in packets}, {"in", "out"})
        self.assertTrue(all(packet["name"].startswith("/p/ping/") for packet in packets))
        self.assertTrue(all(abs(packet["at_ns"] / 1e9 - time.time()) < 60 for packet in packets))
        face = packets[0]["interface"].removeprefix("face ")
        text = self.nw("tap", "-c", 3, "--face", face, "--direction", "in", router=router).stdout.decode()
        self.assertEqual(len(re.findall(rf"^\d\d:\d\d:\d\d\.\d{{6}} in  face {face} ", text, re.M)), 3, text)
        # Nothing of another name.
        quiet = self.start(router, "tap", "--name", "/elsewhere")
        time.sleep(0.5)
        quiet.send_signal(signal.SIGINT)
        self.assertEqual((quiet.communicate(timeout=PATIENCE_S)[0], quiet.returncode), (b"", 0))
        self.assertEqual(http(self.control(router), "GET /v1/tap?kind=cheese")[0], 400)

    def test_a_file_that_others_read(self):
        router = self.router()
        self.answering(router)
        self.traffic(router, interval=5)
        path = Path(self.folder) / "packets.pcapng"
        done = self.nw("tap", "-c", 40, "-w", path, router=router)
        self.assertIn(b"40 packets", done.stderr)
        interfaces, seen = [], []
        for at, (kind, body) in enumerate(blocks(path.read_bytes())):
            if at == 0:
                self.assertEqual(kind, 0x0A0D0D0A)
                self.assertEqual(struct.unpack_from("<IHH", body), (0x1A2B3C4D, 1, 0))
            elif kind == 1:
                self.assertEqual(struct.unpack_from("<H", body)[0], 1, "Ethernet")
                found = options(body[8:])
                self.assertEqual(found[9], b"\x09", "nanoseconds")
                interfaces.append((found[2].decode(), found[3].decode()))
            else:
                self.assertEqual(kind, 6)
                interface, high, low, captured, length = struct.unpack_from("<IIIII", body)
                self.assertLess(interface, len(interfaces))
                self.assertEqual(captured, length)
                self.assertLess(abs((high << 32 | low) / 1e9 - time.time()), 60)
                frame = body[20 : 20 + captured]
                self.assertEqual(frame[12:14], b"\x86\x24", "NDN's EtherType")
                incoming = options(body[20 + (captured + 3) // 4 * 4 :])[2][0] & 3 == 1
                face = int(interfaces[interface][0].removeprefix("face "))
                far, near = (frame[6:12], frame[0:6]) if incoming else (frame[0:6], frame[6:12])
                self.assertEqual((far, near), (b"\x02\x4e\x00" + face.to_bytes(4, "big")[1:], b"\x02\x4e\xff\xff\xff\xff"))
                kind, value = tlv(frame[14:])
                if kind == 0x64:
                    fields = dict()
                    while value:
                        size = 4 if value[0] == 0xFD else 2
                        field = struct.unpack_from(">H", value, 1)[0] if value[0] == 0xFD else value[0]
                        fields[field] = value[size : size + value[size - 1]] if value[size - 1] < 253 else value[size + 2 :]
                        value = value[size + value[size - 1] :] if value[size - 1] < 253 else b""
                    kind, value = tlv(fields[0x50])
                seen.append(kind)
                self.assertEqual(value[0], 7, "a name comes first")
        self.assertEqual((len(seen), set(seen)), (40, {5, 6}))
        piped = self.nw("tap", "-c", 2, "-w", "-", router=router).stdout
        self.assertEqual(sum(kind == 6 for kind, _ in blocks(piped)), 2)
        if shutil.which("tshark"):
            fields = subprocess.run(["tshark", "-r", path, "-T", "fields", "-e", "eth.type"], capture_output=True, check=True).stdout.split()
            self.assertEqual(set(fields), {b"0x8624"})

    def test_a_reader_that_stops_loses_packets_and_nobody_else_does(self):
        router = self.router()
        self.put(router, "/t/large", os.urandom(8_000_000))
        tap = self.start(router, "tap", "-w", Path(self.folder) / "x.pcapng")
        until(lambda: (Path(self.folder) / "x.pcapng").exists())
        time.sleep(0.2)
        tap.send_signal(signal.SIGSTOP)
        try:
            fetched = self.nw("cat", "-q", "/t/large", router=router, timeout=60).stdout
            self.assertEqual(len(fetched), 8_000_000)
        finally:
            tap.send_signal(signal.SIGCONT)
        time.sleep(1)
        # One more packet tells of those that were lost.
        self.nw("peek", "/nobody", router=router, code=7)
        time.sleep(0.5)
        tap.send_signal(signal.SIGINT)
        _, said = tap.communicate(timeout=PATIENCE_S)
        self.assertRegex(said.decode(), r"packets, [1-9]\d* lost")

    def test_captures_are_bounded_and_end_with_their_reader(self):
        router = self.router()
        taps = [self.start(router, "tap", "-w", Path(self.folder) / f"{n}.pcapng") for n in range(4)]
        self.assertTrue(until(lambda: all((Path(self.folder) / f"{n}.pcapng").exists() for n in range(4))))
        self.assertIn("too many captures", self.sentence(self.nw("tap", "-c", 1, router=router, code=6)))
        for tap in taps:
            tap.kill()
        again = lambda: subprocess.run([NW, "tap", "-c", "1", "--json"], env=router.environment(), capture_output=True, timeout=PATIENCE_S)
        self.traffic(router, "/none", interval=20)
        self.assertTrue(until(lambda: again().returncode == 0))


class Systemd(Looking):
    def notify_socket(self, abstract=False):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        name = f"\0nw-test-{os.getpid()}-{id(s)}" if abstract else f"{self.folder}/notify"
        s.bind(name)
        s.settimeout(PATIENCE_S)
        self.addCleanup(s.close)
        return s, name.replace("\0", "@")

    def config(self, more=""):
        path = Path(self.folder) / "nw.toml"
        path.write_text(f'[faces.unix]\npath = "{self.folder}/own.sock"\n[faces.udp]\nlisten = []\n[faces.tcp]\nlisten = []\n{more}')
        return path

    def hear(self, notify, *wanted):
        """Reads what systemd would, until all of these were said."""
        wanted, said = set(wanted), []
        while wanted:
            lines = notify.recv(4096).decode().split("\n")
            said.extend(lines)
            wanted -= set(lines)
        return said

    def run_router(self, config, **environment):
        process = subprocess.Popen([NW, "run", "-c", config], stderr=subprocess.PIPE, env={**os.environ, **environment})
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def test_ready_reloading_alive_stopping(self):
        for abstract in (False, True):
            notify, name = self.notify_socket(abstract)
            process = self.run_router(self.config(), NOTIFY_SOCKET=name, WATCHDOG_USEC="400000")
            self.hear(notify, "READY=1")
            self.assertTrue(Path(f"{self.folder}/own.sock").exists(), "it listens before it says so")
            began = time.monotonic()
            for _ in range(3):
                said = self.hear(notify, "WATCHDOG=1")
            self.assertLess(time.monotonic() - began, 5)
            self.assertTrue(any(re.match(r"STATUS=0 faces, \d+ prefixes", line) for line in said), said)
            process.send_signal(signal.SIGHUP)
            said = self.hear(notify, "RELOADING=1", "READY=1")
            self.assertTrue(any(line.startswith("MONOTONIC_USEC=") for line in said))
            process.send_signal(signal.SIGTERM)
            self.hear(notify, "STOPPING=1")
            self.assertEqual(process.wait(PATIENCE_S), 0)

    def test_a_stopped_loop_feeds_no_watchdog(self):
        notify, name = self.notify_socket()
        process = self.run_router(self.config(), NOTIFY_SOCKET=name, WATCHDOG_USEC="400000")
        self.hear(notify, "READY=1", "WATCHDOG=1")
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        notify.setblocking(False)
        try:
            while notify.recv(4096):
                pass
        except BlockingIOError:
            pass
        time.sleep(1)
        self.assertRaises(BlockingIOError, notify.recv, 4096)
        process.send_signal(signal.SIGCONT)
        notify.settimeout(PATIENCE_S)
        self.hear(notify, "WATCHDOG=1")

    def test_socket_activation(self):
        path = f"{self.folder}/activated.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(16)
        # An application is there before the router.
        environment = {**os.environ, "NDN_CLIENT_TRANSPORT": f"unix://{path}"}
        early = subprocess.Popen([NW, "status", "--json"], env=environment, stdout=subprocess.PIPE)
        self.addCleanup(early.communicate)

        def start(passed, config):
            def prepare():
                # Where it is number 3 already, there is no copy that exec would leave open.
                os.set_inheritable(passed, True)
                os.dup2(passed, 3)

            words = ["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" run -c "$1"', NW, str(config)]
            process = subprocess.Popen(words, stderr=subprocess.PIPE, preexec_fn=prepare, close_fds=False)
            self.addCleanup(process.communicate)
            self.addCleanup(process.kill)
            return process

        process = start(listener.fileno(), self.config())
        out, _ = early.communicate(timeout=PATIENCE_S)
        self.assertIn(f"unix://{path}", [channel["local_uri"] for channel in json.loads(out)["channels"]])
        self.assertFalse(Path(f"{self.folder}/own.sock").exists(), "the socket that was passed takes its place")
        self.assertTrue(Path(f"{self.folder}/activated.control.sock").exists())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(PATIENCE_S), 0)
        self.assertTrue(Path(path).exists(), "its file is systemd's")
        with socket.socket(socket.AF_INET) as wrong:
            wrong.bind(("127.0.0.1", 0))
            wrong.listen(1)
            process = start(wrong.fileno(), self.config())
            self.assertEqual(process.wait(PATIENCE_S), 1)
            self.assertIn(b"passed descriptor 3", process.stderr.read())

    def test_units_are_right(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd-analyze is not there")
        folder = Path(self.folder) / "units"
        folder.mkdir()
        for unit in ("namewire.service", "namewire.socket"):
            text = (ROOT / "deploy/systemd" / unit).read_text()
            (folder / unit).write_text(text.replace("/usr/local/bin/nw", NW))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", folder / "namewire.service", folder / "namewire.socket"], capture_output=True, text=True)
        ours = [line for line in (done.stdout + done.stderr).splitlines() if "namewire" in line]
        self.assertEqual(ours, [], done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
