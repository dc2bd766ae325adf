"""Thousands of peers that request and never read: the router stays within its memory bound, serves
others, and frees the memory afterwards."""

import json
import os
import resource
import socket
import unittest
from pathlib import Path

from test_browser import tlv
from command_line import TIMEOUT_S, CommandLine

READERS, REQUESTS = 2500, 800
# The bound of all queues, smaller than the default of 256 MiB, and the router's other memory.
QUEUES_MIB, BESIDES_MIB = 64, 192


def segment(prefix, version, number):
    name = tlv(8, prefix) + tlv(54, version.to_bytes(8, "big")) + tlv(50, bytes([number]))
    return tlv(5, tlv(7, name) + tlv(0x0A, os.urandom(4)))


class SlowReaders(CommandLine):
    def setUp(self):
        super().setUp()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < 2 * READERS:
            self.skipTest(f"at most {hard} open files here")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * READERS), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))

    def rss_mib(self, router):
        line = next(
            line
            for line in Path(f"/proc/{router.process.pid}/status").read_text().splitlines()
            if line.startswith("VmRSS")
        )
        return int(line.split()[1]) // 1024

    def test_peers_that_never_read_share_one_bound(self):
        router = self.router(extra=f"[faces]\nqueues_mib = {QUEUES_MIB}\n")
        content = Path(self.folder) / "content"
        content.write_bytes(os.urandom(800_000))
        put = self.start(router, "put", "-q", "--segment", "8000", "/v", content)
        server = self.start(router, "ping-server", "/by")
        self.until(
            lambda: b"/by" in self.nw("route", "list", router=router).stdout,
            "the producers are there",
        )
        name = json.loads(
            self.nw(
                "cat", "-q", "--json", "/v", "-o", os.devnull, router=router
            ).stderr.splitlines()[-1]
        )["name"]
        before = self.rss_mib(router)
        version = int(name.split("/v=")[1])
        requests = b"".join(segment(b"v", version, number % 100) for number in range(REQUESTS))
        held = []
        for _ in range(READERS):
            reader = socket.create_connection(("127.0.0.1", router.tcp))
            self.addCleanup(reader.close)
            reader.setblocking(False)
            try:
                reader.send(requests)
            except BlockingIOError:
                pass
            held.append(reader)
        peak = self.rss_mib(router)
        self.assertLess(peak, before + QUEUES_MIB + BESIDES_MIB, router.log_text())
        # Other clients and the operator are served meanwhile.
        self.assertIn(b"faces", self.nw("status", router=router).stdout)
        completed = json.loads(
            self.nw(
                "ping", "/by", "-c", "20", "-i", "10", "--json", router=router
            ).stdout.splitlines()[-1]
        )
        self.assertEqual((completed["sent"], completed["answered"]), (20, 20))
        self.until(lambda: 'pool="send_queues"' in router.log_text(), "the log names the full pool")
        for reader in held:
            reader.close()
        returned = lambda: self.rss_mib(router) < before + 64
        self.until(returned, f"memory is returned: {before} MiB before, {peak} at most")
        for process in (put, server):
            process.terminate()
            process.wait(TIMEOUT_S)


if __name__ == "__main__":
    unittest.main()
