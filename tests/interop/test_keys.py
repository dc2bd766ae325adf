"""One key store, several programs: python-ndn, ndn-js and OpenSSL (as ndn-cxx uses it) beside `nw
key` and `nw cert`."""

import asyncio
import base64
import json
import shutil
from datetime import datetime, timezone

from Cryptodome.Hash import SHA256
from Cryptodome.PublicKey import ECC, RSA
from Cryptodome.Signature import DSS, pkcs1_15

from ndn import encoding as enc
from ndn.app_support.security_v2 import SafeBag, derive_cert, parse_certificate, self_sign
from ndn.encoding import Component, Name
from ndn.security import KeychainSqlite3, TpmFile

from harness import Skipped, check, equal, test

PASSPHRASE = "correct horse"


class Store:
    """A store in a folder of its own, through `nw`, python-ndn and pyndnsec."""

    def __init__(self, h, name):
        self.h, self.folder = h, h.scratch / name
        self.passphrase = h.scratch / "passphrase"
        self.passphrase.write_text(PASSPHRASE + "\n")

    async def nw(self, *args):
        return await self.h.run(self.h.nw_command(*map(str, args), "--store", str(self.folder)))

    async def pyndnsec(self, *args):
        return await self.h.run(
            [self.h.script("pyndnsec"), "--path", str(self.folder), *map(str, args)]
        )

    async def keys(self):
        return [json.loads(line) for line in (await self.nw("key", "list", "--json")).splitlines()]

    def python(self):
        return KeychainSqlite3(
            str(self.folder / "pib.db"), TpmFile(str(self.folder / "ndnsec-key-file"))
        )


def verifies(certificate, signed):
    """Returns whether the key in a certificate made this packet's signature, checked by python-ndn
    and pycryptodome only."""
    key = bytes(parse_certificate(certificate).content)
    _, _, _, pointers = enc.parse_data(signed)
    digest = SHA256.new()
    for block in pointers.signature_covered_part:
        digest.update(block)
    value = bytes(pointers.signature_value_buf)
    try:
        if pointers.signature_info.signature_type == 1:
            pkcs1_15.new(RSA.import_key(key)).verify(digest, value)
        else:
            DSS.new(ECC.import_key(key), "fips-186-3", "der").verify(digest, value)
        return True
    except ValueError:
        return False


@test("python-ndn lists and signs with keys that nw made; nw verifies")
async def python_reads(h):
    store = Store(h, "made-by-nw")
    for kind in ("ecdsa", "rsa"):
        await store.nw("key", "generate", f"/n/{kind}", "--type", kind)
    listed = {key["key"]: key for key in await store.keys()}
    keychain = store.python()
    seen = {
        Name.to_str(key): bytes(keychain[identity][key].default_cert().data)
        for identity in keychain
        for key in keychain[identity]
    }
    equal(
        {name for name in seen},
        {Name.to_str(Name.from_str(name)) for name in listed},
        "keys that python-ndn lists",
    )
    equal(Name.to_str(keychain.default_identity().name), "/n/ecdsa", "default identity")
    for identity in ("/n/ecdsa", "/n/rsa"):
        key = keychain[identity].default_key()
        equal(
            bytes(parse_certificate(key.default_cert().data).content),
            bytes(key.key_bits),
            "public key of certificate and database",
        )
        signer = keychain.get_signer({"identity": identity, "key_locator": key.name})
        _, wire = self_sign(key.name, key.key_bits, signer)
        check(
            verifies(key.default_cert().data, wire),
            f"python-ndn does not verify what it signed with {identity}",
        )
        path = h.scratch / "signed"
        path.write_bytes(bytes(wire))
        check(
            "self-signed" in await store.nw("cert", "show", path),
            f"nw does not verify what python-ndn signed with {identity}",
        )
    check("/n/rsa" in await store.pyndnsec("list"), "pyndnsec list")
    equal(
        base64.b64decode(await store.pyndnsec("export", "/n/rsa")),
        seen[next(name for name in seen if name.startswith("/n/rsa"))],
        "certificate by pyndnsec",
    )


@test("nw lists and signs with keys that python-ndn made; python-ndn verifies")
async def nw_reads(h):
    store = Store(h, "made-by-python")
    await store.pyndnsec("init")
    await store.pyndnsec("key-gen", "/p/ec")
    keychain = store.python()
    keychain.new_identity("/p/rsa")
    keychain.new_key("/p/rsa", "rsa")
    keys = await store.keys()
    equal(
        {(key["identity"], key["type"], key["private"]) for key in keys},
        {("/p/ec", "ECDSA P-256", True), ("/p/rsa", "RSA", True)},
        "keys",
    )
    for key in keys:
        prefix = h.prefix()
        producer = await h.start(
            h.nw_command(
                "poke", "--key", key["identity"], "--store", str(store.folder), prefix, "hello"
            )
        )
        packet = h.scratch / "packet"
        for _ in range(50):
            out = await h.run(
                [
                    "sh",
                    "-c",
                    f"'{h.nw_command()[0]}' peek --lifetime 500 --show packet '{prefix}' > '{packet}'",
                ],
                fails=True,
            )
            if packet.stat().st_size:
                break
            await asyncio.sleep(0.1)
        identity = keychain[key["identity"]]
        check(
            verifies(identity.default_key().default_cert().data, packet.read_bytes()),
            f"python-ndn does not verify what nw signed: {out}",
        )
        await producer.stop()
    # nw adds and deletes keys; python-ndn reads both changes.
    made = json.loads(await store.nw("key", "generate", "/p/new", "--json"))["key"]
    await store.nw("key", "delete", "/p/rsa")
    seen = store.python()
    equal({Name.to_str(identity) for identity in seen}, {"/p/ec", "/p/new"}, "identities")
    equal(
        [Name.to_str(key) for key in seen["/p/new"]],
        [Name.to_str(Name.from_str(made))],
        "keys of the new identity",
    )


@test("certificates: nw signs a request of pyndnsec, pyndnsec one of nw")
async def requests(h):
    ours, theirs = Store(h, "ours"), Store(h, "theirs")
    await ours.nw("key", "generate", "/boss/ours")
    await theirs.pyndnsec("init")
    await theirs.pyndnsec("key-gen", "/boss/theirs")
    request, certificate = h.scratch / "request", h.scratch / "certificate"
    request.write_text(await theirs.pyndnsec("sign-req", "/boss/theirs"))
    await ours.nw(
        "cert", "sign", request, "--signer", "/boss/ours", "--issuer", "ours", "-o", certificate
    )
    await theirs.pyndnsec("import", certificate)
    seen = await theirs.nw("cert", "list")
    check("/ours/v=" in seen, f"certificates after pyndnsec import: {seen}")
    boss = (await ours.nw("cert", "export", "/boss/ours")).encode()
    check(
        verifies(base64.b64decode(boss), base64.b64decode(certificate.read_text())),
        "python-ndn does not verify a certificate of nw",
    )
    # The opposite direction.
    request.write_text(await ours.nw("cert", "request", "/boss/ours"))
    wire = base64.b64decode(request.read_text())
    asked = parse_certificate(wire)
    signer = theirs.python().get_signer({"identity": "/boss/theirs"})
    _, signed = derive_cert(
        asked.name[:-2],
        Component.from_str("theirs"),
        asked.content,
        signer,
        datetime.now(timezone.utc),
        86400,
    )
    certificate.write_text(base64.b64encode(bytes(signed)).decode())
    await ours.nw("cert", "install", certificate)
    check(
        "/theirs/v=" in await ours.nw("cert", "show", "/boss/ours"),
        "the installed certificate is the default",
    )


@test(
    "SafeBags of nw open with python-ndn and pycryptodome, theirs with nw", limit=120
)  # its PBKDF2 is slow
async def safebags(h):
    store = Store(h, "bags")
    for kind, library in (("ecdsa", ECC), ("rsa", RSA)):
        await store.nw("key", "generate", f"/bag/{kind}", "--type", kind)
        path = h.scratch / "bag"
        await store.nw(
            "key",
            "export",
            f"/bag/{kind}",
            "--raw",
            "-o",
            path,
            "--passphrase-file",
            store.passphrase,
        )
        bag = SafeBag.parse(enc.parse_and_check_tl(path.read_bytes(), 0x80))
        key = library.import_key(bytes(bag.encrypted_key_bag), passphrase=PASSPHRASE)
        certificate = parse_certificate(_certificate_of(path.read_bytes()))
        equal(
            library.import_key(bytes(certificate.content)),
            key.public_key(),
            "public half of the key in the SafeBag",
        )
    python_store = Store(h, "bags-of-python")
    await python_store.pyndnsec("init")
    keychain = python_store.python()
    for kind, protection in (
        ("ec", "PBKDF2WithHMAC-SHA256AndAES256-CBC"),
        ("rsa", "PBKDF2WithHMAC-SHA1AndAES256-CBC"),
        ("rsa", "PBKDF2WithHMAC-SHA1AndDES-EDE3-CBC"),
    ):
        identity = f"/py/{protection.lower()}"
        keychain.new_identity(identity)
        made = keychain.new_key(identity, kind)
        (file,) = [
            p
            for p in (python_store.folder / "ndnsec-key-file").iterdir()
            if p.name.startswith(_digest(made.name))
        ]
        der = base64.b64decode(file.read_text())
        if kind == "ec":
            encrypted = ECC.import_key(der).export_key(
                format="DER", use_pkcs8=True, passphrase=PASSPHRASE, protection=protection
            )
        else:
            encrypted = RSA.import_key(der).export_key(
                format="DER", pkcs=8, passphrase=PASSPHRASE, protection=protection
            )
        path.write_text(base64.b64encode(_bag(bytes(made.default_cert().data), encrypted)).decode())
        await store.nw("key", "import", path, "--passphrase-file", store.passphrase)
    equal(sum(key["identity"].startswith("/py/") for key in await store.keys()), 3, "keys imported")


@test("SafeBags between nw and ndn-js, and OpenSSL as ndn-cxx uses it", limit=60)
async def others(h):
    store = Store(h, "bags-of-others")
    await store.nw("key", "generate", "/bag", "--type", "rsa")
    ours, theirs = h.scratch / "ours.bag", h.scratch / "theirs.bag"
    await store.nw(
        "key", "export", "/bag", "--raw", "-o", ours, "--passphrase-file", store.passphrase
    )
    out = await h.run(h.node("ndnjs-keys.cjs", PASSPHRASE, str(ours), str(theirs), "/js"))
    check("read /bag/KEY/" in out and "written" in out, f"ndn-js: {out}")
    await store.nw("key", "import", theirs, "--passphrase-file", store.passphrase)
    check(any(key["identity"] == "/js" for key in await store.keys()), "the key of ndn-js is here")
    if not shutil.which("openssl"):
        raise Skipped("no openssl")
    encrypted = h.scratch / "encrypted.der"
    encrypted.write_bytes(
        bytes(SafeBag.parse(enc.parse_and_check_tl(ours.read_bytes(), 0x80)).encrypted_key_bag)
    )
    out = await h.run(
        [
            "openssl",
            "pkey",
            "-inform",
            "DER",
            "-in",
            str(encrypted),
            "-passin",
            f"pass:{PASSPHRASE}",
            "-noout",
            "-text",
        ]
    )
    check("2048 bit" in out, f"openssl: {out[:200]}")
    # Key files are what i2d_PrivateKey writes, byte by byte.
    await store.nw("key", "generate", "/bag/ec")
    for path in (store.folder / "ndnsec-key-file").iterdir():
        der = base64.b64decode(path.read_text())
        plain = h.scratch / "plain.der"
        plain.write_bytes(der)
        await h.run(
            [
                "openssl",
                "pkey",
                "-inform",
                "DER",
                "-in",
                str(plain),
                "-outform",
                "DER",
                "-traditional",
                "-out",
                str(plain) + "2",
            ]
        )
        equal((h.scratch / "plain.der2").read_bytes(), der, "key file as OpenSSL writes it")


def _bag(certificate, encrypted):
    """Builds a SafeBag as the specification defines it."""

    def element(typ, value):
        head = bytearray(enc.get_tl_num_size(typ) + enc.get_tl_num_size(len(value)))
        enc.write_tl_num(len(value), head, enc.write_tl_num(typ, head))
        return bytes(head) + value

    return element(0x80, certificate + element(0x81, bytes(encrypted)))


def _certificate_of(bag):
    """Returns the first element of a SafeBag."""
    value = enc.parse_and_check_tl(bag, 0x80)
    _, typ_len = enc.parse_tl_num(value, 0)
    length, len_len = enc.parse_tl_num(value, typ_len)
    return value[: typ_len + len_len + length]


def _digest(name):
    return SHA256.new(bytes(Name.to_bytes(name))).hexdigest()
