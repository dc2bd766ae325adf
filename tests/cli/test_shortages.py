"""Faces and descriptors used up by one peer: other programs and the operator's commands go on, and the log says what is short."""

import os
import shutil
import socket
import subprocess
import sys
import time
import unittest
import unittest.mock
from pathlib import Path

from test_browser import command, components, tlv
from test_cli import NW, CommandLine, free_port
from test_inside import http

OTHERS = os.geteuid() == 0 and shutil.which("setpriv")


def interest(name):
    return tlv(5, tlv(7, b"".join(components(name))) + tlv(0x0A, os.urandom(4)) + tlv(0x0C, b"\xff"))


# Opens connections until told to stop, and uses each once. `python3 -c HOLD PLACE COUNT PACKET`
HOLD = """
import socket, sys, time
place, count, packet = sys.argv[1], int(sys.argv[2]), bytes.fromhex(sys.argv[3])
held = []
for _ in range(count):
    if place.startswith('/'):
        one = socket.socket(socket.AF_UNIX); target = place
    else:
        one = socket.socket(); target = ('127.0.0.1', int(place))
    try:
        one.connect(target); one.sendall(packet); held.append(one)
    except OSError:
        pass
print(len(held), flush=True)
sys.stdin.read()
"""


class Shortages(CommandLine):
    def hold(self, place, count, packet=b"", uid=None):
        """Another process that holds connections; by another user if that is said."""
        words = [sys.executable, "-c", HOLD, str(place), str(count), packet.hex()]
        if uid is not None:
            words = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *words]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def finish():
            process.kill()
            process.communicate()

        self.addCleanup(finish)
        self.assertTrue(process.stdout.readline().strip(), "it holds connections")
        return process

    def registers(self, router, prefix, place=None):
        """A new program registers a prefix; the connection."""
        if place is None:
            peer = socket.socket(socket.AF_UNIX)
            self.addCleanup(peer.close)
            peer.settimeout(10)
            peer.connect(str(router.socket))
        else:
            peer = socket.create_connection(("127.0.0.1", place), 10)
            self.addCleanup(peer.close)
        peer.sendall(command("rib/register", tlv(7, b"".join(components(prefix)))))
        self.assertIn(tlv(0x66, b"\xc8"), peer.recv(9000), f"{prefix} is registered")
        return peer

    def goes_on(self, router, what, pool="faces"):
        """Commands and new programs work, and the log and the metrics say what is short."""
        for round in range(3):
            self.nw("status", router=router)
            self.registers(router, f"/new/{what}/{round}").close()
        self.assertIn(f'pool="{pool}"', router.said())
        self.assertLessEqual(router.said().count("ERROR"), 3, "one line in ten seconds")
        metrics = http(router.socket.with_name("r.control.sock"), "GET /metrics")[1].decode()
        line = next(line for line in metrics.splitlines() if line.startswith(f'nw_pool_shortages_total{{pool="{pool}"}}'))
        self.assertGreater(float(line.split()[-1]), 0)

    def test_one_program_holds_all_faces(self):
        for limit in (16, 20, 200):
            with self.subTest(limit=limit):
                router = self.router("r", f"[faces]\nmax = {limit}\n")
                for packet in (b"", interest("/x")):
                    self.hold(router.socket, limit + 20, packet)
                self.goes_on(router, "unix")
                self.hold(router.tcp, limit + 20, interest("/x"))
                self.goes_on(router, "tcp")
                router.end()

    def test_connections_over_tcp_use_half_at_most(self):
        router = self.router("r", "[faces]\nmax = 40\n")
        own = self.registers(router, "/own")
        self.hold(router.tcp, 100, interest("/x"))
        self.goes_on(router, "tcp")
        faces = self.nw("face", "list", router=router).stdout.decode()
        self.assertLessEqual(faces.count("tcp4://127.0.0.1:"), 2 * 20)
        own.sendall(command("rib/register", tlv(7, b"".join(components("/still")))))
        self.assertIn(tlv(0x66, b"\xc8"), own.recv(9000), "what was there before is")

    def test_senders_over_udp_and_websocket_connections(self):
        port = free_port(socket.SOCK_STREAM)
        router = self.router("r", f'[faces]\nmax = 64\n[faces.websocket]\nlisten = ["127.0.0.1:{port}"]\n')
        own = self.registers(router, "/own")
        for _ in range(300):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                for _ in range(3):
                    sender.sendto(interest("/own/x"), ("127.0.0.1", router.udp))
        self.goes_on(router, "udp")
        request = (
            b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        self.hold(port, 200, request)
        self.hold(port, 100, request[:20])
        self.goes_on(router, "websocket")
        own.sendall(command("rib/register", tlv(7, b"".join(components("/still")))))
        deadline, read = time.monotonic() + 10, b""
        while tlv(0x66, b"\xc8") not in read and time.monotonic() < deadline:
            read += own.recv(65536)
        self.assertIn(tlv(0x66, b"\xc8"), read, "what was there before is")

    def test_faces_made_by_command(self):
        router = self.router("r", "[faces]\nmax = 40\n")
        peer = self.registers(router, "/own")
        for number in range(60):
            uri = f"udp4://203.0.113.{number + 1}:6363"
            peer.sendall(command("faces/create", tlv(0x72, uri.encode())))
            peer.recv(9000)
        self.goes_on(router, "commanded")

    @unittest.skipUnless(OTHERS, "becoming other users needs root and setpriv")
    def test_one_user_does_not_lock_out_others(self):
        os.chmod(self.folder, 0o755)
        router = self.router("r", "[faces]\nmax = 100\n")
        others = [self.hold(router.socket, 3, interest("/x"), uid=65000 + number) for number in range(4)]
        self.hold(router.socket, 300, interest("/x"), uid=65100)
        self.goes_on(router, "root")
        later = self.hold(router.socket, 3, command("rib/register", tlv(7, b"".join(components("/later")))), uid=65200)
        self.until(lambda: b"/later" in self.nw("route", "list", router=router).stdout, "another user registers")
        for process in [*others, later]:
            self.assertIsNone(process.poll())
        # Nobody with few was pushed out: theirs and those of this test are there.
        faces = self.nw("face", "list", router=router).stdout.decode().count("fd://")
        self.assertGreater(faces, 80)

    def test_descriptors_used_up(self):
        port = free_port(socket.SOCK_STREAM)
        # The hard limit too: the router raises the other one.
        limited = Path(self.folder) / "limited"
        limited.write_text(f'#!/bin/sh\nulimit -n 64\nexec "{NW}" "$@"\n')
        limited.chmod(0o755)
        with unittest.mock.patch("test_cli.NW", str(limited)):
            router = self.router("r", f'[faces.websocket]\nlisten = ["127.0.0.1:{port}"]\n')
        own = self.registers(router, "/own")
        for place in (router.socket, router.tcp, port):
            for packet in (b"", interest("/x")):
                with self.subTest(place=place, used=bool(packet)):
                    process = self.hold(place, 150, packet)
                    self.goes_on(router, "descriptors", pool="descriptors")
                    if place != router.tcp:
                        self.registers(router, "/own/tcp", place=router.tcp).close()
                    process.kill()
                    process.wait()
        own.sendall(command("rib/register", tlv(7, b"".join(components("/still")))))
        self.assertIn(tlv(0x66, b"\xc8"), own.recv(9000), "what was there before is")
        used = Path(f"/proc/{router.process.pid}/stat").read_text().split()[13:15]
        self.assertLess(sum(map(int, used)), 500, "no busy loop")


if __name__ == "__main__":
    unittest.main()
