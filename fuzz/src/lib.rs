//! The functions that the fuzzers run; see `fuzz/README.md`.

pub mod balancer_target;
pub mod command_target;
pub mod content_target;
pub mod control_targets;
pub mod graph_target;
pub mod link_target;
pub mod metadata_target;
pub mod ndncert_target;
pub mod publication_target;
pub mod rest_target;
pub mod safebag_target;
pub mod scenario_target;
pub mod shared_memory_target;
pub mod targets;
pub mod websocket_target;
