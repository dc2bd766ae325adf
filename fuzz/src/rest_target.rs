//! The target over bodies of REST requests. Replayed by `crates/rest-api/tests/corpus.rs`.

use nw_api::balancer::{AgentReport, MemberChange, MemberWanted};
use nw_api::rest::{CsChange, CsErase, FaceWanted, LogLevels, RouteWanted, StrategyWanted};
use nw_api::service::GraphChange;
use nw_rest_api::read_body;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Every body that a server takes, from the same bytes; what is accepted must survive being written
/// and read again.
pub fn rest_body(bytes: &[u8]) -> Result<(), &'static str> {
    let accepted = [
        survives::<FaceWanted>(bytes),
        survives::<RouteWanted>(bytes),
        survives::<StrategyWanted>(bytes),
        survives::<CsChange>(bytes),
        survives::<CsErase>(bytes),
        survives::<LogLevels>(bytes),
        survives::<GraphChange>(bytes),
        survives::<MemberWanted>(bytes),
        survives::<MemberChange>(bytes),
        survives::<AgentReport>(bytes),
    ];
    if accepted.contains(&true) { Ok(()) } else { Err("refused") }
}

fn survives<T: Serialize + DeserializeOwned + PartialEq + core::fmt::Debug>(bytes: &[u8]) -> bool {
    let Ok(body) = read_body::<T>(bytes) else { return false };
    let written = serde_json::to_vec(&body).expect("strings and numbers");
    assert_eq!(read_body::<T>(&written).ok(), Some(body));
    true
}
