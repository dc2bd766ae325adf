use super::*;
use nw_testkit::bench::{
    Emitted, TestBench, as_nack, data as digest_signed, face, interest, name, ports,
};
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

/// Data with one changed byte in its content.
fn forged(uri: &str, key: &Key) -> Vec<u8> {
    let mut wire = signed(uri, key);
    let at = wire.windows(7).position(|bytes| bytes == b"content").unwrap();
    wire[at] ^= 1;
    wire
}

fn bench_with(config: SignatureVerifierConfig, trust: TrustConfig) -> TestBench<SignatureVerifier> {
    let mut bench = TestBench::with_packets(SignatureVerifier::new(config), 1024);
    bench.element.set_trust(trust);
    bench.element.set_clock(Timestamp::START, NOW_MS);
    bench.element.set_drop_invalid(false);
    bench
}

fn bench(trust: TrustConfig) -> TestBench<SignatureVerifier> {
    bench_with(SignatureVerifierConfig::default(), trust)
}

fn knows(keys: &[&Key]) -> TrustConfig {
    let known = |key: &&Key| (key.name().to_name(), key.verify_key().unwrap());
    TrustConfig { keys: keys.iter().map(known).collect(), ..TrustConfig::default() }
}

fn give(bench: &mut TestBench<SignatureVerifier>, wire: &[u8]) -> Vec<&'static str> {
    ports(&bench.process(In::Packet, wire, |meta| meta.ingress = face(300)))
}

fn faults(bench: &TestBench<SignatureVerifier>) -> Vec<(String, Fault)> {
    bench.element.failures().map(|failure| (failure.name().to_string(), failure.fault)).collect()
}

#[test]
fn every_signature_type_of_data_and_interest_is_verified() {
    for kind in KeyKind::ALL {
        let (ours, theirs) = (key(kind, "/alice"), key(kind, "/alice"));
        let mut bench = bench(knows(&[&ours]));
        assert_eq!(give(&mut bench, &signed("/a/1", &ours)), ["valid"], "{kind:?}");
        assert_eq!(give(&mut bench, &forged("/a/2", &ours)), ["invalid"], "{kind:?}");
        assert_eq!(give(&mut bench, &signed("/a/3", &theirs)), ["invalid"], "{kind:?}");
        let command = |key: &Key| {
            let fields = freshness_fields(NOW_MS).unwrap();
            InterestBuilder::new(name("/a")).nonce(1).encode_signed(key, &fields).unwrap()
        };
        assert_eq!(give(&mut bench, &command(&ours)), ["valid"], "{kind:?}");
        assert_eq!(give(&mut bench, &command(&theirs)), ["invalid"], "{kind:?}");
        let faults: Vec<_> = faults(&bench).into_iter().map(|(_, fault)| fault).collect();
        assert_eq!(faults, [Fault::Mismatch, Fault::UnknownKey, Fault::UnknownKey], "{kind:?}");
        assert_eq!((bench.element.counters().valid, bench.element.counters().invalid), (2, 3));
    }
}

#[test]
fn digest_passes_only_if_accepted() {
    let mut bench = bench(TrustConfig::default());
    assert_eq!(give(&mut bench, &digest_signed("/a")), ["invalid"]);
    bench.element.set_trust(TrustConfig { accept_digest: true, ..TrustConfig::default() });
    assert_eq!(give(&mut bench, &digest_signed("/a")), ["valid"]);
    let mut wire = digest_signed("/a");
    *wire.last_mut().unwrap() ^= 1;
    assert_eq!(give(&mut bench, &wire), ["invalid"]);
    bench.element.set_drop_invalid(true);
    assert!(give(&mut bench, &wire).is_empty());
    assert_eq!(bench.drops.total(DropCause::SignatureInvalid), 1);
    assert_eq!(bench.pool.packets_in_use(), 0);
}

#[test]
fn unsigned_interest_and_nack_pass() {
    let mut bench = bench(TrustConfig::default());
    assert_eq!(give(&mut bench, &interest("/a", 1)), ["valid"]);
    let nack = as_nack(NackReason::NoRoute);
    assert_eq!(ports(&bench.process(In::Packet, &interest("/a", 1), nack)), ["valid"]);
    assert_eq!(
        bench.element.counters(),
        VerifierCounters { unsigned: 2, ..VerifierCounters::default() }
    );
}

#[test]
fn trust_rule_ties_data_name_to_key_name() {
    let (alice, bob) = (key(KeyKind::Ed25519, "/site/alice"), key(KeyKind::Ed25519, "/site/bob"));
    let rule = TrustRule {
        data: "/data/<who>/<..>".parse().unwrap(),
        signer: "/site/<who>/KEY/<_>".parse().unwrap(),
    };
    let mut bench = bench(TrustConfig { rules: vec![rule], ..knows(&[&alice, &bob]) });
    assert_eq!(give(&mut bench, &signed("/data/alice/1", &alice)), ["valid"]);
    assert_eq!(give(&mut bench, &signed("/data/alice/1", &bob)), ["invalid"]);
    assert_eq!(give(&mut bench, &signed("/other", &alice)), ["invalid"]);
    assert!(faults(&bench).iter().all(|(_, fault)| *fault == Fault::NotAllowed));
}

#[test]
fn missing_certificate_is_learned_from_passing_data() {
    let (root, leaf) = (key(KeyKind::EcdsaP256, "/site"), key(KeyKind::Ed25519, "/site/alice"));
    let anchor = Anchor::from_certificate(&self_signed(&root, 1, VALIDITY).unwrap()).unwrap();
    let issuer = nw_name::Component::generic(b"site");
    let certificate =
        issue(leaf.name(), &leaf.public_key().unwrap(), issuer, &root, 1, VALIDITY).unwrap();
    let mut bench = bench(TrustConfig { anchors: vec![anchor], ..TrustConfig::default() });
    assert_eq!(give(&mut bench, &signed("/x/1", &leaf)), ["invalid"]);
    assert_eq!(faults(&bench), [("/x/1".to_owned(), Fault::CertificateMissing)]);
    assert_eq!(bench.element.missing_certificates(), [leaf.name().to_name()]);
    assert_eq!(give(&mut bench, &certificate), ["valid"], "the anchor signed it");
    assert!(bench.element.missing_certificates().is_empty());
    assert_eq!(give(&mut bench, &signed("/x/2", &leaf)), ["valid"]);
    assert_eq!(give(&mut bench, &forged("/x/3", &leaf)), ["invalid"]);
    // The certificate has expired, and the chain is validated again after 10 s.
    bench.element.set_clock(Timestamp::START, 1_900_000_000_000);
    bench.advance_ms(11_000);
    assert_eq!(give(&mut bench, &signed("/x/4", &leaf)), ["invalid"]);
    assert_eq!(faults(&bench).last().unwrap().1, Fault::BadChain);
    // The host's clock is set back: the certificate is valid again.
    bench.element.wall_clock_set(Timestamp::START.plus_millis(11_000), NOW_MS);
    bench.advance_ms(11_000);
    assert_eq!(give(&mut bench, &signed("/x/5", &leaf)), ["valid"]);
    bench.element.set_follow_host_clock(false);
    bench.element.wall_clock_set(Timestamp::START.plus_millis(22_000), 1_900_000_000_000);
    bench.advance_ms(11_000);
    assert_eq!(give(&mut bench, &signed("/x/6", &leaf)), ["valid"], "a configured clock stays");
}

#[test]
fn certificate_of_the_configuration_is_forgotten_when_it_is_taken_back() {
    let (root, leaf) = (key(KeyKind::EcdsaP256, "/site"), key(KeyKind::Ed25519, "/site/alice"));
    let anchor = Anchor::from_certificate(&self_signed(&root, 1, VALIDITY).unwrap()).unwrap();
    let issuer = nw_name::Component::generic(b"site");
    let certificate =
        issue(leaf.name(), &leaf.public_key().unwrap(), issuer, &root, 1, VALIDITY).unwrap();
    let mut bench = bench(TrustConfig { anchors: vec![anchor], ..TrustConfig::default() });
    assert_eq!(bench.element.set_certificates(&[b"none".to_vec()]).len(), 1);
    for _ in 0..2 {
        assert!(bench.element.set_certificates(core::slice::from_ref(&certificate)).is_empty());
        assert_eq!(give(&mut bench, &signed("/x/1", &leaf)), ["valid"]);
        assert!(bench.element.set_certificates(&[]).is_empty());
        assert_eq!(give(&mut bench, &signed("/x/1", &leaf)), ["invalid"]);
    }
}

#[test]
fn certificate_that_was_learned_proves_nothing_without_the_one_that_is_taken_back() {
    let (root, team) = (key(KeyKind::EcdsaP256, "/site"), key(KeyKind::Ed25519, "/site/team"));
    let leaf = key(KeyKind::Ed25519, "/site/team/alice");
    let anchor = Anchor::from_certificate(&self_signed(&root, 1, VALIDITY).unwrap()).unwrap();
    let certify = |key: &Key, by: &Key| {
        let issuer = nw_name::Component::generic(b"up");
        issue(key.name(), &key.public_key().unwrap(), issuer, by, 1, VALIDITY).unwrap()
    };
    let (configured, learned) = (certify(&team, &root), certify(&leaf, &team));
    let mut bench = bench(TrustConfig { anchors: vec![anchor], ..TrustConfig::default() });
    assert!(bench.element.set_certificates(&[configured]).is_empty());
    assert_eq!(give(&mut bench, &signed("/x/1", &leaf)), ["invalid"], "its certificate is missing");
    assert_eq!(give(&mut bench, &learned), ["valid"]);
    assert_eq!(give(&mut bench, &signed("/x/1", &leaf)), ["valid"]);
    assert!(bench.element.set_certificates(&[]).is_empty());
    assert_eq!(give(&mut bench, &signed("/x/1", &leaf)), ["invalid"]);
}

#[test]
fn results_are_remembered_until_trust_changes() {
    for kind in [KeyKind::EcdsaP256, KeyKind::Ed25519] {
        let ours = key(kind, "/alice");
        let (good, bad) = (signed("/a/1", &ours), forged("/a/1", &ours));
        let mut bench = bench(knows(&[&ours]));
        for _ in 0..4 {
            assert_eq!(give(&mut bench, &good), ["valid"]);
        }
        assert_eq!(
            bench.element.counters().from_results,
            2,
            "the first stores the fingerprint, the second the result"
        );
        // It has the same name and, except for ECDSA, the same signature.
        for _ in 0..4 {
            assert_eq!(give(&mut bench, &bad), ["invalid"]);
        }
        bench.element.set_trust(TrustConfig::default());
        assert_eq!(give(&mut bench, &good), ["invalid"]);
    }
}

#[test]
fn sample_checks_its_share_of_packets() {
    let ours = key(KeyKind::Hmac, "/alice");
    let (good, bad) = (signed("/a/1", &ours), forged("/a/2", &ours));
    let run = |seed: u64, share: f64| {
        let config = SignatureVerifierConfig { seed, ..SignatureVerifierConfig::default() };
        let mut bench = bench_with(config, knows(&[&ours]));
        bench.element.set_sample(share);
        let found: Vec<bool> = (0..2000)
            .map(|turn| give(&mut bench, if turn % 2 == 0 { &bad } else { &good }) == ["invalid"])
            .collect();
        let verified = bench.element.counters();
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
fn failures_list_keeps_the_last_ones() {
    let config = SignatureVerifierConfig { failures_max: 3, ..SignatureVerifierConfig::default() };
    let mut bench = bench_with(config, TrustConfig::default());
    for number in 0..8 {
        give(&mut bench, &digest_signed(&format!("/a/{number}")));
    }
    let names: Vec<_> = faults(&bench).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["/a/5", "/a/6", "/a/7"]);
    assert_eq!(bench.element.failures().next().unwrap().ingress, face(300));
}

#[test]
fn failures_of_a_name_with_valid_data_are_contested() {
    let trust = TrustConfig { accept_digest: true, ..TrustConfig::default() };
    let mut bench = bench_with(SignatureVerifierConfig::default(), trust);
    for name in ["/a/0", "/a/1"] {
        let mut fake = digest_signed(name);
        *fake.last_mut().unwrap() ^= 1;
        give(&mut bench, &fake);
    }
    give(&mut bench, &digest_signed("/a/1"));
    let found: Vec<_> = bench.element.failures().map(|failure| failure.is_contested).collect();
    assert_eq!(found, [false, true]);
}

/// Runs all jobs on other threads.
fn run_elsewhere(bench: &mut TestBench<SignatureVerifier>) -> Vec<Emitted> {
    let mut jobs: Vec<Box<dyn OffloadTask>> =
        std::iter::from_fn(|| bench.element.take_task()).collect();
    std::thread::scope(|scope| jobs.iter_mut().for_each(|job| _ = scope.spawn(|| job.run())));
    // Completed in reverse order.
    for job in jobs.into_iter().rev() {
        bench.with(|verifier, now, context| verifier.complete_task(now, job, context));
    }
    bench.emitted()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 30,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever the host does with jobs, every packet leaves once, by the right port.
    #[test]
    fn jobs_in_any_order_lose_no_packet(
        steps in proptest::collection::vec((0usize..40, any::<bool>(), 0u8..4), 1..200),
        queue_max in 0usize..20,
        job_len in 1usize..6,
    ) {
        let ours = key(KeyKind::Ed25519, "/alice");
        let config = SignatureVerifierConfig { queue_max, job_len, ..SignatureVerifierConfig::default() };
        let mut bench = bench_with(config, knows(&[&ours]));
        let (mut given, mut emitted) = (Vec::new(), Vec::new());
        for (number, is_good, then) in steps {
            let uri = format!("/{}/{number}", if is_good { "good" } else { "bad" });
            given.push(uri.clone());
            let wire = if is_good { signed(&uri, &ours) } else { forged(&uri, &ours) };
            emitted.extend(bench.process(In::Packet, &wire, |_| {}));
            prop_assert!(bench.element.held() <= queue_max);
            match then {
                0 => emitted.extend(run_elsewhere(&mut bench)),
                1 => emitted.extend(bench.advance_ms(1)),
                _ => {}
            }
        }
        emitted.extend(bench.advance_ms(1));
        prop_assert_eq!((bench.element.held(), bench.pool.packets_in_use()), (0, 0));
        let mut names: Vec<String> = emitted.iter().map(|emitted| emitted.name.clone()).collect();
        for packet in &emitted {
            prop_assert_eq!(packet.port == "valid", packet.name.starts_with("/good"), "{}", packet.name);
        }
        names.sort();
        given.sort();
        prop_assert_eq!(names, given);
    }
}

/// A verifier whose packets are all verified by other threads, in jobs of two.
fn bench_with_threads(trust: TrustConfig) -> TestBench<SignatureVerifier> {
    let config = SignatureVerifierConfig {
        queue_max: 100,
        job_len: 2,
        ..SignatureVerifierConfig::default()
    };
    bench_with(config, trust)
}

/// Signed Interests are signed in parts, and large packets are in several chunks.
#[test]
fn jobs_verify_leased_bytes() {
    let ours = key(KeyKind::EcdsaP256, "/alice");
    // Its KeyLocator names our key.
    let forger = key(KeyKind::EcdsaP256, "/alice").with_key_locator(ours.name());
    let mut bench = bench_with_threads(knows(&[&ours]));
    let (mut given, mut emitted) = (0, Vec::new());
    for number in 0..25u64 {
        let content = vec![number as u8; (number * 331) as usize];
        for (key, uri) in [(&ours, "/good"), (&forger, "/bad")] {
            let name = name(uri).with_segment(number);
            let fields = freshness_fields(NOW_MS).unwrap();
            let interest = InterestBuilder::new(name.clone()).nonce(1).parameters(&content[..]);
            let interest = interest.encode_signed(key, &fields).unwrap();
            for wire in [DataBuilder::new(&name, &content).encode(key).unwrap(), interest] {
                given += 1;
                emitted.extend(bench.process(In::Packet, &wire, |_| {}));
            }
        }
    }
    assert!(emitted.is_empty() && bench.pool.chunks_in_use() > 5);
    let emitted = run_elsewhere(&mut bench);
    assert_eq!(emitted.len(), given);
    assert!(
        emitted
            .iter()
            .all(|emitted| (emitted.port == "valid") == emitted.name.starts_with("/good/"))
    );
    assert_eq!((bench.pool.packets_in_use(), bench.pool.chunks_in_use()), (0, 1));
}

#[test]
fn removed_element_leaves_leases_to_running_jobs() {
    let ours = key(KeyKind::Ed25519, "/alice");
    let mut bench = bench_with_threads(knows(&[&ours]));
    let wire = DataBuilder::new(&name("/a"), &[1; 8000]).encode(&ours).unwrap();
    for _ in 0..61 {
        assert!(give(&mut bench, &wire).is_empty());
    }
    assert_eq!(bench.pool.chunks_in_use(), 8);
    // 10 jobs are taken, 20 are ready, and one packet is in a job not full yet.
    let jobs: Vec<_> = (0..10).map(|_| bench.element.take_task().unwrap()).collect();
    bench.with(|verifier, _, context| verifier.drop_held(context));
    assert_eq!((bench.drops.total(DropCause::Draining), bench.pool.packets_in_use()), (61, 0));
    assert_eq!(bench.pool.chunks_in_use(), 4, "three are erased, one is written to");
    // One job is completed, one is dropped, the others are lost with their threads.
    let mut jobs = jobs.into_iter();
    let (mut back, dropped) = (jobs.next().unwrap(), jobs.next().unwrap());
    back.run();
    bench.with(|verifier, now, context| verifier.complete_task(now, back, context));
    drop(dropped);
    for mut job in jobs {
        let died = std::thread::spawn(move || {
            job.run();
            panic!("a thread that dies with its work");
        });
        assert!(died.join().is_err());
    }
    assert!(bench.emitted().is_empty());
    let chunk = bench.pool.take_chunk().unwrap();
    bench.pool.release_chunk(chunk);
    assert_eq!(bench.pool.chunks_in_use(), 1, "the one being written");
}

#[test]
fn key_is_found_by_digest_and_certificate_name() {
    let ours = key(KeyKind::EcdsaP256, "/alice");
    let by_certificate = ours.name().to_name().with_generic("self").with_version(1);
    let mut bench = bench(knows(&[&ours]));
    let der = ours.to_pkcs8().unwrap();
    let located =
        Key::from_pkcs8(ours.name(), &der).unwrap().with_key_locator(by_certificate.as_ref());
    assert_eq!(give(&mut bench, &signed("/a", &located)), ["valid"]);
    let digest = VerifyKey::from_spki(&ours.public_key().unwrap()).unwrap().key_digest().unwrap();
    assert!(
        bench
            .element
            .trust
            .key(Timestamp::START, nw_wire::KeyLocator::Digest(&digest), name("/a").as_ref())
            .is_ok()
    );
    assert_eq!(
        bench
            .element
            .trust
            .key(Timestamp::START, nw_wire::KeyLocator::Digest(&[0; 32]), name("/a").as_ref())
            .unwrap_err(),
        Fault::UnknownKey
    );
}
