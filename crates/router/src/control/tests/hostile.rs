//! Bytes that nobody should send: no panic, no answer that can't be read, nothing kept.

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
    let first = (name.clone(), number(), proptest::option::of(".{0,12}"), number(), number(), number());
    let second = (number(), number(), name, number(), number(), number());
    (first, second).prop_map(
        |((name, face_id, uri, origin, cost, count), (flags, mask, strategy, period, persistency, mtu))| {
            ControlParameters {
                name: name.map(named),
                face_id,
                uri,
                origin,
                cost,
                count,
                flags,
                mask,
                strategy: strategy.map(|name| nw_api::management::Strategy(named(name))),
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
    fn any_parameters_get_an_answer(verb in 0..Verb::ALL.len(), parameters in any_parameters()) {
        let mut bench = Bench::new();
        let verb = Verb::ALL[verb];
        let response = bench.command_by(APP, Root::Localhost, verb, &parameters);
        // `rib/announce` has no ControlParameters in its name.
        prop_assert_eq!(response.is_some(), verb != Verb::RibAnnounce);
        bench.control.on_timeout(Instant::from_millis(1 << 40), &mut bench.env);
    }

    #[test]
    fn no_component_panics(module in 0..Verb::ALL.len(), parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..12), 0..4)) {
        let mut bench = Bench::new();
        let name = parts.iter().fold(Verb::ALL[module].name(Root::Localhost), |name, part| name.with_generic(part));
        let wire = InterestBuilder::new(name).can_be_prefix(true).encode();
        bench.interest(APP, &wire);
    }

    #[test]
    fn no_bytes_panic(verb in 0..Verb::ALL.len(), parameters in any_parameters(), flips in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4)) {
        let mut bench = Bench::new();
        let mut wire = bench.command_wire(Root::Localhost, Verb::ALL[verb], &parameters);
        for (at, octet) in flips {
            let at = at % wire.len();
            wire[at] = octet;
        }
        bench.interest(APP, &wire);
        wire.truncate(wire.len() / 2);
        prop_assert_eq!(bench.interest(APP, &wire), Reply::Silent);
    }

    #[test]
    fn no_announcement_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let mut bench = Bench::new();
        let wire = InterestBuilder::new(Verb::RibAnnounce.name(Root::Localhost)).parameters(bytes).encode();
        prop_assert_eq!(bench.interest(APP, &wire), Reply::Answered(400));
    }
}

/// An answer says the name twice: in its own name, within the parameters, and in its body.
#[test]
fn names_that_would_not_fit_twice() {
    let mut bench = Bench::new();
    let long = Name::new().with_generic(vec![b'x'; 5000]);
    let response = bench.command(Verb::RibRegister, ControlParameters::of(long.clone()));
    assert_eq!((response.code, response.body), (200, ControlParameters::default()));
    assert!(bench.env.fib.contains_key(&long));
}

#[test]
fn commands_nobody_has() {
    let mut bench = Bench::new();
    let name = named("/localhost/nfd/rib/dance").with_generic(named_parameters("/a").encode());
    let wire = InterestBuilder::new(name).encode();
    assert_eq!(bench.interest(APP, &wire), Reply::Answered(501));
    assert_eq!(bench.answer_to(&wire).code, 501);
}
