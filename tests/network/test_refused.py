"""Wrong documents, missing rights, a full disk, two managers: each a clear sentence, nothing lost."""

import contextlib
import os
import socket
import subprocess
import threading
import unittest

from network import NW, SCALED, NetworkTest


class RefusingEngine(threading.Thread):
    """A container engine on a unix socket that refuses whatever it is asked for."""

    ANSWER = b'{"message":"no space in this engine"}'

    def __init__(self, path):
        super().__init__(daemon=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self.start()

    def run(self):
        head = f"HTTP/1.1 500 No\r\nContent-Length: {len(self.ANSWER)}\r\nConnection: close\r\n\r\n"
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            with peer, contextlib.suppress(OSError):
                peer.recv(65536)
                peer.sendall(head.encode() + self.ANSWER)

    def close(self):
        self.listener.close()


class Refused(NetworkTest):
    def refused(self, *args, code=1):
        completed = self.nw(*args, code=code)
        self.assertTrue(completed.stderr.startswith("nw: "), completed.stderr)
        return completed.stderr

    def test_wrong_documents_are_reported_with_place_and_start_nothing(self):
        wrong = self.folder / "wrong.graph"
        wrong.write_text("face a = unix:///a\ncs = contentstore\na -> cs.interest\nscale x 1..2\n")
        message = self.refused("up", wrong)
        self.assertIn(f"{wrong}:2:6: no element is called `contentstore`", message)
        wrong.write_text(wrong.read_text().replace("contentstore", "content_store"))
        self.assertIn(f"{wrong}:4:", self.refused("up", wrong))
        missing = self.folder / "none.graph"
        self.assertIn(f"can't read {missing}: No such file", self.refused("up", missing))
        self.assertIn("it is a directory", self.refused("up", self.folder, "--name", "n"))
        long = self.folder / "long.graph"
        long.write_text("# " + "x" * (10 << 20))
        message = self.refused("up", long)
        self.assertIn("it is 10 MiB long; the maximum is 1 MiB", message)
        binary = self.folder / "binary.graph"
        binary.write_bytes(b"\xff\xfe")
        self.assertIn("is not text in UTF-8", self.refused("up", binary))
        bad = self.refused("up", self.file("a b.graph"))
        self.assertIn("can't be the name of a network", bad)
        self.assertIn("give a graph file", self.refused("up"))
        self.assertIn("has no document yet", self.refused("up", "--name", "new"))
        anchor = self.file("anchor.graph", extra='trust { anchor "missing.cert" }')
        message = self.refused("up", anchor)
        self.assertIn("missing.cert", message)
        self.assertEqual(self.service_processes(), [])

    def test_wrong_document_for_a_running_network_changes_nothing(self):
        self.producer()
        manager = self.up(self.file())
        before, pids = self.graphs(), self.pids()
        wrong = self.folder / "wrong.graph"
        wrong.write_text("cs = contentstore\n")
        self.assertIn("did you mean `content_store`", self.refused("apply", wrong))
        status, problem = self.rest("PUT", "/v1/network", {"text": "cs = contentstore\n"})
        self.assertEqual(status, 400)
        self.assertIn("document:1:6: no element is called `contentstore`", problem["text"])
        status, problem = self.rest("PUT", "/v1/network", {"text": "#" * (2 << 20)})
        self.assertEqual(status, 400)
        self.assertIn("limit 1048576", problem["text"])
        status, problem = self.rest("PUT", "/v1/network", {"text": "#" * (10 << 20)})
        self.assertEqual(status, 413, problem)
        status, problem = self.rest("PUT", "/v1/network", {"text": 5})
        self.assertEqual(status, 422, problem)
        self.assertEqual((self.graphs(), self.pids()), (before, pids))
        self.assertEqual(self.graph()["version"], 1)
        self.stop(manager)

    def test_second_manager_is_refused_and_the_first_goes_on(self):
        self.producer()
        manager = self.up(self.file())
        pids = self.pids()
        message = self.refused("up", self.file())
        self.assertIn(f"is managed by process {manager.pid} already", message)
        self.assertIn("nw network apply", message)
        self.assertEqual(self.pids(), pids)
        self.assertEqual(self.graph()["state"], "converged")
        self.stop(manager)

    def test_network_that_is_not_managed_is_reported(self):
        for verb in ("show", "plan", "history", "events", "route", "scale", "down"):
            message = self.refused(verb, code=4)
            self.assertIn("no network is managed", message)
            message = self.refused(verb, "--name", "n", code=4)
            self.assertIn("can't reach the manager of a network", message)

    def test_two_networks_are_chosen_by_name(self):
        self.producer()
        first = self.up(self.file())
        other = self.folder / "other.graph"
        text = self.file("x.graph").read_text()
        other.write_text(text.replace("/c.sock", "/c2.sock"))
        second = self.up(other, wait=False)
        self.until(lambda: "is done" in self.log(second), "the second network runs")
        message = self.refused("show")
        self.assertIn("several networks are managed: choose one with --name n, other", message)
        self.assertIn("other: version 1", self.nw("show", "--name", "other").stdout)
        self.stop(second)
        self.stop(first)

    def test_directory_without_rights_is_reported(self):
        if os.geteuid() != 0:
            self.skipTest("only root can run as another user")
        os.chmod(self.folder, 0o755)
        closed = self.folder / "closed"
        closed.mkdir(mode=0o700)
        try:
            completed = subprocess.run(
                [NW, "network", "up", self.file(), "--directory", closed / "n"],
                capture_output=True,
                text=True,
                user=65534,
                group=65534,
                extra_groups=[],
                stdin=subprocess.DEVNULL,
                timeout=20,
                check=False,
            )
        except PermissionError:
            self.skipTest(f"only root may run {NW}")
        self.assertEqual(completed.returncode, 1, completed.stderr)
        self.assertIn("can't make", completed.stderr)
        self.assertIn("choose another --directory", completed.stderr)

    def test_full_disk_is_reported_and_running_services_go_on(self):
        disk = self.folder / "d"
        disk.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(disk)],
            capture_output=True,
            check=False,
        )
        if mounted.returncode != 0:
            self.skipTest("only root can mount a small file system")
        self.addCleanup(subprocess.run, ["umount", "-l", str(disk)], check=False)
        self.producer()
        manager = self.up(self.file(), "--directory", disk, wait=False)
        self.control = disk / "n/manager.sock"
        self.wait_converged(manager)
        consumer = self.consumer()
        consumer.wait_answered(100)
        with open(disk / "fill", "wb", buffering=0) as fill:
            try:
                while True:
                    fill.write(b"\0" * 4096)
            except OSError:
                pass
        changed = self.folder / "changed.graph"
        changed.write_text(self.file().read_text().replace("mib = 16", "mib = 8"))
        body = {"text": changed.read_text() + "# " + "y" * 100_000}
        status, problem = self.rest("PUT", "/v1/network", body)
        self.assertEqual(status, 500, problem)
        self.assertIn("disk is full", problem["text"])
        consumer.wait_answered(100)
        self.assertEqual(self.graph()["version"], 1)
        (disk / "fill").unlink()
        status, plan = self.rest("PUT", "/v1/network", body)
        self.assertEqual(status, 200, plan)
        self.wait_converged(manager, version=2)
        consumer.wait_answered(100)
        self.check_lossless(consumer.finish())
        self.stop(manager)

    def test_engine_that_refuses_is_reported_and_running_services_go_on(self):
        path = self.folder / "there.graph"
        # An engine that answers every request with an error.
        engine = RefusingEngine(self.folder / "engine.sock")
        self.addCleanup(engine.close)
        self.environment["DOCKER_HOST"] = f"unix://{self.folder}/engine.sock"
        self.producer()
        manager = self.up(self.file(extra=SCALED))
        consumer = self.consumer()
        consumer.wait_answered(100)
        text = self.file(extra=SCALED).read_text()
        hosts = "host here = process address=127.0.0.1\nhost box = docker address=127.0.0.1"
        text = text.replace("host here = process", hosts)
        path.write_text(text + "service br on box { br }\n")
        refused = self.nw("apply", path, code=6).stderr
        self.assertIn("can't list containers: Docker refused it: no space in this engine", refused)
        # Changes that need no container are still made.
        self.nw("scale", "br", "2")
        self.assertEqual(self.graph()["version"], 1)
        consumer.wait_answered(100)
        self.check_lossless(consumer.finish())
        self.assertIsNone(manager.poll())


if __name__ == "__main__":
    unittest.main()
