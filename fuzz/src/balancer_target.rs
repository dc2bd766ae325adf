//! The balancer's configuration file. Replayed by `crates/balancer/tests/all/corpus.rs`.

use nw_balancer::Config;

/// Parses a file: accepted, or refused with at least one problem that names a line of it.
pub fn balancer_config(bytes: &[u8]) -> Result<(), &'static str> {
    let Ok(text) = core::str::from_utf8(bytes) else { return Err("refused") };
    match Config::parse("balancer.toml", text) {
        Ok(_) => Ok(()),
        Err(problems) => {
            let text = problems.to_string();
            assert!(text.contains("balancer.toml"), "a problem without its place: {text}");
            Err("refused")
        }
    }
}
