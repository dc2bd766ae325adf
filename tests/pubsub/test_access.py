"""Who may publish: signatures, rules that want them, and the secret of a domain."""

import json
import unittest

import network
from namewire import Publication, Subscriber
from node import NodeTest, wait_until

SIGNED = '[[pubsub_rule]]\nscope = "/plant/**"\npublish = ["any"]\nsubscribe = ["any"]\n'


def signed_by(path):
    return SIGNED + f'signed_by = ["hmac:{path}"]\n'


class SignatureTest(NodeTest):
    def setUp(self):
        super().setUp()
        self.secret, self.other = self.folder / "secret", self.folder / "other"
        self.secret.write_bytes(b"s" * 32)
        self.other.write_bytes(b"o" * 32)

    def signing(self, path):
        return ["--hmac", str(path), "--key-name", "/plant/KEY/1"]

    def test_subscriber_accepts_publications_of_its_keys_only(self):
        checked = self.subscriber("/s", "-n", "70", "--signed-by", f"hmac:{self.secret}")
        plain = self.subscriber("/s", "-n", "72")
        lines = "".join(f"{number}\n" for number in range(70))
        self.node.run("pub", "/s", "unsigned")
        self.node.run("pub", "/s", "foreign", *self.signing(self.other))
        batch = [*self.signing(self.secret), "--batch", "64"]
        self.assertEqual(self.node.run("pub", "/s", *batch, stdin=lines).returncode, 0)
        out, err = checked.communicate(timeout=20)
        self.assertEqual(out.splitlines(), [f"/s {number}" for number in range(70)])
        self.assertIn("70 publications, 0 lost, 2 refused", err)
        self.assertIn("/s 1 refused: it is not signed", err)
        self.assertEqual(plain.communicate(timeout=20)[0].splitlines()[:3], [
            "/s unsigned",
            "/s foreign",
            "/s 0",
        ])  # fmt: skip

    def test_key_of_the_store_signs_and_its_certificate_checks(self):
        store = ["--store", str(self.folder / "keys")]
        made = self.node.run_plain("key", "generate", "--type", "ed25519", "/plant", *store)
        self.assertEqual(made.returncode, 0, made.stderr)
        exported = self.node.run_plain("cert", "export", "/plant", *store)
        self.assertEqual(exported.returncode, 0, exported.stderr)
        certificate = self.folder / "plant.cert"
        certificate.write_text(exported.stdout)
        checked = self.subscriber("/s", "-n", "1", "--signed-by", str(certificate))
        sent = self.node.run("pub", "/s", "one", "--key", "/plant", *store)
        self.assertEqual(sent.returncode, 0, sent.stderr)
        self.assertEqual(checked.communicate(timeout=20)[0], "/s one\n")

    def test_wrong_options_are_clear(self):
        for words, text in [
            (["pub", "/s", "x", "--batch", "2"], "give a key"),
            (["pub", "/s", "x", "--strategy", "far"], "node, link, broadcast, domain or implicit"),
            (["sub", "/s", "--signed-by", "/nowhere"], "can't read /nowhere"),
            (["sub", "/s", "--signed-by", str(self.secret)], "a secret is hmac:"),
        ]:
            ended = self.node.run(*words)
            self.assertNotEqual(ended.returncode, 0, words)
            self.assertIn(text, ended.stderr)


class DomainAccessTest(network.NetworkTest):
    def test_nodes_without_the_secret_neither_publish_nor_subscribe(self):
        secret, other = self.folder / "secret", self.folder / "other"
        secret.write_bytes(b"s" * 32)
        other.write_bytes(b"o" * 32)
        self.network(3, [(0, 1), (1, 2), (0, 2)])
        self.start(0, 1, pubsub=f'domain_key = "{secret}"\n')
        self.start(2, pubsub=f'domain_key = "{other}"\n')
        inside, outside = self.subscriber(1, "/d/**"), self.subscriber(2, "/d/**")
        publisher, stranger = self.publisher(0), self.publisher(2)
        item = publisher.announce("/d/a")
        wait_until(lambda: publisher.subscribers(item) == 1, "node 1")
        foreign = stranger.announce("/d/b", keeps_last=False)
        stranger.publish(foreign, b"foreign")
        publisher.publish(item, b"own")
        self.assertEqual(inside.receive(5).payload, b"own")
        self.assertEqual(outside.receive(1).name, "/d/b", "its own publisher's only")
        self.assertIsNone(inside.receive(0.3))
        self.assertIsNone(outside.receive(0.1))
        self.assertEqual(publisher.subscribers(item), 1)
        status = self.nodes[2].status()
        self.assertEqual(status["nodes"], [])
        self.assertGreater(status["domain"]["other_key"], 5)
        self.assertEqual(len(self.nodes[0].status()["nodes"]), 1)

    def test_rule_of_a_node_refuses_unsigned_publications_of_others_and_tells_them_as_lost(self):
        secret = self.folder / "secret"
        secret.write_bytes(b"s" * 32)
        self.network(2, [(0, 1)])
        self.start(0)
        self.start(1, rules=signed_by(secret))
        receivers = [self.subscriber(1, "/plant/**")]
        by_messages = Subscriber(self.nodes[1].path, shared_memory=False)
        self.addCleanup(by_messages.close)
        by_messages.subscribe("/plant/**")
        receivers.append(by_messages)
        signing = ["--hmac", str(secret), "--key-name", "/k", "--batch", "2"]
        for value, words in [("forged", []), ("good", signing)]:
            sent = self.nodes[0].run(
                "pub", "/plant/a", value, value, "--wait", "1", "--patience", "2000", *words
            )
            self.assertEqual(sent.returncode, 0, sent.stderr)
        for receiver in receivers:
            payloads = []
            while len(payloads) < 2 and (found := receiver.receive(5)) is not None:
                if isinstance(found, Publication):
                    payloads.append(found.payload[:4])
            self.assertEqual((payloads, receiver.lost), ([b"good"] * 2, 2))
        self.assertEqual(self.nodes[1].status()["refused_signatures"], 2)
        # Publishers of the node's own applications are checked, too, also those with a ring.
        for words in [["--no-shared-memory"], []]:
            local = self.nodes[1].run("pub", "/plant/b", "forged", "--json", *words)
            self.assertEqual(json.loads(local.stdout)["published"], 1)
            for receiver in receivers:
                lost = receiver.receive(5)
                self.assertEqual((lost.name, lost.lost), ("/plant/b", 1))
        self.nodes[1].run("pub", "/plant/c", "good", "good", *signing)
        for receiver in receivers:
            found = [receiver.receive(5).payload[:4] for _ in range(2)]
            self.assertEqual((found, receiver.lost), ([b"good"] * 2, 4))


if __name__ == "__main__":
    unittest.main()
