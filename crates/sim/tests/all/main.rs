//! Tests of this crate from outside, in one program, with the helpers they share.

mod conservation;
mod corpus;
mod determinism;
mod failures;
mod fair_share;
mod theory;
mod thousand_nodes;

use nw_sim::{Outcome, Overrides, Scenario};

/// Runs a scenario; fails the test if a packet is unaccounted for.
pub fn run(text: &str) -> Outcome {
    run_seed(text, None)
}

/// Runs a scenario with another seed.
pub fn run_seed(text: &str, seed: Option<u64>) -> Outcome {
    let overrides = Overrides { seed, ..Overrides::default() };
    let plan = Scenario::parse("test", text, None, &overrides)
        .unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    let outcome = nw_sim::run(plan).unwrap();
    assert_eq!(outcome.violations, Vec::<String>::new(), "{text}");
    outcome
}
