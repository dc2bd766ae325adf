"""Link layer reliability: off by default, switched on per face; skipped where a router does not
offer it."""

import asyncio

from kit import management as mgmt
from kit.case import LPV2, UDP, Skip, case, equal, expect
from kit.packets import data, interest, lp
from kit.tlv import ACK, LP_SEQUENCE, TX_SEQUENCE, tlv

SPEC = LPV2 + "Link Layer Reliability"
RELIABLE = 2


async def reliable_face(t):
    """Returns a UDP face with reliability enabled at the router's end."""
    face = await t.face()
    a = await mgmt.command(
        await t.manager(),
        "faces",
        "update",
        face_id=await t.face_id(face),
        flags=RELIABLE,
        mask=RELIABLE,
    )
    if a.code != 200 or not a.body.get("flags", 0) & RELIABLE:
        raise Skip(f"reliability is not offered ({a.code} {a.text}, flags {a.body.get('flags')})")
    return face


def sequence(n):
    return n.to_bytes(8, "big")


async def ack_for(face, wanted, within=1.0):
    """Waits for an Ack, alone or on another packet."""
    end = asyncio.get_running_loop().time() + within
    while asyncio.get_running_loop().time() < end:
        if any(wanted in p.acks for p in face.inbox):
            return True
        await asyncio.sleep(0.01)
    return False


@case(
    "lp/reliability/off-by-default",
    SPEC,
    "A face on which reliability was not switched on sends no TxSequence and no Ack.",
    on=(UDP,),
)
async def off(t):
    producer, consumer = await t.producer(), await t.face()
    target = t.name("/t")
    consumer.send(lp(interest(target), tlv(TX_SEQUENCE, sequence(9))))
    await producer.interest(target)
    producer.send(data(target))
    got = await consumer.data(target)
    expect(TX_SEQUENCE not in got.lp, "TxSequence sent")
    expect(not await ack_for(consumer, sequence(9), 0.2) and not got.acks, "Ack sent")


@case("lp/reliability/acknowledges", SPEC, "Each TxSequence received is acknowledged.", on=(UDP,))
async def acknowledges(t):
    producer, face = await t.producer(), await reliable_face(t)
    for n in (5, 6, 1 << 63):
        face.send(lp(interest(t.name(f"/{n}")), tlv(TX_SEQUENCE, sequence(n))))
        await producer.interest(t.name(f"/{n}"))
    for n in (5, 6, 1 << 63):
        expect(await ack_for(face, sequence(n)), f"no Ack for TxSequence {n}")


@case(
    "lp/reliability/retransmits",
    SPEC,
    "A packet that is not acknowledged is sent again, each time with a "
    "TxSequence of its own, and given up after three times.",
    on=(UDP,),
)
async def retransmits(t):
    producer, face = await t.producer(), await reliable_face(t)
    target = t.name("/t")
    face.send(interest(target, lifetime=4000))
    await producer.interest(target)
    producer.send(data(target, b"again"))
    seen = [(await face.data(target)).lp.get(TX_SEQUENCE)]
    expect(seen[0] is not None and len(seen[0]) == 8, f"TxSequence {seen[0]}")
    for _ in range(3):
        try:
            seen.append((await face.data(target, within=3.0)).lp.get(TX_SEQUENCE))
        except Exception:
            break
    expect(len(seen) >= 2, "never sent again")
    equal(len(set(seen)), len(seen), "different TxSequences")
    await t.quiet(1.0)
    expect(not [p for p in face.inbox if p.name == target], "sent more than four times")


@case(
    "lp/reliability/acknowledged-once",
    SPEC,
    "A packet that is acknowledged is not sent again.",
    on=(UDP,),
)
async def acknowledged(t):
    producer, face = await t.producer(), await reliable_face(t)
    target = t.name("/t")
    face.send(interest(target, lifetime=4000))
    await producer.interest(target)
    producer.send(data(target))
    got = await face.data(target)
    face.send(lp(None, tlv(ACK, got.lp[TX_SEQUENCE])))
    await face.none("data", target, quiet=1.5)


@case(
    "lp/reliability/copies",
    SPEC,
    "A link packet whose Sequence came before is a copy: acknowledged, and dropped.",
    on=(UDP,),
    tags=("nfd",),
)
async def copies(t):
    producer, face = await t.producer(), await reliable_face(t)
    same = tlv(LP_SEQUENCE, sequence(77))
    face.send(lp(interest(t.name("/a")), same, tlv(TX_SEQUENCE, sequence(1))))
    await producer.interest(t.name("/a"))
    face.send(lp(interest(t.name("/b")), same, tlv(TX_SEQUENCE, sequence(2))))
    expect(await ack_for(face, sequence(1)) and await ack_for(face, sequence(2)), "no Ack")
    await producer.none("interest", t.name("/b"))
    await t.still_works(face, producer)


@case(
    "lp/reliability/idle-is-not-acknowledged",
    SPEC,
    "A packet without Fragment needs no Ack, or Acks would go on for ever.",
    on=(UDP,),
)
async def idle(t):
    producer, face = await t.producer(), await reliable_face(t)
    face.send(lp(None, tlv(TX_SEQUENCE, sequence(3))))
    expect(not await ack_for(face, sequence(3), 0.3), "an idle packet was acknowledged")
    await t.still_works(face, producer)


@case(
    "lp/reliability/fragments",
    SPEC,
    "Each fragment has a TxSequence of its own, and the one that is not acknowledged is sent again alone.",
    on=(UDP,),
)
async def fragments(t):
    producer, face = await t.producer(), await reliable_face(t)
    a = await mgmt.command(
        await t.manager(), "faces", "update", face_id=await t.face_id(face), mtu=1300
    )
    if a.code != 200:
        raise Skip(f"the MTU can't be changed ({a.code} {a.text})")
    target = t.name("/t")
    face.send(interest(target, lifetime=4000))
    await producer.interest(target)
    producer.send(data(target, bytes(4000)))
    got = await face.data(target)
    expect(got.pieces >= 4 and max(got.sizes) <= 1300, f"pieces of {got.sizes} bytes")
    numbers = [p.lp.get(TX_SEQUENCE) for p in got.parts]
    expect(None not in numbers and len(set(numbers)) == len(numbers), f"TxSequences {numbers}")
    missing = got.parts[1]
    face.send(lp(None, *(tlv(ACK, n) for n in sorted(numbers) if n != missing.lp[TX_SEQUENCE])))

    async def again():
        return next((p for parts in face._partial.values() for p in parts.values()), None)

    p = await t.until(again, what="the fragment once more")
    equal(p.lp[LP_SEQUENCE], missing.lp[LP_SEQUENCE], "Sequence")
    expect(p.lp[TX_SEQUENCE] not in numbers, "the TxSequence is another")
    face.send(lp(None, tlv(ACK, p.lp[TX_SEQUENCE])))
    await t.quiet(1.2)
    equal([len(parts) for parts in face._partial.values()], [1], "fragments sent again")
