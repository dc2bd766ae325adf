//! Malformed and hostile input: no panic, no malformed reply, no state kept.

use super::*;
use proptest::prelude::*;

fn any_parameters() -> impl Strategy<Value = ControlParameters> {
    let number = || proptest::option::of(prop_oneof![0u64..4, Just(300), Just(u64::MAX)]);
    let name = proptest::option::of(prop_oneof![
        Just("/"),
        Just("/a"),
        Just("/a/b"),
        Just("/localhost/nfd"),
        Just("/localhost/nfd/strategy/multicast")
    ]);
    let first =
        (name.clone(), number(), proptest::option::of(".{0,12}"), number(), number(), number());
    let second = (number(), number(), name, number(), number(), number());
    (first, second).prop_map(
        |(
            (name, face_id, uri, origin, cost, count),
            (flags, mask, strategy, period, persistency, mtu),
        )| {
            ControlParameters {
                name: name.map(constant_name),
                face_id,
                uri,
                origin,
                cost,
                count,
                flags,
                mask,
                strategy: strategy.map(|name| nw_api::management::Strategy(constant_name(name))),
                expiration_period: period,
                face_persistency: persistency,
                mtu,
                ..Default::default()
            }
        },
    )
}

proptest! {
    #[test]
    fn command_any_parameters_gets_reply(verb in 0..Verb::ALL.len(), parameters in any_parameters()) {
        let mut router = TestRouter::new();
        let verb = Verb::ALL[verb];
        let response = router.command_by(APP, Root::Localhost, verb, &parameters);
        // `rib/announce` has no ControlParameters in its name.
        prop_assert_eq!(response.is_some(), verb != Verb::RibAnnounce);
        router.control.on_timeout(Timestamp::from_millis(1 << 40), &mut router.env);
    }

    #[test]
    fn command_any_components_do_not_panic(
        module in 0..Verb::ALL.len(),
        parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..12), 0..4),
    ) {
        let mut router = TestRouter::new();
        let start = Verb::ALL[module].name(Root::Localhost);
        let name = parts.iter().fold(start, |name, part| name.with_generic(part));
        let wire = InterestBuilder::new(name).can_be_prefix(true).encode();
        router.interest(APP, &wire);
    }

    #[test]
    fn command_any_byte_flips_do_not_panic(
        verb in 0..Verb::ALL.len(),
        parameters in any_parameters(),
        flips in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4),
    ) {
        let mut router = TestRouter::new();
        let mut wire = router.command_wire(Root::Localhost, Verb::ALL[verb], &parameters);
        for (offset, byte) in flips {
            let offset = offset % wire.len();
            wire[offset] = byte;
        }
        router.interest(APP, &wire);
        wire.truncate(wire.len() / 2);
        prop_assert_eq!(router.interest(APP, &wire), Reply::Ignored);
    }

    #[test]
    fn announce_any_bytes_return_400(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let mut router = TestRouter::new();
        let wire = InterestBuilder::new(Verb::RibAnnounce.name(Root::Localhost)).parameters(bytes).encode();
        prop_assert_eq!(router.interest(APP, &wire), Reply::Answered(400));
    }
}

/// A reply has the name twice, in its own name and in its body.
#[test]
fn response_name_too_long_twice_omits_body() {
    let mut router = TestRouter::new();
    let long = Name::new().with_generic(vec![b'x'; 5000]);
    let response = router.command(Verb::RibRegister, ControlParameters::of(long.clone()));
    assert_eq!((response.code, response.body), (200, ControlParameters::default()));
    assert!(router.env.fib.contains_key(&long));
}

#[test]
fn command_unknown_returns_501() {
    let mut router = TestRouter::new();
    let name =
        constant_name("/localhost/nfd/rib/dance").with_generic(parameters_for("/a").encode());
    let wire = InterestBuilder::new(name).encode();
    assert_eq!(router.interest(APP, &wire), Reply::Answered(501));
    assert_eq!(router.answer_to(&wire).code, 501);
}
