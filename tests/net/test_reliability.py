"""Loss on a link between two routers, with and without reliability. Needs root, nftables and `tc`;
skips without."""

import os
import statistics
import unittest

import lab

RATE_MBIT = 20  # far below what one core forwards, so the processor is not the bottleneck
BYTES = int(os.environ.get("NW_NET_BYTES", 6_000_000))
ROUNDS = int(os.environ.get("NW_NET_ROUNDS", 3))
LOSS_PERCENT = 1
GOAL = 0.90

SKIP_REASON = lab.missing()


@unittest.skipIf(SKIP_REASON, SKIP_REASON)
class Reliability(unittest.TestCase):
    def transfer(self, loss_percent, reliable):
        """Makes a bulk transfer over a new link with new routers. Returns Mbit/s of content."""
        content = os.urandom(BYTES)
        with lab.Wire(RATE_MBIT, loss_percent) as wire, lab.Net(wire, reliable) as net:
            net.put("/lab/file", content)
            received, report = net.cat("/lab/file")
            lost = wire.lost(0)
        self.assertEqual(received, content)
        print(
            f"loss {loss_percent} %, reliability {'on' if reliable else 'off'}: {report['mbit_per_s']:.2f} Mbit/s, {report['retransmissions']} Interests"
            f" again, {report['marks']} marks, round trip {report['rtt_us']['p50'] / 1000:.1f} ms, {lost} packets lost",
            flush=True,
        )
        if loss_percent:
            self.assertGreater(lost, BYTES / lab.MTU / 100 / 4, "nothing was lost")
        return report["mbit_per_s"]

    def test_loss_of_one_percent_costs_less_than_a_tenth(self):
        clean, lossy = [], []
        for _ in range(ROUNDS):
            clean.append(self.transfer(0, False))
            lossy.append(self.transfer(LOSS_PERCENT, True))
        bare = self.transfer(LOSS_PERCENT, False)
        ratio = statistics.median(lossy) / statistics.median(clean)
        print(
            f"with reliability {100 * ratio:.1f} %, without {100 * bare / statistics.median(clean):.1f} % of the loss-free goodput",
            flush=True,
        )
        self.assertGreaterEqual(ratio, GOAL)


if __name__ == "__main__":
    unittest.main(verbosity=2)
