use super::*;
use crate::lab::{Lab, Left, as_nack, data as digest_signed, face, interest, name, ports};
use nw_trust::certificate::{issue, self_signed};
use nw_trust::key::freshness_fields;
use nw_trust::{Anchor, Key, KeyKind, Validity, VerifyKey};
use nw_wire::{DataBuilder, InterestBuilder, NackReason};
use proptest::prelude::*;

const VALIDITY: Validity = Validity { not_before_s: 1_700_000_000, not_after_s: 1_800_000_000 };
const NOW_MS: u64 = 1_750_000_000_000;

fn key(kind: KeyKind, identity: &str) -> Key {
    Key::generate(kind, name(identity).as_ref()).unwrap()
}

fn signed(uri: &str, key: &Key) -> Vec<u8> {
    DataBuilder::new(&name(uri), b"content").encode(key).unwrap()
}

/// One octet of the content is another one.
fn forged(uri: &str, key: &Key) -> Vec<u8> {
    let mut wire = signed(uri, key);
    let at = wire.windows(7).position(|octets| octets == b"content").unwrap();
    wire[at] ^= 1;
    wire
}

fn lab_with(config: SignatureVerifierConfig, trust: TrustConfig) -> Lab<SignatureVerifier> {
    let mut lab = Lab::with_packets(SignatureVerifier::new(config), 1024);
    lab.element.set_trust(trust);
    lab.element.set_clock(Instant::START, NOW_MS);
    lab.element.set_drop_invalid(false);
    lab
}

fn lab(trust: TrustConfig) -> Lab<SignatureVerifier> {
    lab_with(SignatureVerifierConfig::default(), trust)
}

fn knows(keys: &[&Key]) -> TrustConfig {
    let known = |key: &&Key| (key.name().to_name(), key.verify_key().unwrap());
    TrustConfig { keys: keys.iter().map(known).collect(), ..TrustConfig::default() }
}

fn give(lab: &mut Lab<SignatureVerifier>, wire: &[u8]) -> Vec<&'static str> {
    ports(&lab.give(In::Packet, wire, |meta| meta.ingress = face(300)))
}

fn faults(lab: &Lab<SignatureVerifier>) -> Vec<(String, Fault)> {
    lab.element.failures().map(|failure| (failure.name().to_string(), failure.fault)).collect()
}

#[test]
fn every_type_of_data_and_interest() {
    for kind in KeyKind::ALL {
        let (ours, theirs) = (key(kind, "/alice"), key(kind, "/alice"));
        let mut lab = lab(knows(&[&ours]));
        assert_eq!(give(&mut lab, &signed("/a/1", &ours)), ["valid"], "{kind:?}");
        assert_eq!(give(&mut lab, &forged("/a/2", &ours)), ["invalid"], "{kind:?}");
        assert_eq!(give(&mut lab, &signed("/a/3", &theirs)), ["invalid"], "{kind:?}");
        let command = |key: &Key| {
            let fields = freshness_fields(NOW_MS).unwrap();
            InterestBuilder::new(name("/a")).nonce(1).encode_signed(key, &fields).unwrap()
        };
        assert_eq!(give(&mut lab, &command(&ours)), ["valid"], "{kind:?}");
        assert_eq!(give(&mut lab, &command(&theirs)), ["invalid"], "{kind:?}");
        let faults: Vec<_> = faults(&lab).into_iter().map(|(_, fault)| fault).collect();
        assert_eq!(faults, [Fault::Mismatch, Fault::UnknownKey, Fault::UnknownKey], "{kind:?}");
        assert_eq!((lab.element.verified().valid, lab.element.verified().invalid), (2, 3));
    }
}

#[test]
fn a_digest_only_where_that_is_enough() {
    let mut lab = lab(TrustConfig::default());
    assert_eq!(give(&mut lab, &digest_signed("/a")), ["invalid"]);
    lab.element.set_trust(TrustConfig { accept_digest: true, ..TrustConfig::default() });
    assert_eq!(give(&mut lab, &digest_signed("/a")), ["valid"]);
    let mut wire = digest_signed("/a");
    *wire.last_mut().unwrap() ^= 1;
    assert_eq!(give(&mut lab, &wire), ["invalid"]);
    lab.element.set_drop_invalid(true);
    assert!(give(&mut lab, &wire).is_empty());
    assert_eq!(lab.drops.total(Cause::SignatureInvalid), 1);
    assert_eq!(lab.pool.packets_in_use(), 0);
}

#[test]
fn what_claims_nothing_passes() {
    let mut lab = lab(TrustConfig::default());
    assert_eq!(give(&mut lab, &interest("/a", 1)), ["valid"]);
    let nack = as_nack(NackReason::NoRoute);
    assert_eq!(ports(&lab.give(In::Packet, &interest("/a", 1), nack)), ["valid"]);
    assert_eq!(lab.element.verified(), Verified { unsigned: 2, ..Verified::default() });
}

#[test]
fn rules_tie_names_to_keys() {
    let (alice, bob) = (key(KeyKind::Ed25519, "/site/alice"), key(KeyKind::Ed25519, "/site/bob"));
    let rule = TrustRule {
        data: "/data/<who>/<..>".parse().unwrap(),
        signer: "/site/<who>/KEY/<_>".parse().unwrap(),
    };
    let mut lab = lab(TrustConfig { rules: vec![rule], ..knows(&[&alice, &bob]) });
    assert_eq!(give(&mut lab, &signed("/data/alice/1", &alice)), ["valid"]);
    assert_eq!(give(&mut lab, &signed("/data/alice/1", &bob)), ["invalid"]);
    assert_eq!(give(&mut lab, &signed("/other", &alice)), ["invalid"]);
    assert!(faults(&lab).iter().all(|(_, fault)| *fault == Fault::NotAllowed));
}

#[test]
fn chains_lead_to_anchors_and_certificates_are_taken_from_what_passes() {
    let (root, leaf) = (key(KeyKind::EcdsaP256, "/site"), key(KeyKind::Ed25519, "/site/alice"));
    let anchor = Anchor::of(&self_signed(&root, 1, VALIDITY).unwrap()).unwrap();
    let issuer = nw_name::Component::generic(b"site");
    let certificate = issue(leaf.name(), &leaf.public_key().unwrap(), issuer, &root, 1, VALIDITY).unwrap();
    let mut lab = lab(TrustConfig { anchors: vec![anchor], ..TrustConfig::default() });
    assert_eq!(give(&mut lab, &signed("/x/1", &leaf)), ["invalid"]);
    assert_eq!(faults(&lab), [("/x/1".to_owned(), Fault::CertificateMissing)]);
    assert_eq!(lab.element.wanted(), [leaf.name().to_name()]);
    assert_eq!(give(&mut lab, &certificate), ["valid"], "the anchor signed it");
    assert!(lab.element.wanted().is_empty());
    assert_eq!(give(&mut lab, &signed("/x/2", &leaf)), ["valid"]);
    assert_eq!(give(&mut lab, &forged("/x/3", &leaf)), ["invalid"]);
    // Once its time is over, at the next look.
    lab.element.set_clock(Instant::START, 1_900_000_000_000);
    lab.advance_ms(11_000);
    assert_eq!(give(&mut lab, &signed("/x/4", &leaf)), ["invalid"]);
    assert_eq!(faults(&lab).last().unwrap().1, Fault::BadChain);
    // The host's clock is set: what is valid then is valid.
    lab.element.wall_clock_set(Instant::START.plus_millis(11_000), NOW_MS);
    lab.advance_ms(11_000);
    assert_eq!(give(&mut lab, &signed("/x/5", &leaf)), ["valid"]);
    lab.element.set_follows_clock(false);
    lab.element.wall_clock_set(Instant::START.plus_millis(22_000), 1_900_000_000_000);
    lab.advance_ms(11_000);
    assert_eq!(give(&mut lab, &signed("/x/6", &leaf)), ["valid"], "a clock that was chosen stays");
}

#[test]
fn results_are_remembered_but_not_beyond_a_change_of_trust() {
    for kind in [KeyKind::EcdsaP256, KeyKind::Ed25519] {
        let ours = key(kind, "/alice");
        let (good, bad) = (signed("/a/1", &ours), forged("/a/1", &ours));
        let mut lab = lab(knows(&[&ours]));
        for _ in 0..4 {
            assert_eq!(give(&mut lab, &good), ["valid"]);
        }
        assert_eq!(lab.element.verified().from_results, 2, "the first is noted, the second remembered");
        // It has the same name and, but for an ECDSA one, the same signature.
        for _ in 0..4 {
            assert_eq!(give(&mut lab, &bad), ["invalid"]);
        }
        lab.element.set_trust(TrustConfig::default());
        assert_eq!(give(&mut lab, &good), ["invalid"]);
    }
}

#[test]
fn a_sample_is_checked() {
    let ours = key(KeyKind::Hmac, "/alice");
    let (good, bad) = (signed("/a/1", &ours), forged("/a/2", &ours));
    let run = |seed: u64, share: f64| {
        let config = SignatureVerifierConfig { seed, ..SignatureVerifierConfig::default() };
        let mut lab = lab_with(config, knows(&[&ours]));
        lab.element.set_sample(share);
        let found: Vec<bool> = (0..2000)
            .map(|turn| give(&mut lab, if turn % 2 == 0 { &bad } else { &good }) == ["invalid"])
            .collect();
        let verified = lab.element.verified();
        assert_eq!(verified.valid + verified.invalid + verified.skipped, 2000);
        (found, verified)
    };
    let (found, verified) = run(1, 0.1);
    assert!((150..250).contains(&(verified.valid + verified.invalid)), "{verified:?}");
    assert!((70..130).contains(&verified.invalid), "{verified:?}");
    assert_eq!(run(1, 0.1).0, found, "the same seed, the same draws");
    assert_ne!(run(2, 0.1).0, found);
    assert_eq!(run(1, 0.0).1.skipped, 2000);
    assert_eq!(run(1, 1.0).1.invalid, 1000);
}

#[test]
fn only_the_last_failures_are_kept() {
    let config = SignatureVerifierConfig { failures_max: 3, ..SignatureVerifierConfig::default() };
    let mut lab = lab_with(config, TrustConfig::default());
    for number in 0..8 {
        give(&mut lab, &digest_signed(&format!("/a/{number}")));
    }
    let names: Vec<_> = faults(&lab).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["/a/5", "/a/6", "/a/7"]);
    assert_eq!(lab.element.failures().next().unwrap().ingress, face(300));
}

/// What a host with threads does.
fn run_elsewhere(lab: &mut Lab<SignatureVerifier>) -> Vec<Left> {
    let mut jobs: Vec<Box<dyn Work>> = std::iter::from_fn(|| lab.element.take_work()).collect();
    std::thread::scope(|scope| jobs.iter_mut().for_each(|job| _ = scope.spawn(|| job.run())));
    // In any order.
    for job in jobs.into_iter().rev() {
        lab.with(|verifier, now, context| verifier.finish_work(now, job, context));
    }
    lab.left()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the host does with jobs: every packet leaves once, by the right port.
    #[test]
    fn jobs_lose_nothing(
        steps in proptest::collection::vec((0usize..40, any::<bool>(), 0u8..4), 1..200),
        held_max in 0usize..20,
        job_len in 1usize..6,
    ) {
        let ours = key(KeyKind::Ed25519, "/alice");
        let config = SignatureVerifierConfig { held_max, job_len, ..SignatureVerifierConfig::default() };
        let mut lab = lab_with(config, knows(&[&ours]));
        let (mut given, mut left) = (Vec::new(), Vec::new());
        for (number, is_good, then) in steps {
            let uri = format!("/{}/{number}", if is_good { "good" } else { "bad" });
            given.push(uri.clone());
            let wire = if is_good { signed(&uri, &ours) } else { forged(&uri, &ours) };
            left.extend(lab.give(In::Packet, &wire, |_| {}));
            prop_assert!(lab.element.held() <= held_max);
            match then {
                0 => left.extend(run_elsewhere(&mut lab)),
                1 => left.extend(lab.advance_ms(1)),
                _ => {}
            }
        }
        left.extend(lab.advance_ms(1));
        prop_assert_eq!((lab.element.held(), lab.pool.packets_in_use()), (0, 0));
        let mut names: Vec<String> = left.iter().map(|left| left.name.clone()).collect();
        for packet in &left {
            prop_assert_eq!(packet.port == "valid", packet.name.starts_with("/good"), "{}", packet.name);
        }
        names.sort();
        given.sort();
        prop_assert_eq!(names, given);
    }
}

/// A verifier of which other threads do all the work, of jobs of two.
fn lab_of_threads(trust: TrustConfig) -> Lab<SignatureVerifier> {
    let config = SignatureVerifierConfig { held_max: 100, job_len: 2, ..SignatureVerifierConfig::default() };
    lab_with(config, trust)
}

/// Signed Interests are signed in parts, and large packets lie in several chunks.
#[test]
fn threads_verify_where_the_packets_are() {
    let ours = key(KeyKind::EcdsaP256, "/alice");
    // Who has it says that it is ours.
    let forger = key(KeyKind::EcdsaP256, "/alice").located_at(ours.name());
    let mut lab = lab_of_threads(knows(&[&ours]));
    let (mut given, mut left) = (0, Vec::new());
    for number in 0..25u64 {
        let content = vec![number as u8; (number * 331) as usize];
        for (key, uri) in [(&ours, "/good"), (&forger, "/bad")] {
            let name = name(uri).with_segment(number);
            let fields = freshness_fields(NOW_MS).unwrap();
            let interest = InterestBuilder::new(name.clone()).nonce(1).parameters(&content[..]);
            let interest = interest.encode_signed(key, &fields).unwrap();
            for wire in [DataBuilder::new(&name, &content).encode(key).unwrap(), interest] {
                given += 1;
                left.extend(lab.give(In::Packet, &wire, |_| {}));
            }
        }
    }
    assert!(left.is_empty() && lab.pool.chunks_in_use() > 5);
    let left = run_elsewhere(&mut lab);
    assert_eq!(left.len(), given);
    assert!(left.iter().all(|left| (left.port == "valid") == left.name.starts_with("/good/")));
    assert_eq!((lab.pool.packets_in_use(), lab.pool.chunks_in_use()), (0, 1));
}

#[test]
fn what_threads_have_is_theirs_until_they_give_it_back() {
    let ours = key(KeyKind::Ed25519, "/alice");
    let mut lab = lab_of_threads(knows(&[&ours]));
    let wire = DataBuilder::new(&name("/a"), &[1; 8000]).encode(&ours).unwrap();
    for _ in 0..61 {
        assert!(give(&mut lab, &wire).is_empty());
    }
    assert_eq!(lab.pool.chunks_in_use(), 8);
    // Ten jobs are out, twenty are ready, a packet waits for a job to be full.
    let jobs: Vec<_> = (0..10).map(|_| lab.element.take_work().unwrap()).collect();
    lab.with(|verifier, _, context| verifier.give_up(context));
    assert_eq!((lab.drops.total(Cause::Draining), lab.pool.packets_in_use()), (61, 0));
    assert_eq!(lab.pool.chunks_in_use(), 4, "three are lent, one is written to");
    // One comes back, one is dropped by who has it, the others die with their threads.
    let mut jobs = jobs.into_iter();
    let (mut back, dropped) = (jobs.next().unwrap(), jobs.next().unwrap());
    back.run();
    lab.with(|verifier, now, context| verifier.finish_work(now, back, context));
    drop(dropped);
    for mut job in jobs {
        let died = std::thread::spawn(move || {
            job.run();
            panic!("a thread that dies with its work");
        });
        assert!(died.join().is_err());
    }
    assert!(lab.left().is_empty());
    let chunk = lab.pool.take_chunk().unwrap();
    lab.pool.release_chunk(chunk);
    assert_eq!(lab.pool.chunks_in_use(), 1, "that which packets made here are written to");
}

#[test]
fn a_key_is_found_by_its_digest_and_its_certificate_s_name() {
    let ours = key(KeyKind::EcdsaP256, "/alice");
    let by_certificate = ours.name().to_name().with_generic("self").with_version(1);
    let mut lab = lab(knows(&[&ours]));
    let der = ours.to_pkcs8().unwrap();
    let located = Key::from_pkcs8(ours.name(), &der).unwrap().located_at(by_certificate.as_ref());
    assert_eq!(give(&mut lab, &signed("/a", &located)), ["valid"]);
    let digest = VerifyKey::from_spki(&ours.public_key().unwrap()).unwrap().key_digest().unwrap();
    assert!(
        lab.element
            .trust
            .key(Instant::START, nw_wire::KeyLocator::Digest(&digest), name("/a").as_ref())
            .is_ok()
    );
    assert_eq!(
        lab.element
            .trust
            .key(Instant::START, nw_wire::KeyLocator::Digest(&[0; 32]), name("/a").as_ref())
            .unwrap_err(),
        Fault::UnknownKey
    );
}
