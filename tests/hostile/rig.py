"""The router under attack: its sockets, registrations, complete packets of a stream."""

import os
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "conformance"), os.path.join(HERE, "..")]

from kit import management as mgmt  # noqa: E402
from kit.packets import signed_v3  # noqa: E402
from kit.tlv import comp  # noqa: E402

BINARY = os.environ.get("NW_BIN", os.path.join(HERE, "../../target/release/nw"))

HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def free_port(kind):
    with socket.socket(type=kind) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Router:
    """`nw run` with its sockets in a directory of its own."""

    def __init__(self, binary, config="", arguments=(), udp=""):
        self.binary = binary
        self.scratch = tempfile.mkdtemp(prefix="nw-hostile-")
        self.unix = os.path.join(self.scratch, "nw.sock")
        self.tcp = ("127.0.0.1", free_port(socket.SOCK_STREAM))
        self.udp = ("127.0.0.1", free_port(socket.SOCK_DGRAM))
        self.ws = ("127.0.0.1", free_port(socket.SOCK_STREAM))
        path = os.path.join(self.scratch, "nw.toml")
        with open(path, "w") as f:
            f.write(
                f'[faces.unix]\npath = "{self.unix}"\n[faces.tcp]\nlisten = ["{self.tcp[0]}:{self.tcp[1]}"]\n'
                f'[faces.udp]\nlisten = ["{self.udp[0]}:{self.udp[1]}"]\n{udp}'
                f'[faces.websocket]\nlisten = ["{self.ws[0]}:{self.ws[1]}"]\n' + config
            )
        self.log = open(os.path.join(self.scratch, "log"), "w")
        command = [binary, "run", "--config", path, *arguments]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        end = time.monotonic() + 10
        while not os.path.exists(self.unix):
            if time.monotonic() > end or self.process.poll() is not None:
                raise SystemExit(f"nw run did not come up; see {self.scratch}/log")
            time.sleep(0.05)

    def connect(self, transport):
        if transport == "unix":
            s = socket.socket(socket.AF_UNIX)
            s.connect(self.unix)
        elif transport == "tcp":
            s = socket.create_connection(self.tcp)
        elif transport == "ws":
            s = socket.create_connection(self.ws)
            s.settimeout(5)
            s.sendall(HANDSHAKE)
            if not s.recv(4096).startswith(b"HTTP/1.1 101 "):
                raise ConnectionError("no WebSocket")
        else:
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            s.connect(self.udp)
        return s

    def rss_kib(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))

    def nw(self, *arguments, seconds=20):
        """Runs a command of `nw` against this router."""
        environment = {**os.environ, "NDN_CLIENT_TRANSPORT": f"unix://{self.unix}"}
        command = [self.binary, *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, env=environment, check=False
        )

    def stop(self):
        self.process.terminate()
        code = self.process.wait(10)
        self.log.close()
        return code


def register(sock, prefix):
    """Registers a prefix for this connection, and waits for the answer."""
    parameters = mgmt.parameters(name=prefix)
    command, _ = signed_v3(mgmt.LOCAL + [comp("rib"), comp("register"), comp(parameters)])
    sock.sendall(command)
    sock.settimeout(5)
    if b"\x66\x01\xc8" not in sock.recv(65536):  # StatusCode 200
        raise SystemExit("the router refused a registration")


def complete_element(buffer, start):
    """Returns the length of the element at `start`, or None while it is incomplete."""
    at = start + 1
    if at >= len(buffer):
        return None
    first = buffer[at]
    if first < 253:
        size = 2 + first
    elif len(buffer) < at + 3:
        return None
    else:
        size = 4 + int.from_bytes(buffer[at + 1 : at + 3], "big")
    return size if len(buffer) >= start + size else None
