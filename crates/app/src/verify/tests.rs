use super::*;
use nw_trust::{Key, KeyKind, Validity};
use nw_wire::{DataBuilder, DigestSha256, Sign};

const VALIDITY: Validity = Validity { not_before_s: 0, not_after_s: 4_000_000_000 };

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

fn key(identity: &str) -> Key {
    Key::generate(KeyKind::Ed25519, name(identity).as_ref()).unwrap()
}

/// Returns a certificate of `key` signed by `issuer`.
fn certificate_of(key: &Key, issuer: &Key) -> Vec<u8> {
    if key.name() == issuer.name() {
        return certificate::self_signed(key, 1, VALIDITY).unwrap();
    }
    let own = certificate::self_signed(key, 1, VALIDITY).unwrap();
    let subject = nw_wire::certificate::Certificate::check(&own).unwrap();
    certificate::issue(
        subject.key_name(),
        subject.public_key(),
        nw_name::Component::generic(b"issuer"),
        issuer,
        1,
        VALIDITY,
    )
    .unwrap()
}

fn packet<S: Sign>(uri: &str, signer: &S) -> Vec<u8>
where
    S::Error: core::fmt::Debug,
{
    DataBuilder::new(&name(uri), b"the true content").encode(signer).unwrap()
}

/// Returns the packet with one byte of content changed.
fn changed(mut wire: Vec<u8>) -> Vec<u8> {
    let at = wire.windows(4).position(|four| four == b"true").unwrap();
    wire[at] ^= 1;
    wire
}

fn check(verifier: &mut Verifier, wire: &[u8]) -> Result<Verdict, InvalidData> {
    verifier.check(&Data::check(wire).unwrap())
}

#[test]
fn wrong_digest_always_rejected() {
    let mut verifier = Verifier::default();
    let good = packet("/f/seg=0", &DigestSha256);
    assert_eq!(check(&mut verifier, &good), Ok(Verdict::Accepted(Signer::Digest)));
    assert_eq!(check(&mut verifier, &changed(good)), Err(InvalidData::Digest));
    let mut zeros = packet("/f/seg=0", &DigestSha256);
    let end = zeros.len();
    zeros[end - 32..].fill(0);
    assert_eq!(check(&mut verifier, &zeros), Err(InvalidData::Digest));
    let named =
        name("/f").with(nw_name::Component::new(ComponentType::IMPLICIT_DIGEST, &[1; 32]).unwrap());
    let wire = DataBuilder::new(&named, b"").encode(&DigestSha256).unwrap();
    assert_eq!(check(&mut verifier, &wire), Err(InvalidData::Name));
}

#[test]
fn unknown_key_accepted_unless_trust_required() {
    let signed = packet("/f", &key("/unknown"));
    let mut verifier = Verifier::default();
    assert!(matches!(check(&mut verifier, &signed), Ok(Verdict::Accepted(Signer::Unverified(_)))));
    verifier.require_trusted();
    assert!(matches!(
        check(&mut verifier, &packet("/f", &DigestSha256)),
        Err(InvalidData::NotTrusted { .. })
    ));
    // Its certificate might lead to an anchor; if it is not received, the packet is rejected.
    let Ok(Verdict::NeedsCertificate(needed)) = check(&mut verifier, &signed) else {
        panic!("it names a key")
    };
    for _ in 0..CERTIFICATE_TRIES_MAX {
        verifier.add_certificate(&needed, None);
    }
    assert!(matches!(check(&mut verifier, &signed), Err(InvalidData::NotTrusted { .. })));
}

#[test]
fn known_key_verified_without_required_trust() {
    let alice = key("/alice");
    let mut verifier = Verifier::default();
    verifier.add_anchor(&certificate_of(&alice, &alice)).unwrap();
    let signed = packet("/alice/f", &alice);
    assert!(matches!(check(&mut verifier, &signed), Ok(Verdict::Accepted(Signer::Verified(_)))));
    assert!(matches!(check(&mut verifier, &changed(signed)), Err(InvalidData::Signature(_))));
}

#[test]
fn chain_from_signer_to_anchor_accepted() {
    let (site, alice, mallory) = (key("/site"), key("/site/alice"), key("/site/alice"));
    let mut verifier = Verifier::default();
    verifier.require_trusted();
    verifier.add_anchor(&certificate_of(&site, &site)).unwrap();
    for (signer, issuer, is_trusted) in [(&alice, &site, true), (&mallory, &mallory, false)] {
        let signed = packet("/site/alice/f", signer);
        let Ok(Verdict::NeedsCertificate(needed)) = check(&mut verifier, &signed) else {
            panic!("certificate is missing")
        };
        verifier.add_certificate(&needed, Some(&certificate_of(signer, issuer)));
        let verdict = check(&mut verifier, &signed);
        assert_eq!(
            matches!(verdict, Ok(Verdict::Accepted(Signer::Verified(_)))),
            is_trusted,
            "{verdict:?}"
        );
    }
}

#[test]
fn hmac_verified_by_shared_secret() {
    let mut verifier = Verifier::default();
    verifier.require_trusted();
    verifier.add_secret(Some(name("/shared")), b"secret");
    let signed = packet("/f", &Key::from_secret(name("/shared").as_ref(), b"secret"));
    assert!(matches!(check(&mut verifier, &signed), Ok(Verdict::Accepted(Signer::Verified(_)))));
    let other = packet("/f", &Key::from_secret(name("/shared").as_ref(), b"other"));
    assert!(matches!(check(&mut verifier, &other), Err(InvalidData::Signature(_))));
}

#[test]
fn trust_file_restricts_signers_to_names() {
    let folder = tempfile::tempdir().unwrap();
    let (site, alice) = (key("/site"), key("/site/alice"));
    fs::write(folder.path().join("site.cert"), certificate_of(&site, &site)).unwrap();
    let rules = folder.path().join("trust.toml");
    let text = "[[anchor]]\nid = \"site\"\nfile = \"site.cert\"\n\
                [[allow]]\nid = \"own\"\nanchors = [\"site\"]\nsigner = \"/site/<who>/KEY/<_>\"\nprefix = \"/site/<who>/<..>\"\n";
    fs::write(&rules, text).unwrap();
    let mut verifier = Verifier::default();
    verifier.require_trusted();
    verifier.add_trust_file(&rules).unwrap();
    let own = packet("/site/alice/f", &alice);
    let Ok(Verdict::NeedsCertificate(needed)) = check(&mut verifier, &own) else {
        panic!("certificate is missing")
    };
    verifier.add_certificate(&needed, Some(&certificate_of(&alice, &site)));
    assert!(matches!(check(&mut verifier, &own), Ok(Verdict::Accepted(Signer::Verified(_)))));
    let foreign = check(&mut verifier, &packet("/site/bob/f", &alice));
    assert!(
        matches!(&foreign, Err(InvalidData::NotTrusted { why, .. }) if why.contains("no rule")),
        "{foreign:?}"
    );
    fs::write(&rules, "[[allow]]\nid = \"x\"\n").unwrap();
    assert!(verifier.add_trust_file(&rules).unwrap_err().to_string().contains("anchors"));
}
