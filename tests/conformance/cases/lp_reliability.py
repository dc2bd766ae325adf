"""Link layer reliability: off by default, switched on per face; skipped where a router does not offer it."""

import asyncio

from kit import management as mgmt
from kit.case import LPV2, UDP, Skip, case, equal, expect
from kit.packets import data, interest, lp
from kit.tlv import ACK, TX_SEQUENCE, tlv

SPEC = LPV2 + "Link Layer Reliability"
RELIABLE = 2


async def reliable_face(t):
    """A UDP face with reliability on at the router's end."""
    face = await t.face()
    a = await mgmt.command(await t.manager(), "faces", "update", face_id=await t.face_id(face), flags=RELIABLE,
                           mask=RELIABLE)
    if a.code != 200 or not a.body.get("flags", 0) & RELIABLE:
        raise Skip(f"reliability is not offered ({a.code} {a.text}, flags {a.body.get('flags')})")
    return face


def sequence(n):
    return n.to_bytes(8, "big")


async def ack_for(face, wanted, within=1.0):
    """Wait for an Ack, alone or on another packet."""
    end = asyncio.get_running_loop().time() + within
    while asyncio.get_running_loop().time() < end:
        if any(wanted in p.acks for p in face.inbox):
            return True
        await asyncio.sleep(0.01)
    return False


@case("lp/reliability/off-by-default", SPEC, "A face on which reliability was not switched on sends no TxSequence and "
      "no Ack.", on=(UDP,))
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


@case("lp/reliability/retransmits", SPEC, "A packet that is not acknowledged is sent again, each time with a "
      "TxSequence of its own, and given up after three times.", on=(UDP,))
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


@case("lp/reliability/acknowledged-once", SPEC, "A packet that is acknowledged is not sent again.", on=(UDP,))
async def acknowledged(t):
    producer, face = await t.producer(), await reliable_face(t)
    target = t.name("/t")
    face.send(interest(target, lifetime=4000))
    await producer.interest(target)
    producer.send(data(target))
    got = await face.data(target)
    face.send(lp(None, tlv(ACK, got.lp[TX_SEQUENCE])))
    await face.none("data", target, quiet=1.5)
