"""The NDN gateway: Interests are answered with publications, by `nw` and by python-ndn."""

import json
import os
import shutil
import subprocess
import unittest
from pathlib import Path

from namewire import Publisher
from node import ROOT, NodeTest, wait_until

CACHE = Path(
    subprocess.run(
        [ROOT / "tests/cache", "interop-python"], capture_output=True, text=True, check=True
    ).stdout.strip()
)
PYTHON_NDN = CACHE / "venv/bin/python"

# A consumer that accepts Data with a digest, or, with a certificate, those signed by its key.
FOREIGN = """
import base64
import sys
from ndn import encoding as enc
from ndn.appv2 import NDNApp
from ndn.client_conf import default_face
from ndn.security import EccChecker, sha256_digest_checker
from ndn.types import ValidationFailure, ValidResult

app = NDNApp(face=default_face("unix://" + sys.argv[1]))
check = sha256_digest_checker
if len(sys.argv) > 2:
    check = EccChecker.from_cert(base64.b64decode(open(sys.argv[2]).read()))


async def validate(name, signature, _context):
    return ValidResult.PASS if await check(name, signature) else ValidResult.FAIL


async def fetch(name, **options):
    found, content, _ = await app.express(name, validator=validate, lifetime=8000, **options)
    print(enc.Name.to_str(found), bytes(content).decode(), flush=True)

"""

# Fetches the last publication, then waits for the next one, then fetches each by its number.
LAST_AND_NUMBERED = """

async def main():
    await fetch("/example/ps/room/temperature", can_be_prefix=True, must_be_fresh=True)
    await fetch("/example/ps/room/temperature/seq=3")
    for number in (1, 2, 3):
        await fetch(f"/example/ps/room/temperature/seq={number}")
    app.shutdown()


app.run_forever(after_start=main())
"""

# Fetches a name below each prefix and prints whether it was accepted.
EACH = """
async def main():
    for prefix in sys.argv[3:]:
        try:
            await fetch(f"{prefix}/room/temperature/seq=1")
        except ValidationFailure:
            print(prefix, "refused", flush=True)
    app.shutdown()


app.run_forever(after_start=main())
"""


class GatewayTest(NodeTest):
    RULES = '[[pubsub_rule]]\nscope = "/secret/**"\nsubscribe = []\npublish = ["any"]\n'

    def setUp(self):
        super().setUp()
        self.publisher = Publisher(self.node.path)
        self.addCleanup(self.publisher.close)

    def gateway(self, *words, prefix="/example/ps"):
        process = self.node.start("pubsub", "gateway", prefix, *words)
        self.addCleanup(self.stop, process)
        self.assertIn(f"serving publications as {prefix}", process.stderr.readline())
        return process

    def peek(self, name, *words):
        return self.node.run("peek", "--json", "--timeout", "8000", name, *words)

    def peeked(self, name, *words):
        result = self.peek(name, *words)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["name"]

    def test_last_and_numbered_publications_are_served_also_after_the_item_ended(self):
        gateway = self.gateway("/room/**")
        item = self.publisher.announce("/room/temperature")
        for value in (b"20", b"21"):
            self.publisher.publish(item, value)
        last = ("/example/ps/room/temperature", "-P", "-f")
        self.assertEqual(self.peeked(*last), "/example/ps/room/temperature/seq=2")
        self.publisher.publish(item, b"22")
        wait_until(lambda: self.peeked(*last).endswith("seq=3"), "the next publication", 10)
        self.publisher.withdraw(item)
        # Subscribed from the start, so earlier ones are kept.
        for number, value in [(1, "20"), (3, "22")]:
            name = f"/example/ps/room/temperature/seq={number}"
            raw = self.node.run("peek", "--raw", name)
            self.assertEqual((raw.returncode, raw.stdout), (0, value), raw.stderr)
        gone = self.peek("/example/ps/room/temperature/seq=3/seg=9")
        self.assertNotEqual(gone.returncode, 0)
        self.assertIn("NoRoute", gone.stdout + gone.stderr)
        _, errors = self.end(gateway)
        self.assertRegex(errors, "[0-9]+ publications, [0-9]+ Interests, [0-9]+ Data sent")

    def test_interest_before_the_publication_waits_for_it_and_content_store_serves_others(self):
        gateway = self.gateway()
        name = "/example/ps/later/x/seq=1"
        words = ["peek", "--raw", "--lifetime", "20000", "--timeout", "20000", name]
        readers = [self.node.start(*words) for _ in range(2)]
        for reader in readers:
            self.addCleanup(self.stop, reader)

        def is_subscribed():
            found = [a["subscriptions"] for a in self.node.status()["applications"]]
            return ["/later/x"] in found

        wait_until(is_subscribed, "the subscription that the Interest stands for")
        item = self.publisher.announce("/later/x")
        self.publisher.publish(item, b"now")
        self.assertEqual([r.communicate(timeout=20)[0] for r in readers], ["now", "now"])
        self.end(gateway)
        again = self.node.run("peek", "--raw", name)
        self.assertEqual(again.stdout, "now", "from the content store, without the gateway")

    def test_large_publication_is_an_object_of_segments(self):
        self.gateway("/files/**")
        content = os.urandom(100_000)
        item = self.publisher.announce("/files/a")
        self.publisher.publish(item, content)
        output = self.folder / "out"
        name = "/example/ps/files/a/seq=1"
        fetched = self.node.run("cat", "--no-version", "--output", str(output), name)
        self.assertEqual(fetched.returncode, 0, fetched.stderr)
        self.assertTrue(output.read_bytes() == content)

    def test_rules_and_invalid_names_are_respected(self):
        self.gateway("--lease", "300")
        item = self.publisher.announce("/secret/key")
        self.publisher.publish(item, b"hidden")
        hidden = self.node.run("peek", "-P", "--lifetime", "500", "/example/ps/secret/key")
        self.assertNotEqual(hidden.returncode, 0)
        self.assertNotIn("hidden", hidden.stdout)
        invalid = self.node.run("peek", "/example/ps/a/seg=1")
        self.assertIn("NoRoute", invalid.stdout + invalid.stderr)

        def has_ended():
            return all(not a["subscriptions"] for a in self.node.status()["applications"])

        wait_until(has_ended, "the end of the lease")

    @unittest.skipUnless(
        PYTHON_NDN.exists(), "SKIPPED: python-ndn is missing; tests/interop/install does"
    )
    def test_python_ndn_fetches_last_and_numbered_publications(self):
        self.gateway("/room/**")
        item = self.publisher.announce("/room/temperature")
        self.publisher.publish(item, b"20")
        self.publisher.publish(item, b"21")
        command = [PYTHON_NDN, "-c", FOREIGN + LAST_AND_NUMBERED, self.node.socket]
        reader = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.addCleanup(self.stop, reader)
        prefix = "/example/ps/room/temperature"
        self.assertEqual(reader.stdout.readline(), f"{prefix}/seq=2 21\n")
        self.publisher.publish(item, b"22")
        lines, errors = reader.communicate(timeout=30)
        numbered = [(3, 22), (1, 20), (2, 21), (3, 22)]
        expected = "".join(f"{prefix}/seq={number} {value}\n" for number, value in numbered)
        self.assertEqual(lines, expected, errors)

    def make_signing_gateways(self):
        """Starts a gateway that signs with the key of /site's certificate, others that sign with
        another key or not at all. Returns the file of the certificate."""

        def made(*words):
            result = self.node.run_plain(*words)
            self.assertEqual(result.returncode, 0, result.stderr)
            return result.stdout.strip()

        site, other = (["--store", str(self.folder / name)] for name in ("site", "other"))
        key = made("key", "generate", "/site", *site)
        made("key", "generate", "/site", *other)
        certificate = self.folder / "site.cert"
        certificate.write_text(made("cert", "export", "/site", *site))
        forged = self.folder / "forged.pem"
        generated = ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt"]
        command = [*generated, "ec_paramgen_curve:P-256", "-out", forged]
        subprocess.run(command, check=True, capture_output=True)
        words = {
            "/right": ["--key", "/site", *site],
            "/other": ["--key", "/site", *other],
            "/forged": ["--key", str(forged), "--key-name", key],
            "/plain": [],
        }
        for prefix, signing in words.items():
            self.gateway("/room/**", *signing, prefix=prefix)
        item = self.publisher.announce("/room/temperature")
        self.publisher.publish(item, b"20")
        return certificate

    @unittest.skipUnless(shutil.which("openssl"), "a key in a file is made by openssl")
    def test_data_of_gateway_are_accepted_by_key_only(self):
        anchor = ["--anchor", str(self.make_signing_gateways())]
        name = "room/temperature/seq=1"
        right = self.node.run("peek", "--raw", f"/right/{name}", *anchor)
        self.assertEqual((right.returncode, right.stdout), (0, "20"), right.stderr)
        for prefix in ("/other", "/forged", "/plain"):
            refused = self.node.run("peek", "--raw", f"{prefix}/{name}", *anchor)
            self.assertEqual((refused.returncode, refused.stdout), (8, ""), refused.stderr)
            self.assertRegex(refused.stderr, "signature|signed|anchor", prefix)
        # Segments of an object, too.
        content, output = os.urandom(100_000), self.folder / "out"
        self.publisher.publish(self.publisher.announce("/room/file"), content)
        for prefix in ("/right", "/other", "/forged", "/plain"):
            words = ["--no-version", "--output", str(output), f"{prefix}/room/file/seq=1"]
            done = self.node.run("cat", *words, *anchor)
            is_right = prefix == "/right"
            self.assertEqual(done.returncode == 0, is_right, f"{prefix}: {done.stderr}")
            self.assertEqual(output.exists() and output.read_bytes() == content, is_right)
            output.unlink(missing_ok=True)

    @unittest.skipUnless(
        PYTHON_NDN.exists(), "python-ndn is missing; tests/interop/run installs it"
    )
    @unittest.skipUnless(shutil.which("openssl"), "a key in a file is made by openssl")
    def test_python_ndn_accepts_data_of_gateway_by_key_only(self):
        certificate = self.make_signing_gateways()
        prefixes = ["/right", "/other", "/forged", "/plain"]
        command = [PYTHON_NDN, "-c", FOREIGN + EACH, self.node.socket, certificate, *prefixes]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        expected = ["/right/room/temperature/seq=1 20"]
        expected += [f"{prefix} refused" for prefix in prefixes[1:]]
        self.assertEqual(done.stdout.splitlines(), expected, done.stderr)


if __name__ == "__main__":
    unittest.main()
