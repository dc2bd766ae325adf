"""NFD management protocol: command Interests, their answers, status datasets."""

from dataclasses import dataclass

from .face import TIMEOUT_S, Fail
from .packets import interest, signed_v2, signed_v3
from .tlv import (
    FINAL_BLOCK,
    META_INFO,
    NAME,
    SEGMENT,
    VERSION,
    Malformed,
    comp,
    name,
    name_tlv,
    nni,
    read_all,
    read_name,
    read_nni,
    read_tlv,
    show,
    tlv,
    tlv_nni,
)

CONTROL_PARAMETERS, CONTROL_RESPONSE, STATUS_CODE, STATUS_TEXT = 104, 101, 102, 103

# In the order the reference encodes them, which is the order its clients decode them in.
PARAMETERS = {
    "name": 7,
    "face_id": 105,
    "uri": 114,
    "local_uri": 129,
    "origin": 111,
    "cost": 106,
    "capacity": 131,
    "count": 132,
    "flags": 108,
    "mask": 112,
    "strategy": 107,
    "expiration": 109,
    "persistency": 133,
    "mark_interval": 135,
    "mark_threshold": 136,
    "mtu": 137,
}
PARAMETER_ORDER = list(PARAMETERS.values())
PARAMETER_NAMES = {v: k for k, v in PARAMETERS.items()}
TEXT = {114, 129}

LOCAL, HOP = name("/localhost/nfd"), name("/localhop/nfd")
MULTICAST = name("/localhost/nfd/strategy/multicast")
BEST_ROUTE = name("/localhost/nfd/strategy/best-route")


def parameters(**fields) -> bytes:
    """ControlParameters element with the fields in the reference's order."""
    out = b""
    for key, typ in PARAMETERS.items():
        if key not in fields or fields[key] is None:
            continue
        v = fields[key]
        if key == "name":
            out += name_tlv(v)
        elif key == "strategy":
            out += tlv(typ, name_tlv(v))
        elif typ in TEXT:
            out += tlv(typ, v.encode())
        else:
            out += tlv_nni(typ, v)
    return tlv(CONTROL_PARAMETERS, out)


def read_parameters(value: bytes) -> tuple[dict, list[int]]:
    """Fields by their names, and their types in the order they came."""
    out, order = {}, []
    for typ, v in read_all(value):
        order.append(typ)
        key = PARAMETER_NAMES.get(typ, typ)
        if typ == NAME:
            out[key] = read_name(v)
        elif key == "strategy":
            out[key] = read_name(read_tlv(v)[1])
        elif typ in TEXT:
            out[key] = v.decode()
        else:
            out[key] = read_nni(v)
    return out, order


@dataclass
class Answer:
    """A ControlResponse with the Data that carried it."""

    code: int
    text: str
    body: dict
    order: list
    has_body: bool
    packet: object


def read_answer(p) -> Answer:
    typ, value, end = read_tlv(p.content)
    if typ != CONTROL_RESPONSE or end != len(p.content):
        raise Malformed(f"ControlResponse expected, content is {p.content.hex()[:60]}")
    parts = read_all(value)
    if len(parts) < 2 or parts[0][0] != STATUS_CODE or parts[1][0] != STATUS_TEXT:
        raise Malformed(
            f"ControlResponse must begin with StatusCode, StatusText; has {[t for t, _ in parts]}"
        )
    has_body = len(parts) > 2 and parts[2][0] == CONTROL_PARAMETERS
    body, order = read_parameters(parts[2][1]) if has_body else ({}, [])
    return Answer(read_nni(parts[0][1]), parts[1][1].decode(), body, order, has_body, p)


async def command(
    face,
    module: str,
    verb: str,
    *,
    prefix=None,
    form="v3",
    raw=None,
    within=TIMEOUT_S,
    lifetime=None,
    cbp=False,
    mbf=False,
    **fields,
) -> Answer:
    """Sends a signed command and waits for its answer. `raw` replaces the value of the parameters
    component."""
    value = parameters(**fields) if raw is None else raw
    base = (prefix or LOCAL) + name(f"/{module}/{verb}") + [comp(value)]
    sign = signed_v3 if form == "v3" else signed_v2
    packet, full = sign(base, lifetime=lifetime or int(within * 1000), cbp=cbp, mbf=mbf)
    face.send(packet)
    return read_answer(
        await face.get("data", full, within=within, what=f"answer to {module}/{verb}")
    )


async def ok(face, module: str, verb: str, **kw) -> Answer:
    """Sends a command that must succeed."""
    a = await command(face, module, verb, **kw)
    if a.code != 200:
        raise Fail(f"{module}/{verb} answered {a.code} {a.text}")
    return a


async def dataset_packets(face, what: str, *, suffix=(), within=TIMEOUT_S) -> list:
    """Fetches all segments of a status dataset as clients do: by prefix first, then by exact name."""
    prefix = LOCAL + name("/" + what) + list(suffix)
    face.send(interest(prefix, cbp=True, mbf=True, lifetime=int(within * 1000)))
    first = await face.get("data", prefix=prefix, within=within, what=f"dataset {what}")
    if len(first.name) != len(prefix) + 2:
        raise Fail(f"dataset name {show(first.name)} is not <prefix>/<version>/<segment>")
    version, segment = read_tlv(first.name[-2]), read_tlv(first.name[-1])
    if version[0] != VERSION or segment[0] != SEGMENT:
        raise Fail(
            f"dataset name {show(first.name)} does not end in version and segment components"
        )
    base, got, at = first.name[:-1], [], 0
    if read_nni(segment[1]) == 0:
        got, at = [first], 1
    while not got or final_block(got[-1]) != got[-1].name[-1]:
        if at > 2000:
            raise Fail("dataset without end")
        full = base + [comp(nni(at), SEGMENT)]
        face.send(interest(full, lifetime=int(within * 1000)))
        got.append(await face.data(full, within=within, what=f"segment {at} of {what}"))
        at += 1
    return got


async def dataset(face, what: str, **kw) -> bytes:
    return b"".join(p.content for p in await dataset_packets(face, what, **kw))


def final_block(p) -> bytes | None:
    return dict(read_all(p.fields.get(META_INFO, b""))).get(FINAL_BLOCK)


FACE_STATUS = {
    105: "face_id",
    114: "uri",
    129: "local_uri",
    109: "expiration",
    132: "scope",
    133: "persistency",
    134: "link_type",
    135: "mark_interval",
    136: "mark_threshold",
    137: "mtu",
    144: "in_interests",
    145: "in_data",
    151: "in_nacks",
    146: "out_interests",
    147: "out_data",
    152: "out_nacks",
    148: "in_bytes",
    149: "out_bytes",
    108: "flags",
}


def in_order(order: list, allowed: list, what: str):
    """`order` must be a subsequence of `allowed`."""
    it = iter(allowed)
    for typ in order:
        if typ not in it:
            raise Fail(f"{what}: element {typ} out of order or unknown in {order}")


def items(content: bytes, typ: int = 128) -> list[bytes]:
    out = []
    for t, v in read_all(content):
        if t != typ:
            raise Fail(f"dataset item of type {t}, {typ} expected")
        out.append(v)
    return out


def face_statuses(content: bytes) -> list[dict]:
    out = []
    for v in items(content):
        elements = read_all(v)
        in_order([t for t, _ in elements], list(FACE_STATUS), "FaceStatus")
        out.append(
            {FACE_STATUS[t]: (x.decode() if t in TEXT else read_nni(x)) for t, x in elements}
        )
    return out


def fib_entries(content: bytes) -> dict:
    """Name (as joined bytes) -> {face id: cost}."""
    out = {}
    for v in items(content):
        parts = read_all(v)
        hops = {}
        for t, x in parts[1:]:
            if t != 129:
                raise Fail(f"FibEntry holds element {t}")
            record = read_all(x)
            in_order([t for t, _ in record], [105, 106], "NextHopRecord")
            hops[read_nni(record[0][1])] = read_nni(record[1][1])
        out[parts[0][1]] = hops
    return out


def rib_entries(content: bytes) -> dict:
    """Name (as joined bytes) -> list of route dicts."""
    out = {}
    for v in items(content):
        parts = read_all(v)
        routes = []
        for t, x in parts[1:]:
            if t != 129:
                raise Fail(f"RibEntry holds element {t}")
            record = read_all(x)
            in_order([t for t, _ in record], [105, 111, 106, 108, 109], "Route")
            routes.append({PARAMETER_NAMES[t]: read_nni(y) for t, y in record})
        out[parts[0][1]] = routes
    return out


def strategies(content: bytes) -> dict:
    """Name (as joined bytes) -> strategy name (components)."""
    out = {}
    for v in items(content):
        parts = read_all(v)
        in_order([t for t, _ in parts], [7, 107], "StrategyChoice")
        out[parts[0][1]] = read_name(read_tlv(parts[1][1])[1])
    return out
