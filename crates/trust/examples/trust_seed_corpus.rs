//! Writes the seeds of the fuzz targets `command` and `safebag`:
//! `cargo run -p nw-trust --example trust_seed_corpus`.
//!
//! `crates/wire/examples/wire_seed_corpus.rs` writes those of the other targets. The fuzz target
//! checks commands at 1 700 000 000 000 ms since 1970, from a local face.

use nw_name::Name;
use nw_trust::{Error, Key, Signer};
use nw_wire::tlv::{push_integer, push_tlv};
use nw_wire::{InterestBuilder, Sign, types as t};
use std::{fs, io, path::Path};

const NOW_MS: u64 = 1_700_000_000_000;

fn element(typ: u32, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    push_tlv(typ, value, &mut out);
    out
}

fn number(typ: u32, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    push_integer(typ, value, &mut out);
    out
}

fn command() -> Name {
    "/localhost/nfd/rib/register/h%09%07%07%08%05hello".parse().expect("a name")
}

fn v03(signer: &impl Sign<Error = Error>, fields: &[u8]) -> Vec<u8> {
    InterestBuilder::new(command()).nonce(1).encode_signed(signer, fields).expect("signed")
}

/// A command of format 0.2 with these components after the parameters.
fn v02(last: &[Vec<u8>]) -> Vec<u8> {
    let name = last.iter().fold(command(), |name, value| name.with_generic(value));
    InterestBuilder::new(name).nonce(1).encode()
}

fn v02_signed(signer: &impl Sign<Error = Error>, time: Vec<u8>) -> Vec<u8> {
    let parts = [time, vec![7; 8], element(t::SIGNATURE_INFO, &signer.info())];
    let name = parts.iter().fold(command(), |name, value| name.with_generic(value));
    let value = signer.sign(&[name.as_ref().as_bytes()]).expect("signed");
    v02(&[&parts[..], &[element(t::SIGNATURE_VALUE, &value)]].concat())
}

fn main() -> io::Result<()> {
    let key = Key::from_secret("/k/KEY/1".parse::<Name>().expect("a name").as_ref(), b"secret");
    let time = |ms| number(t::SIGNATURE_TIME, ms);
    let (info, value) = (element(22, &Signer::Digest.info()), element(23, &[0; 32]));
    let (now, nonce) = (NOW_MS.to_be_bytes().to_vec(), vec![7; 8]);
    let unknown_type = element(22, &[27, 1, 99]);
    let seeds = [
        ("ok-v03-digest", v03(&Signer::Digest, &time(NOW_MS))),
        ("ok-v03-digest-timeless", v03(&Signer::Digest, &[])),
        ("ok-v03-key", v03(&key, &[&[38, 1, 7][..], &time(NOW_MS)].concat())),
        ("ok-v03-key-early", v03(&key, &time(NOW_MS - 120_000))),
        ("ok-v02-digest", v02_signed(&Signer::Digest, now.clone())),
        ("ok-v02-key", v02_signed(&key, now.clone())),
        ("bad-refused-v03-key-timeless", v03(&key, &[])),
        ("bad-refused-v03-stale", v03(&Signer::Digest, &time(NOW_MS - 120_001))),
        ("bad-refused-v03-from-the-future", v03(&key, &time(u64::MAX))),
        ("bad-refused-v02-stale", v02_signed(&key, vec![1])),
        ("bad-refused-v02-time-of-3", v02_signed(&Signer::Digest, vec![0; 3])),
        (
            "bad-refused-v02-wrong-digest",
            v02(&[now.clone(), nonce.clone(), info.clone(), value.clone()]),
        ),
        (
            "bad-refused-v02-unknown-type",
            v02(&[now.clone(), nonce.clone(), unknown_type, value.clone()]),
        ),
        (
            "bad-refused-v02-no-key-locator",
            v02(&[now.clone(), nonce.clone(), vec![22, 3, 27, 1, 3], value.clone()]),
        ),
        (
            "bad-refused-v02-half-an-info",
            v02(&[now.clone(), nonce.clone(), vec![22, 9, 27], value.clone()]),
        ),
        (
            "bad-refused-v02-more-than-info",
            v02(&[now.clone(), nonce.clone(), [&info[..], &[0]].concat(), value.clone()]),
        ),
        (
            "bad-refused-v02-half-a-value",
            v02(&[now.clone(), nonce.clone(), info.clone(), vec![23, 200, 1]]),
        ),
        ("bad-refused-v02-huge-value", v02(&[now, nonce, info, [&[23][..], &[255; 9]].concat()])),
        ("bad-refused-unsigned", v02(&[])),
        ("bad-refused-short", InterestBuilder::new("/a".parse::<Name>().expect("a name")).encode()),
        ("bad-truncated", v02(&[])[..20].to_vec()),
    ];
    write("command", seeds.into_iter().collect())?;
    write("safebag", safebags()?)
}

fn write(target: &str, seeds: Vec<(&str, Vec<u8>)>) -> io::Result<()> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    fs::create_dir_all(&directory)?;
    seeds.into_iter().try_for_each(|(name, bytes)| fs::write(directory.join(name), bytes))
}

/// The SafeBags that OpenSSL encrypted for the test vectors, and damaged copies of them.
fn safebags() -> io::Result<Vec<(&'static str, Vec<u8>)>> {
    let vector = |name: &str| -> io::Result<Vec<u8>> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/vectors/{name}.hex"));
        let digits: Vec<u32> =
            fs::read_to_string(path)?.chars().filter_map(|c| c.to_digit(16)).collect();
        Ok(digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
    };
    let (aes, sha1) = (vector("safebag-ecdsa-aes256-sha256")?, vector("safebag-rsa-aes256-sha1")?);
    let (certificate, foreign) = (vector("certificate-ecdsa")?, vector("certificate-rsa")?);
    let bag = |parts: &[&[u8]]| element(t::SAFE_BAG, &parts.concat());
    // The header of these SafeBags has four bytes: the type, and a length in three bytes.
    let encrypted = &aes[4 + certificate.len()..];
    let changed = |at: usize, byte: u8| {
        let mut changed = aes.clone();
        changed[at] = byte;
        changed
    };
    let rounds = aes.windows(4).position(|bytes| bytes == [2, 2, 8, 0]).expect("2048 rounds");
    Ok(vec![
        ("bad-unreadable-empty", Vec::new()),
        ("bad-unreadable-bag", bag(&[])),
        ("bad-unreadable-certificate-only", bag(&[&certificate])),
        ("bad-unreadable-key-first", bag(&[encrypted, &certificate])),
        ("bad-unreadable-no-der", bag(&[&certificate, &element(t::ENCRYPTED_KEY, b"nonsense")])),
        ("bad-unreadable-half", aes[..aes.len() / 2].to_vec()),
        ("bad-key-of-another", bag(&[&foreign, encrypted])),
        ("bad-passphrase-damaged", changed(aes.len() - 1, aes[aes.len() - 1] ^ 1)),
        ("bad-passphrase-few-rounds", changed(rounds + 2, 1)),
        ("bad-slow-many-rounds", changed(rounds + 2, 0x7f)),
        ("ok-aes", aes.clone()),
        ("ok-aes-sha1", sha1),
        ("ok-3des", vector("safebag-ecdsa-3des")?),
    ])
}
