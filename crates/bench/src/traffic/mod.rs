//! Traffic by rule: a generator that asks and measures, a sink that answers, and what they share.
//!
//! Neither keeps a router's state. The generator knows what it waits for; the sink knows nothing: each answer is made from the Interest alone.

pub mod client_link;
pub mod generator;
pub mod link;
pub mod measured;
pub mod memory;
pub mod report_html;
pub mod result;
pub mod series;
pub mod sink;
pub mod span;
pub mod through_router;
pub mod timings;
pub mod workload;
pub mod xdp;
