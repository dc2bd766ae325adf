"""Groups whose members need trusted keys: what is signed otherwise is refused, counted and told."""

import re
import subprocess
import threading
import time
import unittest

from namewire import Publisher
from node import TIMEOUT_S, NodeTest, wait_until

TRUST = """\
[[anchor]]
id = "site"
file = "site.cert"

[[allow]]
id = "publications of a member by its key"
anchors = ["site"]
signer = "/site/<who>/KEY/<_>"
prefix = "/chat/<who>/<..>"

[[allow]]
id = "state vectors by all"
anchors = ["site"]
signer = "/site/<_>/KEY/<_>"
prefix = "/chat/32=svs/v=3"
"""


class GroupKeysTest(NodeTest):
    def start(self, *words):
        process = self.node.start(*words, stdin=subprocess.PIPE)
        self.addCleanup(self.stop, process)
        # A line that does not come ends the test, too.
        limit = threading.Timer(TIMEOUT_S, process.kill)
        limit.start()
        self.addCleanup(limit.cancel)
        return process

    def member(self, group, name, *words):
        process = self.start("sync", group, "--name", name, *words)
        self.assertIn("is a member of", process.stderr.readline())
        return process

    def bridge(self, scope, group, name, *words):
        process = self.start("pubsub", "group", scope, group, "--name", name, *words)
        self.assertIn("is connected to", process.stderr.readline())
        return process

    @staticmethod
    def say(process, text):
        process.stdin.write(f"{text}\n")
        process.stdin.flush()

    def line_with(self, stream, text):
        others = []
        for line in iter(stream.readline, ""):
            if text in line:
                return line
            others.append(line)
        raise AssertionError(f"the program ended without {text!r}: {others}")

    def secret(self, name, byte):
        path = self.folder / name
        path.write_bytes(byte * 32)
        return ["--hmac", str(path), "--key-name", f"/{name}", "--verify"]

    def nw(self, *words, stdin=None):
        ended = subprocess.run(
            self.node.arguments(*words)[:-2],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return ended.stdout

    def identities(self, *names):
        """Makes the key of a site, and certificates by it in a store for each name."""
        site = ["--store", str(self.folder / "site")]
        self.nw("key", "generate", "/site", *site)
        (self.folder / "site.cert").write_text(self.nw("cert", "export", "/site", *site))
        for name in names:
            own = ["--store", str(self.folder / name)]
            self.nw("key", "generate", f"/site/{name}", *own)
            request = self.nw("cert", "request", f"/site/{name}", *own)
            signed = self.nw("cert", "sign", "-", "--signer", "/site", *site, stdin=request)
            self.nw("cert", "install", "-", *own, stdin=signed)

    def key(self, name):
        return ["--key", f"/site/{name}", "--store", str(self.folder / name)]

    def test_secret_of_the_group_is_needed_for_state_vectors_and_told_and_counted(self):
        right, wrong = self.secret("right", b"r"), self.secret("wrong", b"w")
        reader = self.subscriber("/chat/**", "-n", "2")
        bridge = self.bridge("/chat", "/g", "/n", *right)
        inside = self.member("/g", "/in", *right)
        for name, words in [("/foreign", wrong), ("/plain", [])]:
            outside = self.member("/g", name, *words)
            self.say(outside, "forged")
            for process in (bridge, inside):
                line = self.line_with(process.stderr, "Sync Interest refused")
                self.assertIn("/g/32=svs/v=3", line)
            self.end(outside)
            # One refusal a second is shown; the next Sync Interest would come after half a minute.
            time.sleep(1.1)
        self.say(inside, "good")
        with Publisher(self.node.path) as publisher:
            publisher.publish(publisher.announce("/chat/item"), b"from the scope")
            self.assertEqual(inside.stdout.readline(), "/n/item from the scope\n")
            lines, _ = reader.communicate(timeout=30)
        self.assertEqual(
            sorted(lines.splitlines()), ["/chat/@group/in good", "/chat/item from the scope"]
        )
        _, errors = self.end(bridge)
        counts = re.search(r"1 publication to the group, 1 from it, .* (\d+) refused", errors)
        self.assertGreaterEqual(int(counts[1]), 2, errors)
        out, errors = self.end(inside)
        self.assertRegex(errors, r"1 publication, 0 missing, [1-9]\d* refused")
        self.assertEqual(out, "")

    def test_member_without_the_secret_accepts_nothing_of_the_group(self):
        inside = self.member("/g", "/in", *self.secret("right", b"r"))
        outside = self.start("sync", "/g", "--name", "/out", *self.secret("wrong", b"w"), "--json")
        self.assertIn('"ready"', outside.stdout.readline())
        # Said only now: the next state vector of a quiet member comes after half a minute.
        self.say(inside, "secret")
        found = self.line_with(outside.stdout, '"refused"')
        self.assertIn("/g/32=svs/v=3", found)
        out, _ = self.end(outside)
        self.assertNotIn("publication", out)
        self.assertRegex(out, r'"missing":0,"received":0,"refused":[1-9]')

    def test_publication_in_the_name_of_another_member_is_refused_by_rules(self):
        self.identities("a", "mallory", "n")
        trust = self.folder / "trust.toml"
        trust.write_text(TRUST)
        rules = ["--trust", str(trust)]
        reader = self.subscriber("/room/**", "-n", "1")
        bridge = self.bridge("/room", "/chat", "/n", *self.key("n"), *rules)
        other = self.member("/chat", "/mallory", *self.key("mallory"), *rules)
        # Its state vectors are those of a member, but its publications have another one's name.
        mallory = self.member("/chat", "/a", *self.key("mallory"), *rules)
        self.say(mallory, "forged")
        for process in (bridge, other):
            line = self.line_with(process.stderr, "publication 1 of /a is refused")
            self.assertRegex(line, "/chat/a/t=.*/seq=1/v=0/seg=0 is not accepted")
        self.end(mallory)
        wait_until(lambda: not self.is_registered("/chat/a"), "the end of its registration")
        # Numbers are those of a start, whose time is in seconds.
        time.sleep(1.1)
        honest = self.member("/chat", "/a", *self.key("a"), *rules)
        self.say(honest, "good")
        self.assertEqual(reader.communicate(timeout=30)[0], "/room/@group/a good\n")
        self.assertEqual(other.stdout.readline(), "/a good\n")
        with Publisher(self.node.path) as publisher:
            publisher.publish(publisher.announce("/room/item"), b"from the scope")
            for process in (other, honest):
                self.assertEqual(process.stdout.readline(), "/n/item from the scope\n")
        _, errors = self.end(bridge)
        self.assertIn("1 from it, 0 lost before they were passed, 0 missing, 1 refused", errors)
        self.assertIn("2 publications, 0 missing, 1 refused", self.end(other)[1])

    def is_registered(self, prefix):
        return f'"{prefix}"' in self.node.run("route", "list", "--json").stdout

    def test_certificate_chain_to_the_anchor_is_enough_and_needed(self):
        self.identities("a", "b")
        anchor = ["--anchor", str(self.folder / "site.cert")]
        a = self.member("/g", "/a", *self.key("a"), *anchor)
        b = self.member("/g", "/b", *self.key("b"), *anchor)
        self.nw("key", "generate", "/site/c", "--store", str(self.folder / "c"))
        stranger = self.member("/g", "/c", *self.key("c"), *anchor)
        self.say(stranger, "self-signed")
        self.say(a, "good")
        self.assertEqual(b.stdout.readline(), "/a good\n")
        self.line_with(b.stderr, "Sync Interest refused")
        self.assertEqual(self.end(b)[0], "")

    def test_wrong_options_say_what_to_do(self):
        absent = str(self.folder / "no-store")
        for words, text in [
            (["--verify", "--store", absent], "--verify needs a trusted key"),
            (["--anchor", "/nowhere.cert"], "/nowhere.cert"),
            (["--trust", "/nowhere.toml"], "/nowhere.toml"),
            (["--hmac", "/nowhere"], "--key-name"),
            (["--hmac", "/nowhere", "--key-name", "/k"], "/nowhere"),
            (["--key", "/absent", "--store", absent], absent),
        ]:
            for start in (["sync", "/g"], ["pubsub", "group", "/s", "/g"]):
                ended = self.node.run(*start, "--name", "/a", *words)
                self.assertNotEqual(ended.returncode, 0, words)
                self.assertIn(text, ended.stderr)


if __name__ == "__main__":
    unittest.main()
