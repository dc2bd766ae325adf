"""The verbs of strategy-choice and cs: a command answered 200 is in effect when the answer
arrives."""

from kit import management as mgmt
from kit.case import MGMT, case, equal, expect
from kit.management import command, dataset, ok
from kit.packets import data, interest
from kit.patterns import deep
from kit.routes import joined
from kit.tlv import comp, name

CS, STRATEGY = MGMT + "CsMgmt: ", MGMT + "StrategyChoice: "


@case(
    "mgmt/strategy/set-and-unset",
    STRATEGY + "set, unset",
    "A strategy is in effect when its answer is there, is "
    "listed with its version, and is gone after unset.",
)
async def strategy_set(t):
    manager = await t.manager()
    a, b, consumer = await t.producer(cost=1), await t.producer(cost=2), await t.face()
    answer = await ok(manager, "strategy-choice", "set", name=t.prefix, strategy=mgmt.MULTICAST)
    equal(answer.body["strategy"][: len(mgmt.MULTICAST)], mgmt.MULTICAST, "Strategy in the answer")
    consumer.send(interest(t.name("/1")))
    await a.interest(t.name("/1"))
    await b.interest(t.name("/1"))

    async def listed():
        chosen = mgmt.strategies(await dataset(manager, "strategy-choice/list")).get(
            joined(t.prefix)
        )
        return chosen and chosen[:-1] == mgmt.MULTICAST

    await t.until(listed, what="the choice in strategy-choice/list")
    await ok(manager, "strategy-choice", "unset", name=t.prefix)
    await t.send_interest(consumer, a, t.name("/2"))
    await b.none("interest", t.name("/2"))
    await ok(manager, "strategy-choice", "unset", name=t.prefix)


@case("mgmt/strategy/unknown", STRATEGY + "set", "A strategy that does not exist: 404.")
async def strategy_unknown(t):
    a = await command(
        await t.face(),
        "strategy-choice",
        "set",
        name=t.prefix,
        strategy=name("/localhost/nfd/strategy/no-such"),
    )
    equal(a.code, 404, f"StatusCode ({a.text})")


@case(
    "mgmt/strategy/unknown-version",
    STRATEGY + "set",
    "A version of a strategy that does not exist: 404.",
)
async def strategy_version(t):
    a = await command(
        await t.face(),
        "strategy-choice",
        "set",
        name=t.prefix,
        strategy=mgmt.BEST_ROUTE + [comp(b"\xfa", 54)],
    )
    equal(a.code, 404, f"StatusCode ({a.text})")


@case(
    "mgmt/strategy/bad-parameters",
    STRATEGY + "set",
    "Strategy parameters that do not parse: 409 (or 404).",
)
async def strategy_parameters(t):
    a = await command(
        await t.face(),
        "strategy-choice",
        "set",
        name=t.prefix,
        strategy=mgmt.BEST_ROUTE + [comp(b"\x05", 54), comp("nonsense~x")],
    )
    expect(a.code in (404, 409), f"answered {a.code} {a.text}")


@case(
    "mgmt/strategy/parameters",
    STRATEGY + "set",
    "The retransmission suppression parameters of best-route are taken.",
    tags=("nfd",),
)
async def strategy_with_parameters(t):
    await ok(
        await t.face(),
        "strategy-choice",
        "set",
        name=t.prefix,
        strategy=mgmt.BEST_ROUTE + [comp(b"\x05", 54), comp("retx-suppression-initial~50")],
    )


def chosen(t, manager, wanted):
    """Waits until strategy-choice/list has this strategy for the test's prefix."""

    async def listed():
        return (
            mgmt.strategies(await dataset(manager, "strategy-choice/list")).get(joined(t.prefix))
            == wanted
        )

    return t.until(listed, what="the choice in strategy-choice/list")


def strategy_cases(names, tags):
    for word, version, *parameters in names:
        instance = name("/localhost/nfd/strategy/" + word) + [comp(bytes([version]), 54)]

        @case(
            "mgmt/strategy/is-there/" + word,
            STRATEGY + "set",
            f"{word} can be chosen, with and without its version, and is listed with it.",
            tags=tags,
        )
        async def is_there(t, word=word, instance=instance):
            manager = await t.manager()
            for asked in (instance[:-1], instance):
                a = await ok(manager, "strategy-choice", "set", name=t.prefix, strategy=asked)
                equal(a.body["strategy"], instance, "Strategy in the answer")
                await chosen(t, manager, instance)

        @case(
            "mgmt/strategy/unknown-version/" + word,
            STRATEGY + "set",
            f"A version of {word} that does not exist: 404.",
            tags=tags,
        )
        async def no_version(t, instance=instance, version=version):
            a = await command(
                await t.face(),
                "strategy-choice",
                "set",
                name=t.prefix,
                strategy=instance[:-1] + [comp(bytes([version + 1]), 54)],
            )
            equal(a.code, 404, f"StatusCode ({a.text})")

        @case(
            "mgmt/strategy/parameters/" + word,
            STRATEGY + "set",
            f"{word} takes its parameters and is listed with them; "
            "another or a bad one: 409, with a sentence.",
            tags=tags,
        )
        async def takes(t, instance=instance, parameters=parameters):
            manager = await t.manager()
            for good, bad in parameters:
                await ok(
                    manager,
                    "strategy-choice",
                    "set",
                    name=t.prefix,
                    strategy=instance + [comp(good)],
                )
                await chosen(t, manager, instance + [comp(good)])
                a = await command(
                    manager,
                    "strategy-choice",
                    "set",
                    name=t.prefix,
                    strategy=instance + [comp(bad)],
                )
                equal(a.code, 409, f"StatusCode ({a.text})")
                expect(good.split("~")[0] in a.text, f"{a.text!r} does not name the parameter")
            a = await command(
                manager,
                "strategy-choice",
                "set",
                name=t.prefix,
                strategy=instance + [comp("no-such~1")],
            )
            equal(a.code, 409, f"StatusCode ({a.text})")
            expect(a.text, "a refusal has a reason")


RETX = ("retx-suppression-initial~50", "retx-suppression-initial~x")
strategy_cases(
    [
        ("best-route", 5, RETX),
        ("multicast", 5, RETX),
        ("random", 1),
        ("access", 1),
        ("self-learning", 1),
        (
            "asf",
            5,
            RETX,
            ("probing-interval~30000", "probing-interval~999"),
            ("max-timeouts~5", "max-timeouts~0"),
            ("measurements-lifetime~600000", "measurements-lifetime~60000"),
        ),
    ],
    tags=("nfd",),
)
strategy_cases(
    [
        ("weighted", 1, RETX, ("weights~5-3-1", "weights~0")),
        ("hash", 1, RETX, ("depth~2", "depth~0")),
        ("round-robin", 1, RETX),
        (
            "fail-over",
            1,
            RETX,
            ("max-timeouts~1", "max-timeouts~x"),
            ("recovery-interval~1000", "recovery-interval~1"),
        ),
    ],
    tags=("differs",),
)


@case(
    "mgmt/strategy/too-deep",
    STRATEGY + "set",
    "A prefix of more than 32 components: 414.",
    tags=("nfd",),
)
async def strategy_deep(t):
    a = await command(
        await t.face(), "strategy-choice", "set", name=deep(t.prefix, 40), strategy=mgmt.MULTICAST
    )
    equal(a.code, 414, f"StatusCode ({a.text})")


async def cs_restore(manager):
    await ok(manager, "cs", "config", flags=3, mask=3)


@case(
    "mgmt/cs/serve-off",
    CS + "config",
    "With serving off, cached Data is not used; with it on again, it is.",
    exclusive=True,
)
async def serve(t):
    producer, consumer, manager = await t.producer(), await t.face(), await t.manager()
    packet = data(t.name("/a"), b"1", fresh=10000)
    await t.exchange(consumer, producer, t.name("/a"), reply=packet)
    try:
        a = await ok(manager, "cs", "config", flags=0, mask=2)
        equal(a.body.get("flags", 3) & 2, 0, "serve flag in the answer")
        await t.exchange(consumer, producer, t.name("/a"), reply=packet)
    finally:
        await cs_restore(manager)
    consumer.send(interest(t.name("/a")))
    await consumer.data(t.name("/a"))
    await producer.none("interest")


@case(
    "mgmt/cs/admit-off", CS + "config", "With admitting off, nothing new is cached.", exclusive=True
)
async def admit(t):
    producer, consumer, manager = await t.producer(), await t.face(), await t.manager()
    try:
        await ok(manager, "cs", "config", flags=0, mask=1)
        await t.exchange(
            consumer, producer, t.name("/a"), reply=data(t.name("/a"), b"1", fresh=10000)
        )
        await t.exchange(
            consumer, producer, t.name("/a"), reply=data(t.name("/a"), b"2", fresh=10000)
        )
    finally:
        await cs_restore(manager)


@case(
    "mgmt/cs/capacity",
    CS + "config",
    "A smaller capacity evicts at once and is reported by cs/info.",
    exclusive=True,
)
async def capacity(t):
    producer, consumer, manager = await t.producer(), await t.face(), await t.manager()
    before = (await ok(manager, "cs", "config")).body["capacity"]
    try:
        for i in range(20):
            await t.exchange(
                consumer, producer, t.name(f"/{i}"), reply=data(t.name(f"/{i}"), b"x", fresh=60000)
            )
        a = await ok(manager, "cs", "config", capacity=5)
        equal(a.body["capacity"], 5, "capacity in the answer")

        async def shrunk():
            info = dict(mgmt.read_all(mgmt.items(await dataset(manager, "cs/info"))[0]))
            return mgmt.read_nni(info[131]) == 5 and mgmt.read_nni(info[135]) <= 5

        await t.until(shrunk, what="capacity 5 and at most 5 entries in cs/info")
    finally:
        await ok(manager, "cs", "config", capacity=before)


@case("mgmt/cs/flags-without-mask", CS + "config", "Flags without Mask: 400 (or 409).")
async def cs_mask(t):
    a = await command(await t.face(), "cs", "config", flags=3)
    expect(a.code in (400, 409), f"answered {a.code} {a.text}")


@case(
    "mgmt/cs/erase",
    CS + "erase",
    "Erased Data is fetched anew; the answer has the number of erased entries.",
)
async def erase(t):
    producer, consumer, manager = await t.producer(), await t.face(), await t.manager()
    for i in range(5):
        await t.exchange(
            consumer, producer, t.name(f"/e/{i}"), reply=data(t.name(f"/e/{i}"), b"x", fresh=60000)
        )
    await t.exchange(
        consumer, producer, t.name("/kept"), reply=data(t.name("/kept"), b"x", fresh=60000)
    )
    a = await ok(manager, "cs", "erase", name=t.name("/e"))
    equal(a.body.get("count"), 5, "Count")
    await t.exchange(consumer, producer, t.name("/e/3"), reply=data(t.name("/e/3"), b"new"))
    consumer.send(interest(t.name("/kept")))
    await consumer.data(t.name("/kept"))


@case("mgmt/cs/erase-count", CS + "erase", "Count limits how many are erased.")
async def erase_count(t):
    producer, consumer, manager = await t.producer(), await t.face(), await t.manager()
    for i in range(6):
        await t.exchange(
            consumer, producer, t.name(f"/e/{i}"), reply=data(t.name(f"/e/{i}"), b"x", fresh=60000)
        )
    for wanted in (4, 2, 0):
        a = await ok(manager, "cs", "erase", name=t.name("/e"), count=4)
        equal(a.body.get("count"), wanted, "Count")
        expect("capacity" not in a.body, "Capacity although the command was within the limit")


@case(
    "mgmt/cs/erase-many",
    CS + "erase",
    "A router that erases less than there is, for its own limit's sake, reports that "
    "by Capacity; a second command erases the rest.",
)
async def erase_many(t):
    producer, consumer, manager = await t.producer(), await t.face(), await t.manager()
    for i in range(300):
        await t.exchange(
            consumer, producer, t.name(f"/e/{i}"), reply=data(t.name(f"/e/{i}"), b"x", fresh=60000)
        )
    erased = 0
    for _ in range(10):
        a = await ok(manager, "cs", "erase", name=t.name("/e"))
        erased += a.body["count"]
        if "capacity" not in a.body:
            break
        expect(
            a.body["count"] <= a.body["capacity"],
            f"Count {a.body['count']}, Capacity {a.body['capacity']}",
        )
    equal(erased, 300, "erased in all, when the answer has no Capacity")


@case("mgmt/cs/hits-and-misses", CS + "info", "cs/info counts hits and misses.")
async def hits(t):
    producer, consumer, manager = await t.producer(), await t.face(), await t.manager()

    async def read():
        info = dict(mgmt.read_all(mgmt.items(await dataset(manager, "cs/info"))[0]))
        return mgmt.read_nni(info[129]), mgmt.read_nni(info[130])

    hits0, misses0 = await read()
    for i in range(4):
        await t.exchange(
            consumer, producer, t.name(f"/{i}"), reply=data(t.name(f"/{i}"), fresh=60000)
        )
        consumer.send(interest(t.name(f"/{i}")))
        await consumer.data(t.name(f"/{i}"))

    async def counted():
        now = await read()
        return now[0] >= hits0 + 4 and now[1] >= misses0 + 4

    await t.until(counted, what="four more hits and misses in cs/info")
