//! The targets for the decoders of `api`: management messages and the configuration file.
//! Replayed by `crates/api/tests/all/corpus.rs`.

use nw_api::config::Config;
use nw_api::management::client::{decode_cs_info, decode_items, decode_status};
use nw_api::management::{
    ChannelStatus, ControlParameters, ControlResponse, FaceEventNotification, FaceQueryFilter,
    FaceStatus, FibEntry, RibEntry, StrategyChoice, command,
};
use nw_wire::Interest;

/// Runs every management decoder on the same bytes. An accepted value must be equal after encoding
/// and decoding again.
pub fn management(bytes: &[u8]) -> Result<(), &'static str> {
    let mut accepted = false;
    if let Ok(parameters) = ControlParameters::decode(bytes) {
        assert_eq!(ControlParameters::decode(&parameters.encode()), Ok(parameters));
        accepted = true;
    }
    if let Ok(response) = ControlResponse::decode(bytes) {
        assert_eq!(ControlResponse::decode(&response.encode()), Ok(response));
        accepted = true;
    }
    if let Ok(filter) = FaceQueryFilter::decode(bytes) {
        assert_eq!(FaceQueryFilter::decode(&filter.encode()), Ok(filter));
        accepted = true;
    }
    if let Ok(event) = FaceEventNotification::decode(bytes) {
        assert_eq!(FaceEventNotification::decode(&event.encode()), Ok(event));
        accepted = true;
    }
    accepted |= decode_items::<FaceStatus>(bytes).is_ok_and(|items| !items.is_empty());
    accepted |= decode_items::<ChannelStatus>(bytes).is_ok_and(|items| !items.is_empty());
    accepted |= decode_items::<FibEntry>(bytes).is_ok_and(|items| !items.is_empty());
    accepted |= decode_items::<RibEntry>(bytes).is_ok_and(|items| !items.is_empty());
    accepted |= decode_items::<StrategyChoice>(bytes).is_ok_and(|items| !items.is_empty());
    accepted |= decode_cs_info(bytes).is_ok() | decode_status(bytes).is_ok();
    accepted |= Interest::check(bytes).is_ok_and(|interest| command::parse(&interest).is_some());
    if accepted { Ok(()) } else { Err("refused") }
}

/// Parses a configuration file: accepted, or refused with at least one problem that names a line of
/// it.
pub fn config(bytes: &[u8]) -> Result<(), &'static str> {
    let Ok(text) = core::str::from_utf8(bytes) else { return Err("refused") };
    match Config::parse("nw.toml", text) {
        Ok(_) => Ok(()),
        Err(problems) => {
            assert!(
                problems.to_string().contains("nw.toml"),
                "a problem without its place: {problems}"
            );
            Err("refused")
        }
    }
}
