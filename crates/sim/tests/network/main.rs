//! Whole networks. What the tests share.

mod conservation;
mod determinism;
mod failures;
mod theory;
mod thousand;

use nw_sim::{Outcome, Overrides, Scenario};

/// Runs a scenario; what does not add up fails the test.
pub fn run(text: &str) -> Outcome {
    run_seed(text, None)
}

/// With another seed.
pub fn run_seed(text: &str, seed: Option<u64>) -> Outcome {
    let overrides = Overrides { seed, ..Overrides::default() };
    let plan = Scenario::parse("test", text, None, &overrides)
        .unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    let outcome = nw_sim::run(plan).unwrap();
    assert_eq!(outcome.violations, Vec::<String>::new(), "{text}");
    outcome
}
