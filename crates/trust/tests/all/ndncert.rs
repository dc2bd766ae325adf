//! The NDNCERT client against a CA of this test, which also answers nonsense: every reply that is
//! not exactly as it must be is refused, and none makes the client panic.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use nw_name::{Component, Name};
use nw_trust::ndncert::{CaError, CaProfile, ChallengeState, Enrolment};
use nw_trust::{Key, KeyKind, Validity, certificate};
use nw_wire::certificate::Certificate;
use nw_wire::tlv::push_tlv;
use nw_wire::{Data, DataBuilder, Interest, Reader};

const NOW_MS: u64 = 1_800_000_000_000;
const SALT: [u8; 32] = [5; 32];
const ID: [u8; 8] = *b"request1";
/// Status codes of NDNCERT.
const PENDING: u8 = 1;
const SUCCESS: u8 = 3;
const FAILURE: u8 = 4;

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn key(identity: &str) -> Key {
    Key::generate(KeyKind::EcdsaP256, name(identity).as_ref()).expect("a key")
}

fn tlvs(fields: &[(u32, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (typ, value) in fields {
        push_tlv(*typ, value, &mut out);
    }
    out
}

struct Ca {
    key: Key,
    certificate: Vec<u8>,
}

impl Ca {
    fn new() -> Self {
        let key = key("/ca");
        let validity = Validity { not_before_s: 0, not_after_s: 4_000_000_000 };
        let certificate = certificate::self_signed(&key, 1, validity).expect("a certificate");
        Ca { key, certificate }
    }

    fn packet(&self, text: &str, content: &[u8]) -> Vec<u8> {
        DataBuilder::new(name(text).as_ref(), content).encode(&self.key).expect("signed")
    }

    fn profile_fields(&self) -> Vec<(u32, Vec<u8>)> {
        vec![
            (0x81, vec![7, 4, 8, 2, b'c', b'a']),
            (0x83, b"a CA".to_vec()),
            (0x8B, 86_400u32.to_be_bytes().to_vec()),
            (0x89, self.certificate.clone()),
        ]
    }

    fn profile_of(&self, fields: &[(u32, Vec<u8>)]) -> Result<CaProfile, CaError> {
        let fields: Vec<(u32, &[u8])> = fields.iter().map(|(t, v)| (*t, v.as_slice())).collect();
        let wire = self.packet("/ca/CA/INFO/v=1/seg=0", &tlvs(&fields));
        CaProfile::check(&Data::check(&wire).expect("well formed"), &self.certificate)
    }

    fn profile(&self) -> CaProfile {
        self.profile_of(&self.profile_fields()).expect("a valid profile")
    }

    /// Returns the reply to NEW, and the session's cipher.
    fn answer_new(&self, interest: &[u8]) -> (Vec<u8>, LessSafeKey) {
        struct Len;
        impl KeyType for Len {
            fn len(&self) -> usize {
                16
            }
        }
        let interest = Interest::check(interest).expect("well formed");
        let mut reader = Reader::new(interest.parameters().expect("parameters"), 0);
        let theirs = reader.next().expect("a field").expect("a field");
        assert_eq!(theirs.typ, 0x91);
        let secret = PrivateKey::generate(&ECDH_P256).expect("a key");
        let public = secret.compute_public_key().expect("a key");
        let theirs = UnparsedPublicKey::new(&ECDH_P256, theirs.value);
        let bytes = agree(&secret, theirs, (), |shared| {
            let mut bytes = [0; 16];
            let derived = Salt::new(HKDF_SHA256, &SALT).extract(shared);
            derived.expand(&[&ID], Len).and_then(|okm| okm.fill(&mut bytes)).map_err(|_| ())?;
            Ok(bytes)
        })
        .expect("a secret");
        let cipher = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &bytes).expect("a key"));
        let content = tlvs(&[(0x91, public.as_ref()), (0x95, &SALT), (0x97, &ID), (0x99, b"pin")]);
        (self.packet("/ca/CA/NEW", &content), cipher)
    }
}

/// Returns an encrypted message as the fields of a reply.
fn seal(cipher: &LessSafeKey, iv: [u8; 12], plain: &[u8]) -> Vec<u8> {
    let mut payload = plain.to_vec();
    let tag = cipher
        .seal_in_place_separate_tag(Nonce::assume_unique_for_key(iv), Aad::from(ID), &mut payload)
        .expect("sealed");
    tlvs(&[(0x9D, &iv), (0xAF, tag.as_ref()), (0x9F, &payload)])
}

fn iv(counter: u32) -> [u8; 12] {
    let mut iv = [9; 12];
    iv[8..].copy_from_slice(&counter.to_be_bytes());
    iv
}

fn pending() -> Vec<u8> {
    tlvs(&[(0x9B, &[PENDING]), (0xA3, b"need-code"), (0xA5, &[3])])
}

/// Takes a plain challenge reply at a new session.
fn take(ca: &Ca, profile: &CaProfile, plain: &[u8]) -> Result<ChallengeState, CaError> {
    let site = key("/ca/site");
    let (mut enrolment, interest) = Enrolment::begin(profile, &site, NOW_MS).expect("a request");
    let (reply, cipher) = ca.answer_new(&interest);
    enrolment.on_new_reply(&Data::check(&reply).expect("well formed")).expect("accepted");
    let reply = ca.packet("/ca/CA/CHALLENGE/x", &seal(&cipher, iv(0), plain));
    enrolment.on_challenge_reply(&Data::check(&reply).expect("well formed"))
}

#[test]
fn whole_exchange_issues_a_certificate_for_the_key() {
    let (ca, site) = (Ca::new(), key("/ca/site"));
    let profile = ca.profile();
    let (mut enrolment, interest) = Enrolment::begin(&profile, &site, NOW_MS).expect("a request");
    let (reply, cipher) = ca.answer_new(&interest);
    let offered = enrolment.on_new_reply(&Data::check(&reply).expect("well formed"));
    assert_eq!(offered.expect("accepted"), ["pin"]);
    enrolment.challenge("pin", &[], NOW_MS).expect("an Interest");
    let reply = ca.packet("/ca/CA/CHALLENGE/x", &seal(&cipher, iv(0), &pending()));
    let state = enrolment.on_challenge_reply(&Data::check(&reply).expect("well formed"));
    let Ok(ChallengeState::Pending { status, tries, .. }) = state else { panic!("{state:?}") };
    assert_eq!((status.as_str(), tries), ("need-code", 3));
    enrolment.challenge("pin", &[("code", b"123")], NOW_MS).expect("an Interest");
    let issued = tlvs(&[(0x9B, &[SUCCESS]), (0xA9, &[7, 4, 8, 2, b'o', b'k'])]);
    let reply = ca.packet("/ca/CA/CHALLENGE/x", &seal(&cipher, iv(8), &issued));
    let state = enrolment.on_challenge_reply(&Data::check(&reply).expect("well formed"));
    assert!(
        matches!(state, Ok(ChallengeState::Issued { name: issued, .. }) if issued == name("/ok"))
    );

    let public = site.public_key().expect("a key");
    let validity = Validity { not_before_s: 0, not_after_s: 4_000_000_000 };
    let issue = |issuer: &Key, holder: &Key, public: &[u8]| {
        let id = Component::generic(b"CA");
        certificate::issue(holder.name(), public, id, issuer, 1, validity).expect("issued")
    };
    let good = issue(&ca.key, &site, &public);
    assert!(Certificate::check(&good).is_ok());
    assert_eq!(enrolment.check_issued(&good, NOW_MS / 1000), Ok(()));
    let other = key("/ca/site");
    for bad in [
        issue(&other, &site, &public),
        issue(&ca.key, &other, &other.public_key().expect("a key")),
        issue(&ca.key, &site, &other.public_key().expect("a key")),
        good[..good.len() - 1].to_vec(),
        Vec::new(),
    ] {
        assert!(enrolment.check_issued(&bad, NOW_MS / 1000).is_err());
    }
    assert!(enrolment.check_issued(&good, 4_000_000_001).is_err(), "expired");
}

#[test]
fn profile_without_a_field_or_with_another_signer_is_refused() {
    let ca = Ca::new();
    let good = ca.profile_fields();
    for missing in 0..good.len() {
        let mut fields = good.clone();
        fields.remove(missing);
        let refused = ca.profile_of(&fields).expect_err("a field is missing");
        assert!(matches!(refused, CaError::Malformed("profile", _)), "{refused}");
    }
    let mut fields = good.clone();
    fields[0].1 = vec![7, 4, 8, 2, b'n', b'o'];
    assert!(ca.profile_of(&fields).is_err(), "another prefix");
    let mut fields = good.clone();
    fields[3].1 = Ca::new().certificate;
    assert!(matches!(ca.profile_of(&fields), Err(CaError::OtherCertificate(_))));
    let impostor = Ca { key: key("/ca"), certificate: ca.certificate.clone() };
    assert!(matches!(impostor.profile_of(&good), Err(CaError::Signature("profile"))));
    let many: Vec<_> = good.iter().cloned().chain((0..200).map(|_| (0x99, Vec::new()))).collect();
    assert!(ca.profile_of(&many).is_err(), "too many fields");
}

#[test]
fn reply_to_new_that_is_damaged_is_refused() {
    let (ca, site) = (Ca::new(), key("/ca/site"));
    let profile = ca.profile();
    let (mut enrolment, interest) = Enrolment::begin(&profile, &site, NOW_MS).expect("a request");
    let (reply, _) = ca.answer_new(&interest);
    let content = Data::check(&reply).expect("well formed").content().to_vec();
    let mut refused = |content: &[u8]| {
        let wire = ca.packet("/ca/CA/NEW", content);
        enrolment.on_new_reply(&Data::check(&wire).expect("well formed")).is_err()
    };
    // The challenge is the last field, of 5 bytes: a reply without one is complete.
    for len in (0..content.len()).filter(|len| *len != content.len() - 5) {
        assert!(refused(&content[..len]), "cut at {len}");
    }
    for (typ, len) in [(0x91, 64), (0x91, 0), (0x95, 31), (0x95, 33), (0x97, 7), (0x97, 9)] {
        let sizes = [(0x91, 65), (0x95, 32), (0x97, 8)];
        let bytes = [4; 80];
        let fields: Vec<(u32, &[u8])> = sizes
            .iter()
            .map(|(own, usual)| (*own, &bytes[..if *own == typ { len } else { *usual }]))
            .collect();
        assert!(refused(&tlvs(&fields)), "field {typ:#x} of {len} bytes");
    }
    // Signed by another key, though all else fits.
    let impostor = Ca { key: key("/ca"), certificate: ca.certificate.clone() };
    let wire = impostor.packet("/ca/CA/NEW", &content);
    let result = enrolment.on_new_reply(&Data::check(&wire).expect("well formed"));
    assert_eq!(result, Err(CaError::Signature("reply to NEW")));
    let refusal = tlvs(&[(0xAB, &[3]), (0xAD, b"no\x07 such name")]);
    let wire = ca.packet("/ca/CA/NEW", &refusal);
    let result = enrolment.on_new_reply(&Data::check(&wire).expect("well formed"));
    let text = "no such name".to_owned();
    assert_eq!(result, Err(CaError::Refused { code: 3, text }), "without control characters");
}

#[test]
fn encrypted_reply_with_wrong_tag_nonce_or_order_is_refused() {
    let (ca, site) = (Ca::new(), key("/ca/site"));
    let profile = ca.profile();
    let (mut enrolment, interest) = Enrolment::begin(&profile, &site, NOW_MS).expect("a request");
    let (reply, cipher) = ca.answer_new(&interest);
    let take = |enrolment: &mut Enrolment<'_>, content: &[u8]| {
        let wire = ca.packet("/ca/CA/CHALLENGE/x", content);
        enrolment.on_challenge_reply(&Data::check(&wire).expect("well formed"))
    };
    let first = seal(&cipher, iv(4), &pending());
    assert!(take(&mut enrolment, &first).is_err(), "no session yet");
    enrolment.on_new_reply(&Data::check(&reply).expect("well formed")).expect("accepted");
    for at in 0..first.len() {
        let mut changed = first.clone();
        changed[at] ^= 1;
        assert!(take(&mut enrolment, &changed).is_err(), "byte {at} changed");
        assert!(take(&mut enrolment, &first[..at]).is_err(), "cut at {at}");
    }
    let own = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &[7; 16]).expect("a key"));
    assert!(take(&mut enrolment, &seal(&own, iv(4), &pending())).is_err(), "another key");
    assert!(take(&mut enrolment, &first).is_ok(), "refusals change nothing");
    let replayed = CaError::Malformed("reply to CHALLENGE", "its IV was used before");
    assert_eq!(take(&mut enrolment, &first), Err(replayed.clone()), "replayed");
    assert_eq!(take(&mut enrolment, &seal(&cipher, iv(4), &pending())), Err(replayed.clone()));
    let mut other = iv(90);
    other[0] = 1;
    assert_eq!(take(&mut enrolment, &seal(&cipher, other, &pending())), Err(replayed));
    assert!(take(&mut enrolment, &seal(&cipher, iv(90), &pending())).is_ok());
}

#[test]
fn decrypted_nonsense_is_refused_and_texts_are_bounded() {
    let ca = Ca::new();
    let profile = ca.profile();
    let long = [b'x'; 4000];
    let parameters: Vec<(u32, &[u8])> =
        (0..40).map(|at| (if at % 2 == 0 { 0x85 } else { 0x87 }, &b"p"[..])).collect();
    for plain in [
        Vec::new(),
        vec![0x9B],
        tlvs(&[(0x9B, &[PENDING])]),
        tlvs(&[(0x9B, &[PENDING]), (0xA3, b"x"), (0xA5, &[1, 2, 3])]),
        tlvs(&[(0x9B, &[PENDING]), (0xA3, b"x"), (0xA5, &[1]), (0x85, b"alone")]),
        tlvs(&[(0x9B, &[PENDING]), (0xA3, b"x"), (0xA5, &[1]), (0x87, b"a"), (0x85, b"b")]),
        tlvs(&[(0x9B, &[99])]),
        tlvs(&[(0x9B, &[SUCCESS])]),
        tlvs(&[(0x9B, &[SUCCESS]), (0xA9, b"nonsense")]),
        tlvs(&[(0x9B, &[SUCCESS]), (0xA9, &[7, 2, 8, 9])]),
        tlvs(&parameters),
    ] {
        let result = take(&ca, &profile, &plain);
        assert!(matches!(result, Err(CaError::Malformed(..))), "{plain:?}: {result:?}");
    }
    assert_eq!(take(&ca, &profile, &tlvs(&[(0x9B, &[FAILURE])])), Err(CaError::ChallengeFailed));
    let plain = tlvs(&[(0x9B, &[PENDING]), (0xA3, &long), (0xA5, &[1])]);
    let state = take(&ca, &profile, &plain).expect("accepted");
    let ChallengeState::Pending { status, .. } = state else { panic!("{state:?}") };
    assert_eq!(status.len(), 512);
}
