"""What a person trusts reaches every verifier: one that the document names, and one that the
defence puts in. Real keys, real signatures, real services."""

import socket
import unittest

from attack import (
    Producers,
    attacker,
    interest,
    read_packets,
    segment_name,
    signed_film,
    viewer,
    write_key,
)
from network import CHAIN, NetworkTest, read_tlv, tlv

# The producer's Data are signed by a key whose certificate an authority has issued.
EDITOR = "/site/editor"
RULES = (("/site/film/<..>", "/site/editor/KEY/<_>"), ("/site/editor/KEY/<..>", "/site/KEY/<_>"))
VERIFIED = CHAIN.replace("nr.data -> br.data", "nr.data -> sv.packet\nsv.valid -> br.data").replace(
    "service front", "sv = signature_verifier\nservice back {{ br, sv, nr }}\nservice front"
)
POISONING = """
trust { anchor "site.cert" }
defend poisoning watch=cs period=600ms requests=30 quiet=3
"""


class Trust(NetworkTest):
    def setUp(self):
        super().setUp()
        write_key(self.folder)
        self.store = ("--store", self.folder / "keys")
        self.editor_cert = self.folder / "editor.cert"
        self.tool("key", "generate", EDITOR, *self.store)
        request = self.folder / "editor.req"
        self.tool("cert", "request", EDITOR, "-o", request, *self.store)
        sign = ("cert", "sign", "--signer", "/site", request, "-o", self.editor_cert)
        self.tool(*sign, *self.store)
        self.tool("cert", "install", self.editor_cert, *self.store)
        self.film = signed_film(self.folder, EDITOR)
        self.producers = Producers(self.folder / "p.sock", self.film)
        self.addCleanup(self.producers.close)

    def add_keys(self):
        self.nw("key", "add", self.folder / "site.cert")
        self.nw("key", "add", "--chain", self.editor_cert)
        for names, keys in RULES:
            self.nw("key", "allow", names, keys)
        self.wait_converged()

    def answers(self, number):
        """Returns whether an Interest for a segment is answered by the film's Data."""
        with socket.socket(socket.AF_UNIX) as stream:
            stream.connect(str(self.folder / "c.sock"))
            stream.settimeout(1.5)
            stream.sendall(interest(segment_name(number)))
            try:
                for kind, value in read_packets(stream):
                    if kind == 6:
                        return tlv(6, value) == self.film[read_tlv(value, 0)[1]]
            except TimeoutError:
                pass
            return False

    def test_verifier_of_the_document_accepts_data_by_keys_that_a_person_adds(self):
        manager = self.up(self.file(text=VERIFIED), "--period-ms", 200)
        self.assertFalse(self.answers(0), "no key is trusted yet")
        self.add_keys()
        self.until(lambda: self.answers(1), "Data signed by the added key pass")
        # Without the certificate between, the chain ends before the anchor.
        self.nw("key", "remove", self.listed_name("/site/editor/KEY/"))
        self.wait_converged()
        self.assertFalse(self.answers(2), "the certificate was taken back")
        self.stop(manager)

    def test_verifier_of_the_defence_accepts_data_by_keys_that_a_person_adds(self):
        store = "content_store(packets = 128, mib = 1)"
        text = CHAIN.replace("content_store(mib = 16)", store)
        manager = self.up(self.file(extra=POISONING, text=text), "--period-ms", 200)
        self.add_keys()
        good = viewer(self.folder / "c.sock", self.film)
        self.addCleanup(good.close)
        self.until(lambda: not self.defence()["learning"], "the defence has learned")
        self.producers.is_attacking = True
        bad = attacker(self.folder / "c.sock")
        self.addCleanup(bad.close)
        self.until(lambda: self.defence()["state"] == "isolated", "the attack is isolated")
        self.wait_converged()
        verifiers = [t for t in self.graphs().values() if "= signature_verifier" in t]
        certificate = "".join(self.editor_cert.read_text().split())
        self.assertTrue(verifiers)
        for graph in verifiers:
            self.assertIn(certificate, graph)
        # What the store asks for anew passes the verifier.
        control = self.home / "i/front~1@here/control.sock"
        path, body = "/v1/elements/cs/erase", {"prefix": "/site"}
        asked, answered = self.producers.good, good.good
        self.assertEqual(self.rest("POST", path, body, control=control)[0], 200)
        self.until(lambda: self.producers.good > asked + 50, "Interests pass the verifier")
        self.until(lambda: good.good > answered + 100, "signed Data pass it")
        bad.close()
        self.stop(manager)

    def defence(self):
        status, defences = self.rest("GET", "/v1/countermeasures")
        self.assertEqual(status, 200, defences)
        return defences[0]

    def listed_name(self, start):
        """Returns the name of the key whose name starts so, as the list shows it."""
        words = self.nw("key", "list").stdout.split()
        return next(word for word in words if word.startswith(start) and "<" not in word)


if __name__ == "__main__":
    unittest.main()
