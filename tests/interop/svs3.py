"""A member of a sync group on python-ndn: State Vector Sync, version 3. Its own SVS is version 1.

    svs3.py GROUP MEMBER [--hmac FILE --key-name NAME] [--write-certificate FILE] [--trust FILE]
                         [--forge]

Version 1 carries the vector in the name of the Sync Interest and knows no boot times. `Svs3Inst`
keeps python-ndn's state machine and timers, and replaces the packets: a member and its boot time
are one node of version 1. Names of publications are those of NDNd and `nw sync`. Each line of
standard input is a publication. Prints publications, the newest snapshot of each new member, and
refusals.
With --forge publications are signed by another secret than state vectors.
"""

import argparse
import asyncio
import sys
import time
from pathlib import Path

from Cryptodome.PublicKey import ECC
from ndn import encoding as enc
from ndn import types
from ndn.app_support.security_v2 import parse_certificate, self_sign
from ndn.app_support.svs import StateVec, StateVecEntry, StateVecWrapper, SvsInst
from ndn.appv2 import NDNApp, pass_all
from ndn.encoding import Component, Name
from ndn.security import DigestSha256Signer, Ed25519Checker, HmacChecker, sha256_digest_checker
from ndn.security.signer.ed25519_signer import Ed25519Signer
from ndn.security.signer.sha256_hmac_signer import HmacSha256Signer
from ndn.types import ValidResult
from ndn.utils import gen_nonce

SVS = Component.from_str("32=svs")
SNAPSHOT = Component.from_str("32=SNAP")
METADATA = Component.from_str("32=metadata")


class SeqNoEntry(enc.TlvModel):
    boot_s = enc.UintField(0xD4)
    seq_no = enc.UintField(0xD6)


class Entry(enc.TlvModel):
    node_id = enc.NameField()
    numbers = enc.RepeatedField(enc.ModelField(0xD2, SeqNoEntry))


class StateVector(enc.TlvModel):
    entries = enc.RepeatedField(enc.ModelField(0xCA, Entry))


class StateVectorWrapper(enc.TlvModel):
    val = enc.ModelField(0xC9, StateVector)


def number(value, typ):
    return Component.from_number(value, typ)


def canonical(name):
    """Sorts names by type, length and value of their components."""
    return [(Component.get_type(c), len(c), bytes(c)) for c in name]


class Svs3Inst(SvsInst):
    """python-ndn's SvsInst with the packets of version 3. `verify` is a coroutine function that
    returns why Data is refused, or nothing."""

    def __init__(self, group, member, on_missing_data, signer, verify):
        self.boot_s = int(time.time())
        boot = number(self.boot_s, Component.TYPE_TIMESTAMP)
        self.sync_prefix = Name.normalize(group) + [SVS]
        node = Name.normalize(member) + [boot]
        super().__init__(self.sync_prefix, node, on_missing_data, signer, pass_all)
        self.data_signer, self.verify = signer, verify

    def sync_handler(self, name, app_param, reply, context):
        asyncio.create_task(self.receive(bytes(app_param or b"")))

    async def receive(self, wire):
        try:
            name, _, content, sig = enc.parse_data(wire)
        except (enc.DecodeError, ValueError, IndexError) as e:
            return print(f"refused a Sync Interest: {e}")
        is_of_group = Name.is_prefix(self.sync_prefix[:-1], name) and name[-2] == SVS
        why = await self.verify(name, sig) if is_of_group else "not a vector of this group"
        if why:
            return print(f"refused {Name.to_str(name)}: {why}")
        vector = StateVectorWrapper.parse(content).val
        # Version 1 takes a member that a vector does not have for one that is up to date.
        numbers = dict.fromkeys(self.local_sv, 0)
        for entry in vector.entries if vector else []:
            for item in entry.numbers:
                node = entry.node_id + [number(item.boot_s, Component.TYPE_TIMESTAMP)]
                numbers[Name.to_bytes(node)] = item.seq_no
        old = StateVecWrapper()
        old.val = StateVec()
        old.val.entries = []
        for node, seq_no in numbers.items():
            entry = StateVecEntry()
            entry.node_id, entry.seq_no = Name.from_bytes(node), seq_no
            old.val.entries.append(entry)
        if numbers:
            super().sync_handler(self.base_prefix + [old.encode(), b""], None, None, None)

    def express_sync_interest(self):
        members = {}
        for node, seq_no in self.local_sv.items():
            *member, boot = Name.from_bytes(node)
            if seq_no > 0:
                item = SeqNoEntry()
                item.boot_s, item.seq_no = Component.to_number(boot), seq_no
                members.setdefault(Name.to_bytes(member), []).append(item)
        wrapper = StateVectorWrapper()
        wrapper.val = StateVector()
        wrapper.val.entries = []
        for member in sorted(members, key=lambda m: canonical(Name.from_bytes(m))):
            entry = Entry()
            entry.node_id = Name.from_bytes(member)
            entry.numbers = sorted(members[member], key=lambda item: item.boot_s)
            wrapper.val.entries.append(entry)
        name = self.sync_prefix + [number(3, Component.TYPE_VERSION)]
        data = enc.make_data(name, enc.MetaInfo(), wrapper.encode(), signer=self.data_signer)
        # The Data is signed, the Interest is not.
        param = enc.InterestParam(lifetime=1000, nonce=gen_nonce())
        wire = enc.make_interest(name, param, bytes(data))
        self.ndn_app.express_raw_interest(name, param, wire, None, no_response=True)


class Member:
    def __init__(self, args):
        self.app = NDNApp()
        self.group, self.member = Name.from_str(args.group), Name.from_str(args.member)
        self.signer, self.checker = DigestSha256Signer(), None
        if args.hmac:
            secret = args.hmac.read_bytes()
            self.signer = HmacSha256Signer(args.key_name, secret)
            self.checker = HmacChecker.from_key(args.key_name, secret)
        if args.write_certificate:
            key = ECC.generate(curve="ed25519")
            key_name = Name.normalize(args.key_name)
            self.signer = Ed25519Signer(key_name, key.export_key(format="DER"))
            public = key.public_key().export_key(format="DER")
            _, certificate = self_sign(key_name, public, self.signer)
            args.write_certificate.write_bytes(certificate)
        if args.trust:
            certificate = parse_certificate(args.trust.read_bytes())
            self.checker = Ed25519Checker.from_key(
                certificate.name[:-2], bytes(certificate.content)
            )
        self.content_signer = self.signer
        if args.forge:
            self.content_signer = HmacSha256Signer(args.key_name, b"another secret")
        self.sync = Svs3Inst(self.group, self.member, self.on_missing, self.signer, self.verify)
        self.kept, self.fetched = {}, {}
        self.wake = asyncio.Event()

    async def verify(self, _name, sig):
        if self.checker is None:
            return None if await sha256_digest_checker(_name, sig) else "wrong digest"
        return None if await self.checker(_name, sig) else "not signed by the trusted key"

    async def validator(self, name, sig, _context):
        return ValidResult.FAIL if await self.verify(name, sig) else ValidResult.PASS

    def on_missing(self, _sync):
        self.wake.set()

    def on_interest(self, name, _param, reply, _context):
        if data := self.kept.get(Name.to_bytes(name)):
            reply(data)

    def publish(self, content):
        seq_no = self.sync.new_data()
        segment = number(0, Component.TYPE_SEGMENT)
        node = self.group + Name.from_bytes(self.sync.self_node_id)
        name = node + [number(seq_no, Component.TYPE_SEQUENCE_NUM)]
        name += [number(0, Component.TYPE_VERSION), segment]
        self.kept[Name.to_bytes(name)] = self.app.make_data(
            name, content, self.content_signer, freshness_period=10_000, final_block_id=segment
        )

    async def fetch_object(self, name):
        """Returns the content of all segments."""
        parts = []
        while True:
            segment = name + [number(len(parts), Component.TYPE_SEGMENT)]
            _, content, context = await self.app.express(segment, self.validator, lifetime=2000)
            parts.append(bytes(content or b""))
            if context["meta_info"].final_block_id in (None, segment[-1]):
                return b"".join(parts)

    async def fetch(self):
        """Fetches what is new, and first the newest snapshot of a new member."""
        while True:
            await self.wake.wait()
            self.wake.clear()
            for node, last in list(self.sync.local_sv.items()):
                if node == self.sync.self_node_id:
                    continue
                if node not in self.fetched:
                    await self.show(node, "snapshot", self.fetch_snapshot(node))
                for seq_no in range(self.fetched.get(node, 0) + 1, last + 1):
                    name = self.group + Name.from_bytes(node)
                    name += [number(seq_no, Component.TYPE_SEQUENCE_NUM)]
                    name += [number(0, Component.TYPE_VERSION)]
                    await self.show(node, f"publication {seq_no}", self.fetch_object(name))
                self.fetched[node] = last

    async def fetch_snapshot(self, node):
        base = self.group + Name.from_bytes(node) + [SNAPSHOT]
        _, content, _ = await self.app.express(
            base + [METADATA],
            self.validator,
            can_be_prefix=True,
            must_be_fresh=True,
            lifetime=2000,
        )
        return await self.fetch_object(Name.from_bytes(bytes(content)))

    async def show(self, node, what, content):
        member = Name.to_str(Name.from_bytes(node)[:-1])
        try:
            text = (await content).decode()
            shown = text if len(text) < 100 else f"{len(text)} bytes"
            print(f"{what} of {member}: {shown}")
        except types.ValidationFailure:
            print(f"{what} of {member} refused")
        except (types.InterestTimeout, types.InterestNack) as e:
            print(f"{what} of {member} missing: {type(e).__name__}")

    async def run(self):
        prefix = self.group + self.member
        self.app.attach_handler(prefix, self.on_interest)
        self.sync.start(self.app)
        for registered in (self.sync.sync_prefix, prefix):
            if not await self.app.register(registered):
                raise SystemExit(f"can't register {Name.to_str(registered)}")
        asyncio.create_task(self.fetch())
        print("ready")
        lines = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        while line := await lines.readline():
            self.publish(line.rstrip(b"\n"))


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("group")
    parser.add_argument("member")
    parser.add_argument("--hmac", type=Path)
    parser.add_argument("--key-name")
    parser.add_argument("--write-certificate", type=Path)
    parser.add_argument("--trust", type=Path)
    parser.add_argument("--forge", action="store_true")
    member = Member(parser.parse_args())
    await member.app.main_loop(after_start=member.run())


if __name__ == "__main__":
    asyncio.run(main())
