"""Which Data answers which Interest: prefixes, digests, freshness, aggregation, the content
store."""

from kit.case import ALL, PIPE, PKT, case, equal, expect
from kit.packets import data, interest
from kit.tlv import comp, sha256

NAME = PKT + "Interest: Name"
PREFIX = PKT + "Interest: CanBePrefix"
FRESH = PKT + "Interest: MustBeFresh"
DIGEST = PKT + "Name: Implicit Digest Component"
IN_INTEREST = PIPE + "Interest Processing Path: Incoming Interest"
IN_DATA = PIPE + "Data Processing Path: Incoming Data"
STORE = PIPE + "Content Store"


@case("match/exact", NAME, "Data of exactly the Interest's name answers it.", on=ALL)
async def exact(t):
    producer, consumer = await t.producer(), await t.face()
    await t.exchange(consumer, producer, t.name("/a/b"))


def no_match(id_, requirement, asked, given, on=("unix",), cbp=False):
    @case(id_, NAME if not cbp else PREFIX, requirement, on=on)
    async def run(t):
        producer, consumer = await t.producer(), await t.face()
        await t.send_interest(consumer, producer, t.name(asked), cbp=cbp)
        producer.send(data(t.name(given), b"no"))
        await consumer.none("data")
        producer.send(data(t.name(asked), b"yes"))
        equal((await consumer.data()).content, b"yes", "content")


no_match(
    "match/longer-without-prefix",
    "Longer Data does not answer an Interest without CanBePrefix.",
    "/a",
    "/a/b",
)
no_match("match/shorter", "Shorter Data never answers.", "/a/b", "/a", cbp=True)
no_match("match/sibling", "Data of another name does not answer.", "/a/b", "/a/c", cbp=True)
no_match(
    "match/component-boundary",
    "Names are compared component by component, not byte by byte.",
    "/ab/c",
    "/a/bc",
)
no_match(
    "match/component-type",
    "Components of equal value and different type differ.",
    "/x/w",
    "/x/32=w",
)
no_match("match/case", "Names are bytes: upper and lower case differ.", "/Abc", "/abc")


@case("match/prefix", PREFIX, "Longer Data answers an Interest with CanBePrefix.", on=ALL)
async def prefix(t):
    producer, consumer = await t.producer(), await t.face()
    await t.send_interest(consumer, producer, t.name("/a"), cbp=True)
    packet = data(t.name("/a/b/c"), b"x")
    producer.send(packet)
    equal((await consumer.data(t.name("/a/b/c"))).net, packet, "Data bytes")


@case(
    "match/prefix-exact",
    PREFIX,
    "Data of exactly the name answers an Interest with CanBePrefix too.",
)
async def prefix_exact(t):
    producer, consumer = await t.producer(), await t.face()
    await t.exchange(consumer, producer, t.name("/a"), cbp=True)


@case(
    "match/prefix-40-deep",
    PREFIX,
    "Data forty components longer answers an Interest with CanBePrefix.",
)
async def prefix_deep(t):
    producer, consumer = await t.producer(), await t.face()
    await t.send_interest(consumer, producer, t.name("/a"), cbp=True)
    full = t.name("/a") + [comp(bytes([i])) for i in range(40)]
    producer.send(data(full))
    await consumer.data(full)


@case("match/deep-name", NAME, "A name of sixty components is answered.")
async def deep_exact(t):
    producer, consumer = await t.producer(), await t.face()
    await t.exchange(consumer, producer, t.prefix + [comp(bytes([i])) for i in range(60)])


@case(
    "match/digest", DIGEST, "Data whose digest is the Interest's last component answers it.", on=ALL
)
async def digest(t):
    producer, consumer = await t.producer(), await t.face()
    packet = data(t.name("/a"), b"right")
    full = t.name("/a") + [comp(sha256(packet), 1)]
    await t.send_interest(consumer, producer, full)
    producer.send(packet)
    equal((await consumer.data(t.name("/a"))).net, packet, "Data bytes")


@case("match/digest-wrong", DIGEST, "Data of another digest does not answer.", on=ALL)
async def digest_wrong(t):
    producer, consumer = await t.producer(), await t.face()
    packet = data(t.name("/a"), b"right")
    await t.send_interest(consumer, producer, t.name("/a") + [comp(sha256(packet), 1)])
    producer.send(data(t.name("/a"), b"wrong"))
    await consumer.none("data")
    producer.send(packet)
    equal((await consumer.data()).net, packet, "Data bytes")


@case(
    "match/digest-cached",
    DIGEST,
    "Cached Data is found by its full name; another digest is not answered from it.",
)
async def digest_cached(t):
    producer, consumer = await t.producer(), await t.face()
    packet = data(t.name("/a"), b"x", fresh=10000)
    await t.exchange(consumer, producer, t.name("/a"), reply=packet)
    consumer.send(interest(t.name("/a") + [comp(sha256(packet), 1)]))
    equal((await consumer.data()).net, packet, "Data bytes")
    await t.send_interest(consumer, producer, t.name("/a") + [comp(bytes(32), 1)])


@case(
    "match/digest-is-not-a-name-component",
    DIGEST,
    "A digest of the right value but of generic component type does not match.",
)
async def digest_generic(t):
    producer, consumer = await t.producer(), await t.face()
    packet = data(t.name("/a"), b"x")
    await t.send_interest(consumer, producer, t.name("/a") + [comp(sha256(packet), 8)])
    producer.send(packet)
    await consumer.none("data")


@case(
    "match/one-data-many-interests",
    IN_DATA,
    "One Data answers every pending Interest it matches: exact, prefix and full name.",
    on=ALL,
)
async def many(t):
    producer = await t.producer()
    faces = [await t.face() for _ in range(4)]
    packet = data(t.name("/a/b"), b"x")
    exact_name, full = t.name("/a/b"), t.name("/a/b") + [comp(sha256(packet), 1)]
    faces[0].send(interest(exact_name))
    faces[1].send(interest(t.name("/a"), cbp=True))
    faces[2].send(interest(full))
    faces[3].send(interest(exact_name, cbp=True, mbf=True))
    for asked in (exact_name, t.name("/a"), full, exact_name):
        await producer.interest(asked)
    producer.send(packet)
    for f in faces:
        equal((await f.data(exact_name)).net, packet, "Data bytes")


@case(
    "match/one-data-not-more-often-than-asked",
    IN_DATA,
    "A face with two matching Interests gets the Data, and at most twice.",
)
async def not_more_often(t):
    producer, consumer = await t.producer(), await t.face()
    consumer.send(interest(t.name("/a/b")), interest(t.name("/a"), cbp=True))
    await producer.interest(t.name("/a/b"))
    await producer.interest(t.name("/a"))
    producer.send(data(t.name("/a/b")))
    await consumer.data(t.name("/a/b"))
    await t.quiet(0.1)
    extra = [p for p in consumer.inbox if p.kind == "data"]
    expect(len(extra) <= 1, f"{1 + len(extra)} copies")


@case("match/satisfied-once", IN_DATA, "An Interest takes one Data: a second one is not delivered.")
async def satisfied_once(t):
    producer, consumer = await t.producer(), await t.face()
    await t.exchange(consumer, producer, t.name("/a"))
    producer.send(data(t.name("/a"), b"again"))
    await consumer.none("data")


@case(
    "match/aggregation",
    IN_INTEREST,
    "A second Interest of the same name is not forwarded; both get the Data.",
    on=ALL,
)
async def aggregation(t):
    producer, a, b = await t.producer(), await t.face(), await t.face()
    # At once: ten milliseconds later it would count as a retransmission.
    a.send(interest(t.name("/a")))
    b.send(interest(t.name("/a")))
    await producer.interest(t.name("/a"))
    await producer.none("interest", t.name("/a"))
    producer.send(data(t.name("/a"), b"x"))
    await a.data(t.name("/a"))
    await b.data(t.name("/a"))


@case(
    "match/aggregation-fifty",
    IN_INTEREST,
    "Fifty faces requesting one name at once get one Data each for one "
    "Interest (a few, should the fifty take longer than the retransmission interval).",
)
async def aggregation_many(t):
    producer = await t.producer()
    faces = [await t.face() for _ in range(50)]
    for f in faces:
        f.send(interest(t.name("/a"), lifetime=4000))
    await t.quiet(0.3)
    expect(1 <= len(producer.inbox) <= 5, f"{len(producer.inbox)} Interests for fifty consumers")
    producer.send(data(t.name("/a")))
    for f in faces:
        await f.data(t.name("/a"))


@case(
    "match/selectors-are-not-aggregated",
    IN_INTEREST,
    "Interests that differ in CanBePrefix or MustBeFresh are different pending Interests.",
)
async def selectors(t):
    producer = await t.producer()
    a, b, c = await t.face(), await t.face(), await t.face()
    await t.send_interest(a, producer, t.name("/a"))
    await t.send_interest(b, producer, t.name("/a"), cbp=True)
    await t.send_interest(c, producer, t.name("/a"), mbf=True)
    producer.send(data(t.name("/a/b"), b"long"))
    await b.data(t.name("/a/b"))
    await a.none("data", quiet=0.1)
    producer.send(data(t.name("/a"), b"x"))
    await a.data(t.name("/a"))
    await c.data(t.name("/a"))


@case(
    "match/lifetime-ends",
    PKT + "Interest: InterestLifetime",
    "Data behind the InterestLifetime is not delivered.",
    on=ALL,
)
async def lifetime(t):
    producer, consumer = await t.producer(), await t.face()
    await t.send_interest(consumer, producer, t.name("/a"), lifetime=150)
    await t.quiet(0.5)
    producer.send(data(t.name("/a")))
    await consumer.none("data")


@case(
    "match/lifetime-default",
    PKT + "Interest: InterestLifetime",
    "An absent InterestLifetime means four seconds.",
)
async def lifetime_default(t):
    producer, consumer = await t.producer(), await t.face()
    await t.send_interest(consumer, producer, t.name("/a"), lifetime=None)
    await t.quiet(3.0)
    producer.send(data(t.name("/a")))
    await consumer.data(t.name("/a"))
    await t.send_interest(consumer, producer, t.name("/b"), lifetime=None)
    await t.quiet(4.4)
    producer.send(data(t.name("/b")))
    await consumer.none("data")


@case(
    "match/lifetime-per-downstream",
    IN_DATA,
    "A downstream whose lifetime is over gets nothing; the others do.",
)
async def lifetime_each(t):
    producer, a, b = await t.producer(), await t.face(), await t.face()
    await t.send_interest(a, producer, t.name("/a"), lifetime=200)
    b.send(interest(t.name("/a"), lifetime=3000))
    await t.quiet(0.6)
    producer.send(data(t.name("/a")))
    await b.data(t.name("/a"))
    await a.none("data", quiet=0.1)


@case(
    "store/hit",
    STORE,
    "A second consumer is answered from the content store, byte for byte.",
    on=ALL,
)
async def hit(t):
    producer, consumer = await t.producer(), await t.face()
    packet = data(t.name("/a"), b"x" * 1000, fresh=10000)
    await t.exchange(consumer, producer, t.name("/a"), reply=packet)
    other = await t.face()
    other.send(interest(t.name("/a")))
    equal((await other.data(t.name("/a"))).net, packet, "Data bytes")
    await producer.none("interest")


@case(
    "store/hit-by-prefix",
    STORE,
    "Cached Data answers a CanBePrefix Interest for a name other than that of the first request.",
)
async def hit_prefix(t):
    producer, consumer = await t.producer(), await t.face()
    packet = data(t.name("/a/b/c"), b"x", fresh=10000)
    await t.exchange(consumer, producer, t.name("/a/b/c"), reply=packet)
    for asked in ("/a/b", "/a"):
        consumer.send(interest(t.name(asked), cbp=True))
        equal((await consumer.data(t.name("/a/b/c"))).net, packet, "Data bytes")
    await producer.none("interest")


@case(
    "store/hit-by-fetched-prefix",
    STORE,
    "Data fetched by a prefix is found by that prefix and by its own name.",
)
async def hit_fetched(t):
    producer, consumer = await t.producer(), await t.face()
    await t.send_interest(consumer, producer, t.name("/a"), cbp=True)
    producer.send(data(t.name("/a/b/c"), b"x", fresh=10000))
    await consumer.data(t.name("/a/b/c"))
    consumer.send(interest(t.name("/a"), cbp=True))
    await consumer.data(t.name("/a/b/c"))
    consumer.send(interest(t.name("/a/b/c")))
    await consumer.data(t.name("/a/b/c"))
    await producer.none("interest")


@case(
    "store/no-hit-for-longer-cached",
    STORE,
    "Cached longer Data does not answer without CanBePrefix.",
)
async def no_hit_longer(t):
    producer, consumer = await t.producer(), await t.face()
    await t.exchange(consumer, producer, t.name("/a/b"), reply=data(t.name("/a/b"), fresh=10000))
    await t.send_interest(consumer, producer, t.name("/a"))


@case("store/replaced-by-newer", STORE, "Data of the same name that came later is the one served.")
async def replaced(t):
    producer, consumer = await t.producer(), await t.face()
    first, second = data(t.name("/a"), b"old", fresh=1), data(t.name("/a"), b"new", fresh=10000)
    await t.exchange(consumer, producer, t.name("/a"), reply=first)
    await t.quiet(0.1)
    await t.exchange(consumer, producer, t.name("/a"), reply=second, mbf=True)
    consumer.send(interest(t.name("/a"), mbf=True))
    equal((await consumer.data()).net, second, "Data bytes")
    await producer.none("interest")


@case("fresh/absent-is-stale", FRESH, "Cached Data without FreshnessPeriod is never fresh.", on=ALL)
async def fresh_absent(t):
    producer, consumer = await t.producer(), await t.face()
    await t.exchange(consumer, producer, t.name("/a"), reply=data(t.name("/a"), b"1"))
    await t.exchange(consumer, producer, t.name("/a"), reply=data(t.name("/a"), b"2"), mbf=True)


@case("fresh/zero-is-stale", FRESH, "FreshnessPeriod 0 is stale at once.")
async def fresh_zero(t):
    producer, consumer = await t.producer(), await t.face()
    await t.exchange(consumer, producer, t.name("/a"), reply=data(t.name("/a"), b"1", fresh=0))
    await t.exchange(consumer, producer, t.name("/a"), reply=data(t.name("/a"), b"2"), mbf=True)


@case("fresh/within", FRESH, "Within its FreshnessPeriod, cached Data answers MustBeFresh.", on=ALL)
async def fresh_within(t):
    producer, consumer = await t.producer(), await t.face()
    packet = data(t.name("/a"), b"1", fresh=10000)
    await t.exchange(consumer, producer, t.name("/a"), reply=packet)
    consumer.send(interest(t.name("/a"), mbf=True))
    equal((await consumer.data()).net, packet, "Data bytes")
    await producer.none("interest", quiet=0.05)


@case(
    "fresh/over",
    FRESH,
    "After its FreshnessPeriod, it does not answer MustBeFresh, but still answers without.",
)
async def fresh_over(t):
    producer, consumer = await t.producer(), await t.face()
    packet = data(t.name("/a"), b"1", fresh=300)
    await t.exchange(consumer, producer, t.name("/a"), reply=packet)
    await t.quiet(0.5)
    consumer.send(interest(t.name("/a")))
    equal((await consumer.data()).net, packet, "stale Data bytes")
    await t.exchange(consumer, producer, t.name("/a"), reply=data(t.name("/a"), b"2"), mbf=True)


@case(
    "fresh/ten-milliseconds",
    FRESH,
    "A FreshnessPeriod of 10 ms is over after 60 ms.",
    tags=("clients",),
)
async def fresh_short(t):
    producer, consumer = await t.producer(), await t.face()
    await t.exchange(consumer, producer, t.name("/a"), reply=data(t.name("/a"), b"1", fresh=10))
    await t.quiet(0.06)
    await t.exchange(
        consumer, producer, t.name("/a"), reply=data(t.name("/a"), b"2", fresh=10), mbf=True
    )


@case(
    "fresh/not-for-forwarded",
    FRESH,
    "Data straight from the producer answers MustBeFresh whatever its period.",
)
async def fresh_forwarded(t):
    producer, consumer = await t.producer(), await t.face()
    await t.exchange(
        consumer, producer, t.name("/a"), reply=data(t.name("/a"), b"1", fresh=0), mbf=True
    )


@case("fresh/prefix", FRESH, "A CanBePrefix+MustBeFresh Interest skips stale Data in the store.")
async def fresh_prefix(t):
    producer, consumer = await t.producer(), await t.face()
    await t.exchange(
        consumer, producer, t.name("/a/1"), reply=data(t.name("/a/1"), b"old", fresh=1)
    )
    await t.quiet(0.05)
    await t.send_interest(consumer, producer, t.name("/a"), cbp=True, mbf=True)
    producer.send(data(t.name("/a/2"), b"new", fresh=10000))
    await consumer.data(t.name("/a/2"))
    consumer.send(interest(t.name("/a"), cbp=True, mbf=True))
    await consumer.data(t.name("/a/2"), what="the fresh one from the cache")


@case(
    "unsolicited/not-forwarded",
    PIPE + "Data Processing Path: Data Unsolicited",
    "Unsolicited Data is not forwarded and not cached.",
    on=ALL,
)
async def unsolicited(t):
    producer, consumer = await t.producer(transport=t.transport), await t.face(t.router.local)
    producer.send(data(t.name("/a"), b"pushed", fresh=10000))
    await t.quiet(0.1)
    got = await t.exchange(consumer, producer, t.name("/a"), reply=data(t.name("/a"), b"asked"))
    equal(got.content, b"asked", "content")


@case(
    "unsolicited/other-face",
    IN_DATA,
    "Data from a face to which no Interest was sent does not satisfy the Interest (the reference accepts it).",
    on=ALL,
    tags=("differs",),
)
async def never_asked(t):
    producer, stranger, consumer = await t.producer(), await t.face(), await t.face(t.router.local)
    await t.send_interest(consumer, producer, t.name("/a"))
    stranger.send(data(t.name("/a"), b"forged"))
    await consumer.none("data", what="No Interest was sent to its face.")
    producer.send(data(t.name("/a"), b"true"))
    equal((await consumer.data()).content, b"true", "content")


@case(
    "unsolicited/other-face-not-cached",
    IN_DATA,
    "Data from a face to which no Interest was sent does not enter the content store.",
    on=ALL,
    tags=("differs",),
)
async def never_asked_cached(t):
    producer, stranger, consumer = await t.producer(), await t.face(), await t.face(t.router.local)
    await t.send_interest(consumer, producer, t.name("/a"), lifetime=300)
    stranger.send(data(t.name("/a"), b"forged", fresh=10000))
    await t.quiet(0.5)
    consumer.inbox.clear()
    await t.exchange(consumer, producer, t.name("/a"), reply=data(t.name("/a"), b"true"))


@case("unsolicited/from-the-asker", IN_DATA, "A consumer cannot answer its own Interest.")
async def from_consumer(t):
    producer, consumer = await t.producer(), await t.face()
    await t.send_interest(consumer, producer, t.name("/a"))
    consumer.send(data(t.name("/a"), b"self"))
    await consumer.none("data")
    producer.send(data(t.name("/a"), b"true"))
    equal((await consumer.data()).content, b"true", "content")
