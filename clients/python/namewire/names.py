"""Names that both ends compute without a message."""

import hashlib


def _label(component):
    if component.startswith("8="):
        return bytes.fromhex(component[2:])
    return hashlib.sha256(component.encode()).digest()[:8]


def derived_name(name, number):
    """Returns the name of an item that is derived from another one: beside it, with a label of the
    whole name and a number."""
    components = name.split("/")[1:]
    identifier = bytes([len(components)]) + b"".join(map(_label, components))
    label = hashlib.sha256(identifier + number.to_bytes(8, "big")).digest()[:8]
    return "/".join(["", *components[:-1], "8=" + label.hex()])
