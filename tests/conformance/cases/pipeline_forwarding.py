"""Loops, retransmissions, Nacks, strategies, next hops and scope."""

from kit import management as mgmt
from kit.case import ALL, LPV2, PIPE, STREAM, UDP, case, equal, expect
from kit.packets import data, interest, nack, nonce
from kit.tlv import NACK, REASON_CONGESTION, REASON_DUPLICATE, REASON_NO_ROUTE, name

NACKS = LPV2 + "Network Nack"
LOOP = PIPE + "Interest Processing Path: Interest Loop"
OUT = PIPE + "Interest Processing Path: Outgoing Interest"
IN_NACK = PIPE + "Nack Processing Path"
DEAD = PIPE + "Dead Nonce List"
BEST = PIPE + "Best Route Strategy"
MULTI = PIPE + "Multicast Strategy"
RETX = PIPE + "Retransmission Suppression"
SCOPE = PIPE + "Namespace-based Scope Control"


@case(
    "loop/duplicate-nonce",
    LOOP,
    "The same name and nonce from another face is a loop: Nack Duplicate, not sent on.",
    on=ALL,
)
async def duplicate(t):
    producer, a, b = await t.producer(), await t.face(t.router.local), await t.face()
    n = nonce()
    await t.send_interest(a, producer, t.name("/a"), nonce_=n)
    b.send(interest(t.name("/a"), nonce_=n))
    got = await b.nack(t.name("/a"))
    equal((got.reason, got.nonce), (REASON_DUPLICATE, n), "reason and nonce")
    await producer.none("interest", t.name("/a"))
    producer.send(data(t.name("/a")))
    await a.data(t.name("/a"))
    await b.none("data", quiet=0.1)


@case("loop/other-name", LOOP, "The same nonce under another name is no loop.")
async def other_name(t):
    producer, a, b = await t.producer(), await t.face(), await t.face()
    n = nonce()
    await t.send_interest(a, producer, t.name("/a"), nonce_=n)
    await t.send_interest(b, producer, t.name("/b"), nonce_=n)


@case(
    "loop/back-from-upstream",
    LOOP,
    "An Interest that comes back from where it was sent is a loop.",
    on=ALL,
)
async def comes_back(t):
    producer, consumer = await t.producer(transport=t.transport), await t.face(t.router.local)
    got = await t.send_interest(consumer, producer, t.name("/a"))
    producer.send(got.net)
    equal((await producer.nack(t.name("/a"))).reason, REASON_DUPLICATE, "reason")
    producer.send(data(t.name("/a")))
    await consumer.data(t.name("/a"))


@case(
    "loop/same-face-is-retransmission",
    LOOP,
    "The same nonce from the same point-to-point face draws no Duplicate.",
    on=ALL,
)
async def same_face(t):
    producer, consumer = await t.producer(), await t.face()
    packet = interest(t.name("/a"))
    consumer.send(packet)
    await producer.interest(t.name("/a"))
    await t.quiet(0.05)
    consumer.send(packet)
    await consumer.none("nack")
    producer.send(data(t.name("/a")))
    await consumer.data(t.name("/a"))


@case(
    "loop/dead-nonce-after-timeout",
    DEAD,
    "A nonce is still known after its Interest timed out unanswered.",
)
async def dead_timeout(t):
    producer, a, b = await t.producer(), await t.face(), await t.face()
    n = nonce()
    await t.send_interest(a, producer, t.name("/a"), nonce_=n, lifetime=100)
    await t.quiet(0.4)
    b.send(interest(t.name("/a"), nonce_=n))
    await producer.none("interest", t.name("/a"))
    equal((await b.nack(t.name("/a"))).reason, REASON_DUPLICATE, "reason")
    await t.send_interest(b, producer, t.name("/a"))


@case(
    "loop/dead-nonce-after-fresh-answer",
    DEAD,
    "A nonce is still known after MustBeFresh was answered with short-lived Data.",
)
async def dead_fresh(t):
    producer, a, b = await t.producer(), await t.face(), await t.face()
    n = nonce()
    await t.exchange(
        a, producer, t.name("/a"), nonce_=n, mbf=True, reply=data(t.name("/a"), fresh=1)
    )
    await t.quiet(0.3)
    b.send(interest(t.name("/a"), nonce_=n, mbf=True))
    await producer.none("interest", t.name("/a"))


@case(
    "retransmission/suppressed",
    RETX,
    "A retransmission with a new nonce within 10 ms is not sent on.",
    on=STREAM,
)
async def suppressed(t):
    producer, consumer = await t.producer(), await t.face()
    consumer.send(interest(t.name("/a")), interest(t.name("/a")))
    await producer.interest(t.name("/a"))
    await producer.none("interest", t.name("/a"))


@case(
    "retransmission/forwarded",
    RETX,
    "A retransmission with a new nonce after the interval is sent on.",
    on=ALL,
)
async def retransmitted(t):
    producer, consumer = await t.producer(), await t.face()
    first = await t.send_interest(consumer, producer, t.name("/a"))
    await t.quiet(0.3)
    second = await t.send_interest(consumer, producer, t.name("/a"))
    expect(first.nonce != second.nonce, "the retransmission's nonce was not passed on")


@case(
    "retransmission/by-another-consumer",
    RETX,
    "A second consumer's Interest counts as a retransmission too.",
)
async def by_another(t):
    producer, a, b = await t.producer(), await t.face(), await t.face()
    await t.send_interest(a, producer, t.name("/a"))
    await t.quiet(0.3)
    await t.send_interest(b, producer, t.name("/a"))
    producer.send(data(t.name("/a")))
    await a.data(t.name("/a"))
    await b.data(t.name("/a"))


@case(
    "retransmission/extends-lifetime",
    PIPE + "Interest Processing Path: Incoming Interest",
    "A retransmission starts the lifetime anew.",
)
async def extends(t):
    producer, consumer = await t.producer(), await t.face()
    await t.send_interest(consumer, producer, t.name("/a"), lifetime=600)
    await t.quiet(0.4)
    await t.send_interest(consumer, producer, t.name("/a"), lifetime=1500)
    await t.quiet(0.6)
    producer.send(data(t.name("/a")))
    await consumer.data(t.name("/a"))


@case(
    "nack/no-route",
    NACKS,
    "Without a route the Interest comes back as Nack NoRoute, byte for byte.",
    on=ALL,
)
async def no_route(t):
    consumer = await t.face()
    packet = interest(t.name("/none"), cbp=True, lifetime=1234)
    consumer.send(packet)
    got = await consumer.nack(t.name("/none"))
    equal((got.reason, got.net), (REASON_NO_ROUTE, packet), "reason and Interest bytes")


@case(
    "nack/no-route-hop-limit",
    NACKS,
    "A Nack carries the Interest; its HopLimit may be the decremented one.",
)
async def no_route_hop(t):
    consumer = await t.face()
    packet = interest(t.name("/none"), hop=9)
    consumer.send(packet)
    got = await consumer.nack(t.name("/none"))
    expect(got.net in (packet, packet[:-1] + b"\x08"), f"Interest bytes {got.net.hex()}")


@case(
    "nack/asker-is-only-next-hop",
    BEST,
    "An Interest is not sent back where it came from: Nack NoRoute.",
    on=STREAM,
)
async def only_consumer(t):
    face = await t.producer(transport=t.transport)
    face.send(interest(t.name("/a")))
    equal((await face.nack(t.name("/a"))).reason, REASON_NO_ROUTE, "reason")
    await face.none("interest", quiet=0.05)


def passes_on(reason, word):
    @case(
        f"nack/passed-on-{word}",
        IN_NACK,
        f"A Nack {word} from the only upstream goes to the consumer.",
        on=ALL,
    )
    async def run(t):
        producer, consumer = await t.producer(transport=t.transport), await t.face(t.router.local)
        got = await t.send_interest(consumer, producer, t.name("/a"))
        producer.send(nack(got.net, reason))
        back = await consumer.nack(t.name("/a"))
        equal((back.reason, back.nonce), (reason, got.nonce), "reason and nonce")
        producer.send(data(t.name("/a")))
        await consumer.none("data", quiet=0.1)


for value, text in (
    (REASON_CONGESTION, "congestion"),
    (REASON_DUPLICATE, "duplicate"),
    (REASON_NO_ROUTE, "no-route"),
):
    passes_on(value, text)


@case("nack/without-reason", IN_NACK, "A Nack without NackReason is one, with reason None.")
async def reasonless(t):
    producer, consumer = await t.producer(), await t.face()
    got = await t.send_interest(consumer, producer, t.name("/a"))
    producer.send(nack(got.net, None))
    await consumer.nack(t.name("/a"))


@case(
    "nack/always-with-reason",
    NACKS,
    "A Nack the router sends has a NackReason: one client library takes a Nack "
    "without it for an Interest.",
    tags=("clients",),
)
async def always_reason(t):
    producer, consumer = await t.producer(), await t.face()
    got = await t.send_interest(consumer, producer, t.name("/a"))
    producer.send(nack(got.net, None))
    back = await consumer.nack(t.name("/a"))
    expect(back.reason is not None, f"Nack header {back.lp[NACK].hex()} has no NackReason")


@case(
    "nack/to-every-downstream",
    IN_NACK,
    "Aggregated downstreams each get the Nack, with their own nonce.",
)
async def every_downstream(t):
    producer, a, b = await t.producer(), await t.face(), await t.face()
    mine, yours = nonce(), nonce()
    a.send(interest(t.name("/a"), nonce_=mine))
    b.send(interest(t.name("/a"), nonce_=yours))
    await t.quiet(0.1)
    # If the second was sent as a retransmission, its nonce is the current one.
    producer.send(nack(producer.inbox[-1].net, REASON_CONGESTION))
    equal((await a.nack(t.name("/a"))).nonce, mine, "first nonce")
    equal((await b.nack(t.name("/a"))).nonce, yours, "second nonce")


def ignored_nack(id_, requirement, build):
    @case(id_, IN_NACK, requirement)
    async def run(t):
        producer, other, consumer = await t.producer(), await t.face(), await t.face()
        got = await t.send_interest(consumer, producer, t.name("/a"))
        await build(t, got, producer, other)
        await consumer.none("nack")
        producer.send(data(t.name("/a")))
        await consumer.data(t.name("/a"))


async def _wrong_nonce(t, got, producer, other):
    producer.send(nack(interest(t.name("/a")), REASON_NO_ROUTE))


async def _wrong_face(t, got, producer, other):
    other.send(nack(got.net, REASON_NO_ROUTE))


async def _wrong_name(t, got, producer, other):
    producer.send(nack(interest(t.name("/other"), nonce_=got.nonce), REASON_NO_ROUTE))


ignored_nack(
    "nack/wrong-nonce", "A Nack whose nonce is not the one last sent is ignored.", _wrong_nonce
)
ignored_nack(
    "nack/wrong-face", "A Nack from a face to which no Interest was sent is ignored.", _wrong_face
)
ignored_nack(
    "nack/wrong-name", "A Nack for an Interest that is not pending is ignored.", _wrong_name
)


@case(
    "nack/least-severe-of-two",
    IN_NACK,
    "With two upstreams, the consumer gets a Nack once both have sent one, with the least severe reason.",
)
async def two_upstreams(t):
    near, far = await t.producer(cost=1), await t.producer(cost=2)
    consumer = await t.face()
    first = await t.send_interest(consumer, near, t.name("/a"))
    await t.quiet(0.3)
    consumer.send(interest(t.name("/a")))
    second = await far.interest(t.name("/a"))
    near.send(nack(first.net, REASON_CONGESTION))
    await consumer.none("nack", what="One upstream is still pending.")
    far.send(nack(second.net, REASON_NO_ROUTE))
    equal((await consumer.nack(t.name("/a"))).reason, REASON_CONGESTION, "reason")


@case(
    "best-route/cheapest",
    BEST,
    "Each new Interest goes to the next hop of least cost, and only there.",
)
async def cheapest(t):
    far, near, consumer = await t.producer(cost=20), await t.producer(cost=10), await t.face()
    for i in range(5):
        await t.exchange(consumer, near, t.name(f"/{i}"))
    await far.none("interest", quiet=0.05)


@case(
    "best-route/retransmission-tries-another",
    BEST,
    "A retransmission goes to a next hop not tried yet.",
)
async def tries_another(t):
    near, far, consumer = await t.producer(cost=10), await t.producer(cost=20), await t.face()
    await t.send_interest(consumer, near, t.name("/a"))
    await t.quiet(0.3)
    await t.send_interest(consumer, far, t.name("/a"))
    far.send(data(t.name("/a")))
    await consumer.data(t.name("/a"))


@case("best-route/cost-changes", BEST, "When a route's cost changes, the next Interest follows.")
async def cost_changes(t):
    a, b, consumer = await t.producer(cost=10), await t.producer(cost=20), await t.face()
    await t.send_interest(consumer, a, t.name("/1"))
    await t.route(b, cost=5)
    await t.send_interest(consumer, b, t.name("/2"))


@case(
    "fib/longest-prefix",
    PIPE + "Forwarding Information Base",
    "The longest matching prefix decides.",
)
async def longest(t):
    # Flags 0: with CHILD_INHERIT the shorter route would be a next hop of the longer one too.
    short = await t.producer(t.name("/p"), flags=0)
    long_, consumer = await t.producer(t.name("/p/q/r"), cost=99, flags=0), await t.face()
    await t.send_interest(consumer, long_, t.name("/p/q/r/x"))
    await t.send_interest(consumer, long_, t.name("/p/q/r"))
    await t.send_interest(consumer, short, t.name("/p/q/x"))
    await t.send_interest(consumer, short, t.name("/p"))


@case(
    "fib/forty-components",
    PIPE + "Forwarding Information Base",
    "Routes differ in depth; each finds its own.",
)
async def depths(t):
    consumer, producers = await t.face(), []
    for depth in (1, 5, 9, 17, 25):
        producers.append((depth, await t.producer(t.name("/d" * depth), flags=0)))
    for depth, p in producers:
        await t.send_interest(consumer, p, t.name("/d" * depth + "/leaf"))


@case(
    "face/routes-go-with-it",
    PIPE + "Face: Face Table",
    "When a face closes, its routes are gone.",
    on=STREAM,
)
async def routes_go(t):
    producer, consumer = await t.producer(transport=t.transport), await t.face()
    await t.send_interest(consumer, producer, t.name("/1"))
    producer.close()

    async def refused():
        target = t.name("/2")
        consumer.send(interest(target, lifetime=300))
        try:
            return await consumer.nack(target, within=0.3)
        except Exception:
            return None

    got = await t.until(refused, what="Nack NoRoute after the producer left")
    equal(got.reason, REASON_NO_ROUTE, "reason")


@case(
    "face/pending-outlives-other-consumer",
    PIPE + "Face: Face Table",
    "A consumer that leaves does not take the others' pending Interest with it.",
    on=STREAM,
)
async def consumer_leaves(t):
    producer, a, b = await t.producer(), await t.face(), await t.face()
    await t.send_interest(a, producer, t.name("/a"))
    b.send(interest(t.name("/a")))
    await t.quiet(0.1)
    a.close()
    await t.quiet(0.1)
    producer.send(data(t.name("/a")))
    await b.data(t.name("/a"))


@case(
    "face/first-burst-of-a-new-udp-peer",
    PIPE + "Face: UDP Transport",
    "The first packets of a peer not seen before all count, though its face is just being made.",
    on=(UDP,),
)
async def first_burst(t):
    producer, consumer = await t.producer(), await t.face(warm=False)
    names = [t.name(f"/{i}") for i in range(20)]
    consumer.send(*(interest(n) for n in names))
    for n in names:
        await producer.interest(n)


@case("multicast/to-all", MULTI, "Multicast sends to every next hop, and one Data suffices.")
async def multicast(t):
    await t.set_strategy(t.prefix, mgmt.MULTICAST)
    a, b, consumer = await t.producer(cost=1), await t.producer(cost=2), await t.face()
    consumer.send(interest(t.name("/a")))
    await a.interest(t.name("/a"))
    await b.interest(t.name("/a"))
    b.send(data(t.name("/a"), b"from b"))
    equal((await consumer.data(t.name("/a"))).content, b"from b", "content")
    a.send(data(t.name("/a"), b"from a"))
    await consumer.none("data")


@case(
    "multicast/no-nack", MULTI, "Multicast answers with no Nack, neither its own nor an upstream's."
)
async def multicast_nack(t):
    await t.set_strategy(t.prefix, mgmt.MULTICAST)
    consumer = await t.face()
    consumer.send(interest(t.name("/none")))
    await consumer.none("nack")
    producer = await t.producer()
    got = await t.send_interest(consumer, producer, t.name("/a"))
    producer.send(nack(got.net, REASON_NO_ROUTE))
    await consumer.none("nack")


@case(
    "multicast/new-next-hop",
    MULTI,
    "A next hop that is added gets the Interests that are pending.",
    tags=("nfd",),
)
async def multicast_new(t):
    await t.set_strategy(t.prefix, mgmt.MULTICAST)
    consumer = await t.face()
    first = await t.producer(cost=1)
    await t.send_interest(consumer, first, t.name("/a"))
    late = await t.producer(cost=2)
    await late.interest(t.name("/a"))
    late.send(data(t.name("/a")))
    await consumer.data(t.name("/a"))


@case(
    "strategy/longest-prefix",
    PIPE + "Strategy Choice Table",
    "The strategy of the longest matching prefix rules.",
)
async def strategy_prefix(t):
    await t.set_strategy(t.name("/m"), mgmt.MULTICAST)
    await t.set_strategy(t.name("/m/b"), mgmt.BEST_ROUTE)
    a, b, consumer = await t.producer(cost=1), await t.producer(cost=2), await t.face()
    await t.send_interest(consumer, a, t.name("/m/x"))
    await b.interest(t.name("/m/x"))
    await t.send_interest(consumer, a, t.name("/m/b/x"))
    await b.none("interest", t.name("/m/b/x"))


@case(
    "scope/localhost-from-network",
    SCOPE,
    "An Interest under /localhost from a non-local face is dropped.",
    on=(UDP,),
)
async def localhost_in(t):
    prefix = name("/localhost") + t.prefix
    producer, consumer = await t.producer(prefix), await t.face()
    consumer.send(interest(prefix + name("/a")))
    await producer.none("interest")
    await consumer.none("nack", quiet=0)
    local = await t.face(t.router.local)
    local.send(interest(prefix + name("/b")))
    await producer.interest(prefix + name("/b"))


@case(
    "scope/localhost-to-network",
    SCOPE,
    "An Interest under /localhost is not sent to a non-local face.",
    on=(UDP,),
)
async def localhost_out(t):
    prefix = name("/localhost") + t.prefix
    producer, consumer = await t.producer(transport=UDP), await t.face(t.router.local)
    await t.route(producer, prefix)
    consumer.send(interest(prefix + name("/a")))
    await producer.none("interest", prefix + name("/a"))
    await t.send_interest(consumer, producer, t.name("/a"))


@case(
    "scope/localhost-data-from-network",
    SCOPE,
    "Data under /localhost from a non-local face is dropped.",
    on=(UDP,),
)
async def localhost_data(t):
    prefix = name("/localhost") + t.prefix
    producer, stranger, consumer = (
        await t.producer(prefix),
        await t.face(),
        await t.face(t.router.local),
    )
    consumer.send(interest(prefix))
    await producer.interest(prefix)
    stranger.send(data(prefix, b"forged"))
    await consumer.none("data")
    producer.send(data(prefix, b"true"))
    equal((await consumer.data(prefix)).content, b"true", "content")


@case(
    "scope/localhost-on-streams",
    SCOPE,
    "Unix and loopback TCP faces are local: /localhost works there.",
    on=STREAM,
)
async def localhost_streams(t):
    prefix = name("/localhost") + t.prefix
    producer, consumer = await t.producer(prefix, transport=t.transport), await t.face()
    consumer.send(interest(prefix))
    await producer.interest(prefix)
    producer.send(data(prefix))
    await consumer.data(prefix)


@case(
    "scope/localhop-from-application",
    SCOPE,
    "An Interest under /localhop from a local face goes one hop.",
    on=(UDP,),
)
async def localhop_out(t):
    prefix = name("/localhop") + t.prefix
    producer, consumer = await t.producer(transport=UDP), await t.face(t.router.local)
    await t.route(producer, prefix)
    consumer.send(interest(prefix))
    await producer.interest(prefix)
    producer.send(data(prefix))
    await consumer.data(prefix)


@case(
    "scope/localhop-not-two-hops",
    SCOPE,
    "An Interest under /localhop from a non-local face goes to no other one.",
    on=(UDP,),
)
async def localhop_twice(t):
    prefix = name("/localhop") + t.prefix
    producer, consumer = await t.producer(transport=UDP), await t.face()
    await t.route(producer, prefix)
    consumer.send(interest(prefix))
    await producer.none("interest", prefix)
    await t.send_interest(consumer, producer, t.name("/control"))


@case(
    "scope/localhop-to-application",
    SCOPE,
    "An Interest under /localhop from a non-local face reaches a local one.",
    on=(UDP,),
)
async def localhop_in(t):
    prefix = name("/localhop") + t.prefix
    producer, consumer = await t.producer(prefix), await t.face()
    consumer.send(interest(prefix))
    await producer.interest(prefix)
    producer.send(data(prefix))
    await consumer.data(prefix)


@case(
    "nack/reason-unknown",
    IN_NACK,
    "An unknown NackReason is treated as None and the Nack is passed on.",
)
async def reason_unknown(t):
    producer, consumer = await t.producer(), await t.face()
    got = await t.send_interest(consumer, producer, t.name("/a"))
    producer.send(nack(got.net, 77))
    back = await consumer.nack(t.name("/a"))
    expect(back.reason != REASON_NO_ROUTE, "an unknown reason became NoRoute")
