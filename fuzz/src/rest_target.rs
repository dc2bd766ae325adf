//! The target for bodies of REST requests. Replayed by `crates/rest-api/tests/all/corpus.rs`.

use nw_api::balancer::{AgentReport, MemberChange, MemberWanted};
use nw_api::rest::{CsChange, CsErase, FaceWanted, LogLevels, RouteWanted, StrategyWanted};
use nw_api::service::GraphChange;
use nw_rest_api::read_body;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Decodes the bytes as every type of request body. An accepted value must be equal after encoding
/// and decoding again.
pub fn rest_body(bytes: &[u8]) -> Result<(), &'static str> {
    let accepted = [
        round_trips::<FaceWanted>(bytes),
        round_trips::<RouteWanted>(bytes),
        round_trips::<StrategyWanted>(bytes),
        round_trips::<CsChange>(bytes),
        round_trips::<CsErase>(bytes),
        round_trips::<LogLevels>(bytes),
        round_trips::<GraphChange>(bytes),
        round_trips::<MemberWanted>(bytes),
        round_trips::<MemberChange>(bytes),
        round_trips::<AgentReport>(bytes),
    ];
    if accepted.contains(&true) { Ok(()) } else { Err("refused") }
}

fn round_trips<T: Serialize + DeserializeOwned + PartialEq + core::fmt::Debug>(
    bytes: &[u8],
) -> bool {
    let Ok(body) = read_body::<T>(bytes) else { return false };
    let written = serde_json::to_vec(&body).expect("strings and numbers");
    assert_eq!(read_body::<T>(&written).ok(), Some(body));
    true
}
