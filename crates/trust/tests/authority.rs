//! Named rules, certificate chains and the certificates they wait for.

use nw_name::{Component, Name};
use nw_trust::certificate::{issue, self_signed};
use nw_trust::chain::{CERTIFICATES_MAX, DEPTH_MAX};
use nw_trust::fetch::{FAILED_MS, FETCH_MS, FETCHES_MAX, WAITING_MAX, WAITING_PER_FACE_MAX};
use nw_trust::key::freshness_fields;
use nw_trust::{
    Allow, Anchor, Asker, Asking, Authority, Clocks, CommandRules, Decision, Key, KeyKind, Peer, Privilege,
    Reach, Refusal, Rules, Side, Signer, Validity, Vouch,
};
use nw_wire::{Data, DataBuilder, Interest, InterestBuilder, Sign};
use proptest::prelude::*;

const NOW_MS: u64 = 1_750_000_000_000;
const NOW_S: u64 = NOW_MS / 1000;
const VALID: Validity = Validity { not_before_s: NOW_S - 1000, not_after_s: NOW_S + 1000 };
const FACE: u64 = 300;

/// Both clocks show the same, as no test but one is about their difference.
const fn at(ms: u64) -> Clocks {
    Clocks { elapsed_ms: ms, unix_ms: ms }
}

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

fn key(identity: &str) -> Key {
    Key::generate(KeyKind::Ed25519, name(identity).as_ref()).unwrap()
}

/// A key whose signatures name its certificate, and that certificate.
fn certified(identity: &str, issuer: &Key, validity: Validity) -> (Key, Vec<u8>) {
    let key = key(identity);
    let wire = certificate_for(&key, issuer, validity);
    let locator = Data::check(&wire).unwrap().name().to_name();
    (key.located_at(locator.as_ref()), wire)
}

fn certificate_for(key: &Key, issuer: &Key, validity: Validity) -> Vec<u8> {
    issue(key.name(), &key.public_key().unwrap(), Component::generic(b"up"), issuer, 1, validity).unwrap()
}

fn anchor(key: &Key) -> Anchor {
    Anchor::of(&self_signed(key, 1, VALID).unwrap()).unwrap()
}

fn strict() -> CommandRules {
    CommandRules { digest: Reach::Nowhere, unknown_key: Reach::Nowhere, ..CommandRules::default() }
}

fn rule(signer: &str, prefix: &str) -> Allow {
    Allow {
        id: "test".into(),
        side: Side::Both,
        anchors: Some(1),
        signer: Some(signer.parse().unwrap()),
        privileges: [Privilege::Rib].into_iter().collect(),
        prefix: prefix.parse().unwrap(),
    }
}

fn authority(root: &Key) -> Authority {
    Authority::new(Rules {
        plain: strict(),
        allow: vec![rule("/site/<who>/KEY/<_>", "/site/<who>/<..>")],
        anchors: vec![(1, anchor(root))],
        ..Rules::default()
    })
}

fn command<S: Sign<Error: std::fmt::Debug>>(signer: &S, time_ms: u64) -> Vec<u8> {
    let fields = freshness_fields(time_ms).unwrap();
    let builder = InterestBuilder::new(name("/localhop/nfd/rib/register/x")).nonce(1);
    builder.encode_signed(signer, &fields).unwrap()
}

fn ask_at(authority: &mut Authority, wire: &[u8], prefix: &str, now_ms: u64) -> Decision {
    let interest = Interest::check(wire).unwrap();
    let prefix = name(prefix);
    let asking = Asking {
        interest: &interest,
        by: Asker { face: FACE, local: false, peer: Peer::Face(FACE), prefix: Some(prefix.as_ref()) },
    };
    authority.command(asking, "rib", at(now_ms))
}

fn ask(authority: &mut Authority, wire: &[u8], prefix: &str) -> Decision {
    ask_at(authority, wire, prefix, NOW_MS)
}

/// Answers whatever is asked for from these certificates; how many were asked for.
fn serve(authority: &mut Authority, certificates: &[&Vec<u8>]) -> usize {
    let mut asked = 0;
    while let Some(ask) = authority.next_ask() {
        if ask.face.is_none() {
            asked += 1;
            let fits = |wire: &&&Vec<u8>| ask.name.as_ref().is_prefix_of(Data::check(wire).unwrap().name());
            if let Some(wire) = certificates.iter().find(fits) {
                authority.on_data(&Data::check(wire).unwrap(), wire, NOW_MS);
            }
        }
    }
    asked
}

/// Asks, serves and asks again, as a host does, until it is decided.
fn decide(authority: &mut Authority, wire: &[u8], prefix: &str, certificates: &[&Vec<u8>]) -> Decision {
    let mut decision = ask(authority, wire, prefix);
    while decision == Decision::Later {
        serve(authority, certificates);
        let Some(ready) = authority.next_ready() else { return Decision::Later };
        assert_eq!((ready.interest.as_slice(), ready.face, ready.local), (wire, FACE, false));
        decision = ask(authority, &ready.interest, prefix);
    }
    decision
}

#[test]
fn a_chain_is_fetched_and_leads_to_the_anchor() {
    let root = key("/site");
    let (alice, certificate) = certified("/site/alice", &root, VALID);
    let mut authority = authority(&root);
    let wire = command(&alice, NOW_MS);
    assert_eq!(ask(&mut authority, &wire, "/site/alice/files"), Decision::Later);
    let (network, direct) = (authority.next_ask().unwrap(), authority.next_ask().unwrap());
    assert_eq!(network.name, Data::check(&certificate).unwrap().name().to_name());
    assert_eq!((network.face, direct.face, authority.next_ask()), (None, Some(FACE), None));
    assert_eq!(authority.next_ready(), None);
    authority.on_data(&Data::check(&certificate).unwrap(), &certificate, NOW_MS);
    let ready = authority.next_ready().unwrap();
    assert_eq!(ask(&mut authority, &ready.interest, "/site/alice/files"), Decision::Accept);
    assert_eq!(ask(&mut authority, &wire, "/site/alice/files"), Decision::Refuse(Refusal::Replayed));
    // Known from now on; but only for what is hers.
    let next = command(&alice, NOW_MS + 1);
    assert_eq!(ask(&mut authority, &next, "/site/bob"), Decision::Refuse(Refusal::NotAllowed));
    assert_eq!(ask(&mut authority, &next, "/site/alice"), Decision::Accept);
    assert_eq!(authority.sizes(), (1, 0, 0));
}

#[test]
fn other_modules_other_sides_and_digests_are_refused() {
    let root = key("/site");
    let (alice, _) = certified("/site/alice", &root, VALID);
    let mut authority = authority(&root);
    let wire = command(&alice, NOW_MS);
    let interest = Interest::check(&wire).unwrap();
    let asking = Asking {
        interest: &interest,
        by: Asker { face: FACE, local: false, peer: Peer::Face(FACE), prefix: None },
    };
    let refused = authority.command(asking, "faces", at(NOW_MS));
    assert_eq!(
        refused,
        Decision::Refuse(Refusal::UnknownKey),
        "no rule is about faces, so nothing is fetched"
    );
    assert_eq!(authority.next_ask(), None);
    let wire = command(&Signer::Digest, NOW_MS);
    assert_eq!(ask(&mut authority, &wire, "/site/alice"), Decision::Refuse(Refusal::DigestNotEnough));
    let stale = command(&alice, NOW_MS - 1_000_000);
    assert_eq!(
        ask(&mut authority, &stale, "/site/alice"),
        Decision::Refuse(Refusal::Stale { off_ms: 1_000_000, limit_ms: 120_000 })
    );
    assert_eq!(authority.next_ask(), None, "nobody makes us fetch for what is stale");
}

#[test]
fn the_anchor_itself_may_command_where_its_name_fits() {
    let root = key("/site");
    let mut authority = authority(&root);
    assert_eq!(ask(&mut authority, &command(&root, NOW_MS), "/site"), Decision::Refuse(Refusal::NotAllowed));
    let rules = Rules {
        plain: strict(),
        allow: vec![rule("/<..>", "/<..>")],
        anchors: vec![(1, anchor(&root))],
        ..Rules::default()
    };
    authority.reconfigure(rules);
    assert_eq!(ask(&mut authority, &command(&root, NOW_MS), "/any"), Decision::Accept);
    let stranger = Key::generate(KeyKind::EcdsaP256, name("/site").as_ref()).unwrap();
    let forged = stranger.located_at(root.name());
    let refusal = ask(&mut authority, &command(&forged, NOW_MS), "/any");
    assert_eq!(
        refusal,
        Decision::Refuse(Refusal::BadSignature),
        "a key of another type under the anchor's name"
    );
    let late = ask_at(&mut authority, &command(&root, NOW_MS + 2_000_000), "/any", NOW_MS + 2_000_000);
    assert_eq!(late, Decision::Refuse(Refusal::CertificateOutOfTime), "anchors end, too");
}

#[test]
fn times_of_certificates() {
    let root = key("/site");
    for (from, to) in [(NOW_S - 100, NOW_S - 1), (NOW_S + 1, NOW_S + 100)] {
        let (alice, wire) = certified("/site/alice", &root, Validity { not_before_s: from, not_after_s: to });
        let mut authority = authority(&root);
        let decision = decide(&mut authority, &command(&alice, NOW_MS), "/site/alice", &[&wire]);
        assert_eq!(decision, Decision::Refuse(Refusal::CertificateOutOfTime));
    }
    // What was proven does not outlive the certificate.
    let until = Validity { not_before_s: NOW_S - 100, not_after_s: NOW_S + 10 };
    let (alice, wire) = certified("/site/alice", &root, until);
    let mut authority = authority(&root);
    assert_eq!(decide(&mut authority, &command(&alice, NOW_MS), "/site/alice", &[&wire]), Decision::Accept);
    let later = NOW_MS + 11_000;
    let decision = ask_at(&mut authority, &command(&alice, later), "/site/alice", later);
    assert_eq!(decision, Decision::Refuse(Refusal::CertificateOutOfTime));
}

#[test]
fn a_forged_certificate_is_dropped_and_not_asked_for_at_once_again() {
    let root = key("/site");
    let impostor = Key::generate(KeyKind::Ed25519, name("/site").as_ref()).unwrap().located_at(root.name());
    let (alice, forged) = certified("/site/alice", &impostor, VALID);
    let mut authority = authority(&root);
    let decision = decide(&mut authority, &command(&alice, NOW_MS), "/site/alice", &[&forged]);
    assert_eq!(decision, Decision::Refuse(Refusal::BadCertificate));
    assert_eq!(authority.sizes().0, 0);
    let again = ask(&mut authority, &command(&alice, NOW_MS + 1), "/site/alice");
    assert_eq!(again, Decision::Refuse(Refusal::CertificateMissing));
    let later = NOW_MS + FAILED_MS + 1;
    assert_eq!(ask_at(&mut authority, &command(&alice, later), "/site/alice", later), Decision::Later);
    // Nor does it keep another face from being believed.
    let (wire, own) = (command(&alice, NOW_MS + 2), name("/site/alice"));
    let interest = Interest::check(&wire).unwrap();
    let asking = Asking {
        interest: &interest,
        by: Asker { face: FACE + 1, local: false, peer: Peer::Face(FACE + 1), prefix: Some(own.as_ref()) },
    };
    assert_eq!(authority.command(asking, "rib", at(NOW_MS)), Decision::Later);
    let asks: Vec<_> = std::iter::from_fn(|| authority.next_ask()).map(|ask| ask.face).collect();
    assert_eq!(asks, [None, Some(FACE), Some(FACE + 1)], "each asker is asked itself");
}

#[test]
fn what_is_no_certificate() {
    let root = key("/site");
    let (alice, certificate) = certified("/site/alice", &root, VALID);
    let wrong = Data::check(&certificate).unwrap().name().to_name();
    let blob = DataBuilder::new(&wrong, b"not a key").encode(&root).unwrap();
    let mut authority = authority(&root);
    let decision = decide(&mut authority, &command(&alice, NOW_MS), "/site/alice", &[&blob]);
    assert_eq!(decision, Decision::Refuse(Refusal::CertificateMissing));
}

#[test]
fn chains_of_every_length_up_to_the_bound() {
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
            plain: strict(),
            allow: vec![rule("/<..>", "/<..>")],
            anchors: vec![(1, anchor)],
            ..Rules::default()
        };
        let mut authority = Authority::new(rules);
        let all: Vec<&Vec<u8>> = certificates.iter().collect();
        let decision = decide(&mut authority, &command(&issuer, NOW_MS), "/any", &all);
        let wanted =
            if length > DEPTH_MAX { Decision::Refuse(Refusal::ChainTooDeep) } else { Decision::Accept };
        assert_eq!(decision, wanted, "{length}");
    }
}

#[test]
fn chains_that_go_in_circles() {
    // Alone: a key that vouches for itself and is no anchor.
    let root = key("/site");
    let alice = key("/site/alice");
    let wire = self_signed(&alice, 1, VALID).unwrap();
    let mut one = authority(&root);
    let decision = decide(&mut one, &command(&alice, NOW_MS), "/site/alice", &[&wire]);
    assert_eq!(decision, Decision::Refuse(Refusal::ChainLoop));
    // Two keys of one identity that vouch for each other.
    let other = key("/site/alice");
    let (first, second) = (certificate_for(&alice, &other, VALID), certificate_for(&other, &alice, VALID));
    let mut two = authority(&root);
    let decision = decide(&mut two, &command(&alice, NOW_MS), "/site/alice", &[&first, &second]);
    assert_eq!(decision, Decision::Refuse(Refusal::ChainLoop));
}

#[test]
fn who_may_vouch() {
    let root = key("/site");
    // Without rules: nobody vouches for names that are not below.
    let (bob, bobs) = certified("/site/bob", &root, VALID);
    let (alice, alices) = certified("/site/alice", &bob, VALID);
    let mut authority = authority(&root);
    let decision = decide(&mut authority, &command(&alice, NOW_MS), "/site/alice", &[&alices, &bobs]);
    assert_eq!(decision, Decision::Refuse(Refusal::NotVouched));
    // With rules: as they say.
    let vouch = |certificate: &str, signer: &str| Vouch {
        certificate: certificate.parse().unwrap(),
        signer: signer.parse().unwrap(),
    };
    let rules = |vouch| Rules {
        plain: strict(),
        allow: vec![rule("/site/<who>/KEY/<_>", "/site/<who>/<..>")],
        anchors: vec![(1, anchor(&root))],
        vouch,
        ..Rules::default()
    };
    authority.reconfigure(rules(vec![
        vouch("/site/<_>/KEY/<_>", "/site/bob/KEY/<_>"),
        vouch("/site/bob/KEY/<_>", "/site/KEY/<_>"),
    ]));
    let decision = decide(&mut authority, &command(&alice, NOW_MS), "/site/alice", &[&alices, &bobs]);
    assert_eq!(decision, Decision::Accept);
    authority.reconfigure(rules(vec![vouch("/site/<_>/KEY/<_>", "/site/carol/KEY/<_>")]));
    let decision = decide(&mut authority, &command(&alice, NOW_MS + 1), "/site/alice", &[&alices, &bobs]);
    assert_eq!(decision, Decision::Refuse(Refusal::NotVouched), "what was proven is proven anew");
}

#[test]
fn sets_of_anchors_are_kept_apart() {
    let (site, lab) = (key("/site"), key("/lab"));
    let mut of_lab = rule("/<..>", "/<..>");
    of_lab.anchors = Some(2);
    of_lab.privileges = [Privilege::Faces].into_iter().collect();
    let rules = Rules {
        plain: strict(),
        allow: vec![rule("/<..>", "/<..>"), of_lab],
        anchors: vec![(1, anchor(&site)), (2, anchor(&lab))],
        ..Rules::default()
    };
    let mut authority = Authority::new(rules);
    let (alice, certificate) = certified("/site/alice", &site, VALID);
    assert_eq!(decide(&mut authority, &command(&alice, NOW_MS), "/x", &[&certificate]), Decision::Accept);
    let wire = command(&alice, NOW_MS + 1);
    let interest = Interest::check(&wire).unwrap();
    let asking = Asking {
        interest: &interest,
        by: Asker { face: FACE, local: false, peer: Peer::Face(FACE), prefix: None },
    };
    // Proven for the site's anchors, which says nothing about the lab's: its issuer is asked for and not found there.
    assert_eq!(authority.command(asking, "faces", at(NOW_MS)), Decision::Later);
}

#[test]
fn any_signer_where_a_rule_says_so() {
    let mut rule = rule("/<..>", "/open/<..>");
    (rule.anchors, rule.signer, rule.side) = (None, None, Side::Local);
    let mut authority = Authority::new(Rules { plain: strict(), allow: vec![rule], ..Rules::default() });
    let wire = command(&Signer::Digest, NOW_MS);
    let interest = Interest::check(&wire).unwrap();
    let (open, other) = (name("/open/x"), name("/closed"));
    let asking = |prefix, local| Asking {
        interest: &interest,
        by: Asker { face: FACE, local, peer: Peer::Face(FACE), prefix: Some(prefix) },
    };
    assert_eq!(authority.command(asking(open.as_ref(), true), "rib", at(NOW_MS)), Decision::Accept);
    let refused = Decision::Refuse(Refusal::NotAllowed);
    assert_eq!(authority.command(asking(other.as_ref(), true), "rib", at(NOW_MS)), refused);
    let refused = Decision::Refuse(Refusal::DigestNotEnough);
    assert_eq!(authority.command(asking(open.as_ref(), false), "rib", at(NOW_MS)), refused);
}

#[test]
fn announcements_need_their_own_privilege() {
    let root = key("/site");
    let (alice, certificate) = certified("/site/alice", &root, VALID);
    let mut may = rule("/site/<who>/KEY/<_>", "/site/<who>/<..>");
    may.privileges = [Privilege::Announce].into_iter().collect();
    let rules =
        Rules { plain: strict(), allow: vec![may], anchors: vec![(1, anchor(&root))], ..Rules::default() };
    let mut authority = Authority::new(rules);
    let announcement = DataBuilder::new(&name("/site/alice/32=PA/v=1/seg=0"), b"x").encode(&alice).unwrap();
    let data = Data::check(&announcement).unwrap();
    let wire = InterestBuilder::new(name("/localhop/nfd/rib/announce")).nonce(1).encode();
    let interest = Interest::check(&wire).unwrap();
    let (own, others) = (name("/site/alice"), name("/site/bob"));
    let asking = |prefix| Asking {
        interest: &interest,
        by: Asker { face: FACE, local: false, peer: Peer::Face(FACE), prefix: Some(prefix) },
    };
    assert_eq!(authority.announcement(&data, asking(own.as_ref()), at(NOW_MS)), Decision::Later);
    serve(&mut authority, &[&certificate]);
    assert!(authority.next_ready().is_some());
    assert_eq!(authority.announcement(&data, asking(own.as_ref()), at(NOW_MS)), Decision::Accept);
    assert_eq!(
        authority.announcement(&data, asking(own.as_ref()), at(NOW_MS)),
        Decision::Accept,
        "no replay"
    );
    let refused = Decision::Refuse(Refusal::NotAllowed);
    assert_eq!(authority.announcement(&data, asking(others.as_ref()), at(NOW_MS)), refused);
}

#[test]
fn nothing_comes_and_time_passes() {
    let root = key("/site");
    let (alice, _) = certified("/site/alice", &root, VALID);
    let mut authority = authority(&root);
    assert_eq!(authority.next_timeout_ms(), None);
    let wire = command(&alice, NOW_MS);
    assert_eq!(ask(&mut authority, &wire, "/site/alice"), Decision::Later);
    // A command with a longer life hears of it, the other one is over.
    let fields = freshness_fields(NOW_MS).unwrap();
    let patient = InterestBuilder::new(name("/localhop/nfd/rib/register/y")).lifetime_ms(9000);
    let patient = patient.encode_signed(&alice, &fields).unwrap();
    assert_eq!(ask(&mut authority, &patient, "/site/alice"), Decision::Later);
    assert_eq!(authority.sizes(), (0, 1, 2));
    assert_eq!(authority.next_timeout_ms(), Some(NOW_MS + FETCH_MS));
    authority.on_timeout(NOW_MS + FETCH_MS - 1);
    assert_eq!(authority.sizes(), (0, 1, 2));
    authority.on_timeout(NOW_MS + FETCH_MS);
    assert_eq!(authority.sizes(), (0, 0, 0));
    let ready = authority.next_ready().unwrap();
    assert_eq!((ready.interest.as_slice(), authority.next_ready()), (patient.as_slice(), None));
    let decision = ask_at(&mut authority, &patient, "/site/alice", NOW_MS + FETCH_MS);
    assert_eq!(decision, Decision::Refuse(Refusal::CertificateMissing));
    assert_eq!(authority.next_timeout_ms(), None);
}

#[test]
fn one_face_can_not_make_all_others_wait() {
    let root = key("/site");
    let mut authority = authority(&root);
    let flood: Vec<Key> = (0..=WAITING_PER_FACE_MAX).map(|_| certified("/site/x", &root, VALID).0).collect();
    for (at, key) in flood.iter().enumerate() {
        let decision = ask(&mut authority, &command(key, NOW_MS), "/site/x");
        let full = Decision::Refuse(Refusal::TooManyWaiting);
        assert_eq!(decision, if at < WAITING_PER_FACE_MAX { Decision::Later } else { full });
    }
    let wire = command(&flood[WAITING_PER_FACE_MAX], NOW_MS);
    let interest = Interest::check(&wire).unwrap();
    let own = name("/site/x");
    let asking = Asking {
        interest: &interest,
        by: Asker { face: FACE + 1, local: false, peer: Peer::Face(FACE + 1), prefix: Some(own.as_ref()) },
    };
    assert_eq!(authority.command(asking, "rib", at(NOW_MS)), Decision::Later);
}

#[test]
fn certificates_kept_are_bounded() {
    let root = key("/site");
    let alice = key("/site/alice");
    let mut chains = nw_trust::chain::Chains::default();
    for version in 0..=CERTIFICATES_MAX as u64 {
        let (spki, up) = (alice.public_key().unwrap(), Component::generic(b"up"));
        chains.add(&issue(alice.name(), &spki, up, &root, version, VALID).unwrap()).unwrap();
    }
    assert_eq!(chains.len(), CERTIFICATES_MAX);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever comes in whatever order: bounds hold, and nobody is believed whose chain does not lead to the anchor.
    #[test]
    fn only_what_leads_to_the_anchor(steps in proptest::collection::vec((0usize..6, 0u64..3000), 1..60)) {
        let (root, other) = (key("/site"), key("/site"));
        let (alice, good) = certified("/site/alice", &root, VALID);
        let (eve, bad) = certified("/site/eve", &other, VALID);
        let others = self_signed(&other, 1, VALID).unwrap();
        let mut authority = authority(&root);
        let mut now_ms = NOW_MS;
        for (step, passes_ms) in steps {
            now_ms += passes_ms;
            match step {
                0 => {
                    let decision = ask_at(&mut authority, &command(&alice, now_ms), "/site/alice", now_ms);
                    prop_assert!(decision != Decision::Refuse(Refusal::NotAllowed));
                }
                1 => {
                    let decision = ask_at(&mut authority, &command(&eve, now_ms), "/site/eve", now_ms);
                    prop_assert!(decision != Decision::Accept);
                }
                2 => authority.on_data(&Data::check(&good).unwrap(), &good, now_ms),
                3 => authority.on_data(&Data::check(&bad).unwrap(), &bad, now_ms),
                4 => authority.on_data(&Data::check(&others).unwrap(), &others, now_ms),
                _ => authority.on_timeout(now_ms),
            }
            while authority.next_ask().is_some() {}
            while let Some(ready) = authority.next_ready() {
                let decision = ask_at(&mut authority, &ready.interest, "/site/eve", now_ms);
                prop_assert!(decision != Decision::Accept);
            }
            let (kept, pending, waiting) = authority.sizes();
            prop_assert!(kept <= 3 && pending <= 3 && waiting <= WAITING_PER_FACE_MAX);
        }
    }
}

/// A certificate's validity and a command's time are by the wall clock of that moment, whatever it showed before; time limits are not.
#[test]
fn wall_clock_that_is_set_is_followed_and_ends_no_waiting() {
    let root = key("/site");
    let (alice, certificate) = certified("/site/alice", &root, VALID);
    let mut authority = authority(&root);
    let own = name("/site/alice");
    let decide = |authority: &mut Authority, wire: &[u8], clocks: Clocks| {
        let interest = Interest::check(wire).unwrap();
        let by = Asker { face: FACE, local: false, peer: Peer::Face(FACE), prefix: Some(own.as_ref()) };
        authority.command(Asking { interest: &interest, by }, "rib", clocks)
    };
    let wrong = Clocks { elapsed_ms: 1000, unix_ms: NOW_MS - 86_400_000 };
    let refused = decide(&mut authority, &command(&alice, NOW_MS), wrong);
    assert_eq!(refused, Decision::Refuse(Refusal::Stale { off_ms: 86_400_000, limit_ms: 120_000 }));
    let right = Clocks { elapsed_ms: 1001, unix_ms: NOW_MS };
    let wire = command(&alice, NOW_MS);
    assert_eq!(decide(&mut authority, &wire, right), Decision::Later);
    // Set by a day once more while the certificate is fetched: what waits goes on waiting.
    assert_eq!(authority.next_timeout_ms(), Some(1001 + FETCH_MS));
    authority.on_timeout(1002);
    authority.on_data(&Data::check(&certificate).unwrap(), &certificate, 1003);
    assert!(authority.next_ready().is_some());
    assert_eq!(decide(&mut authority, &wire, right), Decision::Accept);
    // What was proven holds while it is valid, by the clock as it is now.
    for (unix_ms, wanted) in [
        (NOW_MS + 1_001_000, Decision::Refuse(Refusal::CertificateOutOfTime)),
        (NOW_MS - 1_001_000, Decision::Refuse(Refusal::CertificateOutOfTime)),
        (NOW_MS + 900_000, Decision::Accept),
    ] {
        let clocks = Clocks { elapsed_ms: 1004, unix_ms };
        assert_eq!(decide(&mut authority, &command(&alice, unix_ms), clocks), wanted, "{unix_ms}");
    }
}

/// As an attacker sends them: each with a key of its own whose certificate never comes.
fn flood(
    authority: &mut Authority,
    faces: impl Iterator<Item = u64>,
    peer: impl Fn(u64) -> Peer,
    local: bool,
) {
    let own = name("/site/x");
    let root = key("/site");
    for face in faces {
        for at_face in 0..WAITING_PER_FACE_MAX {
            let (signer, _) = certified("/site/x", &root, VALID);
            let wire = command(&signer, NOW_MS + at_face as u64);
            let interest = Interest::check(&wire).unwrap();
            let by = Asker { face, local, peer: peer(face), prefix: Some(own.as_ref()) };
            let _ = authority.command(Asking { interest: &interest, by }, "rib", at(NOW_MS));
        }
    }
}

#[test]
fn places_are_shared_by_peer_so_a_flood_of_many_ports_locks_no_one_out() {
    let root = key("/site");
    let attacker = Peer::at("192.0.2.66".parse().unwrap());
    let friend = Peer::at("192.0.2.1".parse().unwrap());
    for peer in [friend, attacker] {
        let mut authority = authority(&root);
        flood(&mut authority, 1000..1100, |_| attacker, false);
        let (_, pending, waiting) = authority.sizes();
        assert!(pending <= FETCHES_MAX && waiting <= WAITING_MAX, "{pending} {waiting}");
        assert!(authority.shortages().certificates > 700);
        let (alice, certificate) = certified("/site/alice", &root, VALID);
        let (wire, own) = (command(&alice, NOW_MS), name("/site/alice"));
        let interest = Interest::check(&wire).unwrap();
        let by = Asker { face: FACE, local: false, peer, prefix: Some(own.as_ref()) };
        let asking = Asking { interest: &interest, by };
        assert_eq!(authority.command(asking, "rib", at(NOW_MS)), Decision::Later);
        // The flood goes on while the certificate is fetched: also from the same address it takes from the ports with most.
        flood(&mut authority, 2000..2020, |_| attacker, false);
        authority.on_data(&Data::check(&certificate).unwrap(), &certificate, NOW_MS);
        let mut refused = 0;
        loop {
            let ready = authority.next_ready().expect("the command comes back");
            if ready.interest == wire {
                break;
            }
            let interest = Interest::check(&ready.interest).unwrap();
            let by = Asker { face: ready.face, local: false, peer: attacker, prefix: Some(own.as_ref()) };
            let decision = authority.command(Asking { interest: &interest, by }, "rib", at(NOW_MS));
            assert!(matches!(decision, Decision::Refuse(_)));
            refused += 1;
        }
        assert!(refused <= WAITING_MAX);
        assert_eq!(authority.command(asking, "rib", at(NOW_MS)), Decision::Accept);
    }
}

#[test]
fn remote_flood_leaves_the_places_of_local_faces() {
    let root = key("/site");
    let mut authority = authority(&root);
    flood(&mut authority, 1000..1100, Peer::Face, false);
    let before = authority.shortages();
    flood(&mut authority, 300..301, Peer::Face, true);
    assert_eq!(authority.shortages(), before, "they had their own places");
    flood(&mut authority, 301..310, Peer::Face, true);
    let (_, pending, waiting) = authority.sizes();
    assert!(pending <= FETCHES_MAX && waiting <= WAITING_MAX, "{pending} {waiting}");
    assert!(authority.shortages().certificates > before.certificates);
}

#[test]
fn command_that_gave_way_is_refused_with_the_reason() {
    let root = key("/site");
    let mut authority = authority(&root);
    let (alice, _) = certified("/site/alice", &root, VALID);
    let wire = command(&alice, NOW_MS);
    assert_eq!(ask(&mut authority, &wire, "/site/alice"), Decision::Later);
    let own = Peer::Face(FACE);
    flood(&mut authority, 100..105, |_| own, false);
    flood(&mut authority, [FACE, 50].into_iter(), |_| own, false);
    let gave_way = std::iter::from_fn(|| authority.next_ready()).next();
    assert_eq!(gave_way.map(|ready| ready.interest), Some(wire.clone()), "the oldest of the face with most");
    assert_eq!(ask(&mut authority, &wire, "/site/alice"), Decision::Refuse(Refusal::TooManyWaiting));
    assert_eq!(
        ask(&mut authority, &command(&alice, NOW_MS), "/site/alice"),
        Decision::Later,
        "and may try again"
    );
}
