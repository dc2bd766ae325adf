"""nw put, cat, peek, poke and ping when packets, keys, files, the network or the router fail."""

import contextlib
import hashlib
import json
import os
import pty
import shutil
import signal
import subprocess
import time
from pathlib import Path

from producer import Producer, data, name, tlv
from command_line import NW, TIMEOUT_S, CommandLine, Router

CONGESTION, DUPLICATE, NO_ROUTE = 50, 100, 150
# Exit statuses.
FAILED, NOT_FOUND, UNREACHABLE, TIMED_OUT, NACK, UNVERIFIED = 1, 3, 4, 5, 7, 8


def write(path, mode):
    with path.open(mode) as file:
        file.write(b"CHANGED")


class FetchTest(CommandLine):
    def producer(self, router, prefix, answer):
        producer = Producer(router, prefix, answer)
        self.addCleanup(producer.end)
        return producer

    def fetch_refused(self, router, *args, seconds=TIMEOUT_S, code=FAILED):
        """Runs a fetch that must fail with one sentence and leave no file. Returns the sentence."""
        folder = Path(self.folder) / "out"
        folder.mkdir(exist_ok=True)
        started = time.monotonic()
        completed = self.nw(
            "cat", "-q", "--no-version", *args, "-o", folder / "file", router=router, code=code
        )
        self.assertLess(time.monotonic() - started, seconds)
        self.assertEqual(os.listdir(folder), [])
        self.assertEqual(completed.stdout, b"")
        return self.sentence(completed)


class WrongPackets(FetchTest):
    def test_data_with_wrong_digest_is_refused(self):
        router = self.router()
        for number, wrong in enumerate(({"change": True}, {"zeros": True})):
            prefix = f"/w/{number}"
            self.producer(
                router,
                prefix,
                lambda request: data(request.name, b"content", fresh=1000, last=0, **wrong),
            )
            self.assertIn(
                f"{prefix}/seg=0 is not accepted",
                self.fetch_refused(router, prefix, code=UNVERIFIED),
            )
            self.assertIn(
                "digest",
                self.sentence(self.nw("peek", f"{prefix}/seg=0", router=router, code=UNVERIFIED)),
            )
            completed = self.nw("ping", "-c", 1, "--json", prefix, router=router, code=UNVERIFIED)
            self.assertEqual(json.loads(completed.stdout.splitlines()[0])["result"], "invalid")

    def test_wrong_metadata_is_refused(self):
        router = self.router()

        def answer(request):
            version = tlv(7, name("/m/v=5"))
            return data(name("/m/32=metadata/v=1/seg=0"), version, fresh=1, last=0, change=True)

        self.producer(router, "/m", answer)
        text = self.sentence(self.nw("cat", "-q", "/m", router=router, code=UNVERIFIED))
        self.assertIn("/m/32=metadata", text)

    def test_valid_copy_after_invalid_ones_is_accepted(self):
        router, wrong = self.router(), {}

        def answer(request):
            wrong[request.segment] = wrong.get(request.segment, 0) + 1
            return data(request.name, b"ten bytes.", last=4, change=wrong[request.segment] < 3)

        self.producer(router, "/g", answer)
        completed = self.nw("cat", "--json", "--no-version", "/g", router=router)
        self.assertEqual(completed.stdout, 5 * b"ten bytes.")
        self.assertGreaterEqual(json.loads(completed.stderr)["invalid"], 10)

    def test_data_without_content_is_reported_and_not_written(self):
        router = self.router()
        kinds = {
            1: "Link",
            2: "key",
            3: "application Nack",
            4: "manifest",
            99: "type 99",
            1024: "type 1024",
        }
        for kind, word in kinds.items():
            self.producer(
                router, f"/k/{kind}", lambda request: data(request.name, b"raw", kind=kind, last=0)
            )
            code = NOT_FOUND if kind == 3 else FAILED
            self.assertIn(word, self.fetch_refused(router, f"/k/{kind}", code=code))
            self.assertIn(
                word, self.sentence(self.nw("peek", f"/k/{kind}/seg=0", router=router, code=code))
            )
            self.assertEqual(
                self.nw("peek", "--raw", f"/k/{kind}/seg=0", router=router).stdout, b"raw"
            )
            shown = json.loads(self.nw("peek", "--json", f"/k/{kind}/seg=0", router=router).stdout)
            self.assertEqual(shown["content_type"], kind)

    def test_application_nack_for_metadata_is_reported(self):
        router = self.router()
        self.producer(
            router, "/a", lambda request: data(name("/a/32=metadata/v=1/seg=0"), kind=3, fresh=1)
        )
        self.assertIn(
            "application Nack",
            self.sentence(self.nw("cat", "-q", "/a", router=router, code=NOT_FOUND)),
        )

    def test_contradicting_final_blocks_are_refused(self):
        router = self.router()
        final_blocks = {
            "shrinks": lambda n: 5 if n == 5 else 30,
            "below": lambda n: 2 if n == 9 else None,
            "own": lambda n: 3 if n == 7 else 30,
            "absurd": lambda n: 1 << 62,
            "grows": lambda n: 1 << 40 if n > 20 else 30,
        }
        for prefix, last in final_blocks.items():
            self.producer(
                router,
                f"/f/{prefix}",
                lambda request: data(request.name, b"content", last=last(request.segment)),
            )
            self.assertIn("as the last segment, but", self.fetch_refused(router, f"/f/{prefix}"))

    def test_size_is_limited(self):
        router = self.router()
        self.producer(
            router, "/s/known", lambda request: data(request.name, 1000 * b"x", last=1_000_000)
        )
        self.producer(router, "/s/endless", lambda request: data(request.name, 1000 * b"x"))
        for prefix in ("/s/known", "/s/endless"):
            self.assertIn(
                "more than 102400 bytes", self.fetch_refused(router, "--max-size", "100k", prefix)
            )
        self.put(router, "/s/fits", 5000 * b"x")
        self.assertEqual(
            len(self.nw("cat", "-q", "--max-size", 5000, "/s/fits", router=router).stdout), 5000
        )

    def test_binary_content_does_not_reach_a_terminal(self):
        router = self.router()
        self.put(router, "/t/binary", b"\x7fELF\0\x1b[2J")
        for args, ends in (
            (["cat", "-q", "/t/binary"], 1),
            (["cat", "-q", "/t/binary", "-o", "-"], 0),
            (["peek", "-P", "/t/binary"], 1),
        ):
            ours, theirs = pty.openpty()
            completed = subprocess.run(
                [NW, *args],
                env=router.environment(),
                stdout=theirs,
                stderr=subprocess.PIPE,
                timeout=TIMEOUT_S,
            )
            os.close(theirs)
            self.assertEqual(completed.returncode, ends, completed.stderr)
            self.assertEqual(b"terminal" in completed.stderr, ends == 1)
            os.close(ours)


class Trust(FetchTest):
    def setUp(self):
        super().setUp()
        self.store, self.home = Path(self.folder) / "store", Path(self.folder) / "home"

    def certificate(self, identity):
        self.nw("key", "generate", identity, "--store", self.store)
        path = Path(self.folder) / f"{identity.replace('/', '_')}.cert"
        path.write_bytes(self.nw("cert", "export", identity, "--store", self.store).stdout)
        return path

    def cat(self, router, *args, code=0):
        # The user's own key store must not influence the result.
        environment = {**router.environment(), "HOME": str(self.home)}
        completed = subprocess.run(
            [NW, "cat", "--json", "--timeout", "15000", *map(str, args)],
            env=environment,
            capture_output=True,
            timeout=40,
        )
        self.assertEqual(completed.returncode, code, completed.stderr)
        return completed

    def test_fetch_verifies_by_anchors_rules_and_key_store(self):
        router = self.router()
        alice, mallory = self.certificate("/alice"), self.certificate("/mallory")
        self.put(router, "/alice/file", b"by alice", "--key", "/alice", "--store", self.store)
        completed = self.cat(router, "/alice/file")
        self.assertFalse(json.loads(completed.stderr)["verified"])
        completed = self.cat(router, "/alice/file", "--anchor", alice)
        self.assertTrue(json.loads(completed.stderr)["verified"])
        self.assertEqual(completed.stdout, b"by alice")
        self.assertIn(
            b"not trusted",
            self.cat(router, "/alice/file", "--anchor", mallory, code=UNVERIFIED).stderr,
        )
        self.assertTrue(
            json.loads(self.cat(router, "/alice/file", "--verify", "--store", self.store).stderr)[
                "verified"
            ]
        )
        self.assertIn(
            b"nw key generate", self.cat(router, "/alice/file", "--verify", code=NOT_FOUND).stderr
        )
        rules = Path(self.folder) / "trust.toml"
        for prefix, code in (("/alice/<..>", 0), ("/bob/<..>", UNVERIFIED)):
            rules.write_text(
                f'[[anchor]]\nid = "a"\nfile = "{alice.name}"\n[[allow]]\nid = "own"\nanchors = ["a"]\nprefix = "{prefix}"\n'
            )
            self.cat(router, "/alice/file", "--trust", rules, code=code)
        # A digest is not a signature of a key.
        self.put(router, "/plain", b"unsigned")
        self.assertIn(
            b"plain digest", self.cat(router, "/plain", "--anchor", alice, code=UNVERIFIED).stderr
        )
        self.assertIn(
            "not trusted",
            self.sentence(
                self.nw("peek", "-P", "/plain", "--anchor", alice, router=router, code=UNVERIFIED)
            ),
        )

    def test_certificates_are_fetched(self):
        router = self.router()
        site = self.certificate("/site")
        self.nw("key", "generate", "/site/bob", "--store", self.store)
        request = Path(self.folder) / "request"
        request.write_bytes(self.nw("cert", "export", "/site/bob", "--store", self.store).stdout)
        signed = Path(self.folder) / "signed"
        signed.write_bytes(
            self.nw("cert", "sign", request, "--signer", "/site", "--store", self.store).stdout
        )
        self.nw("cert", "install", signed, "--store", self.store)
        content = os.urandom(200_000)
        self.put(router, "/site/bob/file", content, "--key", "/site/bob", "--store", self.store)
        # The producer serves the certificate of its key.
        self.assertEqual(self.cat(router, "/site/bob/file", "--anchor", site).stdout, content)
        versioned = json.loads(self.cat(router, "/site/bob/file").stderr)["name"]
        self.assertEqual(
            self.cat(router, versioned, "--anchor", site).stdout,
            content,
            "segments wait for the certificate",
        )
        # The certificate of a key in a file is not served.
        if not shutil.which("openssl"):
            self.skipTest("a key in a file is made by openssl")
        path = Path(self.folder) / "key.pem"
        subprocess.run(
            ["openssl", "genpkey", "-algorithm", "ed25519", "-out", path],
            check=True,
            capture_output=True,
        )
        self.put(router, "/site/eve", b"by eve", "--key", path, "--key-name", "/site/eve/KEY/1")
        self.assertIn(
            b"could not be fetched",
            self.cat(router, "/site/eve", "--anchor", site, code=UNVERIFIED).stderr,
        )

    def test_hmac_is_verified(self):
        router = self.router()
        secret, wrong_secret = Path(self.folder) / "secret", Path(self.folder) / "other"
        secret.write_bytes(b"0123456789")
        wrong_secret.write_bytes(b"9876543210")
        self.put(router, "/h", b"shared", "--hmac", secret, "--key-name", "/us/KEY/1")
        self.assertTrue(json.loads(self.cat(router, "/h", "--hmac", secret).stderr)["verified"])
        self.assertIn(
            b"not by the key",
            self.cat(router, "/h", "--hmac", wrong_secret, code=UNVERIFIED).stderr,
        )


class Congestion(FetchTest):
    def test_fetch_survives_seconds_of_congestion_nacks(self):
        router = self.router()
        for number, reason in enumerate((CONGESTION, DUPLICATE, NO_ROUTE)):
            began, version = time.monotonic(), tlv(7, name(f"/c/{number}/v=5"))

            def answer(request):
                since = time.monotonic() - began
                # The first Interest discovers the version; the others fetch segments.
                if request.segment is None:
                    return (
                        ("nack", reason)
                        if since < 1.5
                        else data(
                            name(f"/c/{number}/32=metadata/v=1/seg=0"), version, fresh=1, last=0
                        )
                    )
                if since < (6 if reason == CONGESTION else 3):
                    return ("nack", reason)
                return "marked", data(request.name, b"ten bytes.", last=9)

            producer = self.producer(router, f"/c/{number}", answer)
            completed = self.nw("cat", "--json", f"/c/{number}", router=router, timeout=40)
            self.assertEqual(completed.stdout, 10 * b"ten bytes.")
            self.assertGreater(json.loads(completed.stderr)["marks"], 0)
            self.assertLess(len(producer.requests), 300, "Interests back off")

    def test_fetch_timeout_option_is_honoured(self):
        router = self.router()
        self.producer(router, "/p", lambda request: ("nack", CONGESTION))
        for args in (["/p"], ["--no-version", "/p"]):
            started = time.monotonic()
            text = self.sentence(
                self.nw("cat", "-q", "--timeout", 2000, *args, router=router, code=NACK)
            )
            self.assertIn("Congestion", text)
            self.assertLess(time.monotonic() - started, 6)
            self.assertGreater(time.monotonic() - started, 1)

    def test_peek_retries_after_congestion_nack(self):
        router, began = self.router(), time.monotonic()
        self.producer(
            router,
            "/q",
            lambda request: (
                ("nack", CONGESTION)
                if time.monotonic() - began < 1
                else data(request.name, b"late")
            ),
        )
        self.assertEqual(self.nw("peek", "/q/1", router=router).stdout, b"late")


class Restarts(FetchTest):
    def restart(self, router, name, ending, pause=0.5):
        """Ends a router and starts it again with the same configuration."""
        router.end(ending)
        time.sleep(pause)
        new = Router.__new__(Router)
        new.__dict__.update(router.__dict__)
        new.log = open(Path(self.folder) / f"{name}.log", "a+")
        new.process = subprocess.Popen(
            [NW, "run", "-c", new.config], stderr=new.log, stdin=subprocess.DEVNULL
        )
        self.addCleanup(new.end)
        deadline = time.monotonic() + TIMEOUT_S
        while not new.is_listening():
            self.assertLess(time.monotonic(), deadline, new.log_text())
            time.sleep(0.02)
        return new

    def wait_connected(self, process):
        """Waits until a program has its socket, or has ended."""
        folder, deadline = Path(f"/proc/{process.pid}/fd"), time.monotonic() + TIMEOUT_S
        while process.poll() is None:
            # Descriptors may be closed while they are read.
            with contextlib.suppress(OSError):
                links = [os.readlink(path) for path in folder.iterdir()]
                if any(link.startswith("socket:") for link in links):
                    return
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_fetch_during_router_restarts_completes(self):
        far = self.router("far")
        near = self.router(
            "near", f'[[route]]\nprefix = "/u"\nface = "udp4://127.0.0.1:{far.udp}"\n'
        )
        contents = {}
        for number in range(3):
            contents[number] = os.urandom(6_000_000)
            path = Path(self.folder) / f"source{number}"
            path.write_bytes(contents[number])
            process = self.start(far, "put", "--json", f"/u/{number}", path)
            self.assertEqual(json.loads(process.stdout.readline())["event"], "ready")
        server = self.start(far, "ping-server", "/u/pong", "--json")
        fetches = []

        def fetch():
            for number in contents:
                target = Path(self.folder) / f"target{len(fetches)}"
                command = ("cat", "--json", "--window", "4", f"/u/{number}", "-o", target)
                fetches.append((number, target, self.start(near, *command)))
            # The router that ends next must have been reached before.
            for _, _, process in fetches:
                self.wait_connected(process)

        for ending in (signal.SIGTERM, signal.SIGKILL):
            fetch()
            time.sleep(0.2)
            far = self.restart(far, "far", ending)
            fetch()
            time.sleep(0.2)
            near = self.restart(near, "near", ending)
            fetch()
        lost = []
        for number, target, process in fetches:
            if process.wait(90) != 0 or target.read_bytes() != contents[number]:
                lost.append((number, process.stderr.read()))
        self.assertEqual(lost, [])
        self.nw("ping", "-c", 2, "-i", 100, "/u/pong", router=near)
        self.assertIsNone(server.poll())
        server.send_signal(signal.SIGINT)
        self.assertEqual(server.wait(5), 0)
        events = [json.loads(line).get("event") for line in server.stdout]
        self.assertEqual(events.count("back"), 2, events)

    def test_fetch_after_restart_resumes(self):
        router = self.router("r")
        slow = {}

        def answer(request):
            slow[request.segment] = slow.get(request.segment, 0) + 1
            time.sleep(0.005)
            return data(request.name, 1000 * b"x", last=399)

        producer = self.producer(router, "/d", answer)
        target = Path(self.folder) / "target"
        # Without this the content store would answer instead of the producer.
        self.nw("cs", "config", "--admit", "false", router=router)
        fetch = self.start(
            router, "cat", "--json", "--no-version", "--window", "8", "/d", "-o", target
        )
        self.until(lambda: len(slow) > 100, "the download begins")
        router = self.restart(router, "r", signal.SIGKILL)
        before = len(producer.requests)
        self.producer(router, "/d", answer)
        self.assertEqual(fetch.wait(TIMEOUT_S), 0, "goes on")
        self.assertEqual(target.stat().st_size, 400_000)
        self.assertLess(sum(slow.values()), 450, "received segments are not requested again")
        self.assertGreater(before, 100)

    def test_interrupt_without_router_ends_at_once(self):
        router = self.router("r")
        programs = [
            self.start(router, *args)
            for args in (
                ["put", "--json", "/i/put", router.config],
                ["ping-server", "--json", "/i/pong"],
                ["poke", "/i/poke", "x"],
                ["ping", "/i/pong", "-i", "200"],
            )
        ]
        time.sleep(0.5)
        router.end()
        time.sleep(0.5)
        for program in programs:
            self.assertIsNone(program.poll(), program.args)
            program.send_signal(signal.SIGINT)
            program.wait(2)

    def test_fetch_with_no_reconnect_ends_with_router(self):
        router = self.router("r")
        programs = [
            self.start(router, *args, "--no-reconnect")
            for args in (
                ["put", "/i/put", router.config],
                ["ping-server", "/i/pong"],
                ["poke", "/i/poke", "x"],
            )
        ]
        time.sleep(0.5)
        router.end()
        for program in programs:
            self.assertEqual(program.wait(5), UNREACHABLE)
            self.assertIn(b"closed the connection", program.stderr.read())


class ChangingFiles(FetchTest):
    CHANGES = {
        "overwritten": lambda path: write(path, "r+b"),
        "truncated": lambda path: os.truncate(path, 10),
        "grown": lambda path: write(path, "ab"),
        "replaced": lambda path: os.replace(path.parent / "other", path),
        "deleted": os.unlink,
    }

    def serve(self, router, prefix, size):
        path = Path(self.folder) / f"file{prefix.replace('/', '_')}"
        (path.parent / "other").write_bytes(b"other")
        path.write_bytes(os.urandom(1000) + bytes(size - 1000))
        process = self.start(router, "put", "--json", prefix, path)
        self.assertEqual(json.loads(process.stdout.readline())["event"], "ready")
        return path, process, hashlib.sha256(path.read_bytes()).digest()

    def test_put_small_file_changed_serves_old_content(self):
        router = self.router()
        for what, change in self.CHANGES.items():
            path, _, digest = self.serve(router, f"/v/{what}", 500_000)
            change(path)
            content = self.nw("cat", "-q", f"/v/{what}", router=router).stdout
            self.assertEqual(hashlib.sha256(content).digest(), digest, what)

    def test_put_large_file_changed_ends_its_version(self):
        router = self.router()
        for what in ("overwritten", "truncated", "deleted"):
            path, process, digest = self.serve(router, f"/l/{what}", 65 << 20)
            self.CHANGES[what](path)
            started = time.monotonic()
            target = Path(self.folder) / "target"
            fetch = subprocess.run(
                [NW, "cat", "-q", f"/l/{what}", "-o", target],
                env=router.environment(),
                capture_output=True,
                timeout=60,
            )
            if what == "deleted" or fetch.returncode == 0:
                # The copy still has its content; or the file system shares blocks.
                self.assertEqual(hashlib.sha256(target.read_bytes()).digest(), digest, what)
                target.unlink()
                continue
            self.assertLess(time.monotonic() - started, 8)
            self.assertIn("application Nack", fetch.stderr.decode())
            self.assertEqual(process.wait(10), 1)
            self.assertIn(b"was changed while it was served", process.stderr.read())


class LeftoverFiles(FetchTest):
    def test_fetch_killed_leaves_no_file(self):
        router = self.router()
        self.producer(
            router,
            "/k",
            lambda request: (
                data(request.name, 8000 * b"x", last=10_000) if request.segment < 100 else None
            ),
        )
        folder = Path(self.folder) / "out"
        folder.mkdir()
        fetch = self.start(router, "cat", "-q", "--no-version", "/k", "-o", folder / "file")
        time.sleep(1)
        fetch.kill()
        fetch.wait()
        self.assertEqual(os.listdir(folder), [])

    def test_full_device_is_reported_once(self):
        router = self.router()
        self.put(router, "/full", 1_000_000 * b"x")
        for args in (["-o", "/dev/full"], []):
            with open("/dev/full", "w") as full:
                completed = subprocess.run(
                    [NW, "cat", "-q", "/full", *args],
                    env=router.environment(),
                    stdout=full,
                    stderr=subprocess.PIPE,
                    timeout=TIMEOUT_S,
                )
            self.assertEqual(completed.returncode, 1)
            self.assertEqual(completed.stderr.count(b"No space left"), 1, completed.stderr)


class Serving(FetchTest):
    def test_routes_of_producers_have_origin(self):
        router = self.router()
        for args, origin in (
            (["put", "/o/put", str(router.config), "--expose"], "client"),
            (["ping-server", "/o/pong", "--origin", "client"], "client"),
            (["poke", "/o/poke", "x", "--origin", "autoreg"], "autoreg"),
            (["put", "/o/app", str(router.config)], "app"),
        ):
            self.start(router, *args)
            prefix = args[1] + ("/ping" if args[0] == "ping-server" else "")

            def origins():
                entries = [
                    json.loads(line)
                    for line in self.nw(
                        "route", "list", "--json", router=router
                    ).stdout.splitlines()
                ]
                return [
                    route["origin"]
                    for entry in entries
                    if entry["name"] == prefix
                    for route in entry["routes"]
                ]

            self.until(lambda: origins() == [origin], f"{args}: {origins()}")

    def test_ping_without_answer_prints_no_times(self):
        router = self.router()
        self.producer(router, "/silent", lambda request: None)
        completed = self.nw(
            "ping", "-c", 1, "--timeout", 200, "--json", "/silent", router=router, code=TIMED_OUT
        )
        lines = [json.loads(line) for line in completed.stdout.splitlines()]
        self.assertEqual([line["rtt_us"] for line in lines], [None, None])
        self.start(router, "ping-server", "/pong")
        self.until(lambda: b"/pong" in self.nw("route", "list", router=router).stdout, "registered")
        lines = [
            json.loads(line)
            for line in self.nw(
                "ping", "-c", 1, "--json", "/pong", router=router
            ).stdout.splitlines()
        ]
        unanswered_rtt, rtt = lines[0]["rtt_us"], lines[1]["rtt_us"]
        self.assertEqual(
            rtt,
            {
                "min": unanswered_rtt,
                "p50": unanswered_rtt,
                "p99": unanswered_rtt,
                "max": unanswered_rtt,
            },
        )
        self.assertRegex(
            self.nw("ping", "-c", 2, "-i", 10, "/pong", router=router).stdout.decode(),
            "min .*, median .*, p99 .*, max ",
        )
