"""A python-ndn client of a cluster: fetches the newest version by CanBePrefix, then every segment.
Prints the result as JSON.

Usage: foreign_client.py HOST NAME
"""

import hashlib
import json
import sys

from ndn.app import NDNApp
from ndn.encoding import Component, Name
from ndn.security import KeychainDigest
from ndn.transport.udp_face import UdpFace


async def fetch(app, name):
    received, content, _ = await app.express_interest(
        name, can_be_prefix=True, must_be_fresh=False, lifetime=4000
    )
    versioned = [part for part in received if Component.get_type(part) != Component.TYPE_SEGMENT]
    body, last, segment = b"", None, 0
    while last is None or segment <= last:
        asked = [*versioned, Component.from_segment(segment)]
        _, meta, content = await app.express_interest(asked, lifetime=4000)
        if meta.final_block_id:
            last = Component.to_number(meta.final_block_id)
        body += bytes(content)
        segment += 1
    return {
        "segments": segment,
        "sha256": hashlib.sha256(body).hexdigest(),
        "versioned": Name.to_str(versioned),
    }


def main():
    host, name = sys.argv[1:]
    app = NDNApp(face=UdpFace(host, 6363), keychain=KeychainDigest())

    async def work():
        print(json.dumps(await fetch(app, name)), flush=True)
        app.shutdown()

    app.run_forever(after_start=work())


if __name__ == "__main__":
    main()
