"""What the tests of a running router share: requests to its control socket, and traffic to
observe."""

import socket
import subprocess
import time

from command_line import NW, TIMEOUT_S, CommandLine


def until(condition, timeout_s=10):
    """Waits until `condition()` returns a true value, and returns it."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(0.02)


def http(socket_path, request, body=b""):
    """Sends one request over the control socket. Returns the status and the body."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(TIMEOUT_S)
        s.connect(str(socket_path))
        head = f"{request} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        s.sendall(head.encode() + body)
        answer = b""
        while part := s.recv(65536):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


class ControlSocketTest(CommandLine):
    def control(self, router):
        return router.socket.with_name(router.socket.name.replace(".sock", ".control.sock"))

    def answering(self, router, name="/p", *args):
        """Starts a ping server for a name on the router."""
        server = self.start(router, "ping-server", name, *args)
        self.assertIn(b"answering", server.stderr.readline())
        return server

    def traffic(self, router, name="/p", interval=2):
        args = [NW, "ping", name, "-i", str(interval), "--json"]
        process = subprocess.Popen(
            args,
            env=router.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process
