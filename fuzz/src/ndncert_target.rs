//! The target for replies of a certificate authority, in a file of its own because it needs the
//! `trust` crate. Replayed by `crates/trust/tests/all/corpus.rs`.

use nw_trust::ndncert::{CaError, CaProfile, Enrolment};
use nw_trust::{Key, KeyKind, Validity, certificate};
use nw_wire::certificate::Certificate;
use nw_wire::tlv::push_tlv;
use nw_wire::{Data, DataBuilder};
use std::sync::OnceLock;

/// A time within the validity of the CA, milliseconds since 1970.
const NOW_MS: u64 = 1_800_000_000_000;

/// A CA and the key of a site.
struct Parties {
    ca: Key,
    certificate: Vec<u8>,
    site: Key,
}

fn parties() -> &'static Parties {
    static PARTIES: OnceLock<Parties> = OnceLock::new();
    PARTIES.get_or_init(|| {
        let key = |identity: &str| {
            let name: nw_name::Name = identity.parse().expect("a constant name");
            Key::generate(KeyKind::EcdsaP256, name.as_ref()).expect("a key")
        };
        let (ca, site) = (key("/ca"), key("/ca/site"));
        let validity = Validity { not_before_s: 0, not_after_s: 4_000_000_000 };
        let certificate = certificate::self_signed(&ca, 1, validity).expect("a certificate");
        Parties { ca, certificate, site }
    })
}

/// Returns a packet of the CA.
fn packet(ca: &Key, name: &str, content: &[u8]) -> Vec<u8> {
    let name: nw_name::Name = name.parse().expect("a constant name");
    DataBuilder::new(name.as_ref(), content).encode(ca).expect("signed")
}

/// Takes content signed by the CA. The first byte selects the reply: `p` a profile, `n` a reply to
/// NEW, all else a reply to CHALLENGE without a session.
pub fn ndncert(bytes: &[u8]) -> Result<(), &'static str> {
    let Some((kind, content)) = bytes.split_first() else { return Err("empty") };
    if content.len() > 8000 {
        return Err("long");
    }
    let Parties { ca, certificate, site } = parties();
    if *kind == b'p' {
        let wire = packet(ca, "/ca/CA/INFO/v=1/seg=0", content);
        let checked = CaProfile::check(&Data::check(&wire).expect("well formed"), certificate);
        return checked.map(drop).map_err(reason);
    }
    let mut profile = Vec::new();
    push_tlv(0x81, &[7, 4, 8, 2, b'c', b'a'], &mut profile);
    push_tlv(0x83, b"a CA", &mut profile);
    push_tlv(0x8B, &86_400u32.to_be_bytes(), &mut profile);
    push_tlv(0x89, certificate, &mut profile);
    assert!(Certificate::check(certificate).is_ok());
    let wire = packet(ca, "/ca/CA/INFO/v=1/seg=0", &profile);
    let data = Data::check(&wire).expect("well formed");
    let profile = CaProfile::check(&data, certificate).expect("a valid profile");
    let (mut enrolment, _) = Enrolment::begin(&profile, site, NOW_MS).expect("a request");
    if *kind == b'n' {
        let wire = packet(ca, "/ca/CA/NEW", content);
        let data = Data::check(&wire).expect("well formed");
        let challenges = enrolment.on_new_reply(&data).map_err(reason)?;
        assert!(challenges.len() <= 32 && challenges.iter().all(|text| text.len() <= 3 * 512));
        return enrolment.challenge("pin", &[], NOW_MS).map(drop).map_err(reason);
    }
    let wire = packet(ca, "/ca/CA/CHALLENGE/x", content);
    let data = Data::check(&wire).expect("well formed");
    enrolment.on_challenge_reply(&data).map(drop).map_err(reason)
}

fn reason(error: CaError) -> &'static str {
    match error {
        CaError::Malformed(..) => "malformed",
        CaError::Refused { .. } => "refused",
        CaError::OtherCertificate(_) => "other",
        _ => "error",
    }
}
