"""Consumers of other projects with fixed windows that are far too large, beside a download: the link
stays used, and the download keeps its fair share. Needs root, for network namespaces.

The link carries 20 Mbit/s, where two segments fill the path. The window of python-ndn's consumer is
500 segments, and that of NDNd's client is 100, which it does not change.
"""

import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import bounds
from router import NW, ROOT, end_process, json_lines, nw, skip
from test_chain import IS_ROOT, Chain, namespaces

RATE_MBIT = 20
# Content, as a share of what the link sends: names, NDNLPv2 and six Ethernet headers per segment.
CONTENT_SHARE = 8000 / (8070 + 6 * 64)
# Shares are those of what the link carried meanwhile. A fixed window that covers its share gets
# what the router gives it, whatever the delay is.
MODERATE_WINDOW = 32
MODERATE_SECONDS = 4
OWN_BYTES = 3_000_000
GREEDY_BYTES = 60_000_000


def built(script, reason):
    """Returns the path that a script of tests/interop prints."""
    completed = subprocess.run(
        [ROOT / "tests/interop" / script], capture_output=True, check=False, text=True
    )
    if completed.returncode != 0:
        skip(f"{reason}: {completed.stderr.strip().splitlines()[-1:]}")
    return completed.stdout.strip()


class Others(unittest.TestCase):
    def setUp(self):
        if not IS_ROOT:
            skip("network namespaces need root")

    def chain(self):
        chain = Chain("--by", "udp", "--rate", RATE_MBIT)
        self.addCleanup(self.end, chain)
        return chain

    def end(self, chain):
        chain.close()
        self.assertEqual(namespaces(chain.lab), [])

    def start(self, command, **options):
        process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True, **options,
        )  # fmt: skip
        self.addCleanup(process.stderr.close)
        self.addCleanup(end_process, process)
        return process

    def link_face(self, chain):
        """Returns the near router's face on the link."""
        completed = nw("face", "list", "--socket", chain.near, "--json")
        faces = [face for face in json_lines(completed.stdout) if face["uri"] == chain.link]
        self.assertEqual(len(faces), 1, completed.stdout)
        return faces[0]

    def received(self, chain):
        return self.link_face(chain)["in_bytes"]

    def check_shaping_is_shown(self, chain):
        """The face of a short link says what waits and how much it may request."""
        end = time.monotonic() + 10
        while True:
            face = self.link_face(chain)
            if face.get("held_interests", 0) > 0 and face["shaping_rate_bytes"] > 0:
                break
            self.assertLess(time.monotonic(), end, f"nothing waits: {face}")
            time.sleep(0.05)
        shown = nw("face", "show", chain.link, "--socket", chain.near).stdout
        self.assertRegex(shown, r"shaping +[0-9]+ Interests held")
        top = nw("top", "--once", "--socket", chain.near).stdout
        self.assertIn("link B/s", top)

    def share_beside(self, chain, greedy, consume):
        """Runs a consumer beside a greedy one. `consume` returns the bytes of content that it got.
        Returns the share of the link that was used, and of half of that what the consumer got."""
        before, started = self.received(chain), time.monotonic()
        content = consume(chain)
        seconds = time.monotonic() - started
        self.assertIsNone(greedy.poll(), "the greedy consumer ended before the other")
        received = (self.received(chain) - before) * 8000 / 8070
        link_share = received * 8 / seconds / 1e6 / (RATE_MBIT * CONTENT_SHARE)
        return link_share, content / (received / 2)

    def moderate(self, chain):
        """A fixed window that covers its share of the link, and no more than a few of them."""
        completed = nw(
            "bench", "generate", "--socket", chain.near, "--prefix", "/bulk/moderate", "--window",
            MODERATE_WINDOW, "--lifetime", 4000, "--seconds", MODERATE_SECONDS, "--payload", 8000,
            "--pattern", "sequential", "--names", 5_000_000, "--json",
        )  # fmt: skip
        return json_lines(completed.stdout)[-1]["answered"] * 8000

    def download(self, chain):
        completed = nw(
            "bench", "bulk", "--socket", chain.near, "--prefix", "/bulk", "--seconds", 1,
            "--files-per-s", 1, "--size", OWN_BYTES, "--json",
        )  # fmt: skip
        self.assertEqual(completed.returncode, 0, completed.stderr)
        summary = json_lines(completed.stdout)[0]["summary"]
        self.assertEqual(summary["complete"], 1, summary)
        return OWN_BYTES

    def check(self, chain, greedy):
        time.sleep(2)
        self.assertIsNone(greedy.poll(), "the greedy consumer ended early")
        self.check_shaping_is_shown(chain)
        for consume, key in (
            (self.moderate, "overload/others/window.fair_share"),
            (self.download, "overload/others/download.fair_share"),
        ):
            link_share, fair_share = self.share_beside(chain, greedy, consume)
            text = f"{consume.__name__}: link {link_share:.2f}, fair share {fair_share:.2f}"
            print(text, flush=True)
            bounds.check(self, "overload/others.link_share", link_share)
            bounds.check(self, key, fair_share)

    def test_python_ndn_with_fixed_window_leaves_a_download_its_share(self):
        python = built("python", "python-ndn can't be installed")
        chain = self.chain()
        script = Path(__file__).with_name("greedy_consumer.py")
        greedy = self.start(
            [python, script, chain.near, "/bulk/greedy", 500, 30], stdout=subprocess.PIPE
        )
        self.addCleanup(greedy.stdout.close)
        self.check(chain, greedy)

    def test_ndnd_client_leaves_a_download_its_share(self):
        ndnd = built("ndnd/build", "NDNd is not built")
        chain = self.chain()
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        file = folder / "file"
        with file.open("wb") as f:
            f.truncate(GREEDY_BYTES)
        producer = self.start(
            [NW, "put", "--socket", chain.far, "--json", "/other/file", file],
            stdout=subprocess.PIPE,
        )
        self.addCleanup(producer.stdout.close)
        self.assertIn("ready", producer.stdout.readline())
        added = nw("route", "add", "/other", chain.link, "--socket", chain.near)
        self.assertEqual(added.returncode, 0, added.stderr)
        with (folder / "out").open("wb") as out:
            greedy = self.start(
                [ndnd, "cat", "/other/file"],
                stdout=out,
                env={**os.environ, "NDN_CLIENT_TRANSPORT": chain.near},
            )
        self.check(chain, greedy)


if __name__ == "__main__":
    unittest.main()
