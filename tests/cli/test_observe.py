"""nw top, nw trace and nw tap on a running router, as a user runs them."""

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
import termios
import time
import unittest
from pathlib import Path

from command_line import NW, TIMEOUT_S, free_port
from control_socket import ControlSocketTest, http, until


class Top(ControlSocketTest):
    def test_top_once_prints_rates(self):
        router = self.router()
        self.answering(router)
        self.traffic(router)
        rates = json.loads(self.nw("top", "--once", "--json", "--depth", 1, router=router).stdout)
        # The first request enabled the counters.
        self.assertGreater(rates["in_packets"], 50)
        self.assertIn("/p", [prefix["prefix"] for prefix in rates["prefixes"]])
        self.assertGreater(sum(face["out_packets"][1] for face in rates["faces"]), 25)
        self.assertTrue(0 < rates["core_share"] < 1, rates["core_share"])
        text = self.nw("top", "--once", "-i", 300, router=router).stdout.decode()
        for word in ("namewire", "face", "in I/s", "/p/ping", "pending"):
            self.assertIn(word, text)
        self.assertIn("terminal", self.sentence(self.nw("top", router=router, code=1)))

    def test_top_without_control_socket_shows_public_rates(self):
        router = self.router("r", "[control]\nenabled = false\n")
        self.answering(router)
        self.traffic(router)
        rates = json.loads(self.nw("top", "--once", "--json", router=router).stdout)
        self.assertGreater(rates["in_packets"], 50)
        self.assertEqual(rates["prefixes"], [])
        self.assertNotIn("core_share", rates)
        self.assertIn("can't reach", self.sentence(self.nw("top", "--once", code=4)))

    def screen(self, router, rows=30, columns=120, args=()):
        """Starts nw top on a pseudo-terminal. Returns the process, both ends and the terminal's
        attributes before the start."""
        controller, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        before = termios.tcgetattr(terminal)
        process = subprocess.Popen(
            [NW, "top", "-i", "200", *args],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env={**router.environment(), "TERM": "xterm"},
            start_new_session=True,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(os.close, controller)
        self.addCleanup(os.close, terminal)
        return process, controller, terminal, before

    def read_until(self, fd, expected, timeout_s=10):
        seen, deadline = b"", time.monotonic() + timeout_s
        while expected not in seen and time.monotonic() < deadline:
            if select.select([fd], [], [], 0.1)[0]:
                seen += os.read(fd, 65536)
        self.assertIn(expected, seen)
        return seen

    def check_terminal_restored(self, process, controller, terminal, before):
        seen = self.read_until(controller, b"\x1b[?1049l")
        self.assertEqual(process.wait(TIMEOUT_S), 0)
        self.assertEqual(termios.tcgetattr(terminal), before, "the terminal is as it was")
        return seen

    def test_top_ended_restores_terminal(self):
        router = self.router()
        self.answering(router)
        self.traffic(router)
        for ending in ("q", "\x1b", "\x03", signal.SIGTERM):
            process, controller, terminal, before = self.screen(router)
            seen = self.read_until(controller, b"/p/ping")
            self.assertIn(b"\x1b[?1049h", seen)
            self.assertIn(b"namewire", seen)
            self.assertNotEqual(termios.tcgetattr(terminal), before)
            if isinstance(ending, str):
                os.write(controller, ending.encode())
            else:
                process.send_signal(ending)
            self.check_terminal_restored(process, controller, terminal, before)

    def test_top_on_small_or_resized_terminal_goes_on(self):
        router = self.router()
        for rows, columns in ((1, 1), (2, 8), (5, 20), (60, 200)):
            process, controller, terminal, before = self.screen(router, rows, columns)
            self.read_until(controller, b"\x1b[?1049h")
            for size in ((3, 3), (40, 150), (1, 300)):
                fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
                process.send_signal(signal.SIGWINCH)
                time.sleep(0.1)
            for key in ("s", "r", " ", "j", "k", "\x1b[6~"):
                os.write(controller, key.encode())
            time.sleep(0.2)
            self.assertIsNone(process.poll())
            os.write(controller, b"q")
            self.check_terminal_restored(process, controller, terminal, before)

    def test_top_reports_lost_router_and_reconnects(self):
        router = self.router()
        process, controller, terminal, before = self.screen(router)
        self.read_until(controller, b"q quit")
        router.end(signal.SIGTERM)
        self.read_until(controller, b"can't")
        new_router = self.router()
        self.read_until(controller, b"q quit")
        self.assertIsNone(process.poll())
        os.write(controller, b"q")
        self.check_terminal_restored(process, controller, terminal, before)
        self.assertIsNone(new_router.process.poll())


class Trace(ControlSocketTest):
    def args(self, router, *args, code=0):
        return self.nw("trace", *args, router=router, code=code, timeout=30).stdout.decode()

    def test_trace_shows_each_step_of_interest_and_data(self):
        router = self.router()
        self.nw("cs", "config", "--capacity", 100, router=router)
        poke = self.start(router, "poke", "/t/a", "hello", "--freshness", "200")
        until(lambda: b"/t/a" in self.nw("route", "list", router=router).stdout)
        text = self.args(router, "/t/a")
        expected = [
            r"/t/a",
            r"Interest from face \d+, lifetime 4000 ms.*\[fd://",
            r"content store: miss$",
            r"PIT: new entry",
            r"FIB: /t/a has 1 next hop$",
            r"strategy: best-route/v=5",
            r"strategy: to face \d+ \(cost 0\), the only next hop that may be used; sent",
            r"Data from face \d+ after [\d.]+ (µs|ms): answers 1 pending Interest, fresh for 200 ms",
            r"content store: cached",
            r"Data to face \d+: sent",
        ]
        self.assertRegex(text, re.compile(r"[\s\S]*".join(expected), re.M))
        self.assertEqual(poke.wait(TIMEOUT_S), 0)
        self.assertRegex(self.args(router, "/t/a"), r"content store: hit\n.*Data to face \d+: sent")
        time.sleep(0.3)
        stale = self.args(router, "/t/a", "--fresh", "--lifetime", "300", code=0)
        self.assertRegex(stale, r"content store: miss \(MustBeFresh, stale for [\d.]+ ")

    def test_trace_shows_rejected_unanswered_and_awaited_interests(self):
        router = self.router()
        text = self.args(router, "/unserved")
        self.assertRegex(text, r"FIB: / has no next hop\n")
        self.assertRegex(text, r"ends here \(no_route\)|Nack \(NoRoute\) to face \d+: sent")
        silent = free_port()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
            sink.bind(("127.0.0.1", silent))
            other_port = free_port()
            self.nw(
                "route", "add", "/silent", f"udp4://127.0.0.1:{silent}", "--cost", 5, router=router
            )
            self.nw(
                "route",
                "add",
                "/silent",
                f"udp4://127.0.0.1:{other_port}",
                "--cost",
                9,
                router=router,
            )
            text = self.args(router, "/silent/x", "--lifetime", "300", "--seconds", "2")
            self.assertRegex(
                text,
                r"to face \d+ \(cost 5\), the cheapest of 2 that may be used; sent +\[udp4://127.0.0.1:%d\]"
                % silent,
            )
            self.assertRegex(text, r"not to face \d+ \(cost 9\), others are preferred")
            self.assertRegex(text, r"PIT: expired after 3\d\d\.\d ms without an answer")
        waiting = self.start(router, "trace", "--wait", "--json", "--seconds", "5", "/waited")
        time.sleep(0.5)
        self.assertIn(
            "another trace is running",
            self.sentence(self.nw("trace", "/other", router=router, code=6)),
        )
        self.nw("peek", "/waited/for", "--lifetime", 100, router=router, code=7)
        self.nw("peek", "/not/waited", "--lifetime", 100, router=router, code=7)
        first = json.loads(waiting.stdout.readline())
        self.assertEqual(
            (first["name"], first["step"], first["packet"]), ("/waited/for", "interest", 1)
        )
        waiting.send_signal(signal.SIGINT)
        remaining, _ = waiting.communicate(timeout=TIMEOUT_S)
        for line in remaining.splitlines():
            self.assertEqual(json.loads(line)["name"], "/waited/for")
        # The trace ended with its reader, so another one can start.
        self.assertTrue(
            until(
                lambda: (
                    subprocess.run(
                        [NW, "trace", "/unserved"], env=router.environment(), capture_output=True
                    ).returncode
                    == 0
                )
            )
        )

    def test_trace_shows_aggregation_and_multicast(self):
        router = self.router()
        ports = [free_port(), free_port()]
        for port in ports:
            self.nw("route", "add", "/m", f"udp4://127.0.0.1:{port}", router=router)
        self.nw("strategy", "set", "/m", "multicast", router=router)
        waiting = self.start(router, "trace", "--wait", "--seconds", "3", "/m")
        time.sleep(0.5)
        consumers = [self.start(router, "peek", "/m/x", "--lifetime", "1500") for _ in range(2)]
        text, _ = waiting.communicate(timeout=TIMEOUT_S)
        self.assertGreaterEqual(
            len(re.findall(r"as to all 2 that may be used; sent", text.decode())), 2, text
        )
        self.assertRegex(text.decode(), r"PIT: already pending, aggregated; 2 faces waiting")
        for consumer in consumers:
            consumer.wait(TIMEOUT_S)


def blocks(data):
    """A separate pcapng reader: yields (type, body) of each block."""
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        assert length % 4 == 0 and struct.unpack_from("<I", data, at + length - 4)[0] == length, (
            "both lengths agree"
        )
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


class Tap(ControlSocketTest):
    def test_tap_prints_only_filtered_packets(self):
        router = self.router()
        self.answering(router)
        self.traffic(router, interval=5)
        lines = self.nw(
            "tap", "--count", 4, "--kind", "data", "--name", "/p", "--json", router=router
        ).stdout.splitlines()
        packets = [json.loads(line) for line in lines]
        self.assertEqual(len(packets), 4)
        self.assertEqual({packet["kind"] for packet in packets}, {"Data"})
        self.assertEqual({packet["direction"] for packet in packets}, {"in", "out"})
        self.assertTrue(all(packet["name"].startswith("/p/ping/") for packet in packets))
        self.assertTrue(all(abs(packet["at_ns"] / 1e9 - time.time()) < 60 for packet in packets))
        face = packets[0]["interface"].removeprefix("face ")
        text = self.nw(
            "tap", "-c", 3, "--face", face, "--direction", "in", router=router
        ).stdout.decode()
        self.assertEqual(
            len(re.findall(rf"^\d\d:\d\d:\d\d\.\d{{6}} in  face {face} ", text, re.M)), 3, text
        )
        # Packets of other names are not captured.
        quiet = self.start(router, "tap", "--name", "/elsewhere")
        time.sleep(0.5)
        quiet.send_signal(signal.SIGINT)
        self.assertEqual((quiet.communicate(timeout=TIMEOUT_S)[0], quiet.returncode), (b"", 0))
        self.assertEqual(http(self.control(router), "GET /v1/tap?kind=cheese")[0], 400)

    def test_tap_file_is_valid_pcapng(self):
        router = self.router()
        self.answering(router)
        self.traffic(router, interval=5)
        path = Path(self.folder) / "packets.pcapng"
        completed = self.nw("tap", "-c", 40, "-w", path, router=router)
        self.assertIn(b"40 packets", completed.stderr)
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
                self.assertEqual(
                    (far, near),
                    (b"\x02\x4e\x00" + face.to_bytes(4, "big")[1:], b"\x02\x4e\xff\xff\xff\xff"),
                )
                kind, value = tlv(frame[14:])
                if kind == 0x64:
                    fields = dict()
                    while value:
                        size = 4 if value[0] == 0xFD else 2
                        field = (
                            struct.unpack_from(">H", value, 1)[0] if value[0] == 0xFD else value[0]
                        )
                        fields[field] = (
                            value[size : size + value[size - 1]]
                            if value[size - 1] < 253
                            else value[size + 2 :]
                        )
                        value = value[size + value[size - 1] :] if value[size - 1] < 253 else b""
                    kind, value = tlv(fields[0x50])
                seen.append(kind)
                self.assertEqual(value[0], 7, "a name comes first")
        self.assertEqual((len(seen), set(seen)), (40, {5, 6}))
        piped = self.nw("tap", "-c", 2, "-w", "-", router=router).stdout
        self.assertEqual(sum(kind == 6 for kind, _ in blocks(piped)), 2)
        if shutil.which("tshark"):
            fields = subprocess.run(
                ["tshark", "-r", path, "-T", "fields", "-e", "eth.type"],
                capture_output=True,
                check=True,
            ).stdout.split()
            self.assertEqual(set(fields), {b"0x8624"})

    def test_tap_reader_stopped_loses_packets_alone(self):
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
        # The next captured packet carries the count of lost ones.
        self.nw("peek", "/unserved", router=router, code=7)
        time.sleep(0.5)
        tap.send_signal(signal.SIGINT)
        _, output = tap.communicate(timeout=TIMEOUT_S)
        self.assertRegex(output.decode(), r"packets, [1-9]\d* lost")

    def test_captures_are_bounded_and_end_with_their_reader(self):
        router = self.router()
        taps = [
            self.start(router, "tap", "-w", Path(self.folder) / f"{n}.pcapng") for n in range(4)
        ]
        self.assertTrue(
            until(lambda: all((Path(self.folder) / f"{n}.pcapng").exists() for n in range(4)))
        )
        self.assertIn(
            "too many captures", self.sentence(self.nw("tap", "-c", 1, router=router, code=6))
        )
        for tap in taps:
            tap.kill()
        capture_one = lambda: subprocess.run(
            [NW, "tap", "-c", "1", "--json"],
            env=router.environment(),
            capture_output=True,
            timeout=TIMEOUT_S,
        )
        self.traffic(router, "/none", interval=20)
        self.assertTrue(until(lambda: capture_one().returncode == 0))


if __name__ == "__main__":
    unittest.main()
