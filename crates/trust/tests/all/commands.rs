//! The basic rules: signature kinds, verification, freshness and replay.

use nw_name::{Component, ComponentType, Name};
use nw_trust::{
    AllowFrom, CommandFormat, CommandPolicy, CommandRules, Key, KeyKind, Refusal, Signer,
    key::freshness_fields,
};
use nw_wire::tlv::{push_integer, push_tlv};
use nw_wire::{Data, DataBuilder, DigestSha256, Interest, InterestBuilder, Sign, types as t};
use proptest::prelude::*;

const NOW: u64 = 1_750_000_000_000;

fn command_name() -> Name {
    "/localhost/nfd/rib/register/parameters".parse().unwrap()
}

fn v03<S: Sign<Error: std::fmt::Debug>>(signer: &S, time_ms: u64) -> Vec<u8> {
    let fields = freshness_fields(time_ms).unwrap();
    InterestBuilder::new(command_name()).nonce(1).encode_signed(signer, &fields).unwrap()
}

fn v02<S: Sign<Error: std::fmt::Debug>>(signer: &S, time_ms: u64) -> Vec<u8> {
    let element = |typ, value: &[u8]| {
        let mut element = Vec::new();
        push_tlv(typ, value, &mut element);
        element
    };
    let name = command_name()
        .with_generic(time_ms.to_be_bytes())
        .with_generic(7u64.to_be_bytes())
        .with_generic(element(t::SIGNATURE_INFO, &signer.info()));
    let value = signer.sign(&[name.as_ref().as_bytes()]).unwrap();
    InterestBuilder::new(name.with_generic(element(t::SIGNATURE_VALUE, &value))).nonce(1).encode()
}

fn check(
    policy: &mut CommandPolicy,
    wire: &[u8],
    local: bool,
    now_ms: u64,
) -> Result<CommandFormat, Refusal> {
    let interest = Interest::check(wire).expect("a valid Interest");
    let command = policy.check(&interest, local, now_ms)?;
    assert_eq!(command.name, command_name().as_ref());
    Ok(command.format)
}

fn stale(off_ms: u64, limit_ms: u64) -> Result<CommandFormat, Refusal> {
    Err(Refusal::Stale { off_ms, limit_ms })
}

fn key(kind: KeyKind) -> Key {
    Key::generate(kind, "/operator".parse::<Name>().unwrap().as_ref()).unwrap()
}

#[test]
fn default_rules_accept_any_signature_on_local_faces() {
    let mut policy = CommandPolicy::default();
    assert_eq!(check(&mut policy, &v03(&Signer::Digest, NOW), true, NOW), Ok(CommandFormat::V03));
    assert_eq!(check(&mut policy, &v02(&DigestSha256, NOW), true, NOW), Ok(CommandFormat::V02));
    for kind in KeyKind::ALL {
        let key = key(kind);
        assert_eq!(check(&mut policy, &v03(&key, NOW), true, NOW), Ok(CommandFormat::V03));
        assert_eq!(check(&mut policy, &v02(&key, NOW + 1), true, NOW), Ok(CommandFormat::V02));
    }
}

#[test]
fn signature_value_longer_than_252_bytes_is_accepted() {
    let wire = v02(&key(KeyKind::Rsa2048), NOW);
    let interest = Interest::check(&wire).unwrap();
    assert_eq!(interest.name().component(-1).unwrap().value().len(), 260);
    assert!(CommandPolicy::default().check(&interest, true, NOW).is_ok());
}

#[test]
fn default_rules_accept_only_known_keys_on_remote_faces() {
    let mut policy = CommandPolicy::default();
    let key = key(KeyKind::EcdsaP256);
    assert_eq!(
        check(&mut policy, &v03(&Signer::Digest, NOW), false, NOW),
        Err(Refusal::DigestNotEnough)
    );
    assert_eq!(check(&mut policy, &v03(&key, NOW), false, NOW), Err(Refusal::UnknownKey));
    policy.add_key(key.name().to_name(), key.verify_key().unwrap());
    assert!(check(&mut policy, &v03(&key, NOW), false, NOW).is_ok());
    // A KeyLocator with the certificate's name refers to the same key.
    let certificate = key.name().to_name().with_generic("self").with_version(1);
    let key = key.with_key_locator(certificate.as_ref());
    assert!(check(&mut policy, &v03(&key, NOW), false, NOW).is_ok());
}

#[test]
fn configured_rules_replace_the_defaults() {
    let mut closed = CommandPolicy::new(CommandRules {
        digest: AllowFrom::Nowhere,
        unknown_key: AllowFrom::Nowhere,
        known_key: AllowFrom::Local,
        ..CommandRules::default()
    });
    let key = key(KeyKind::Ed25519);
    assert_eq!(
        check(&mut closed, &v03(&Signer::Digest, NOW), true, NOW),
        Err(Refusal::DigestNotEnough)
    );
    assert_eq!(check(&mut closed, &v03(&key, NOW), true, NOW), Err(Refusal::UnknownKey));
    closed.add_key(key.name().to_name(), key.verify_key().unwrap());
    assert_eq!(check(&mut closed, &v03(&key, NOW), false, NOW), Err(Refusal::KeyNotAllowed));
    assert!(check(&mut closed, &v03(&key, NOW), true, NOW).is_ok());
    let mut open =
        CommandPolicy::new(CommandRules { digest: AllowFrom::Anywhere, ..CommandRules::default() });
    assert!(check(&mut open, &v03(&Signer::Digest, NOW), false, NOW).is_ok());
}

#[test]
fn forged_signature_is_refused() {
    let mut policy = CommandPolicy::default();
    let (known, forger) = (key(KeyKind::EcdsaP256), key(KeyKind::EcdsaP256));
    policy.add_key(known.name().to_name(), known.verify_key().unwrap());
    let forged = forger.with_key_locator(known.name());
    assert_eq!(check(&mut policy, &v03(&forged, NOW), true, NOW), Err(Refusal::BadSignature));
    assert_eq!(check(&mut policy, &v02(&forged, NOW), true, NOW), Err(Refusal::BadSignature));
    // A refused command leaves no trace: the real key's command of that time is accepted.
    assert!(check(&mut policy, &v03(&known, NOW), true, NOW).is_ok());

    let mut wire = v02(&DigestSha256, NOW);
    let digest_at = wire.len() - 7; // before the Nonce element of six bytes
    wire[digest_at] ^= 1;
    assert_eq!(check(&mut policy, &wire, true, NOW), Err(Refusal::BadSignature));
}

#[test]
fn stale_and_replayed_commands_are_refused() {
    let mut policy = CommandPolicy::default();
    let key = key(KeyKind::Ed25519);
    for form in [v02::<Key>, v03::<Key>] {
        let wire = form(&key, NOW);
        assert!(check(&mut policy, &wire, true, NOW).is_ok());
        assert_eq!(check(&mut policy, &wire, true, NOW + 1), Err(Refusal::Replayed));
        assert_eq!(check(&mut policy, &wire, true, NOW + 120_001), stale(120_001, 120_000));
        assert_eq!(check(&mut policy, &wire, true, NOW - 120_001), stale(120_001, 120_000));
    }
    // Signed again with the same time, it is a different command.
    assert!(check(&mut policy, &v03(&key, NOW), true, NOW).is_ok());
}

#[test]
fn stale_command_refusal_contains_the_clock_difference() {
    let mut policy = CommandPolicy::default();
    let wire = v03(&Signer::Digest, NOW + 12_000_000);
    assert_eq!(
        check(&mut policy, &wire, true, NOW).unwrap_err().to_string(),
        "the command's timestamp differs from the router's clock by 3 h 20 min (limit 120 s). \
         Check the time on both machines."
    );
}

#[test]
fn reconfigure_replaces_keys_and_keeps_the_replay_history() {
    let mut policy = CommandPolicy::default();
    let key = key(KeyKind::Ed25519);
    policy.add_key(key.name().to_name(), key.verify_key().unwrap());
    let wire = v03(&key, NOW);
    assert!(check(&mut policy, &wire, false, NOW).is_ok());
    policy.reconfigure(CommandRules { grace_ms: 1000, ..CommandRules::default() }, []);
    assert_eq!(check(&mut policy, &wire, false, NOW), Err(Refusal::UnknownKey));
    assert_eq!(check(&mut policy, &wire, true, NOW), Err(Refusal::Replayed));
    assert_eq!(check(&mut policy, &v03(&key, NOW), true, NOW + 1001), stale(1001, 1000));
}

#[test]
fn announcement_is_checked_by_the_same_rules() {
    let mut policy = CommandPolicy::default();
    let (known, forger) = (key(KeyKind::EcdsaP256), key(KeyKind::EcdsaP256));
    let announce = |signer: &dyn Sign<Error = nw_trust::Error>| {
        let name: Name = "/prefix/32=PA/v=1/seg=0".parse().unwrap();
        DataBuilder::new(&name, b"").encode(signer).unwrap()
    };
    let decide = |policy: &CommandPolicy, wire: &[u8], local| {
        policy.check_data(&Data::check(wire).unwrap(), local)
    };
    let (digest, unknown) = (announce(&Signer::Digest), announce(&known));
    assert_eq!(decide(&policy, &digest, true), Ok(()));
    assert_eq!(decide(&policy, &digest, false), Err(Refusal::DigestNotEnough));
    assert_eq!(decide(&policy, &unknown, true), Ok(()));
    assert_eq!(decide(&policy, &unknown, false), Err(Refusal::UnknownKey));
    policy.add_key(known.name().to_name(), known.verify_key().unwrap());
    assert_eq!(decide(&policy, &unknown, false), Ok(()));
    assert_eq!(
        decide(&policy, &announce(&forger.with_key_locator(known.name())), true),
        Err(Refusal::BadSignature)
    );

    struct Null(Key);
    impl Sign for Null {
        type Error = nw_trust::Error;
        fn info(&self) -> Vec<u8> {
            let mut info = vec![27, 1, 200];
            info.extend_from_slice(&self.0.info()[3..]); // even with a KeyLocator it is not a signature
            info
        }
        fn sign(&self, _: &[&[u8]]) -> Result<Vec<u8>, Self::Error> {
            Ok(Vec::new())
        }
    }
    // It proves as much as a digest, and is accepted in the same places.
    let null = announce(&Null(key(KeyKind::Hmac)));
    assert_eq!(decide(&policy, &null, true), Ok(()));
    assert_eq!(decide(&policy, &null, false), Err(Refusal::DigestNotEnough));
    let closed =
        CommandPolicy::new(CommandRules { digest: AllowFrom::Nowhere, ..CommandRules::default() });
    let refusal = decide(&closed, &null, true).unwrap_err();
    assert_eq!(
        refusal.message_for("the prefix announcement"),
        "the prefix announcement from here must be signed by a key"
    );
}

#[test]
fn replay_with_another_nonce_is_refused() {
    let mut policy = CommandPolicy::default();
    let mut wire = v02(&key(KeyKind::Ed25519), NOW);
    assert!(check(&mut policy, &wire, true, NOW).is_ok());
    let nonce_at = Interest::check(&wire).unwrap().nonce_start().unwrap();
    wire[nonce_at] ^= 0xff;
    assert_eq!(check(&mut policy, &wire, true, NOW), Err(Refusal::Replayed));
}

#[test]
fn digest_commands_share_no_clock_and_may_repeat() {
    let mut policy = CommandPolicy::default();
    let wire = v03(&Signer::Digest, NOW + 60_000);
    assert!(check(&mut policy, &wire, true, NOW).is_ok());
    assert!(check(&mut policy, &wire, true, NOW).is_ok());
    assert!(check(&mut policy, &v02(&DigestSha256, NOW - 60_000), true, NOW).is_ok());
    let early = check(&mut policy, &v03(&Signer::Digest, NOW - 120_001), true, NOW);
    assert_eq!(early, stale(120_001, 120_000));
    let timeless = InterestBuilder::new(command_name()).encode_signed(&DigestSha256, &[]).unwrap();
    assert!(check(&mut policy, &timeless, true, NOW).is_ok());
}

#[test]
fn command_unsigned_or_without_time_or_malformed_is_refused() {
    let mut policy = CommandPolicy::default();
    let plain = InterestBuilder::new(command_name()).encode();
    assert_eq!(check(&mut policy, &plain, true, NOW), Err(Refusal::Unsigned));
    let parameters = InterestBuilder::new(command_name()).parameters(*b"x").encode();
    assert_eq!(check(&mut policy, &parameters, true, NOW), Err(Refusal::Unsigned));
    let short = InterestBuilder::new("/a".parse::<Name>().unwrap()).encode();
    assert_eq!(check(&mut policy, &short, true, NOW), Err(Refusal::Unsigned));
    let timeless =
        InterestBuilder::new(command_name()).encode_signed(&key(KeyKind::Hmac), &[]).unwrap();
    assert_eq!(check(&mut policy, &timeless, true, NOW), Err(Refusal::NoTime));

    struct WithSignatureType(u64);
    impl Sign for WithSignatureType {
        type Error = std::convert::Infallible;
        fn info(&self) -> Vec<u8> {
            let mut info = Vec::new();
            push_integer(t::SIGNATURE_TYPE, self.0, &mut info);
            info
        }
        fn sign(&self, _: &[&[u8]]) -> Result<Vec<u8>, Self::Error> {
            Ok(vec![0; 32])
        }
    }
    let mut check_type =
        |number| check(&mut policy, &v03(&WithSignatureType(number), NOW), true, NOW);
    assert_eq!(check_type(200), Err(Refusal::Unsigned));
    assert_eq!(check_type(77), Err(Refusal::UnknownType));
    assert_eq!(check_type(3), Err(Refusal::Malformed));
    assert!(Refusal::Malformed.is_silent() && !Refusal::Unsigned.is_silent());
}

#[test]
fn parameters_digest_that_is_not_last_is_malformed() {
    let wire = v03(&DigestSha256, NOW);
    let interest = Interest::check(&wire).unwrap();
    let name = interest.name().to_name().with_generic("more");
    let mut body = Vec::new();
    name.as_ref().encode(&mut body);
    body.extend_from_slice(&wire[interest.name_start() + interest.name().as_bytes().len()..]);
    let mut moved = Vec::new();
    push_tlv(t::INTEREST, &body, &mut moved);
    let interest = Interest::check(&moved).expect("a valid Interest all the same");
    assert_eq!(
        CommandPolicy::default().check(&interest, true, NOW).unwrap_err(),
        Refusal::Malformed
    );
}

proptest! {
    /// Names that resemble commands of format 0.2.
    #[test]
    fn reading_any_name_does_not_panic(tail in proptest::collection::vec(
        (
            1u16..60,
            proptest::collection::vec(prop_oneof![Just(22u8), Just(23), Just(27), 0u8..8], 0..12)
        ),
        0..6
    )) {
        let name = tail.iter().fold(command_name(), |name, (typ, value)| {
            match Component::new(ComponentType::new(*typ).unwrap(), value) {
                Ok(component) => name.with(component),
                Err(_) => name,
            }
        });
        let wire = InterestBuilder::new(name).encode();
        if let Ok(interest) = Interest::check(&wire) {
            let _: Result<_, Refusal> = CommandPolicy::default().check(&interest, true, NOW);
        }
    }

    #[test]
    fn command_with_any_flipped_bit_is_refused(bit in 0usize..1200) {
        let key = Key::from_secret(command_name().as_ref(), b"secret");
        let mut policy = CommandPolicy::default();
        policy.add_key(key.name().to_name(), key.verify_key().unwrap());
        let wire = v03(&key, NOW);
        let interest = Interest::check(&wire).unwrap();
        // Not signed: the Nonce, between the name and ApplicationParameters.
        let unsigned = interest.nonce_start().unwrap() - 2..interest.nonce_start().unwrap() + 4;
        let mut changed = wire.clone();
        let at = bit / 8 % wire.len();
        changed[at] ^= 1 << (bit % 8);
        if !unsigned.contains(&at) && let Ok(interest) = Interest::check(&changed) {
            prop_assert!(policy.check(&interest, true, NOW).is_err());
        }
    }
}

/// Only a time prevents a replay after a restart, so a nonce or sequence number alone is refused;
/// together with a time each command works once.
#[test]
fn command_with_nonce_or_sequence_number_needs_a_time() {
    let key = key(KeyKind::Ed25519);
    let mut policy = CommandPolicy::default();
    let signed = |fields: &[u8]| {
        InterestBuilder::new(command_name()).nonce(1).encode_signed(&key, fields).unwrap()
    };
    let field = |typ, value: &[u8]| {
        let mut field = Vec::new();
        push_tlv(typ, value, &mut field);
        field
    };
    let nonce = field(t::SIGNATURE_NONCE, &[1; 8]);
    let mut time = Vec::new();
    push_integer(t::SIGNATURE_TIME, NOW, &mut time);
    let sequence = |number: u64| {
        let mut sequence = Vec::new();
        push_integer(t::SIGNATURE_SEQ_NUM, number, &mut sequence);
        sequence
    };
    for fields in [nonce.clone(), sequence(1), [nonce.clone(), sequence(1)].concat()] {
        assert_eq!(check(&mut policy, &signed(&fields), true, NOW), Err(Refusal::NoTime));
    }
    for fields in [
        time.clone(),
        [nonce.clone(), time.clone()].concat(),
        [nonce.clone(), time.clone(), sequence(1)].concat(),
        [nonce, time.clone(), sequence(2)].concat(),
        [time, sequence(2)].concat(),
    ] {
        let wire = signed(&fields);
        assert!(check(&mut policy, &wire, true, NOW).is_ok());
        assert_eq!(check(&mut policy, &wire, true, NOW), Err(Refusal::Replayed));
    }
}
