//! Named rules, certificate chains, and fetching of certificates.

use nw_name::{Component, Name};
use nw_trust::certificate::{issue, self_signed};
use nw_trust::chain::{CERTIFICATES_MAX, DEPTH_MAX};
use nw_trust::fetch::{FAILED_MS, FETCH_MS, FETCHES_MAX, WAITING_MAX, WAITING_PER_FACE_MAX};
use nw_trust::key::freshness_fields;
use nw_trust::{
    AllowFrom, AllowRule, Anchor, Authority, AuthorizationRequest, Clocks, CommandRules, Decision,
    FaceScope, IssuerRule, Key, KeyKind, PeerGroup, Privilege, Refusal, Requester, Rules, Signer,
    Validity,
};
use nw_wire::{Data, DataBuilder, Interest, InterestBuilder, Sign};
use proptest::prelude::*;

const NOW_MS: u64 = 1_750_000_000_000;
const NOW_S: u64 = NOW_MS / 1000;
const VALID: Validity = Validity { not_before_s: NOW_S - 1000, not_after_s: NOW_S + 1000 };
const FACE: u64 = 300;

/// Both clocks at the same time, for all tests but the one about their difference.
const fn at(ms: u64) -> Clocks {
    Clocks { elapsed_ms: ms, unix_ms: ms }
}

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

fn key(identity: &str) -> Key {
    Key::generate(KeyKind::Ed25519, name(identity).as_ref()).unwrap()
}

/// Returns a key that has its certificate's name as KeyLocator, and that certificate.
fn certified(identity: &str, issuer: &Key, validity: Validity) -> (Key, Vec<u8>) {
    let key = key(identity);
    let wire = certificate_for(&key, issuer, validity);
    let locator = Data::check(&wire).unwrap().name().to_name();
    (key.with_key_locator(locator.as_ref()), wire)
}

fn certificate_for(key: &Key, issuer: &Key, validity: Validity) -> Vec<u8> {
    issue(key.name(), &key.public_key().unwrap(), Component::generic(b"up"), issuer, 1, validity)
        .unwrap()
}

fn anchor(key: &Key) -> Anchor {
    Anchor::from_certificate(&self_signed(key, 1, VALID).unwrap()).unwrap()
}

fn strict() -> CommandRules {
    CommandRules {
        digest: AllowFrom::Nowhere,
        unknown_key: AllowFrom::Nowhere,
        ..CommandRules::default()
    }
}

fn rule(signer: &str, prefix: &str) -> AllowRule {
    AllowRule {
        id: "test".into(),
        scope: FaceScope::Both,
        anchors: Some(1),
        signer: Some(signer.parse().unwrap()),
        privileges: [Privilege::Rib].into_iter().collect(),
        prefix: prefix.parse().unwrap(),
    }
}

fn authority(root: &Key) -> Authority {
    Authority::new(Rules {
        basic: strict(),
        allow: vec![rule("/site/<user>/KEY/<_>", "/site/<user>/<..>")],
        anchors: vec![(1, anchor(root))],
        ..Rules::default()
    })
}

fn command<S: Sign<Error: std::fmt::Debug>>(signer: &S, time_ms: u64) -> Vec<u8> {
    let fields = freshness_fields(time_ms).unwrap();
    let builder = InterestBuilder::new(name("/localhop/nfd/rib/register/x")).nonce(1);
    builder.encode_signed(signer, &fields).unwrap()
}

fn present_at(authority: &mut Authority, wire: &[u8], prefix: &str, now_ms: u64) -> Decision {
    let interest = Interest::check(wire).unwrap();
    let prefix = name(prefix);
    let request = AuthorizationRequest {
        interest: &interest,
        requester: Requester {
            face: FACE,
            local: false,
            peer: PeerGroup::Face(FACE),
            prefix: Some(prefix.as_ref()),
        },
    };
    authority.check_command(request, "rib", at(now_ms))
}

fn present(authority: &mut Authority, wire: &[u8], prefix: &str) -> Decision {
    present_at(authority, wire, prefix, NOW_MS)
}

/// Answers all certificate requests from `certificates`, and returns the number of requests.
fn serve(authority: &mut Authority, certificates: &[&Vec<u8>]) -> usize {
    let mut count = 0;
    while let Some(request) = authority.next_request() {
        if request.face.is_none() {
            count += 1;
            let fits = |wire: &&&Vec<u8>| {
                request.name.as_ref().is_prefix_of(Data::check(wire).unwrap().name())
            };
            if let Some(wire) = certificates.iter().find(fits) {
                authority.on_data(&Data::check(wire).unwrap(), wire, NOW_MS);
            }
        }
    }
    count
}

/// Presents a command, serves the certificates and presents it again, as a host does.
fn decide(
    authority: &mut Authority,
    wire: &[u8],
    prefix: &str,
    certificates: &[&Vec<u8>],
) -> Decision {
    let mut decision = present(authority, wire, prefix);
    while decision == Decision::Later {
        serve(authority, certificates);
        let Some(ready) = authority.next_ready() else { return Decision::Later };
        assert_eq!((ready.interest.as_slice(), ready.face, ready.local), (wire, FACE, false));
        decision = present(authority, &ready.interest, prefix);
    }
    decision
}

#[test]
fn certificate_chain_is_fetched_up_to_the_anchor() {
    let root = key("/site");
    let (alice, certificate) = certified("/site/alice", &root, VALID);
    let mut authority = authority(&root);
    let wire = command(&alice, NOW_MS);
    assert_eq!(present(&mut authority, &wire, "/site/alice/files"), Decision::Later);
    let (network, direct) = (authority.next_request().unwrap(), authority.next_request().unwrap());
    assert_eq!(network.name, Data::check(&certificate).unwrap().name().to_name());
    assert_eq!((network.face, direct.face, authority.next_request()), (None, Some(FACE), None));
    assert_eq!(authority.next_ready(), None);
    authority.on_data(&Data::check(&certificate).unwrap(), &certificate, NOW_MS);
    let ready = authority.next_ready().unwrap();
    assert_eq!(present(&mut authority, &ready.interest, "/site/alice/files"), Decision::Accept);
    assert_eq!(
        present(&mut authority, &wire, "/site/alice/files"),
        Decision::Refuse(Refusal::Replayed)
    );
    // Cached from now on, but only for the signer's own prefix.
    let next = command(&alice, NOW_MS + 1);
    assert_eq!(present(&mut authority, &next, "/site/bob"), Decision::Refuse(Refusal::NotAllowed));
    assert_eq!(present(&mut authority, &next, "/site/alice"), Decision::Accept);
    assert_eq!(authority.sizes(), (1, 0, 0));
}

#[test]
fn command_outside_rules_is_refused_without_fetching() {
    let root = key("/site");
    let (alice, _) = certified("/site/alice", &root, VALID);
    let mut authority = authority(&root);
    let wire = command(&alice, NOW_MS);
    let interest = Interest::check(&wire).unwrap();
    let request = AuthorizationRequest {
        interest: &interest,
        requester: Requester {
            face: FACE,
            local: false,
            peer: PeerGroup::Face(FACE),
            prefix: None,
        },
    };
    let refused = authority.check_command(request, "faces", at(NOW_MS));
    assert_eq!(
        refused,
        Decision::Refuse(Refusal::UnknownKey),
        "no rule covers faces, so nothing is fetched"
    );
    assert_eq!(authority.next_request(), None);
    let wire = command(&Signer::Digest, NOW_MS);
    assert_eq!(
        present(&mut authority, &wire, "/site/alice"),
        Decision::Refuse(Refusal::DigestNotEnough)
    );
    let stale = command(&alice, NOW_MS - 1_000_000);
    assert_eq!(
        present(&mut authority, &stale, "/site/alice"),
        Decision::Refuse(Refusal::Stale { off_ms: 1_000_000, limit_ms: 120_000 })
    );
    assert_eq!(authority.next_request(), None, "nothing is fetched for a stale command");
}

#[test]
fn anchor_key_may_command_where_a_rule_matches() {
    let root = key("/site");
    let mut authority = authority(&root);
    assert_eq!(
        present(&mut authority, &command(&root, NOW_MS), "/site"),
        Decision::Refuse(Refusal::NotAllowed)
    );
    let rules = Rules {
        basic: strict(),
        allow: vec![rule("/<..>", "/<..>")],
        anchors: vec![(1, anchor(&root))],
        ..Rules::default()
    };
    authority.reconfigure(rules);
    assert_eq!(present(&mut authority, &command(&root, NOW_MS), "/any"), Decision::Accept);
    let stranger = Key::generate(KeyKind::EcdsaP256, name("/site").as_ref()).unwrap();
    let forged = stranger.with_key_locator(root.name());
    let refusal = present(&mut authority, &command(&forged, NOW_MS), "/any");
    assert_eq!(
        refusal,
        Decision::Refuse(Refusal::BadSignature),
        "a key of another type under the anchor's name"
    );
    let late =
        present_at(&mut authority, &command(&root, NOW_MS + 2_000_000), "/any", NOW_MS + 2_000_000);
    assert_eq!(
        late,
        Decision::Refuse(Refusal::CertificateOutsideValidity),
        "anchors expire as well"
    );
}

#[test]
fn certificate_outside_validity_is_refused() {
    let root = key("/site");
    for (from, to) in [(NOW_S - 100, NOW_S - 1), (NOW_S + 1, NOW_S + 100)] {
        let (alice, wire) =
            certified("/site/alice", &root, Validity { not_before_s: from, not_after_s: to });
        let mut authority = authority(&root);
        let decision = decide(&mut authority, &command(&alice, NOW_MS), "/site/alice", &[&wire]);
        assert_eq!(decision, Decision::Refuse(Refusal::CertificateOutsideValidity));
    }
    // A cached validation does not outlive the certificate.
    let until = Validity { not_before_s: NOW_S - 100, not_after_s: NOW_S + 10 };
    let (alice, wire) = certified("/site/alice", &root, until);
    let mut authority = authority(&root);
    assert_eq!(
        decide(&mut authority, &command(&alice, NOW_MS), "/site/alice", &[&wire]),
        Decision::Accept
    );
    let later = NOW_MS + 11_000;
    let decision = present_at(&mut authority, &command(&alice, later), "/site/alice", later);
    assert_eq!(decision, Decision::Refuse(Refusal::CertificateOutsideValidity));
}

#[test]
fn forged_certificate_is_removed_and_not_fetched_again_at_once() {
    let root = key("/site");
    let impostor = Key::generate(KeyKind::Ed25519, name("/site").as_ref())
        .unwrap()
        .with_key_locator(root.name());
    let (alice, forged) = certified("/site/alice", &impostor, VALID);
    let mut authority = authority(&root);
    let decision = decide(&mut authority, &command(&alice, NOW_MS), "/site/alice", &[&forged]);
    assert_eq!(decision, Decision::Refuse(Refusal::BadCertificate));
    assert_eq!(authority.sizes().0, 0);
    let again = present(&mut authority, &command(&alice, NOW_MS + 1), "/site/alice");
    assert_eq!(again, Decision::Refuse(Refusal::CertificateMissing));
    let later = NOW_MS + FAILED_MS + 1;
    assert_eq!(
        present_at(&mut authority, &command(&alice, later), "/site/alice", later),
        Decision::Later
    );
    // Other faces are not affected.
    let (wire, own) = (command(&alice, NOW_MS + 2), name("/site/alice"));
    let interest = Interest::check(&wire).unwrap();
    let request = AuthorizationRequest {
        interest: &interest,
        requester: Requester {
            face: FACE + 1,
            local: false,
            peer: PeerGroup::Face(FACE + 1),
            prefix: Some(own.as_ref()),
        },
    };
    assert_eq!(authority.check_command(request, "rib", at(NOW_MS)), Decision::Later);
    let faces: Vec<_> =
        std::iter::from_fn(|| authority.next_request()).map(|request| request.face).collect();
    assert_eq!(faces, [None, Some(FACE), Some(FACE + 1)], "each requester's face is asked as well");
}

#[test]
fn malformed_certificate_counts_as_missing() {
    let root = key("/site");
    let (alice, certificate) = certified("/site/alice", &root, VALID);
    let wrong = Data::check(&certificate).unwrap().name().to_name();
    let blob = DataBuilder::new(&wrong, b"not a key").encode(&root).unwrap();
    let mut authority = authority(&root);
    let decision = decide(&mut authority, &command(&alice, NOW_MS), "/site/alice", &[&blob]);
    assert_eq!(decision, Decision::Refuse(Refusal::CertificateMissing));
}

#[test]
fn chain_up_to_depth_max_is_accepted_and_longer_refused() {
    for length in [1, 2, DEPTH_MAX, DEPTH_MAX + 1] {
        let root = key("/site");
        let mut certificates = Vec::new();
        let (mut issuer, mut identity) = (root, "/site".to_owned());
        let anchor = anchor(&issuer);
        for _ in 0..length {
            identity.push_str("/x");
            let (next, wire) = certified(&identity, &issuer, VALID);
            certificates.push(wire);
            issuer = next;
        }
        let rules = Rules {
            basic: strict(),
            allow: vec![rule("/<..>", "/<..>")],
            anchors: vec![(1, anchor)],
            ..Rules::default()
        };
        let mut authority = Authority::new(rules);
        let all: Vec<&Vec<u8>> = certificates.iter().collect();
        let decision = decide(&mut authority, &command(&issuer, NOW_MS), "/any", &all);
        let expected = if length > DEPTH_MAX {
            Decision::Refuse(Refusal::ChainTooDeep)
        } else {
            Decision::Accept
        };
        assert_eq!(decision, expected, "{length}");
    }
}

#[test]
fn chain_with_a_loop_is_refused() {
    // A self-signed key that is not an anchor.
    let root = key("/site");
    let alice = key("/site/alice");
    let wire = self_signed(&alice, 1, VALID).unwrap();
    let mut self_loop = authority(&root);
    let decision = decide(&mut self_loop, &command(&alice, NOW_MS), "/site/alice", &[&wire]);
    assert_eq!(decision, Decision::Refuse(Refusal::ChainLoop));
    // Two keys of one identity that certify each other.
    let second_key = key("/site/alice");
    let first = certificate_for(&alice, &second_key, VALID);
    let second = certificate_for(&second_key, &alice, VALID);
    let mut mutual_loop = authority(&root);
    let decision =
        decide(&mut mutual_loop, &command(&alice, NOW_MS), "/site/alice", &[&first, &second]);
    assert_eq!(decision, Decision::Refuse(Refusal::ChainLoop));
}

#[test]
fn issuer_rules_replace_the_hierarchical_default() {
    let root = key("/site");
    // Without rules: an issuer may only certify names below its identity.
    let (bob, bobs) = certified("/site/bob", &root, VALID);
    let (alice, alices) = certified("/site/alice", &bob, VALID);
    let mut authority = authority(&root);
    let decision =
        decide(&mut authority, &command(&alice, NOW_MS), "/site/alice", &[&alices, &bobs]);
    assert_eq!(decision, Decision::Refuse(Refusal::IssuerNotAllowed));
    // With rules: only what they allow.
    let issuer_rule = |certificate: &str, signer: &str| IssuerRule {
        certificate: certificate.parse().unwrap(),
        signer: signer.parse().unwrap(),
    };
    let rules = |issuer_rules| Rules {
        basic: strict(),
        allow: vec![rule("/site/<user>/KEY/<_>", "/site/<user>/<..>")],
        anchors: vec![(1, anchor(&root))],
        issuer_rules,
        ..Rules::default()
    };
    authority.reconfigure(rules(vec![
        issuer_rule("/site/<_>/KEY/<_>", "/site/bob/KEY/<_>"),
        issuer_rule("/site/bob/KEY/<_>", "/site/KEY/<_>"),
    ]));
    let decision =
        decide(&mut authority, &command(&alice, NOW_MS), "/site/alice", &[&alices, &bobs]);
    assert_eq!(decision, Decision::Accept);
    authority.reconfigure(rules(vec![issuer_rule("/site/<_>/KEY/<_>", "/site/carol/KEY/<_>")]));
    let decision =
        decide(&mut authority, &command(&alice, NOW_MS + 1), "/site/alice", &[&alices, &bobs]);
    assert_eq!(decision, Decision::Refuse(Refusal::IssuerNotAllowed), "chains are validated again");
}

#[test]
fn anchor_sets_are_separate() {
    let (site, lab) = (key("/site"), key("/lab"));
    let mut of_lab = rule("/<..>", "/<..>");
    of_lab.anchors = Some(2);
    of_lab.privileges = [Privilege::Faces].into_iter().collect();
    let rules = Rules {
        basic: strict(),
        allow: vec![rule("/<..>", "/<..>"), of_lab],
        anchors: vec![(1, anchor(&site)), (2, anchor(&lab))],
        ..Rules::default()
    };
    let mut authority = Authority::new(rules);
    let (alice, certificate) = certified("/site/alice", &site, VALID);
    assert_eq!(
        decide(&mut authority, &command(&alice, NOW_MS), "/x", &[&certificate]),
        Decision::Accept
    );
    let wire = command(&alice, NOW_MS + 1);
    let interest = Interest::check(&wire).unwrap();
    let request = AuthorizationRequest {
        interest: &interest,
        requester: Requester {
            face: FACE,
            local: false,
            peer: PeerGroup::Face(FACE),
            prefix: None,
        },
    };
    // Validated for the site's anchors, not for the lab's: the issuer's certificate is fetched.
    assert_eq!(authority.check_command(request, "faces", at(NOW_MS)), Decision::Later);
}

#[test]
fn rule_without_signer_accepts_any_signer_on_its_faces() {
    let mut rule = rule("/<..>", "/open/<..>");
    (rule.anchors, rule.signer, rule.scope) = (None, None, FaceScope::Local);
    let mut authority =
        Authority::new(Rules { basic: strict(), allow: vec![rule], ..Rules::default() });
    let wire = command(&Signer::Digest, NOW_MS);
    let interest = Interest::check(&wire).unwrap();
    let (open, closed) = (name("/open/x"), name("/closed"));
    let request = |prefix, local| AuthorizationRequest {
        interest: &interest,
        requester: Requester {
            face: FACE,
            local,
            peer: PeerGroup::Face(FACE),
            prefix: Some(prefix),
        },
    };
    assert_eq!(
        authority.check_command(request(open.as_ref(), true), "rib", at(NOW_MS)),
        Decision::Accept
    );
    let refused = Decision::Refuse(Refusal::NotAllowed);
    assert_eq!(authority.check_command(request(closed.as_ref(), true), "rib", at(NOW_MS)), refused);
    let refused = Decision::Refuse(Refusal::DigestNotEnough);
    assert_eq!(authority.check_command(request(open.as_ref(), false), "rib", at(NOW_MS)), refused);
}

#[test]
fn announcement_needs_the_announce_privilege() {
    let root = key("/site");
    let (alice, certificate) = certified("/site/alice", &root, VALID);
    let mut may = rule("/site/<user>/KEY/<_>", "/site/<user>/<..>");
    may.privileges = [Privilege::Announce].into_iter().collect();
    let rules = Rules {
        basic: strict(),
        allow: vec![may],
        anchors: vec![(1, anchor(&root))],
        ..Rules::default()
    };
    let mut authority = Authority::new(rules);
    let announcement =
        DataBuilder::new(&name("/site/alice/32=PA/v=1/seg=0"), b"x").encode(&alice).unwrap();
    let data = Data::check(&announcement).unwrap();
    let wire = InterestBuilder::new(name("/localhop/nfd/rib/announce")).nonce(1).encode();
    let interest = Interest::check(&wire).unwrap();
    let (own, others) = (name("/site/alice"), name("/site/bob"));
    let request = |prefix| AuthorizationRequest {
        interest: &interest,
        requester: Requester {
            face: FACE,
            local: false,
            peer: PeerGroup::Face(FACE),
            prefix: Some(prefix),
        },
    };
    assert_eq!(
        authority.check_announcement(&data, request(own.as_ref()), at(NOW_MS)),
        Decision::Later
    );
    serve(&mut authority, &[&certificate]);
    assert!(authority.next_ready().is_some());
    assert_eq!(
        authority.check_announcement(&data, request(own.as_ref()), at(NOW_MS)),
        Decision::Accept
    );
    assert_eq!(
        authority.check_announcement(&data, request(own.as_ref()), at(NOW_MS)),
        Decision::Accept,
        "no replay"
    );
    let refused = Decision::Refuse(Refusal::NotAllowed);
    assert_eq!(authority.check_announcement(&data, request(others.as_ref()), at(NOW_MS)), refused);
}

#[test]
fn missing_certificate_times_out() {
    let root = key("/site");
    let (alice, _) = certified("/site/alice", &root, VALID);
    let mut authority = authority(&root);
    assert_eq!(authority.next_timeout_ms(), None);
    let wire = command(&alice, NOW_MS);
    assert_eq!(present(&mut authority, &wire, "/site/alice"), Decision::Later);
    // A command with a longer lifetime is refused; the expired one is dropped.
    let fields = freshness_fields(NOW_MS).unwrap();
    let patient = InterestBuilder::new(name("/localhop/nfd/rib/register/y")).lifetime_ms(9000);
    let patient = patient.encode_signed(&alice, &fields).unwrap();
    assert_eq!(present(&mut authority, &patient, "/site/alice"), Decision::Later);
    assert_eq!(authority.sizes(), (0, 1, 2));
    assert_eq!(authority.next_timeout_ms(), Some(NOW_MS + FETCH_MS));
    authority.on_timeout(NOW_MS + FETCH_MS - 1);
    assert_eq!(authority.sizes(), (0, 1, 2));
    authority.on_timeout(NOW_MS + FETCH_MS);
    assert_eq!(authority.sizes(), (0, 0, 0));
    let ready = authority.next_ready().unwrap();
    assert_eq!((ready.interest.as_slice(), authority.next_ready()), (patient.as_slice(), None));
    let decision = present_at(&mut authority, &patient, "/site/alice", NOW_MS + FETCH_MS);
    assert_eq!(decision, Decision::Refuse(Refusal::CertificateMissing));
    assert_eq!(authority.next_timeout_ms(), None);
}

#[test]
fn face_with_too_many_waiting_commands_is_refused() {
    let root = key("/site");
    let mut authority = authority(&root);
    let flood: Vec<Key> =
        (0..=WAITING_PER_FACE_MAX).map(|_| certified("/site/x", &root, VALID).0).collect();
    for (at, key) in flood.iter().enumerate() {
        let decision = present(&mut authority, &command(key, NOW_MS), "/site/x");
        let full = Decision::Refuse(Refusal::TooManyWaiting);
        assert_eq!(decision, if at < WAITING_PER_FACE_MAX { Decision::Later } else { full });
    }
    let wire = command(&flood[WAITING_PER_FACE_MAX], NOW_MS);
    let interest = Interest::check(&wire).unwrap();
    let own = name("/site/x");
    let request = AuthorizationRequest {
        interest: &interest,
        requester: Requester {
            face: FACE + 1,
            local: false,
            peer: PeerGroup::Face(FACE + 1),
            prefix: Some(own.as_ref()),
        },
    };
    assert_eq!(authority.check_command(request, "rib", at(NOW_MS)), Decision::Later);
}

#[test]
fn stored_certificates_are_bounded() {
    let root = key("/site");
    let alice = key("/site/alice");
    let mut chains = nw_trust::chain::ChainValidator::default();
    for version in 0..=CERTIFICATES_MAX as u64 {
        let (spki, up) = (alice.public_key().unwrap(), Component::generic(b"up"));
        chains.add(&issue(alice.name(), &spki, up, &root, version, VALID).unwrap()).unwrap();
    }
    assert_eq!(chains.len(), CERTIFICATES_MAX);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// For any sequence of events: bounds hold, and no signer without a chain to the anchor is
    /// accepted.
    #[test]
    fn only_chains_to_the_anchor_are_accepted(
        steps in proptest::collection::vec((0usize..6, 0u64..3000), 1..60)
    ) {
        let (root, impostor) = (key("/site"), key("/site"));
        let (alice, good) = certified("/site/alice", &root, VALID);
        let (eve, bad) = certified("/site/eve", &impostor, VALID);
        let foreign = self_signed(&impostor, 1, VALID).unwrap();
        let mut authority = authority(&root);
        let mut now_ms = NOW_MS;
        for (step, passes_ms) in steps {
            now_ms += passes_ms;
            match step {
                0 => {
                    let decision = present_at(&mut authority, &command(&alice, now_ms), "/site/alice", now_ms);
                    prop_assert!(decision != Decision::Refuse(Refusal::NotAllowed));
                }
                1 => {
                    let decision = present_at(&mut authority, &command(&eve, now_ms), "/site/eve", now_ms);
                    prop_assert!(decision != Decision::Accept);
                }
                2 => authority.on_data(&Data::check(&good).unwrap(), &good, now_ms),
                3 => authority.on_data(&Data::check(&bad).unwrap(), &bad, now_ms),
                4 => authority.on_data(&Data::check(&foreign).unwrap(), &foreign, now_ms),
                _ => authority.on_timeout(now_ms),
            }
            while authority.next_request().is_some() {}
            while let Some(ready) = authority.next_ready() {
                let decision = present_at(&mut authority, &ready.interest, "/site/eve", now_ms);
                prop_assert!(decision != Decision::Accept);
            }
            let (stored, pending, waiting) = authority.sizes();
            prop_assert!(stored <= 3 && pending <= 3 && waiting <= WAITING_PER_FACE_MAX);
        }
    }
}

/// Validity periods and command times follow the wall clock as it is now; time limits do not.
#[test]
fn wall_clock_set_changes_validity_but_no_time_limit() {
    let root = key("/site");
    let (alice, certificate) = certified("/site/alice", &root, VALID);
    let mut authority = authority(&root);
    let own = name("/site/alice");
    let decide = |authority: &mut Authority, wire: &[u8], clocks: Clocks| {
        let interest = Interest::check(wire).unwrap();
        let by = Requester {
            face: FACE,
            local: false,
            peer: PeerGroup::Face(FACE),
            prefix: Some(own.as_ref()),
        };
        authority.check_command(
            AuthorizationRequest { interest: &interest, requester: by },
            "rib",
            clocks,
        )
    };
    let wrong = Clocks { elapsed_ms: 1000, unix_ms: NOW_MS - 86_400_000 };
    let refused = decide(&mut authority, &command(&alice, NOW_MS), wrong);
    assert_eq!(refused, Decision::Refuse(Refusal::Stale { off_ms: 86_400_000, limit_ms: 120_000 }));
    let right = Clocks { elapsed_ms: 1001, unix_ms: NOW_MS };
    let wire = command(&alice, NOW_MS);
    assert_eq!(decide(&mut authority, &wire, right), Decision::Later);
    // The wall clock is set again while the certificate is fetched: the command still waits.
    assert_eq!(authority.next_timeout_ms(), Some(1001 + FETCH_MS));
    authority.on_timeout(1002);
    authority.on_data(&Data::check(&certificate).unwrap(), &certificate, 1003);
    assert!(authority.next_ready().is_some());
    assert_eq!(decide(&mut authority, &wire, right), Decision::Accept);
    // The cached validation holds within the validity period, by the wall clock as it is now.
    for (unix_ms, expected) in [
        (NOW_MS + 1_001_000, Decision::Refuse(Refusal::CertificateOutsideValidity)),
        (NOW_MS - 1_001_000, Decision::Refuse(Refusal::CertificateOutsideValidity)),
        (NOW_MS + 900_000, Decision::Accept),
    ] {
        let clocks = Clocks { elapsed_ms: 1004, unix_ms };
        assert_eq!(
            decide(&mut authority, &command(&alice, unix_ms), clocks),
            expected,
            "{unix_ms}"
        );
    }
}

/// Sends commands like an attacker: each with a new key whose certificate never arrives.
fn flood(
    authority: &mut Authority,
    faces: impl Iterator<Item = u64>,
    peer: impl Fn(u64) -> PeerGroup,
    local: bool,
) {
    let own = name("/site/x");
    let root = key("/site");
    for face in faces {
        for at_face in 0..WAITING_PER_FACE_MAX {
            let (signer, _) = certified("/site/x", &root, VALID);
            let wire = command(&signer, NOW_MS + at_face as u64);
            let interest = Interest::check(&wire).unwrap();
            let by = Requester { face, local, peer: peer(face), prefix: Some(own.as_ref()) };
            let _ = authority.check_command(
                AuthorizationRequest { interest: &interest, requester: by },
                "rib",
                at(NOW_MS),
            );
        }
    }
}

#[test]
fn flood_from_one_address_locks_no_other_peer_out() {
    let root = key("/site");
    let attacker = PeerGroup::of_address("192.0.2.66".parse().unwrap());
    let friend = PeerGroup::of_address("192.0.2.1".parse().unwrap());
    for peer in [friend, attacker] {
        let mut authority = authority(&root);
        flood(&mut authority, 1000..1100, |_| attacker, false);
        let (_, pending, waiting) = authority.sizes();
        assert!(pending <= FETCHES_MAX && waiting <= WAITING_MAX, "{pending} {waiting}");
        assert!(authority.shortages().certificates > 700);
        let (alice, certificate) = certified("/site/alice", &root, VALID);
        let (wire, own) = (command(&alice, NOW_MS), name("/site/alice"));
        let interest = Interest::check(&wire).unwrap();
        let by = Requester { face: FACE, local: false, peer, prefix: Some(own.as_ref()) };
        let request = AuthorizationRequest { interest: &interest, requester: by };
        assert_eq!(authority.check_command(request, "rib", at(NOW_MS)), Decision::Later);
        // The flood continues during the fetch; it evicts its own commands, of the busiest faces.
        flood(&mut authority, 2000..2020, |_| attacker, false);
        authority.on_data(&Data::check(&certificate).unwrap(), &certificate, NOW_MS);
        let mut refused = 0;
        loop {
            let ready = authority.next_ready().expect("the command comes back");
            if ready.interest == wire {
                break;
            }
            let interest = Interest::check(&ready.interest).unwrap();
            let by = Requester {
                face: ready.face,
                local: false,
                peer: attacker,
                prefix: Some(own.as_ref()),
            };
            let decision = authority.check_command(
                AuthorizationRequest { interest: &interest, requester: by },
                "rib",
                at(NOW_MS),
            );
            assert!(matches!(decision, Decision::Refuse(_)));
            refused += 1;
        }
        assert!(refused <= WAITING_MAX);
        assert_eq!(authority.check_command(request, "rib", at(NOW_MS)), Decision::Accept);
    }
}

#[test]
fn remote_flood_leaves_the_quota_of_local_faces() {
    let root = key("/site");
    let mut authority = authority(&root);
    flood(&mut authority, 1000..1100, PeerGroup::Face, false);
    let before = authority.shortages();
    flood(&mut authority, 300..301, PeerGroup::Face, true);
    assert_eq!(authority.shortages(), before, "local faces have their own quota");
    flood(&mut authority, 301..310, PeerGroup::Face, true);
    let (_, pending, waiting) = authority.sizes();
    assert!(pending <= FETCHES_MAX && waiting <= WAITING_MAX, "{pending} {waiting}");
    assert!(authority.shortages().certificates > before.certificates);
}

#[test]
fn evicted_command_is_refused_with_too_many_waiting() {
    let root = key("/site");
    let mut authority = authority(&root);
    let (alice, _) = certified("/site/alice", &root, VALID);
    let wire = command(&alice, NOW_MS);
    assert_eq!(present(&mut authority, &wire, "/site/alice"), Decision::Later);
    let own = PeerGroup::Face(FACE);
    flood(&mut authority, 100..105, |_| own, false);
    flood(&mut authority, [FACE, 50].into_iter(), |_| own, false);
    let evicted = std::iter::from_fn(|| authority.next_ready()).next();
    assert_eq!(
        evicted.map(|ready| ready.interest),
        Some(wire.clone()),
        "the oldest of the busiest face"
    );
    assert_eq!(
        present(&mut authority, &wire, "/site/alice"),
        Decision::Refuse(Refusal::TooManyWaiting)
    );
    assert_eq!(
        present(&mut authority, &command(&alice, NOW_MS), "/site/alice"),
        Decision::Later,
        "and may try again"
    );
}

#[test]
fn certificate_taken_back_is_forgotten_with_what_it_has_proven() {
    let root = key("/site");
    let (second, second_certificate) = certified("/site", &root, VALID);
    let (alice, alice_certificate) = certified("/site/alice", &second, VALID);
    let mut authority = authority(&root);
    let mut now_ms = NOW_MS;
    let mut register = |authority: &mut Authority| {
        now_ms += 1;
        let wire = command(&alice, now_ms);
        let prefix = name("/site/alice");
        let requester = Requester {
            face: FACE,
            local: false,
            peer: PeerGroup::Face(FACE),
            prefix: Some(prefix.as_ref()),
        };
        let interest = Interest::check(&wire).unwrap();
        let request = AuthorizationRequest { interest: &interest, requester };
        authority.check_command_offline(request, "rib", at(now_ms)).map_err(|(refusal, _)| refusal)
    };
    let configured = [second_certificate, alice_certificate];
    for _ in 0..2 {
        assert!(authority.set_certificates(&configured).is_empty());
        assert_eq!(register(&mut authority), Ok(()));
        // The certificate between is taken back: what it has proven before counts no more.
        assert!(authority.set_certificates(&configured[1..]).is_empty());
        assert_eq!(register(&mut authority), Err(Refusal::CertificateMissing));
        assert!(authority.set_certificates(&[]).is_empty());
        assert_eq!(register(&mut authority), Err(Refusal::CertificateMissing));
    }
}
