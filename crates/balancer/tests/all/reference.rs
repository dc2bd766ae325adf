//! `docs/reference/balancer.md` must equal what `nw balancer config` prints.

use nw_balancer::Config;
use std::fs;
use std::path::PathBuf;

const RENEW: &str = "RENEW=1 cargo test -p nw-balancer --test all reference";

fn page() -> String {
    format!(
        "# Every option of a balancer\n\nMade from the code by `{RENEW}`; do not edit. `nw balancer config` prints the same, \
         `nw balancer config --check FILE` checks a file.\n\n```text\n{}```\n",
        Config::reference()
    )
}

#[test]
fn reference_page_is_up_to_date() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/balancer.md");
    if std::env::var_os("RENEW").is_some() {
        fs::write(&path, page()).expect("docs/reference can be written");
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(there == page(), "docs/reference/balancer.md is out of date; renew it with: {RENEW}");
}
