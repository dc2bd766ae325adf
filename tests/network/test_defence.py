"""A network under attack: real services, a good and a bad producer, a good and a bad consumer. All
bounds are counts and orders; periods are short so that the tests are."""

import json
import time
import unittest

from attack import Producers, attacker, signed_film, viewer, write_key
from network import CHAIN, NetworkTest

POISONING = """
trust { anchor "site.cert"  allow "/site/<..>" by "/site/KEY/<_>" }
defend poisoning watch=cs period=600ms requests=30 quiet=3
"""
FLOODING = "defend flooding watch=pd period=600ms requests=30 quiet=3 unsatisfied=50% rate=400"


class Defence(NetworkTest):
    def start(self, extra, text=CHAIN, packets=128):
        """Starts a network with producers and a viewer, and waits until the defence has learned
        what is usual."""
        write_key(self.folder)
        self.film = signed_film(self.folder)
        self.producers = Producers(self.folder / "p.sock", self.film)
        self.addCleanup(self.producers.close)
        store = f"content_store(packets = {packets}, mib = 1)"
        text = text.replace("content_store(mib = 16)", store)
        manager = self.up(self.file(extra=extra, text=text), "--period-ms", 200)
        self.viewer = viewer(self.folder / "c.sock", self.film)
        self.addCleanup(self.viewer.close)
        self.until(lambda: not self.defence()["learning"], "the defence has learned")
        return manager

    def attack(self, **options):
        client = attacker(self.folder / "c.sock", **options)
        self.addCleanup(client.close)
        return client

    def defence(self):
        status, defences = self.rest("GET", "/v1/countermeasures")
        self.assertEqual(status, 200, defences)
        self.assertEqual(len(defences), 1, defences)
        return defences[0]

    def in_effect(self):
        return [made["name"] for made in self.defence()["countermeasures"]]

    def events(self):
        lines = self.nw("events", "--past", "--json").stdout.splitlines()
        return [line for line in map(json.loads, lines) if line["kind"] == "defence"]

    def share_from_store(self, seconds):
        """Returns the share of the viewer's Interests that the store answers."""
        asked, sent = self.producers.good, self.viewer.sent
        time.sleep(seconds)
        return 1 - (self.producers.good - asked) / max(1, self.viewer.sent - sent)

    def replies(self, seconds):
        """Returns the share of the viewer's Interests that are answered by the film."""
        sent, good = self.viewer.sent, self.viewer.good
        time.sleep(seconds)
        return (self.viewer.good - good) / max(1, self.viewer.sent - sent)

    def place(self):
        """Returns the elements before which a verifier is, in what runs."""
        text = "\n".join(self.graphs().values())
        return [name for name in ("cs", "br", "nr") if f"defence-verify-{name} =" in text]

    def test_poisoning_verified_erased_pushed_back_and_verifier_gone_when_quiet(self):
        manager = self.start(POISONING)
        before, usual = self.graphs(), self.share_from_store(1.5)
        self.assertEqual(self.defence()["state"], "normal")
        self.assertEqual(self.viewer.fakes, [])
        for attack in range(2):
            self.producers.is_attacking = True
            bad = self.attack()
            self.until(lambda: self.defence()["state"] == "isolated", "the attack is isolated")
            self.until(lambda: self.place() == ["nr"], "the verifier is where fake Data enter")
            self.until(lambda: "defence-filter-nr" in self.in_effect(), "names are filtered")
            # Interests of before may still be answered; then no fake Data come any more.
            time.sleep(1)
            clean, good = len(self.viewer.fakes), self.viewer.good
            share = self.share_from_store(2)
            self.assertGreaterEqual(share, 0.9 * usual, self.events())
            self.assertGreater(self.viewer.good, good)
            self.assertEqual(len(self.viewer.fakes), clean, "no fake Data after verification")
            self.assertGreater(self.producers.fakes, 0)
            if attack == 0:
                shown = self.nw("show").stdout
                self.assertIn("defence-verify-nr", shown)
                self.assertIn("isolated", shown)
                bad.close()
                self.producers.is_attacking = False
                self.until(lambda: self.defence()["state"] == "normal", "the attack has ended")
                self.until(lambda: self.graphs() == before, "the end state is the first one")
        texts = [event["text"] for event in self.events()]
        self.assertGreaterEqual(sum("to verifying" in text for text in texts), 2, texts)
        # The manager is killed in the middle of the attack: what it has put in stays.
        manager.kill()
        manager.wait()
        self.assertEqual(self.place(), ["nr"])
        manager = self.up("--name", "n", "--period-ms", 200)
        self.assertEqual(self.place(), ["nr"], "the first plan of the next manager removes nothing")
        self.assertIn(self.defence()["state"], ("isolated", "confirmed", "quiet"))
        self.assertIn("defence-verify-nr", self.in_effect())
        self.assertEqual(len(self.viewer.fakes), clean)
        # A person forbids countermeasures while the attack goes on, and allows them again.
        self.nw("defence", "cs", "--forbid")
        self.until(lambda: self.graphs() == before, "the veto removes the verifier")
        self.assertTrue(self.defence()["vetoed"])
        self.nw("defence", "cs", "--allow")
        self.assertFalse(self.defence()["vetoed"])
        texts = [event["text"] for event in self.events()]
        self.assertIn("countermeasures at cs are forbidden by a person", texts)
        bad.close()
        self.stop(manager)

    def test_flood_limited_where_it_enters_good_consumer_keeps_replies(self):
        text = CHAIN.replace("backward_router", "backward_router(pending = 1024)")
        manager = self.start(FLOODING, text, packets=16)
        before = self.graphs()
        bad = self.attack(rate=1500, lifetime_ms=3000, repeated=0)
        self.until(lambda: self.defence()["state"] == "confirmed", "the flood is confirmed")
        self.until(lambda: "defence-limit-pd =" in self.graphs()["front~1@here"], "it is limited")
        # Interests that entered before expire within their lifetime, and the limiter forgets that
        # the viewer's had no replies meanwhile.
        self.until(lambda: self.replies(2) >= 0.9, "the viewer has its replies again")
        flood, passed = bad.sent, self.producers.unknown
        time.sleep(1)
        self.assertLess(self.producers.unknown - passed, 0.25 * (bad.sent - flood))
        self.assertIn("defence-limit-pd", self.nw("defence").stdout)
        bad.close()
        self.until(lambda: self.defence()["state"] == "normal", "the flood has ended")
        self.until(lambda: self.graphs() == before, "the end state is the first one")
        self.assertEqual(self.viewer.fakes, [])
        self.stop(manager)


if __name__ == "__main__":
    unittest.main()
