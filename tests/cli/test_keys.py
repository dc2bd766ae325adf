"""nw key and nw cert, and their uses: signing, and commands that a router authorizes by rules,
fetching the certificates it lacks."""

import hashlib
import json
import os
import pty
import re
import select
import shutil
import sqlite3
import socket
import stat
import subprocess
import threading
import time
from pathlib import Path

from command_line import NW, TIMEOUT_S, CommandLine


class Keys(CommandLine):
    def setUp(self):
        super().setUp()
        self.store = Path(self.folder) / "store"
        self.passphrase = Path(self.folder) / "passphrase"
        self.passphrase.write_text("correct horse\n")

    def key(self, *args, store=None, **options):
        """Runs `nw key …` or `nw cert …` with a store of the test's own."""
        return self.nw(*args, "--store", store or self.store, **options)

    def generate(self, identity, *args, store=None):
        return self.key("key", "generate", identity, *args, store=store).stdout.decode().strip()

    def listed(self, noun, store=None):
        return [
            json.loads(line)
            for line in self.key(noun, "list", "--json", store=store).stdout.splitlines()
        ]

    def make_certified_key(self, identity, signer, by=None, to=None):
        """Generates a key for an identity with a certificate signed by `signer`. Returns the key's
        name."""
        name = self.generate(identity, store=to)
        request, certificate = Path(self.folder) / "request", Path(self.folder) / "certificate"
        self.key("cert", "request", name, "-o", request, store=to)
        self.key(
            "cert",
            "sign",
            request,
            "--signer",
            signer,
            "--issuer",
            "boss",
            "-o",
            certificate,
            store=by,
        )
        self.key("cert", "install", certificate, store=to)
        return name

    def snapshot(self, folder=None):
        """Returns every file of a store with its content and mode."""
        folder = folder or self.store
        return {
            path.relative_to(folder): (
                stat.S_IMODE(path.stat().st_mode),
                hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None,
            )
            for path in sorted(folder.rglob("*"))
        }


class KeyStore(Keys):
    def test_keys_are_generated_listed_chosen_and_deleted(self):
        alice_first = self.generate("/alice")
        self.assertRegex(alice_first, r"^/alice/KEY/.+$")
        alice_second = self.generate("/alice", "--type", "rsa", "--size", "3072")
        bob = self.generate("/bob", "--type", "ed25519")
        keys = {key["key"]: key for key in self.listed("key")}
        self.assertEqual(
            {name: key["type"] for name, key in keys.items()},
            {alice_first: "ECDSA P-256", alice_second: "RSA", bob: "Ed25519"},
        )
        self.assertTrue(
            all(key["private"] and len(key["certificates"]) == 1 for key in keys.values())
        )
        self.assertEqual(
            [name for name, key in keys.items() if key["default_identity"] and key["default_key"]],
            [alice_first],
        )
        self.key("key", "default", alice_second)
        self.key("key", "default", "/bob")
        keys = {key["key"]: key for key in self.listed("key")}
        self.assertEqual(
            (
                keys[alice_first]["default_key"],
                keys[alice_second]["default_key"],
                keys[bob]["default_identity"],
            ),
            (False, True, True),
        )
        table = self.key("key", "list").stdout.decode()
        self.assertIn("of its identity", table)
        self.key("key", "delete", alice_second)
        self.key("key", "delete", "/bob")
        self.assertEqual([key["key"] for key in self.listed("key")], [alice_first])
        self.assertEqual(len(list((self.store / "ndnsec-key-file").iterdir())), 1)
        carol = json.loads(self.key("key", "generate", "/carol", "--default", "--json").stdout)[
            "key"
        ]
        self.assertEqual(
            [key["key"] for key in self.listed("key") if key["default_identity"]], [carol]
        )

    def test_private_keys_are_readable_by_owner_only(self):
        old = os.umask(0)
        try:
            self.generate("/alice")
        finally:
            os.umask(old)
        modes = {str(path): mode for path, (mode, _) in self.snapshot().items()}
        self.assertEqual(modes.pop("ndnsec-key-file"), 0o700)
        self.assertEqual(set(modes.values()), {0o600}, modes)
        self.assertEqual(stat.S_IMODE(self.store.stat().st_mode), 0o700)

    def test_store_location_follows_environment_and_client_conf(self):
        home = Path(self.folder) / "home"
        home.mkdir()
        plain = {k: v for k, v in os.environ.items() if not k.startswith("NDN_CLIENT")} | {
            "HOME": str(home)
        }

        def generate(**environment):
            subprocess.run(
                [NW, "key", "generate", "/x"],
                env={**plain, **environment},
                check=True,
                capture_output=True,
            )

        generate()
        self.assertTrue((home / ".ndn/pib.db").exists())
        (key,) = (home / ".ndn/ndnsec-key-file").iterdir()
        self.assertRegex(key.name, r"^[0-9a-f]{64}\.privkey$")
        # ndn-cxx compares this locator with its own; if they differ, it discards all keys of the
        # database.
        locator = (
            sqlite3.connect(home / ".ndn/pib.db")
            .execute("SELECT tpm_locator FROM tpmInfo")
            .fetchall()
        )
        self.assertEqual(locator, [(b"tpm-file:",)])
        elsewhere = Path(self.folder) / "elsewhere"
        generate(NDN_CLIENT_PIB=f"pib-sqlite3:{elsewhere}", NDN_CLIENT_TPM=f"tpm-file:{elsewhere}")
        self.assertTrue(
            (elsewhere / "pib.db").exists() and (elsewhere / "ndnsec-key-file").is_dir()
        )
        (home / ".ndn/client.conf").write_text(
            "; keys are there\npib=pib-sqlite3:./there\ntpm=tpm-file:there/ndnsec-key-file\n"
        )
        generate()
        self.assertTrue(
            (home / ".ndn/there/pib.db").exists() and (home / ".ndn/there/ndnsec-key-file").is_dir()
        )
        completed = subprocess.run(
            [NW, "key", "list"],
            env={**plain, "NDN_CLIENT_TPM": "tpm-osxkeychain:"},
            capture_output=True,
        )
        self.assertEqual(completed.returncode, 1)
        self.assertIn("tpm-file:", self.sentence(completed))

    def test_key_exported_is_imported_by_another_store(self):
        name = self.generate("/alice", "--type", "rsa")
        bag, other_store = Path(self.folder) / "alice.safebag", Path(self.folder) / "there"
        self.key("key", "export", "/alice", "-o", bag, "--passphrase-file", self.passphrase)
        self.assertEqual(stat.S_IMODE(bag.stat().st_mode), 0o600)
        wrong = Path(self.folder) / "wrong"
        wrong.write_text("incorrect\n")
        completed = self.key(
            "key", "import", bag, "--passphrase-file", wrong, store=other_store, code=1
        )
        self.assertIn("wrong passphrase", self.sentence(completed))
        self.assertFalse(other_store.exists(), "a wrong passphrase makes no store")
        self.key("key", "import", bag, "--passphrase-file", self.passphrase, store=other_store)
        self.assertEqual(self.listed("key", store=other_store), self.listed("key"))
        second_import = self.key(
            "key", "import", bag, "--passphrase-file", self.passphrase, store=other_store, code=1
        )
        self.assertIn(f"{name} already exists", self.sentence(second_import))
        raw = self.key(
            "key", "export", "default", "--raw", "--passphrase-file", self.passphrase
        ).stdout
        self.assertEqual(raw[0], 0x80)
        self.key(
            "key",
            "import",
            "-",
            "--passphrase-file",
            self.passphrase,
            store=Path(self.folder) / "third",
            stdin=raw,
        )
        empty = Path(self.folder) / "empty"
        empty.write_text("\n")
        self.sentence(self.key("key", "export", "/alice", "--passphrase-file", empty, code=1))

    def test_passphrase_typed_at_terminal_is_not_echoed(self):
        self.generate("/alice")
        bag = Path(self.folder) / "bag"

        def run_at_terminal(args, is_listening):
            pid, terminal = pty.fork()
            if pid == 0:
                os.execv(NW, [NW, *map(str, args), "--store", str(self.store)])
            seen, deadline = b"", time.monotonic() + TIMEOUT_S
            while time.monotonic() < deadline:
                if select.select([terminal], [], [], 0.1)[0]:
                    try:
                        seen += os.read(terminal, 1000)
                    except OSError:
                        break
                if is_listening and seen.rstrip().endswith(b":"):
                    time.sleep(0.05)
                    os.write(terminal, is_listening.pop(0) + b"\n")
                    seen += b"(typed)"
            os.close(terminal)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen

        code, seen = run_at_terminal(
            ["key", "export", "/alice", "-o", bag], [b"secret1", b"secret2"]
        )
        self.assertEqual((code, bag.exists()), (1, False), seen)
        code, seen = run_at_terminal(
            ["key", "export", "/alice", "-o", bag], [b"secret1", b"secret1"]
        )
        self.assertEqual(code, 0, seen)
        self.assertNotIn(b"secret1", seen)
        self.key("key", "delete", "/alice")
        code, seen = run_at_terminal(["key", "import", bag], [b"secret1"])
        self.assertEqual((code, len(self.listed("key"))), (0, 1), seen)
        completed = subprocess.run(
            [NW, "key", "export", "/alice", "--store", self.store],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            start_new_session=True,
        )
        self.assertIn("--passphrase-file", self.sentence(completed))

    def test_certificate_is_requested_signed_installed_and_deleted(self):
        boss, clerk = self.generate("/site"), self.generate("/site/clerk")
        request = self.key("cert", "request", "/site/clerk").stdout
        signed = self.key(
            "cert",
            "sign",
            "-",
            "--signer",
            "/site",
            "--issuer",
            "boss",
            "--not-before",
            "2026-01-01",
            "--not-after",
            "20360101T000000",
            stdin=request,
        ).stdout
        path = Path(self.folder) / "clerk.cert"
        path.write_bytes(signed)
        shown = json.loads(self.key("cert", "show", path, "--json").stdout)
        self.assertEqual(
            (shown["key"], shown["issuer"], shown["identity"]), (clerk, "boss", "/site/clerk")
        )
        self.assertEqual((shown["not_before_s"], shown["not_after_s"]), (1767225600, 2082758400))
        self.assertTrue(shown["key_locator"].startswith(boss))
        text = self.key("cert", "show", path).stdout.decode()
        for word in (
            "2026-01-01 00:00:00",
            "ECDSA P-256",
            "issuer",
            "fingerprint",
            shown["fingerprint"],
        ):
            self.assertIn(word, text)
        raw = self.key("cert", "export", "/site", "--raw").stdout
        self.assertEqual(
            json.loads(self.key("cert", "show", "/site", "--json").stdout)["fingerprint"],
            hashlib.sha256(raw).hexdigest(),
        )
        self.assertIn("self-signed", self.key("cert", "show", boss).stdout.decode())
        # An installed certificate becomes the key's default. The self-signed one can be chosen
        # again, and deleted.
        name = json.loads(self.key("cert", "install", path, "--json").stdout)["certificate"]
        own = next(
            c["name"] for c in self.listed("cert") if c["key"] == clerk and c["issuer"] == "self"
        )
        self.assertEqual(
            [c["name"] for c in self.listed("cert") if c["default"] and c["key"] == clerk], [name]
        )
        self.key("cert", "default", own)
        self.assertEqual(
            [c["name"] for c in self.listed("cert") if c["default"] and c["key"] == clerk], [own]
        )
        self.key("cert", "delete", own)
        self.assertNotIn(own, self.key("cert", "list").stdout.decode())
        self.assertIn(name, self.key("cert", "list").stdout.decode())
        # A request can still be created after the self-signed certificate was deleted.
        self.assertEqual(
            json.loads(
                self.nw(
                    "cert", "show", "-", "--json", stdin=self.key("cert", "request", clerk).stdout
                ).stdout
            )["key"],
            clerk,
        )

    def test_cert_sign_invalid_request_is_refused(self):
        self.generate("/site")
        self.make_certified_key("/site/clerk", "/site")
        certificate = Path(self.folder) / "certificate"
        completed = self.key("cert", "sign", certificate, "--signer", "/site", code=1)
        self.assertIn("not signed by the key in it", self.sentence(completed))
        request = self.key("cert", "request", "/site/clerk").stdout
        for args in (
            ["--signer", "/unserved"],
            ["--signer", "/site", "--issuer", "a/b"],
            ["--signer", "/site", "--not-after", "2000-01-01"],
        ):
            self.sentence(self.key("cert", "sign", "-", *args, stdin=request, code=1))
        self.key(
            "cert",
            "sign",
            "-",
            "--signer",
            "/site",
            "--not-after",
            "someday",
            stdin=request,
            code=2,
        )
        # A certificate whose key is not in the store is refused, also if a key of the same identity
        # is.
        other_store = Path(self.folder) / "there"
        self.generate("/else", store=other_store)
        completed = self.key(
            "cert",
            "install",
            "-",
            stdin=self.key("cert", "export", "/else", store=other_store).stdout,
            code=1,
        )
        self.assertIn("there is no key /else/KEY/", self.sentence(completed))
        self.assertIn(
            "does not contain a certificate",
            self.sentence(self.key("cert", "install", "-", stdin=b"nonsense", code=1)),
        )

    def test_wrong_arguments_end_with_advice_and_change_nothing(self):
        self.assertIn("nw key generate", self.sentence(self.key("key", "list", code=3)))
        self.assertFalse(self.store.exists(), "key list creates no store")
        self.generate("/alice")
        for args, advice in (
            (["key", "generate", "/"], "not the name of an identity"),
            (["key", "generate", "/a/KEY/1"], "not the name of an identity"),
            (["key", "generate", "/a", "--size", "384"], "256"),
            (["key", "generate", "/a", "--type", "rsa", "--size", "1024"], "2048, 3072 or 4096"),
            (["key", "generate", "/a", "--type", "ed25519", "--size", "256"], "--size"),
            (["key", "default", "/unserved"], "nw key list"),
            (["key", "delete", "/alice/KEY/1"], "nw key list"),
            (["key", "delete", "/alice/KEY/1/self/v=1"], "nw cert"),
            (
                ["key", "export", "/unserved", "--passphrase-file", self.passphrase],
                "no identity /unserved",
            ),
            (["key", "export", "/alice", "--passphrase-file", "/no/such/file"], "/no/such/file"),
            (
                ["key", "import", self.passphrase, "--passphrase-file", self.passphrase],
                "does not contain an exported key",
            ),
            (["cert", "show", "nothing"], "no file nothing"),
            (["cert", "show", "/unserved"], "no identity /unserved"),
            (["cert", "default", "/alice"], "nw cert list"),
            (["cert", "export", "/alice/KEY/x/self/v=1"], "no key"),
        ):
            before = self.snapshot()
            self.assertIn(advice, self.sentence(self.key(*args, code=1)), args)
            self.assertEqual(self.snapshot(), before, args)
        self.key("key", "generate", "alice//", "--type", "dsa", code=2)

    def test_private_key_missing_is_reported(self):
        name = self.generate("/alice")
        (path,) = (self.store / "ndnsec-key-file").iterdir()
        path.write_text("bm9uc2Vuc2U=\n")
        self.assertIn(
            str(path),
            self.sentence(
                self.key("key", "export", "/alice", "--passphrase-file", self.passphrase, code=1)
            ),
        )
        path.unlink()
        self.assertFalse(self.listed("key")[0]["private"])
        text = self.sentence(
            self.key("key", "export", "/alice", "--passphrase-file", self.passphrase, code=1)
        )
        self.assertIn(f"the private key of {name} is not here", text)
        self.assertIn("nw key import", text)

    def test_damaged_database_is_refused_unchanged(self):
        self.generate("/alice")
        for damage in (
            b"this is no database at all, " * 100,
            (self.store / "pib.db").read_bytes()[:4096] + b"\xff" * 20000,
        ):
            (self.store / "pib.db").write_bytes(damage)
            before = self.snapshot()
            for args in (["key", "list"], ["key", "generate", "/bob"], ["cert", "show", "default"]):
                self.assertIn("is not a key database", self.sentence(self.key(*args, code=1)))
            self.assertEqual(self.snapshot(), before)

    def test_locked_database_is_refused_unchanged(self):
        self.generate("/alice")
        before = self.snapshot()
        held = sqlite3.connect(self.store / "pib.db")
        held.execute("BEGIN IMMEDIATE")
        self.assertIn("try again", self.sentence(self.key("key", "generate", "/bob", code=1)))
        held.rollback()
        held.close()
        self.assertEqual(self.snapshot(), before)

    def test_store_of_other_user_is_refused_unchanged(self):
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("running as another user needs root and setpriv")
        self.generate("/alice")
        os.chmod(self.folder, 0o755)
        before = self.snapshot()
        for args in (["key", "list"], ["key", "generate", "/bob"]):
            unprivileged = [
                "setpriv",
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
                NW,
                *args,
                "--store",
                self.store,
            ]
            completed = subprocess.run(unprivileged, capture_output=True)
            if b"failed to execute" in completed.stderr:
                self.skipTest("other users may not read the folder of the binary")
            self.assertEqual(completed.returncode, 1)
            self.assertIn("Permission denied", self.sentence(completed))
        self.assertEqual(self.snapshot(), before)

    def test_disk_full_leaves_store_unchanged(self):
        mount = Path(self.folder) / "small"
        mount.mkdir()
        if (
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", mount], capture_output=True
            ).returncode
            != 0
        ):
            self.skipTest("a small disk needs the right to mount one")
        try:
            store = mount / "store"
            self.generate("/alice", store=store)
            # First enough space for the database's journal and a key, then less and less.
            filler = mount / "filler"
            free = os.statvfs(mount).f_bavail * os.statvfs(mount).f_frsize
            for left in (32768, 16384, 8192, 4096, 0):
                filler.write_bytes(b"x" * (free - left))
                before = self.snapshot(store)
                completed = subprocess.run(
                    [NW, "key", "generate", "/bob", "--store", store], capture_output=True
                )
                if completed.returncode != 0:
                    self.sentence(completed)
                    self.assertEqual(self.snapshot(store), before, left)
                filler.unlink()
                if completed.returncode == 0:
                    self.key("key", "delete", "/bob", store=store)
                    free = os.statvfs(mount).f_bavail * os.statvfs(mount).f_frsize
            self.assertNotEqual(completed.returncode, 0, "a key was stored on a full disk")
            # A first key on a full disk leaves no store.
            filler.write_bytes(b"x" * free)
            self.sentence(self.key("key", "generate", "/bob", store=mount / "other", code=1))
            filler.unlink()
            self.assertFalse((mount / "other/pib.db").exists())
            self.assertEqual(
                [key["identity"] for key in self.listed("key", store=store)], ["/alice"]
            )
        finally:
            subprocess.run(["umount", mount], check=True)


RULES = """
[management]
digest = "{digest}"
unknown_key = "{digest}"
localhop = "anywhere"

[[anchor]]
id = "site"
file = "{anchor}"

[[allow]]
id = "users"
from = "remote"
anchors = ["site"]
signer = "/site/<who>/<..>/KEY/<_>"
privileges = ["rib"]
prefix = "/site/<who>/<..>"
"""

OPERATORS = """
[[allow]]
id = "operators"
anchors = ["site"]
signer = "/site/operator/<_>/KEY/<_>"
privileges = ["all"]
"""


def tlv(typ, *values):
    value = b"".join(values)
    head = (
        bytes([typ, len(value)])
        if len(value) < 253
        else bytes([typ, 253]) + len(value).to_bytes(2, "big")
    )
    return head + value


def unknown_command(number):
    """Returns a neighbour's command signed by a key whose certificate can't be fetched; the
    signature is garbage."""
    generic = lambda text: tlv(8, text if isinstance(text, bytes) else text.encode())
    parameters = tlv(104, tlv(7, generic("site"), generic(f"x{number}")))
    name = b"".join(map(generic, ("localhop", "nfd", "rib", "register"))) + generic(parameters)
    key = tlv(7, *map(generic, ("site", f"x{number}", "KEY", str(number), "up")), tlv(54, b"\1"))
    info = (
        tlv(27, b"\3")
        + tlv(28, key)
        + tlv(38, number.to_bytes(8, "big"))
        + tlv(40, int(time.time() * 1000).to_bytes(8, "big"))
    )
    tail = tlv(36) + tlv(44, info) + tlv(46, bytes(70))
    name += tlv(2, hashlib.sha256(tail).digest())
    return tlv(
        5,
        tlv(7, name),
        tlv(10, number.to_bytes(4, "big")),
        tlv(12, (4000).to_bytes(2, "big")),
        tail,
    )


class AuthorizedCommands(Keys):
    """Routers that authorize commands by rules and fetch missing certificates over the network."""

    def setUp(self):
        super().setUp()
        self.boss = Path(self.folder) / "boss"
        self.generate("/site", store=self.boss)
        self.anchor = Path(self.folder) / "site.cert"
        self.key("cert", "export", "/site", "-o", self.anchor, store=self.boss)

    def router_with_rules(self, name="ruled", digest="local", extra=""):
        return self.router(name, RULES.format(anchor=self.anchor, digest=digest) + extra)

    def serve(self, router, *args):
        """Starts a neighbour's `nw ping-server` over UDP. Returns the process and its first line of
        output."""
        process = self.start(
            router, "ping-server", "--socket", f"udp4://127.0.0.1:{router.udp}", *args
        )
        return process, process.stderr.readline().decode()

    def test_neighbour_registers_with_fetched_certificate(self):
        router = self.router_with_rules()
        self.make_certified_key("/site/alice", "/site", by=self.boss)
        certificate = json.loads(self.key("cert", "show", "/site/alice", "--json").stdout)
        self.nw("peek", "--lifetime", "300", certificate["name"], router=router, code=7)
        _, output = self.serve(router, "--key", "/site/alice", "--store", self.store, "/site/alice")
        self.assertIn("answering under /site/alice", output)
        self.assertIn(
            "1 answered", self.nw("ping", "/site/alice", "-c", "1", router=router).stdout.decode()
        )
        # The router fetched the certificate, so its content store has it now.
        packet = self.nw("peek", "--show", "packet", certificate["name"], router=router).stdout
        self.assertEqual(hashlib.sha256(packet).hexdigest(), certificate["fingerprint"])
        route = next(
            json.loads(line)
            for line in self.nw("route", "list", "--json", router=router).stdout.splitlines()
            if b"/site/alice" in line
        )
        self.assertEqual(route["name"], "/site/alice/ping")

    def test_certificate_chain_of_two_is_fetched(self):
        router = self.router_with_rules()
        self.make_certified_key("/site/dept", "/site", by=self.boss)
        self.make_certified_key("/site/dept/carol", "/site/dept")
        _, output = self.serve(
            router, "--key", "/site/dept/carol", "--store", self.store, "/site/dept/carol"
        )
        self.assertIn("answering", output)
        self.assertIn(
            "1 answered",
            self.nw("ping", "/site/dept/carol", "-c", "1", router=router).stdout.decode(),
        )

    def test_certificate_sender_lacks_is_fetched_from_network(self):
        department, clerk = Path(self.folder) / "department", Path(self.folder) / "clerk"
        self.make_certified_key("/site/dept", "/site", by=self.boss, to=department)
        self.make_certified_key("/site/dept/carol", "/site/dept", by=department, to=clerk)
        self.assertEqual(
            len(self.listed("cert", store=clerk)), 2, "carol has her own certificates only"
        )
        packet = self.key("cert", "export", "/site/dept", "--raw", store=department).stdout
        # A third machine serves the department's certificate.
        third, received = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), []
        third.bind(("127.0.0.1", 0))
        self.addCleanup(third.close)

        def serve():
            try:
                while True:
                    interest, peer = third.recvfrom(9000)
                    if not interest:
                        return
                    received.append(interest)
                    third.sendto(packet, peer)
            except OSError:
                pass

        threading.Thread(target=serve, daemon=True).start()
        route = f'[[route]]\nprefix = "/site/dept/KEY"\nface = "udp4://127.0.0.1:{third.getsockname()[1]}"\n'
        router = self.router_with_rules(extra=route)
        _, output = self.serve(
            router, "--key", "/site/dept/carol", "--store", clerk, "/site/dept/carol"
        )
        self.assertIn("answering", output)
        self.assertTrue(
            any(b"dept" in interest and b"KEY" in interest for interest in received), received
        )

    def test_flood_of_unverifiable_commands_does_not_block_valid_signer(self):
        router = self.router_with_rules()
        self.make_certified_key("/site/alice", "/site", by=self.boss)
        stop = threading.Event()
        self.addCleanup(stop.set)
        sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(10)]
        for sock in sockets:
            self.addCleanup(sock.close)
            sock.connect(("127.0.0.1", router.udp))

        def flood():
            count = 0
            while not stop.is_set():
                for sock in sockets:
                    for _ in range(8):
                        count += 1
                        sock.send(unknown_command(count))
                time.sleep(0.05)

        thread = threading.Thread(target=flood, daemon=True)
        thread.start()
        time.sleep(1)
        for _ in range(3):
            process, output = self.serve(
                router, "--key", "/site/alice", "--store", self.store, "/site/alice"
            )
            self.assertIn("answering under /site/alice", output)
            process.terminate()
            process.wait(TIMEOUT_S)
        stop.set()
        thread.join(TIMEOUT_S)
        self.assertRegex(router.log_text(), r"ERROR.*a shared pool is short.*certificate")

    def test_command_without_valid_chain_is_refused(self):
        router = self.router_with_rules()
        # A key without a certificate chain.
        self.generate("/site/mallory")
        process, output = self.serve(
            router, "--key", "/site/mallory", "--store", self.store, "/site/mallory"
        )
        self.assertRegex(
            output, r"^nw: can't serve the name: rib/register refused \(403\): \w.+\n$"
        )
        self.assertEqual(process.wait(TIMEOUT_S), 6)
        # A chain that ends at a foreign key with the anchor's name.
        impostor = Path(self.folder) / "impostor"
        self.generate("/site", store=impostor)
        self.make_certified_key("/site/eve", "/site", by=impostor)
        _, output = self.serve(router, "--key", "/site/eve", "--store", self.store, "/site/eve")
        self.assertRegex(output, r"\(403\): .*(certificate|signature|trust anchor)")
        # A valid signer, but for another prefix.
        self.make_certified_key("/site/alice", "/site", by=self.boss)
        _, output = self.serve(router, "--key", "/site/alice", "--store", self.store, "/site/bob")
        self.assertRegex(output, r"\(403\): .*no rule")
        # No key at all.
        _, output = self.serve(router, "/site/alice")
        self.assertRegex(output, r"\(403\): .*signed by a key")
        self.assertNotIn(b"/site/", self.nw("route", "list", router=router).stdout)

    def test_route_on_remote_router_follows_rules(self):
        router = self.router_with_rules()
        self.make_certified_key("/site/alice", "/site", by=self.boss)
        args = [
            "--socket",
            f"udp4://127.0.0.1:{router.udp}",
            "--key",
            "/site/alice",
            "--store",
            self.store,
        ]
        self.nw("route", "add", "/site/alice/x", "0", "--origin", "app", *args, router=router)
        self.assertIn(b"/site/alice/x", self.nw("route", "list", router=router).stdout)
        self.assertIn(
            "403",
            self.sentence(self.nw("route", "add", "/other", "0", *args, router=router, code=6)),
        )

    def test_local_command_signed_by_operator_is_accepted(self):
        router = self.router_with_rules(digest="nowhere", extra=OPERATORS)
        self.assertIn(
            "403",
            self.sentence(self.nw("strategy", "set", "/x", "multicast", router=router, code=6)),
        )
        self.make_certified_key("/site/operator/olga", "/site", by=self.boss)
        self.key(
            "strategy", "set", "/x", "multicast", "--key", "/site/operator/olga", router=router
        )
        self.assertIn(b"/x ", self.nw("strategy", "list", router=router).stdout)
        routes = "".join(f"/many/{i} udp4://127.0.0.1:{router.tcp}\n" for i in range(300)).encode()
        completed = self.key(
            "route", "import", "-", "--json", "--key", "default", router=router, stdin=routes
        )
        self.assertEqual(json.loads(completed.stdout)["routes"], 300)

    def test_signed_data_names_certificate_in_key_locator(self):
        router = self.router()
        self.make_certified_key("/site/alice", "/site", by=self.boss)
        name = json.loads(self.key("cert", "show", "/site/alice", "--json").stdout)["name"]
        process = self.start(
            router,
            "poke",
            "--key",
            "/site/alice",
            "--store",
            self.store,
            "/site/alice/hello",
            "hello",
        )
        answer = None
        for _ in range(50):
            completed = subprocess.run(
                [NW, "peek", "--json", "--lifetime", "500", "/site/alice/hello"],
                capture_output=True,
                env=router.environment(),
            )
            if completed.returncode == 0:
                answer = json.loads(completed.stdout)
                break
            time.sleep(0.05)
        self.assertIsNotNone(answer)
        self.assertEqual((answer["signature_type"], answer["key_locator"]), (3, name))
        self.assertEqual(process.wait(TIMEOUT_S), 0)
        for args, advice in (
            (["--key", "alice.pem"], "--key-name"),
            (["--key", "/unserved"], "nw key list"),
        ):
            text = self.sentence(self.key("poke", *args, "/x", "hello", router=router, code=1))
            self.assertTrue(re.search(re.escape(advice), text), text)
