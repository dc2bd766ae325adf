//! Traffic generators: a generator that sends Interests and measures the answers, a sink that
//! answers them, and the links between the two. The crate behind `nw bench`.
//!
//! Neither end keeps a router's state. The generator holds its outstanding Interests; the sink is
//! stateless and builds each answer from the Interest alone.
//!
//! Layer 6 (tools). Does not depend on the benchmark rows of `nw-bench`.

#![forbid(unsafe_code)]

pub mod attack;
pub mod bulk;
pub mod client_link;
pub mod generator;
pub mod link;
pub mod machine;
pub mod measured;
pub mod memory;
pub mod number_range;
pub mod report_html;
pub mod result;
pub mod series;
pub mod sink;
pub mod through_router;
pub mod through_xdp;
pub mod timings;
pub mod workload;
pub mod xdp;
