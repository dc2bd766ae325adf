//! Packets made by python-ndn are read and verified, and signing with its keys gives the same
//! bytes.

use nw_name::Name;
use nw_trust::{
    Command, CommandFormat, CommandSigner, Error, Key, KeyKind, Validity, VerifyKey, certificate,
    safebag, verify_data, verify_digest, verify_interest,
};
use nw_wire::certificate::Certificate;
use nw_wire::{Data, Interest, KeyLocator, Sign, SignatureType};

fn vector(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/vectors/{name}.hex", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn key_name() -> Name {
    "/vector/KEY/%01%02".parse().unwrap()
}

fn verify_key(kind: &str) -> VerifyKey {
    match kind {
        "hmac" => VerifyKey::from_secret(&(0..32).collect::<Vec<u8>>()),
        kind => VerifyKey::from_spki(&vector(&format!("spki-{kind}"))).unwrap(),
    }
}

const KINDS: [&str; 4] = ["ecdsa", "rsa", "ed25519", "hmac"];
const PUBLIC_KINDS: [&str; 3] = ["ecdsa", "rsa", "ed25519"];

#[test]
fn data_of_every_signature_type_verifies() {
    for kind in KINDS {
        let wire = vector(&format!("data-{kind}"));
        let data = Data::check(&wire).unwrap();
        assert_eq!(data.name().to_string(), format!("/vector/data/{kind}"));
        assert_eq!(data.content(), format!("content of {kind}").as_bytes());
        assert_eq!(data.freshness_ms(), 1000);
        assert_eq!(data.final_block().unwrap().to_string(), "seg=3");
        assert_eq!(
            data.signature_info().key_locator(),
            Some(KeyLocator::Name(key_name().as_ref()))
        );
        verify_data(&data, &verify_key(kind)).unwrap();
        let mut changed = wire.clone();
        let at = wire.len() - data.signature_value().len() - 30;
        changed[at] ^= 1;
        if let Ok(data) = Data::check(&changed) {
            assert!(verify_data(&data, &verify_key(kind)).is_err());
        }
    }
    let wire = vector("data-digest");
    let data = Data::check(&wire).unwrap();
    assert_eq!(data.signature_info().typ(), SignatureType::DigestSha256);
    verify_digest(&[data.signed_portion()], data.signature_value()).unwrap();
}

#[test]
fn imported_keys_sign_the_same() {
    for (kind, expected) in
        [("ecdsa", KeyKind::EcdsaP256), ("rsa", KeyKind::Rsa2048), ("ed25519", KeyKind::Ed25519)]
    {
        let key = Key::from_pkcs8(key_name().as_ref(), &vector(&format!("pkcs8-{kind}"))).unwrap();
        assert_eq!(key.kind(), expected);
        assert_eq!(key.public_key().unwrap(), vector(&format!("spki-{kind}")));
        let wire = vector(&format!("data-{kind}"));
        let data = Data::check(&wire).unwrap();
        let ours = key.sign(&[data.signed_portion()]).unwrap();
        verify_key(kind).verify(key.signature_type(), &[data.signed_portion()], &ours).unwrap();
        // ECDSA signatures are random; the others are deterministic.
        assert_eq!(ours == data.signature_value(), kind != "ecdsa", "{kind}");
    }
    let secret: Vec<u8> = (0..32).collect();
    let key = Key::from_secret(key_name().as_ref(), &secret);
    let wire = vector("data-hmac");
    let data = Data::check(&wire).unwrap();
    assert_eq!(key.sign(&[data.signed_portion()]).unwrap(), data.signature_value());
    assert_eq!(key.info(), data.signature_info().value());
}

#[test]
fn certificates_verify_within_their_validity() {
    for kind in PUBLIC_KINDS {
        let wire = certificate::read_file(&vector(&format!("certificate-{kind}"))).unwrap();
        let checked = Certificate::check(&wire).unwrap();
        assert_eq!(checked.key_name(), key_name().as_ref());
        assert_eq!(checked.public_key(), vector(&format!("spki-{kind}")));
        let validity = Validity { not_before_s: 1_704_067_200, not_after_s: 2_335_219_200 };
        assert_eq!(Validity::from_certificate(&checked), Some(validity));
        certificate::verify(&checked, &verify_key(kind), 1_704_067_200).unwrap();
        let early = certificate::verify(&checked, &verify_key(kind), 1_704_067_199);
        assert_eq!(early.unwrap_err(), Error::OutsideValidity);
    }
}

#[test]
fn commands_of_format_0_3_are_read() {
    for kind in KINDS {
        let wire = vector(&format!("command-v03-{kind}"));
        let interest = Interest::check(&wire).unwrap();
        verify_interest(&interest, &verify_key(kind)).unwrap();
        let command = Command::read(&interest).unwrap();
        assert_eq!(command.format, CommandFormat::V03);
        assert_eq!(command.signer, CommandSigner::Key(KeyLocator::Name(key_name().as_ref())));
        assert_eq!(command.time_ms, Some(1_700_000_000_000));
        assert_eq!(command.nonce, Some(&[42][..]));
        assert_eq!(command.name.prefix(4).to_string(), "/localhost/nfd/rib/register");
        assert_eq!(command.name.len(), 5);
    }
}

#[test]
fn commands_of_format_0_2_verify() {
    for kind in ["ecdsa", "rsa"] {
        let wire = vector(&format!("command-v02-{kind}"));
        let command = Command::read(&Interest::check(&wire).unwrap()).unwrap();
        assert_eq!(command.format, CommandFormat::V02);
        assert_eq!(command.signer, CommandSigner::Key(KeyLocator::Name(key_name().as_ref())));
        assert_eq!(command.time_ms, Some(1_700_000_000_000));
        assert_eq!(command.nonce, Some(&42u64.to_be_bytes()[..]));
        assert_eq!(command.name.len(), 5);
        verify_key(kind).verify(command.typ, &command.signed, command.signature).unwrap();
    }
}

#[test]
fn commands_signed_by_a_digest_verify() {
    for (form, format) in [("v02", CommandFormat::V02), ("v03", CommandFormat::V03)] {
        let wire = vector(&format!("command-{form}-digest"));
        let command = Command::read(&Interest::check(&wire).unwrap()).unwrap();
        assert_eq!(command.format, format);
        assert_eq!(command.signer, CommandSigner::Digest);
        assert!(command.time_ms.is_some() && command.nonce.is_some());
        verify_digest(&command.signed, command.signature).unwrap();
    }
}

#[test]
fn interest_with_parameters_is_read() {
    let wire = vector("interest-parameters");
    let interest = Interest::check(&wire).unwrap();
    assert_eq!(interest.parameters(), Some(&b"some parameters"[..]));
    assert_eq!((interest.nonce(), interest.hop_limit()), (Some(0x0102_0304), Some(5)));
    assert!(interest.can_be_prefix() && interest.must_be_fresh());
    assert_eq!(interest.name().prefix(2).to_string(), "/vector/ask");
}

#[test]
fn safebags_encrypted_by_openssl_open() {
    for (kind, scheme) in [("ecdsa", "aes256-sha256"), ("rsa", "aes256-sha1"), ("ecdsa", "3des")] {
        let bag = vector(&format!("safebag-{kind}-{scheme}"));
        let (wire, key) =
            safebag::open(&bag, b"vector").unwrap_or_else(|error| panic!("{scheme}: {error}"));
        assert_eq!(wire, vector(&format!("certificate-{kind}")));
        assert_eq!(key.public_key().unwrap(), vector(&format!("spki-{kind}")));
        assert_eq!(safebag::open(&bag, b"victor").unwrap_err(), Error::WrongPassphrase, "{scheme}");
    }
}
