//! Properties of the codec: decoding never panics, and decodes what was encoded.

use nw_api::management::client::{decode_items, decode_status, encode_items};
use nw_api::management::command::parse;
use nw_api::management::{
    ControlParameters, ControlResponse, DropCount, FaceEventNotification, FaceQueryFilter,
    FaceStatus, FibEntry, NextHopRecord, RibEntry, Route, Strategy as Chosen, StrategyChoice,
};
use nw_name::{Name, NameRef};
use nw_wire::{Fault, Interest, InterestBuilder};
use proptest::prelude::*;

fn names() -> impl Strategy<Value = Name> {
    let parts = proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..8), 0..4);
    parts.prop_map(|parts| parts.iter().fold(Name::new(), |name, part| name.with_generic(part)))
}

prop_compose! {
    fn parameters()(
        name in proptest::option::of(names()),
        strategy in proptest::option::of(names()),
        uri in proptest::option::of(".{0,20}"),
        numbers in proptest::array::uniform12(proptest::option::of(any::<u64>())),
    ) -> ControlParameters {
        let [
            face_id, origin, cost, capacity, count, flags, mask, period, persistency, interval,
            threshold, mtu,
        ] = numbers;
        ControlParameters {
            name,
            face_id,
            uri: uri.clone(),
            local_uri: uri,
            origin,
            cost,
            capacity,
            count,
            flags,
            mask,
            strategy: strategy.map(Chosen),
            expiration_period: period,
            face_persistency: persistency,
            base_congestion_marking_interval: interval,
            default_congestion_threshold: threshold,
            mtu,
        }
    }
}

proptest! {
    #[test]
    fn parameters_are_decoded_as_encoded(parameters in parameters(), code in any::<u64>(), text in ".{0,20}") {
        prop_assert_eq!(ControlParameters::decode(&parameters.encode()), Ok(parameters.clone()));
        let response = ControlResponse { code, text, body: parameters };
        prop_assert_eq!(ControlResponse::decode(&response.encode()), Ok(response));
    }

    #[test]
    fn items_are_decoded_as_encoded(name in names(), numbers in proptest::collection::vec(any::<u64>(), 0..6)) {
        let next_hop = |n: &u64| NextHopRecord { face_id: *n, cost: n / 3 };
        let next_hops = numbers.iter().map(next_hop).collect();
        let fib = [FibEntry { name: name.clone(), next_hops }];
        prop_assert_eq!(decode_items::<FibEntry>(&encode_items(&fib)).unwrap(), fib);
        let route = |n: &u64| Route {
            face_id: *n,
            origin: n / 2,
            cost: n / 3,
            flags: n & 3,
            expiration_period: (n & 1 == 0).then_some(*n),
        };
        let rib = [RibEntry { name: name.clone(), routes: numbers.iter().map(route).collect() }];
        prop_assert_eq!(decode_items::<RibEntry>(&encode_items(&rib)).unwrap(), rib);
        let choices = [StrategyChoice { name: name.clone(), strategy: Chosen(name) }];
        prop_assert_eq!(decode_items::<StrategyChoice>(&encode_items(&choices)).unwrap(), choices);
    }

    #[test]
    fn decoding_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = ControlParameters::decode(&bytes);
        let _ = ControlResponse::decode(&bytes);
        let _ = FaceQueryFilter::decode(&bytes);
        let _ = FaceEventNotification::decode(&bytes);
        let _ = decode_items::<FaceStatus>(&bytes);
        let _ = decode_items::<RibEntry>(&bytes);
        let _ = decode_items::<DropCount>(&bytes);
        let _ = decode_status(&bytes);
    }

    #[test]
    fn damaged_parameters_never_panic(parameters in parameters(), index in any::<usize>(), byte in any::<u8>()) {
        let mut bytes = parameters.encode();
        let index = index % bytes.len();
        bytes[index] = byte;
        let _ = ControlParameters::decode(&bytes);
        prop_assert!(ControlParameters::decode(&bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn parsing_names_never_panics(
        tail in names(),
        module in "(faces|rib|fib|cs|status)",
        word in "(list|query|events|register|announce|x)",
    ) {
        let root = Name::new().with_generic("localhost").with_generic("nfd");
        let name = root.with_generic(module).with_generic(word);
        let wire = InterestBuilder::new(name.with_name(tail.as_ref())).encode();
        let _ = parse(&Interest::check(&wire).unwrap());
    }
}

fn fault(bytes: &[u8]) -> Fault {
    ControlParameters::decode(bytes).unwrap_err().fault
}

#[test]
fn malformed_parameters_are_refused() {
    assert_eq!(fault(&[]), Fault::Truncated);
    assert_eq!(fault(&[0x69, 0]), Fault::FieldValue);
    assert_eq!(fault(&[0x68, 0, 0]), Fault::Trailing);
    assert_eq!(fault(&[0x68, 6, 0x69, 1, 1, 0x69, 1, 2]), Fault::FieldOrder, "twice");
    assert_eq!(fault(&[0x68, 5, 0x69, 3, 1, 2, 3]), Fault::NumberLength);
    assert_eq!(fault(&[0x68, 3, 0x72, 1, 0xff]), Fault::FieldValue, "not UTF-8");
    assert_eq!(fault(&[0x68, 2, 0xbf, 0]), Fault::UnknownCritical);
    assert_eq!(fault(&[0x68, 2, 0x6b, 0]), Fault::MissingField, "a Strategy without its Name");
    assert!(ControlParameters::decode(&[0x68, 2, 0xbe, 0]).is_ok(), "unknown and not critical");
    assert!(NameRef::check(&[8, 1]).is_err());
}
