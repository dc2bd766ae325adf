"""Loss on a wire between two routers, and what reliability makes of it. Needs root, nftables and `tc`; skips without."""

import os
import statistics
import unittest

import lab

RATE_MBIT = 20          # far below what one core forwards, so that the processor is not what is measured
BYTES = int(os.environ.get("NW_NET_BYTES", 6_000_000))
ROUNDS = int(os.environ.get("NW_NET_ROUNDS", 3))
LOSS_PERCENT = 1
GOAL = 0.90

WHY_NOT = lab.missing()


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Reliability(unittest.TestCase):
    def transfer(self, loss_percent, reliable):
        """A bulk transfer over a fresh wire with fresh routers: Mbit/s of content."""
        content = os.urandom(BYTES)
        with lab.Wire(RATE_MBIT, loss_percent) as wire, lab.Net(wire, reliable) as net:
            net.put("/lab/file", content)
            got, report = net.cat("/lab/file")
            lost = wire.lost(0)
        self.assertEqual(got, content)
        print(f"loss {loss_percent} %, reliability {'on' if reliable else 'off'}: {report['mbit_per_s']:.2f} Mbit/s, {report['retransmissions']} Interests"
              f" again, {report['marks']} marks, round trip {report['rtt_us']['p50'] / 1000:.1f} ms, {lost} packets lost", flush=True)
        if loss_percent:
            self.assertGreater(lost, BYTES / lab.MTU / 100 / 4, "nothing was lost")
        return report["mbit_per_s"]

    def test_one_percent_of_loss_costs_less_than_a_tenth(self):
        clean, lossy = [], []
        for _ in range(ROUNDS):
            clean.append(self.transfer(0, False))
            lossy.append(self.transfer(LOSS_PERCENT, True))
        bare = self.transfer(LOSS_PERCENT, False)
        ratio = statistics.median(lossy) / statistics.median(clean)
        print(f"with reliability {100 * ratio:.1f} %, without {100 * bare / statistics.median(clean):.1f} % of the loss-free goodput", flush=True)
        self.assertGreaterEqual(ratio, GOAL)


if __name__ == "__main__":
    unittest.main(verbosity=2)
