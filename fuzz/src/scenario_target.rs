//! Files of the simulator: scenarios, and topologies in GML, of Mini-NDN or as lists of links.
//! Replayed by `crates/sim/tests/all/corpus.rs`.

use nw_sim::{Overrides, Scenario, Topology};

/// Parses a scenario: accepted, or refused with at least one problem that names a line of it.
pub fn scenario(bytes: &[u8]) -> Result<(), &'static str> {
    let Ok(text) = core::str::from_utf8(bytes) else { return Err("refused") };
    match Scenario::parse("s.toml", text, None, &Overrides::default()) {
        Ok(_) => Ok(()),
        Err(problems) => {
            assert!(
                problems.to_string().contains("s.toml"),
                "a problem without its place: {problems}"
            );
            Err("refused")
        }
    }
}

/// Parses a topology. The first byte is the format: `g` is GML, anything else a list of links or
/// a file of Mini-NDN. An accepted topology satisfies the invariants of [`Topology`].
pub fn topology(bytes: &[u8]) -> Result<(), &'static str> {
    let Some((format, text)) = bytes.split_first() else { return Err("refused") };
    let Ok(text) = core::str::from_utf8(text) else { return Err("refused") };
    let file = if *format == b'g' { "t.gml" } else { "t.edges" };
    let topology = match Topology::parse(file, text) {
        Ok(topology) => topology,
        Err(error) => {
            assert!(error.to_string().contains(file), "a problem without its place: {error}");
            return Err("refused");
        }
    };
    for (number, edge) in topology.links.iter().enumerate() {
        let (a, b) = (edge.ends.0 as usize, edge.ends.1 as usize);
        assert!(a != b && a < topology.nodes.len() && b < topology.nodes.len(), "link {number}");
        assert_eq!(topology.link_between(a, b), Some(number), "two nodes have one link at most");
    }
    assert_eq!(topology.degrees().iter().sum::<u32>() as usize, 2 * topology.links.len());
    Ok(())
}
