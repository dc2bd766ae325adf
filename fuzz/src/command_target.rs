//! The target for signed commands, in a file of its own because it needs the `trust` crate.
//! Replayed by `crates/trust/tests/all/corpus.rs`.

use nw_trust::{Command, CommandPolicy};
use nw_wire::Interest;

/// Time at which all inputs are checked, in milliseconds since 1970.
const NOW_MS: u64 = 1_700_000_000_000;

/// Checks a command Interest by the default rules, as from a local face.
pub fn command(bytes: &[u8]) -> Result<(), &'static str> {
    let interest = Interest::check(bytes).map_err(|e| e.fault.as_str())?;
    let mut policy = CommandPolicy::default();
    let command = match Command::read(&interest) {
        Ok(command) => command,
        Err(refusal) => {
            assert_eq!(policy.check(&interest, true, NOW_MS).unwrap_err(), refusal);
            return Err("refused");
        }
    };
    assert!(
        command.name.is_prefix_of(interest.name()) && command.name.len() < interest.name().len()
    );
    assert!(command.signed.iter().map(|part| part.len()).sum::<usize>() <= bytes.len());
    policy.check(&interest, true, NOW_MS).map(drop).map_err(|_| "refused")
}
