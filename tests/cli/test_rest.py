"""The control socket of a running router: REST, metrics, and logs that change while it runs."""

import json
import re
import signal
import socket
import subprocess
import time
import unittest
import urllib.request
from pathlib import Path

from command_line import NW, TIMEOUT_S, free_port
from control_socket import ControlSocketTest, http, until


class Rest(ControlSocketTest):
    def test_control_socket_default_is_for_owner_only(self):
        router = self.router()
        socket_path = self.control(router)
        self.assertEqual(socket_path.stat().st_mode & 0o777, 0o600)
        self.assertTrue(until(lambda: f"control place={socket_path}" in router.log_text()))
        code, text = http(socket_path, "GET /openapi.json")
        printed = json.loads(self.nw("openapi").stdout)
        self.assertEqual((code, json.loads(text)), (200, printed))
        self.assertEqual(router.end(), 0)
        self.assertFalse(socket_path.exists())

    def test_metrics_count_packets(self):
        router = self.router()
        self.answering(router)
        self.nw("ping", "/p", "-c", 20, "-i", 5, router=router)
        self.nw("peek", "/unserved", router=router, code=7)
        code, text = http(self.control(router), "GET /metrics")
        values = dict(
            line.rsplit(" ", 1) for line in text.decode().splitlines() if not line.startswith("#")
        )
        self.assertEqual(code, 200)
        self.assertGreaterEqual(float(values["nw_interests_satisfied_total"]), 20)
        self.assertGreaterEqual(float(values['nw_packets_total{direction="out",kind="data"}']), 20)
        self.assertGreaterEqual(float(values['nw_drops_total{reason="no_route"}']), 1)
        self.assertLess(abs(float(values["nw_start_time_seconds"]) - time.time()), 60)
        self.assertGreater(float(values["nw_loop_busy_seconds_total"]), 0)
        self.assertTrue(any(key.startswith("nw_face_bytes_total{face=") for key in values))

    def test_cache_hits_are_not_in_drop_metrics(self):
        router = self.router()
        self.put(router, "/f/cached", b"x" * 20_000)
        for _ in range(3):
            self.nw("cat", "-q", "/f/cached", router=router)
        values = dict(
            line.rsplit(" ", 1)
            for line in http(self.control(router), "GET /metrics")[1].decode().splitlines()
            if not line.startswith("#")
        )
        self.assertGreater(float(values['nw_packets_done_total{reason="cache_hit"}']), 2)
        self.assertNotIn('nw_drops_total{reason="cache_hit"}', values)
        self.assertEqual(values[f'nw_build_info{{version="{self.version()}"}}'], "1")
        overview = json.loads(http(self.control(router), "GET /v1/look")[1])
        self.assertIn("cache_hit", [completed["reason"] for completed in overview["done"]])
        for drops in (
            overview["drops"],
            json.loads(http(self.control(router), "GET /v1/drops")[1]),
        ):
            self.assertNotIn("cache_hit", [drop["reason"] for drop in drops])
        rates = json.loads(self.nw("top", "--once", "--json", router=router).stdout)
        self.assertNotIn("cache_hit", [drop["reason"] for drop in rates["drops"]])

    def version(self):
        return self.nw("--version").stdout.decode().split()[-1]

    def test_face_metrics_and_control_disabled_are_absent(self):
        router = self.router("r", "[control]\nface_metrics = false\n")
        self.assertNotIn(b'face="', http(self.control(router), "GET /metrics")[1])
        off = self.router("off", "[control]\nenabled = false\n")
        self.assertFalse(self.control(off).exists())
        self.assertIn("control socket", self.sentence(self.nw("log", "show", router=off, code=4)))
        path = Path(self.folder) / "elsewhere.sock"
        port = free_port(socket.SOCK_STREAM)
        token = Path(self.folder) / "token"
        token.write_text("0123456789abcdef\n")
        custom = self.router(
            "other",
            f'[control]\npath = "{path}"\nmode = 0o660\nlisten = ["127.0.0.1:{port}"]\ntoken_file = "{token}"\n',
        )
        self.assertEqual(path.stat().st_mode & 0o777, 0o660)
        tcp = f"http://127.0.0.1:{port}"
        for args in ((path,), (tcp, "--token-file", token)):
            self.assertEqual(
                self.nw("log", "show", "--control", *args, router=custom).stdout, b"info\n"
            )
        self.assertIn(
            "--token-file",
            self.sentence(self.nw("log", "show", "--control", tcp, router=custom, code=6)),
        )

    def test_tcp_without_token_allows_monitoring_only(self):
        control, metrics = (free_port(socket.SOCK_STREAM) for _ in range(2))
        router = self.router(
            "r",
            f'[control]\nlisten = ["127.0.0.1:{control}"]\nmetrics_listen = ["127.0.0.1:{metrics}"]\n',
        )
        self.assertTrue(until(lambda: "there is no control.token_file" in router.log_text()))
        for port in (control, metrics):
            for path in ("/metrics", "/healthz", "/readyz"):
                with urllib.request.urlopen(
                    f"http://127.0.0.1:{port}{path}", timeout=TIMEOUT_S
                ) as answer:
                    self.assertEqual(answer.status, 200)
            for args in (
                ["log", "set", "debug"],
                ["top", "--once"],
                ["trace", "/a"],
                ["tap", "-c", "1"],
            ):
                command = [NW, *args, "--control", f"http://127.0.0.1:{port}"]
                completed = subprocess.run(
                    command, env=router.environment(), capture_output=True, timeout=TIMEOUT_S
                )
                self.assertNotEqual(completed.returncode, 0)
                self.assertRegex(completed.stderr.decode(), "control.token_file|for monitoring")
        self.assertEqual(self.nw("log", "show", router=router).stdout, b"info\n")

    def test_hostile_clients_do_not_disturb_forwarding(self):
        router = self.router("r", "[control]\nconnections = 8\n")
        self.answering(router)
        rates = []
        for hostile in (False, True):
            clients = []
            if hostile:
                for head in (
                    b"GET /metrics HT",
                    b"PUT /v1/log HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n{",
                    b"\x00" * 999,
                    b"GET /v1/look HTTP/1.1\r\nHost: x\r\n\r\n",
                ):
                    for _ in range(8):
                        s = socket.socket(socket.AF_UNIX)
                        s.setblocking(False)
                        clients.append(s)
                        try:
                            s.connect(str(self.control(router)))
                            s.send(head)
                        except (BlockingIOError, BrokenPipeError):
                            pass
            lines = self.nw(
                "ping", "/p", "-c", 300, "-i", 1, "--json", router=router
            ).stdout.splitlines()
            rates.append(json.loads(lines[-1])["answered"])
            for s in clients:
                s.close()
        self.assertEqual(rates, [300, 300])
        self.assertEqual(until(lambda: http(self.control(router), "GET /v1/version")[0], 20), 200)

    def test_commands_pool_full_drops_oldest_command(self):
        router = self.router()
        ports = []
        for _ in range(66):
            # A listener whose queue is full, so connecting to it blocks.
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
            # The client closes without waiting for the reply; the router still waits for the
            # connection.
            body = json.dumps({"uri": f"tcp4://127.0.0.1:{port}"}).encode()
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(str(self.control(router)))
                s.sendall(
                    b"POST /v1/faces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                )
                s.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
                time.sleep(0.02)
        counted = lambda: re.search(
            rb'nw_pool_shortages_total\{pool="commands"\} (\d+)',
            http(self.control(router), "GET /metrics")[1],
        )[1]
        until(lambda: int(counted()) == 2, TIMEOUT_S)
        self.assertEqual(int(counted()), 2)
        # The next command is started nevertheless.
        code, made = http(
            self.control(router), "POST /v1/faces", b'{"uri": "udp4://127.0.0.1:17999"}'
        )
        self.assertEqual(code, 201, made)


class Logs(ControlSocketTest):
    def test_log_level_changes_while_router_runs(self):
        router = self.router()
        self.assertEqual(self.nw("log", "show", router=router).stdout, b"info\n")
        for args in (("show",), ("set", "info")):
            self.assertEqual(
                json.loads(self.nw("log", *args, "--json", router=router).stdout),
                {"filter": "info"},
            )
        self.assertNotIn("DEBUG", router.log_text())
        self.assertEqual(
            self.nw("log", "set", "router=debug", router=router).stdout, b"router=debug\n"
        )
        self.nw("face", "create", f"udp4://127.0.0.1:{free_port()}", router=router)
        self.assertTrue(until(lambda: "DEBUG" in router.log_text()))
        self.assertIn(
            "no log level", self.sentence(self.nw("log", "set", "loud", router=router, code=6))
        )
        # A reload restores the level of the configuration.
        router.write('[log]\nlevel = "warn"\n')
        router.process.send_signal(signal.SIGHUP)
        self.assertTrue(until(lambda: self.nw("log", "show", router=router).stdout == b"warn\n"))

    def test_log_format_json_prints_json_lines(self):
        router = self.router("r", '[log]\nformat = "json"\n')
        # The log thread writes the last line of the start, possibly after the socket accepts
        # connections.
        self.assertTrue(until(lambda: '"running"' in router.log_text()), router.log_text())
        lines = router.log_text().splitlines()
        self.assertGreater(len(lines), 3)
        for line in lines:
            self.assertTrue({"timestamp", "level", "message"} <= json.loads(line).keys(), line)
        folder = Path(self.folder) / "second"
        folder.mkdir()
        config = folder / "nw.toml"
        config.write_text(
            f'[faces.unix]\npath = "{folder}/s.sock"\n[faces.udp]\nlisten = []\n[faces.tcp]\nlisten = []\n'
        )
        process = subprocess.Popen(
            [NW, "run", "-c", config, "--log-format", "json"], stderr=subprocess.PIPE
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.terminate)
        json.loads(process.stderr.readline())


if __name__ == "__main__":
    unittest.main()
