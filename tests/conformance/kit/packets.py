"""Interest, Data, Nack and LpPacket: builders, and a strict view of what a router sent."""

import os
import time
from dataclasses import dataclass, field

from .tlv import (
    ACK,
    APP_PARAMS,
    CAN_BE_PREFIX,
    CONTENT,
    CONTENT_TYPE,
    DATA,
    FINAL_BLOCK,
    FORWARDING_HINT,
    FRAGMENT,
    FRESHNESS,
    HOP_LIMIT,
    INTEREST,
    ISIG_INFO,
    ISIG_VALUE,
    KEY_LOCATOR,
    LIFETIME,
    LP,
    META_INFO,
    MUST_BE_FRESH,
    NACK,
    NACK_REASON,
    NAME,
    NONCE,
    PARAMS_DIGEST,
    PIT_TOKEN,
    SIG_INFO,
    SIG_NONCE,
    SIG_TIME,
    SIG_TYPE,
    SIG_VALUE,
    Malformed,
    comp,
    name_tlv,
    read_all,
    read_name,
    read_nni,
    read_tlv,
    sha256,
    tlv,
    tlv_nni,
)


def nonce() -> bytes:
    return os.urandom(4)


def interest(
    components, *, cbp=False, mbf=False, hint=None, nonce_=None, lifetime=2000, hop=None, tail=b""
):
    """Builds an Interest with its fields in the order of the specification; `tail` is appended."""
    v = name_tlv(components)
    if cbp:
        v += tlv(CAN_BE_PREFIX)
    if mbf:
        v += tlv(MUST_BE_FRESH)
    if hint is not None:
        v += tlv(FORWARDING_HINT, b"".join(name_tlv(h) for h in hint))
    if nonce_ is not False:
        v += tlv(NONCE, nonce_ or nonce())
    if lifetime is not None:
        v += tlv_nni(LIFETIME, lifetime)
    if hop is not None:
        v += tlv(HOP_LIMIT, bytes([hop]))
    return tlv(INTEREST, v + tail)


def with_params(components, params: bytes, *, rest=b"", digest=None, lifetime=2000, nonce_=None):
    """Builds a parameterized Interest; `rest` follows ApplicationParameters, `digest` replaces the
    correct one."""
    tail = tlv(APP_PARAMS, params) + rest
    return interest(
        components + [comp(digest or sha256(tail), PARAMS_DIGEST)],
        tail=tail,
        lifetime=lifetime,
        nonce_=nonce_,
    )


def signed_v3(
    components, *, params=b"", sig_value=None, sig_info=None, lifetime=2000, cbp=False, mbf=False
):
    """A signed Interest of format 0.3 with DigestSha256; returns (packet, full name)."""
    info = sig_info or (
        tlv(SIG_TYPE, b"\x00")
        + tlv(SIG_NONCE, os.urandom(8))
        + tlv_nni(SIG_TIME, time.time_ns() // 1_000_000)
    )
    head = tlv(APP_PARAMS, params) + tlv(ISIG_INFO, info)
    value = sig_value if sig_value is not None else sha256(b"".join(components) + head)
    tail = head + tlv(ISIG_VALUE, value)
    full = components + [comp(sha256(tail), PARAMS_DIGEST)]
    return interest(full, tail=tail, lifetime=lifetime, cbp=cbp, mbf=mbf), full


def signed_v2(components, *, sig_info=None, sig_value=None, lifetime=2000, cbp=False, mbf=False):
    """A command Interest of format 0.2 (timestamp, nonce, SignatureInfo, SignatureValue as
    components)."""
    info = sig_info or tlv(SIG_TYPE, b"\x00")
    body = components + [
        comp((time.time_ns() // 1_000_000).to_bytes(8, "big")),
        comp(os.urandom(8)),
        comp(tlv(SIG_INFO, info)),
    ]
    value = sig_value if sig_value is not None else sha256(b"".join(body))
    full = body + [comp(tlv(SIG_VALUE, value))]
    return interest(full, lifetime=lifetime, cbp=cbp, mbf=mbf), full


def data(
    components, content=b"", *, fresh=None, ctype=None, final=None, meta=None, sign=True, tail=None
):
    """A Data packet signed with DigestSha256; `meta` replaces MetaInfo's value, `tail` the
    signature elements."""
    v = name_tlv(components)
    if meta is None:
        meta = b""
        if ctype is not None:
            meta += tlv_nni(CONTENT_TYPE, ctype)
        if fresh is not None:
            meta += tlv_nni(FRESHNESS, fresh)
        if final is not None:
            meta += tlv(FINAL_BLOCK, final)
    if meta:
        v += tlv(META_INFO, meta)
    if content is not None:
        v += tlv(CONTENT, content)
    if tail is not None:
        return tlv(DATA, v + tail)
    v += tlv(SIG_INFO, tlv(SIG_TYPE, b"\x00"))
    return tlv(DATA, v + tlv(SIG_VALUE, sha256(v) if sign else bytes(32)))


def rsa_like_info(key: str = "/nwc/KEY/%01"):
    """SignatureInfo value with RSA and a key name, as the older JavaScript and Java clients send
    it."""
    return tlv(SIG_TYPE, b"\x01") + tlv(
        KEY_LOCATOR, name_tlv([comp("nwc"), comp("KEY"), comp(b"\x01")])
    )


def lp(fragment: bytes | None, *headers: bytes) -> bytes:
    """LpPacket with `headers` in the order given and the Fragment last."""
    return tlv(LP, b"".join(headers) + (b"" if fragment is None else tlv(FRAGMENT, fragment)))


def token(value: bytes) -> bytes:
    return tlv(PIT_TOKEN, value)


def nack(interest_packet: bytes, reason: int | None, *headers: bytes) -> bytes:
    body = b"" if reason is None else tlv_nni(NACK_REASON, reason)
    return lp(interest_packet, *headers, tlv(NACK, body))


LP_KNOWN = {80, 81, 82, 83, 98, 800, 812, 816, 820, 832, 836, 840, 844, 848}


@dataclass
class Packet:
    """One packet from the router, taken apart."""

    raw: bytes  # the whole datagram or stream element
    kind: str = "other"  # interest, data, nack, idle, fragment, other
    bare: bool = True  # not wrapped in an LpPacket
    lp: dict = field(default_factory=dict)  # header type -> value (last one)
    net: bytes = b""  # the Interest or Data element
    name: list = field(default_factory=list)
    fields: dict = field(default_factory=dict)  # element type -> value
    order: list = field(default_factory=list)  # element types in order of arrival
    pieces: int = 1  # number of fragments
    acks: list = field(default_factory=list)  # TxSequences acknowledged by it

    @property
    def token(self):
        return self.lp.get(PIT_TOKEN)

    @property
    def nonce(self):
        return self.fields.get(NONCE)

    @property
    def content(self):
        return self.fields.get(CONTENT, b"")

    @property
    def reason(self):
        """NackReason, or None."""
        inner = dict(read_all(self.lp.get(NACK, b"")))
        return read_nni(inner[NACK_REASON]) if NACK_REASON in inner else None

    @property
    def hop(self):
        return self.fields.get(HOP_LIMIT)


def take_network(p: Packet, net: bytes) -> Packet:
    """Fill in name and fields of the Interest or Data in `net`."""
    typ, value, end = read_tlv(net)
    if end != len(net):
        raise Malformed("bytes behind the network packet")
    p.net = net
    if typ not in (INTEREST, DATA):
        raise Malformed(f"network packet of type {typ}")
    elements = read_all(value)
    p.order = [t for t, _ in elements]
    p.fields = dict(elements)
    if not elements or elements[0][0] != NAME:
        raise Malformed("network packet does not begin with a Name")
    p.name = read_name(elements[0][1])
    p.kind = "data" if typ == DATA else ("nack" if NACK in p.lp else "interest")
    if typ == DATA and (SIG_INFO not in p.fields or SIG_VALUE not in p.fields):
        raise Malformed("Data without signature elements")
    if typ == INTEREST and NONCE not in p.fields:
        raise Malformed("forwarded Interest without Nonce")
    return p


def dissect(raw: bytes) -> Packet:
    """Dissects a packet. Raises Malformed for anything a router must not send."""
    typ, value, end = read_tlv(raw)
    if end != len(raw):
        raise Malformed("bytes behind the packet in one datagram")
    if len(raw) > 9200:
        raise Malformed(f"packet of {len(raw)} bytes")
    p = Packet(raw)
    if typ != LP:
        return take_network(p, raw)
    p.bare = False
    headers = read_all(value)
    last = 0
    for t, v in headers:
        rank = 1 << 32 if t == FRAGMENT else t
        if rank < last or (rank == last and t != ACK):
            raise Malformed(
                f"LpPacket header {t} out of order or repeated in {[x for x, _ in headers]}"
            )
        # "Unless its type is in 800..959 and its two lowest bits are clear": then it is to be
        # ignored.
        if t not in LP_KNOWN and not (800 <= t <= 959 and t % 4 == 0):
            raise Malformed(f"unknown LpPacket header {t}")
        last = rank
        p.lp[t] = v
        if t == ACK:
            p.acks.append(v)
    if FRAGMENT not in p.lp:
        p.kind = "idle"
        return p
    if read_nni(p.lp.get(83, b"\x01")) > 1:
        p.kind = "fragment"
        return p
    return take_network(p, p.lp[FRAGMENT])
