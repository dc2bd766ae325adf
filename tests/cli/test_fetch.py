"""nw put, cat, peek and poke through real routers: transports, signatures, and what an interrupted
fetch leaves."""

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import unittest
from pathlib import Path

from command_line import NW, TIMEOUT_S, CommandLine, free_port


class Transfers(CommandLine):
    def test_file_over_each_transport_arrives_unchanged(self):
        router, content = self.router(), os.urandom(3_000_001)
        self.put(router, "/t/file", content)
        for uri in (
            f"unix://{router.socket}",
            f"tcp4://127.0.0.1:{router.tcp}",
            f"udp4://127.0.0.1:{router.udp}",
        ):
            target = Path(self.folder) / "target"
            self.nw("cat", "--socket", uri, "/t/file", "-o", target, router=router)
            self.assertEqual(
                hashlib.sha256(target.read_bytes()).digest(), hashlib.sha256(content).digest(), uri
            )
            target.unlink()

    def test_file_through_two_routers_arrives_unchanged(self):
        far, content = self.router("far"), os.urandom(1_000_000)
        near = self.router(
            "near", f'[[route]]\nprefix = "/t"\nface = "udp4://127.0.0.1:{far.udp}"\n'
        )
        self.put(far, "/t/file", content)
        completed = self.nw("cat", "--json", "/t/file", router=near)
        self.assertEqual(completed.stdout, content)
        summary = json.loads(completed.stderr)
        self.assertEqual(summary["bytes"], len(content))
        self.assertGreaterEqual(summary["interests"], summary["segments"])

    def test_file_through_two_routers_over_websocket_arrives_unchanged(self):
        port, content = free_port(socket.SOCK_STREAM), os.urandom(1_000_000)
        far = self.router("far", f'[faces.websocket]\nlisten = ["127.0.0.1:{port}"]\n')
        near = self.router("near")
        uri = f"ws://127.0.0.1:{port}"
        self.assertIn(uri, self.nw("face", "channels", router=far).stdout.decode())
        self.nw("face", "create", uri, "--persistency", "permanent", router=near)
        self.nw("route", "add", "/t", uri, router=near)
        self.put(far, "/t/file", content)
        self.assertEqual(self.nw("cat", "/t/file", router=near).stdout, content)
        faces = [
            json.loads(line)
            for line in self.nw("face", "list", "--json", router=far).stdout.splitlines()
        ]
        clients = [face for face in faces if face["uri"].startswith("wsclient://127.0.0.1:")]
        self.assertEqual(
            [(face["local_uri"], face["persistency"]) for face in clients], [(uri, "on-demand")]
        )

    def test_websocket_face_of_other_origin_is_not_local(self):
        port = free_port(socket.SOCK_STREAM)
        router = self.router(
            extra=f'[faces.websocket]\nlisten = ["127.0.0.1:{port}"]\nlocal_origins = ["http://mine.example"]\n'
        )
        components = (b"localhost", b"nfd", b"status", b"general")
        name = b"".join(b"\x08" + bytes([len(word)]) + word for word in components)
        # CanBePrefix, MustBeFresh, Nonce.
        packet = b"\x07" + bytes([len(name)]) + name + bytes.fromhex("210012000a0401020304")
        interest = b"\x05" + bytes([len(packet)]) + packet
        for origin, dropped in (("http://mine.example", 0), ("http://other.example", 1)):
            with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as page:
                page.sendall(
                    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: "
                    + origin.encode()
                    + b"\r\n\r\n"
                )
                self.assertIn(b" 101 ", page.recv(4096))
                page.sendall(b"\x82" + bytes([0x80 | len(interest)]) + bytes(4) + interest)
                time.sleep(0.3)
            drops = self.nw("status", "--drops", router=router).stdout.decode().splitlines()
            self.assertEqual(sum("scope_localhost" in line for line in drops), dropped, drops)

    def test_status_counts_consumed_packets_apart_from_losses(self):
        router = self.router()
        self.put(router, "/f", b"x" * 50_000, "--segment", "1000")
        for _ in range(2):
            self.nw("cat", "/f", router=router)
        self.nw("peek", "/unserved/is/here", router=router, code=7)
        reasons = {}
        for line in self.nw("status", "--drops", "--json", router=router).stdout.splitlines():
            drop = json.loads(line)
            reasons[drop["reason"]] = drop["count"]
        self.assertGreaterEqual(reasons["cache_hit"], 50)
        completed = sum(
            reasons.get(reason, 0)
            for reason in (
                "aggregated",
                "retransmission_suppressed",
                "cache_hit",
                "nack_consumed",
                "sink",
            )
        )
        output = self.nw("status", router=router).stdout.decode()
        self.assertIn(
            f" {sum(reasons.values()) - completed} packets, besides {completed} that had done their work",
            output,
        )
        self.assertGreaterEqual(sum(reasons.values()) - completed, reasons["no_route"])

    def test_put_standard_input_any_size_is_fetched_unchanged(self):
        router = self.router()
        for number, content in enumerate((b"", b"x", os.urandom(5000))):
            process = subprocess.Popen(
                [NW, "put", "--json", "--segment", "100", f"/s/{number}"],
                env=router.environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            process.stdin.write(content)
            process.stdin.close()
            self.assertIn(b"ready", process.stdout.readline())
            self.assertEqual(self.nw("cat", "-q", f"/s/{number}", router=router).stdout, content)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(TIMEOUT_S), 0)
            process.stdout.close()

    def test_poke_each_key_type_signs_data(self):
        router = self.router()
        secret = Path(self.folder) / "secret"
        secret.write_bytes(b"0123456789abcdef")
        keys = {"hmac": ("--hmac", secret)}
        if shutil.which("openssl"):
            for kind, args in {
                "ed25519": ["-algorithm", "ed25519"],
                "ecdsa": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
                "rsa": ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
            }.items():
                path = Path(self.folder) / f"{kind}.pem"
                subprocess.run(
                    ["openssl", "genpkey", *args, "-out", path], check=True, capture_output=True
                )
                keys[kind] = ("--key", path)
        types = {"hmac": 4, "ed25519": 5, "ecdsa": 3, "rsa": 1}
        for kind, (option, path) in keys.items():
            process = self.start(
                router, "poke", option, path, "--key-name", "/me/KEY/1", f"/k/{kind}", "hello"
            )
            answer = None
            for _ in range(50):
                completed = subprocess.run(
                    [NW, "peek", "--json", "--lifetime", "500", f"/k/{kind}"],
                    capture_output=True,
                    env=router.environment(),
                )
                if completed.returncode == 0:
                    answer = json.loads(completed.stdout)
                    break
                time.sleep(0.05)
            self.assertIsNotNone(answer, kind)
            self.assertEqual(
                (answer["signature_type"], answer["key_locator"]), (types[kind], "/me/KEY/1")
            )
            self.assertEqual(process.wait(TIMEOUT_S), 0)

    def test_fetch_failed_leaves_no_partial_file(self):
        router = self.router()
        target = Path(self.folder) / "out" / "file"
        target.parent.mkdir()
        text = self.sentence(
            self.nw("cat", "-q", "/unserved/has/this", "-o", target, router=router, code=7)
        )
        self.assertIn("/unserved/has/this", text)
        self.assertEqual(os.listdir(target.parent), [])
        # A producer killed in the middle of the download.
        process, _ = self.put(router, "/t/dies", os.urandom(30_000_000))
        self.nw("cs", "config", "--admit", "false", router=router)
        fetch = self.start(
            router,
            "cat",
            "-q",
            "--retries",
            "1",
            "--lifetime",
            "300",
            "--timeout",
            "2",
            "/t/dies",
            "-o",
            target,
        )
        time.sleep(0.03)
        process.kill()
        # 30 MB do not cross in 30 ms, so the download can't be whole.
        self.assertNotEqual(fetch.wait(TIMEOUT_S), 0)
        self.assertEqual(os.listdir(target.parent), [])

    def test_fetch_interrupted_leaves_no_partial_file(self):
        router = self.router()
        target = Path(self.folder) / "out" / "file"
        target.parent.mkdir()
        # A route to a face that never answers, so the fetch waits.
        silent = free_port()
        self.nw("route", "add", "/silent", f"udp4://127.0.0.1:{silent}", router=router)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
            sink.bind(("127.0.0.1", silent))
            fetch = self.start(router, "cat", "-q", "--no-version", "/silent", "-o", target)
            time.sleep(0.5)
            fetch.send_signal(signal.SIGINT)
            self.assertEqual(fetch.wait(TIMEOUT_S), 130)
        self.assertEqual(os.listdir(target.parent), [])

    def test_fetch_disk_full_fails_and_leaves_no_file(self):
        router, mount = self.router(), Path(self.folder) / "small"
        mount.mkdir()
        made = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mount], capture_output=True
        )
        if made.returncode != 0:
            self.skipTest("a small disk needs the right to mount one")
        try:
            self.put(router, "/t/large", os.urandom(4_000_000))
            text = self.sentence(
                self.nw("cat", "-q", "/t/large", "-o", mount / "file", router=router, code=1)
            )
            self.assertIn("space", text)
            self.assertEqual(os.listdir(mount), [])
        finally:
            subprocess.run(["umount", mount], check=True)


if __name__ == "__main__":
    unittest.main()
