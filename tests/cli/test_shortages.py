"""Faces and descriptors used up by one peer: other programs and the operator's commands still work,
and the log names the exhausted pool."""

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
from command_line import NW, CommandLine, free_port
from control_socket import http

OTHERS = os.geteuid() == 0 and shutil.which("setpriv")


def interest(name):
    return tlv(
        5, tlv(7, b"".join(components(name))) + tlv(0x0A, os.urandom(4)) + tlv(0x0C, b"\xff")
    )


# Opens connections until it is ended, and uses each once. `python3 -c HOLD PLACE COUNT PACKET`
HOLD = """
import socket, sys, time
place, count, packet = sys.argv[1], int(sys.argv[2]), bytes.fromhex(sys.argv[3])
held = []
for _ in range(count):
    if place.startswith('/'):
        connection = socket.socket(socket.AF_UNIX); target = place
    else:
        connection = socket.socket(); target = ('127.0.0.1', int(place))
    try:
        connection.connect(target); connection.sendall(packet); held.append(connection)
    except OSError:
        pass
print(len(held), flush=True)
sys.stdin.read()
"""


# One address sends from many ports and holds many connections, while other addresses are served.
PEERS = """
import socket, subprocess, sys, time
sys.path.insert(0, {here!r})
from command_line import CommandLine, Router
from test_shortages import command, components, interest, tlv
import tempfile

FLOOD, OTHER = "10.9.0.1", ["10.9.0.2", "10.9.0.3"]
FLOOD6, OTHER6 = ["fd00:9:0:1::" + format(number, "x") for number in range(1, 5)], ["fd00:9:0:2::1", "fd00:9:0:3::1"]
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
for address in ["10.9.0.9", FLOOD, *OTHER]:
    subprocess.run(["ip", "address", "add", address + "/32", "dev", "lo"], check=True)
for address in ["fd00:9::9", *FLOOD6, *OTHER6]:
    subprocess.run(["ip", "address", "add", address + "/128", "dev", "lo", "nodad"], check=True)

folder = tempfile.mkdtemp(prefix="nw-cli-")
addresses = '"10.9.0.9:6363", "[fd00:9::9]:6363"'

class Here(Router):
    def write(self, more):
        self.config.write_text(
            f'[faces]\\nmax = 60\\n[faces.unix]\\npath = "{{self.socket}}"\\n'
            f'[faces.udp]\\nlisten = [{{addresses}}]\\n[faces.tcp]\\nlisten = [{{addresses}}]\\n'
        )

def peer(kind, source, target):
    connection = socket.socket(socket.AF_INET6 if ":" in source else socket.AF_INET, kind)
    connection.settimeout(5)
    connection.bind((source, 0))
    connection.connect((target, 6363))
    return connection

def is_served(kind, source, target, name):
    for number in range(2):
        connection = peer(kind, source, target)
        connection.sendall(interest(name + "/" + str(number)))
        assert producer.recv(9000), name
        connection.close()

router = Here(folder)
try:
    producer = socket.socket(socket.AF_UNIX)
    producer.settimeout(10)
    producer.connect(str(router.socket))
    producer.sendall(command("rib/register", tlv(7, b"".join(components("/p")))))
    assert tlv(0x66, b"\\xc8") in producer.recv(9000)
    for sources, others, target in ([FLOOD], OTHER, "10.9.0.9"), (FLOOD6, OTHER6, "fd00:9::9"):
        held = []
        for number in range(120):
            for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                connection = peer(kind, sources[number % len(sources)], target)
                try:
                    for _ in range(3):
                        connection.sendall(interest("/nowhere"))
                except OSError:
                    pass
                held.append(connection)
        time.sleep(0.3)
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            for source in others:
                is_served(kind, source, target, "/p/" + source.replace(":", ".") + str(int(kind)))
    print("done")
finally:
    router.end()
"""


class Shortages(CommandLine):
    def hold(self, target, count, packet=b"", uid=None):
        """Starts a process that holds connections, as another user if `uid` is given."""
        args = [sys.executable, "-c", HOLD, str(target), str(count), packet.hex()]
        if uid is not None:
            args = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *args]
        process = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def finish():
            process.kill()
            process.communicate()

        self.addCleanup(finish)
        self.assertTrue(process.stdout.readline().strip(), "it holds connections")
        return process

    def register_prefix(self, router, prefix, target=None):
        """Connects as a new program and registers a prefix. Returns the connection."""
        if target is None:
            peer = socket.socket(socket.AF_UNIX)
            self.addCleanup(peer.close)
            peer.settimeout(10)
            peer.connect(str(router.socket))
        else:
            peer = socket.create_connection(("127.0.0.1", target), 10)
            self.addCleanup(peer.close)
        peer.sendall(command("rib/register", tlv(7, b"".join(components(prefix)))))
        self.assertIn(tlv(0x66, b"\xc8"), peer.recv(9000), f"{prefix} is registered")
        return peer

    def check_still_works(self, router, what, pool="faces"):
        """Checks that commands and new programs work, and that log and metrics name the exhausted
        pool."""
        for round in range(3):
            self.nw("status", router=router)
            self.register_prefix(router, f"/new/{what}/{round}").close()
        self.assertIn(f'pool="{pool}"', router.log_text())
        self.assertLessEqual(router.log_text().count("ERROR"), 3, "one line in ten seconds")
        metrics = http(router.socket.with_name("r.control.sock"), "GET /metrics")[1].decode()
        line = next(
            line
            for line in metrics.splitlines()
            if line.startswith(f'nw_pool_shortages_total{{pool="{pool}"}}')
        )
        self.assertGreater(float(line.split()[-1]), 0)

    def test_faces_held_by_one_program_leave_room_for_others(self):
        for limit in (16, 20, 200):
            with self.subTest(limit=limit):
                router = self.router("r", f"[faces]\nmax = {limit}\n")
                for packet in (b"", interest("/x")):
                    self.hold(router.socket, limit + 20, packet)
                self.check_still_works(router, "unix")
                self.hold(router.tcp, limit + 20, interest("/x"))
                self.check_still_works(router, "tcp")
                router.end()

    def test_tcp_connections_use_half_of_faces_at_most(self):
        router = self.router("r", "[faces]\nmax = 40\n")
        own = self.register_prefix(router, "/own")
        self.hold(router.tcp, 100, interest("/x"))
        self.check_still_works(router, "tcp")
        faces = self.nw("face", "list", router=router).stdout.decode()
        self.assertLessEqual(faces.count("tcp4://127.0.0.1:"), 2 * 20)
        own.sendall(command("rib/register", tlv(7, b"".join(components("/still")))))
        self.assertIn(tlv(0x66, b"\xc8"), own.recv(9000), "what was there before is")

    def test_udp_and_websocket_faces_leave_room_for_others(self):
        port = free_port(socket.SOCK_STREAM)
        router = self.router(
            "r", f'[faces]\nmax = 64\n[faces.websocket]\nlisten = ["127.0.0.1:{port}"]\n'
        )
        own = self.register_prefix(router, "/own")
        for _ in range(300):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                for _ in range(3):
                    sender.sendto(interest("/own/x"), ("127.0.0.1", router.udp))
        self.check_still_works(router, "udp")
        request = (
            b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        self.hold(port, 200, request)
        self.hold(port, 100, request[:20])
        self.check_still_works(router, "websocket")
        own.sendall(command("rib/register", tlv(7, b"".join(components("/still")))))
        deadline, read = time.monotonic() + 10, b""
        while tlv(0x66, b"\xc8") not in read and time.monotonic() < deadline:
            read += own.recv(65536)
        self.assertIn(tlv(0x66, b"\xc8"), read, "what was there before is")

    def test_faces_created_by_command_leave_room_for_others(self):
        router = self.router("r", "[faces]\nmax = 40\n")
        peer = self.register_prefix(router, "/own")
        for number in range(60):
            uri = f"udp4://203.0.113.{number + 1}:6363"
            peer.sendall(command("faces/create", tlv(0x72, uri.encode())))
            peer.recv(9000)
        self.check_still_works(router, "commanded")

    @unittest.skipUnless(OTHERS, "becoming other users needs root and setpriv")
    def test_faces_held_by_one_user_leave_room_for_others(self):
        os.chmod(self.folder, 0o755)
        router = self.router("r", "[faces]\nmax = 100\n")
        other_users = [
            self.hold(router.socket, 3, interest("/x"), uid=65000 + number) for number in range(4)
        ]
        self.hold(router.socket, 300, interest("/x"), uid=65100)
        self.check_still_works(router, "root")
        later = self.hold(
            router.socket,
            3,
            command("rib/register", tlv(7, b"".join(components("/later")))),
            uid=65200,
        )
        self.until(
            lambda: b"/later" in self.nw("route", "list", router=router).stdout,
            "another user registers",
        )
        for process in [*other_users, later]:
            self.assertIsNone(process.poll())
        # Users with few connections keep them: theirs and those of this test are still open.
        faces = self.nw("face", "list", router=router).stdout.decode().count("fd://")
        self.assertGreater(faces, 80)

    @unittest.skipUnless(
        OTHERS and shutil.which("unshare") and shutil.which("ip"),
        "a network of its own needs root, unshare and ip",
    )
    def test_faces_held_by_one_address_leave_room_for_others(self):
        """Runs in a network namespace of its own, so that peers have addresses other than
        loopback."""
        script = Path(self.folder) / "peers.py"
        script.write_text(PEERS.format(here=str(Path(__file__).parent)))
        args = ["unshare", "-n", "--", sys.executable, str(script)]
        completed = subprocess.run(
            args, capture_output=True, text=True, timeout=100, env={**os.environ, "NW_BIN": str(NW)}
        )
        self.assertEqual(
            (completed.returncode, completed.stdout.split()[-1:]),
            (0, ["done"]),
            completed.stdout + completed.stderr,
        )

    def test_descriptors_exhausted_leave_router_working(self):
        port = free_port(socket.SOCK_STREAM)
        # The hard limit is lowered too, because the router raises the soft one.
        limited = Path(self.folder) / "limited"
        limited.write_text(f'#!/bin/sh\nulimit -n 64\nexec "{NW}" "$@"\n')
        limited.chmod(0o755)
        with unittest.mock.patch("command_line.NW", str(limited)):
            router = self.router("r", f'[faces.websocket]\nlisten = ["127.0.0.1:{port}"]\n')
        own = self.register_prefix(router, "/own")
        for target in (router.socket, router.tcp, port):
            for packet in (b"", interest("/x")):
                with self.subTest(target=target, used=bool(packet)):
                    process = self.hold(target, 150, packet)
                    self.check_still_works(router, "descriptors", pool="descriptors")
                    if target != router.tcp:
                        self.register_prefix(router, "/own/tcp", target=router.tcp).close()
                    process.kill()
                    process.wait()
        own.sendall(command("rib/register", tlv(7, b"".join(components("/still")))))
        self.assertIn(tlv(0x66, b"\xc8"), own.recv(9000), "what was there before is")
        used = Path(f"/proc/{router.process.pid}/stat").read_text().split()[13:15]
        self.assertLess(sum(map(int, used)), 500, "no busy loop")


if __name__ == "__main__":
    unittest.main()
