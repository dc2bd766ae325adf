//! A simulation scenario: one TOML file. Every option is declared once (`options`), and all
//! mistakes are reported at once.

mod actions;
mod check;
mod expect;
mod network;
mod options;
mod values;

pub use actions::{Action, Timed};
pub use check::{
    ConsumerPlan, NodePlan, ProducerPlan, RunPlan, STRATEGY_DEFAULT, StrategyPlan, Workload,
    name_matches,
};
pub use expect::{Expectation, Metric};
pub use network::Announcement;
pub use options::{
    Arrivals, ConsumerItem, ConsumerKind, Failures, LinkItem, Links, Metric as RoutingMetric,
    NodeItem, Policy, ProducerItem, Routers, Routing, Run, Signature, StrategyItem,
    TopologySection,
};
pub use values::{Decimal, Mbps, Ms, Secs, Share};

use nw_api::config::Diagnostics;
use nw_api::config::diagnostics::Source;
use nw_api::config::read::read;
use nw_api::config::section::{write, write_item};

/// A scenario, as written in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scenario {
    /// `[run]`
    pub run: Run,
    /// `[topology]`
    pub topology: TopologySection,
    /// `[links]`
    pub links: Links,
    /// `[routers]`
    pub routers: Routers,
    /// `[routing]`
    pub routing: Routing,
    /// `[failures]`
    pub failures: Failures,
    /// `[[node]]`
    pub node: Vec<NodeItem>,
    /// `[[link]]`
    pub link: Vec<LinkItem>,
    /// `[[strategy]]`
    pub strategy: Vec<StrategyItem>,
    /// `[[producer]]`
    pub producer: Vec<ProducerItem>,
    /// `[[consumer]]`
    pub consumer: Vec<ConsumerItem>,
}

/// Options of the command line that replace or extend those of the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `run.seed`
    pub seed: Option<u64>,
    /// `run.duration_s`
    pub duration: Option<Secs>,
    /// `topology.generate`, instead of the topology in the file.
    pub topology: Option<String>,
    /// `topology.file`, instead of the topology in the file; relative to the working directory.
    pub topology_file: Option<std::path::PathBuf>,
    /// Further entries of `run.at`.
    pub at: Vec<String>,
    /// Further entries of `run.expect`.
    pub expect: Vec<String>,
}

/// A short example scenario.
pub const EXAMPLE: &str = include_str!("example.toml");

impl Scenario {
    /// Parses and checks the text of a scenario. `file` is the name used in messages; topology
    /// files are relative to `folder`.
    ///
    /// # Errors
    /// Every mistake, with its line and the expected value.
    pub fn parse(
        file: &str,
        text: &str,
        folder: Option<&std::path::Path>,
        overrides: &Overrides,
    ) -> Result<RunPlan, Diagnostics> {
        let mut source = Source::new(file, text);
        let sections = read(&mut source, |file| Scenario {
            run: file.section(),
            topology: file.section(),
            links: file.section(),
            routers: file.section(),
            routing: file.section(),
            failures: file.section(),
            node: file.items(),
            link: file.items(),
            strategy: file.items(),
            producer: file.items(),
            consumer: file.items(),
        });
        let checked = sections.map(|(mut scenario, places)| {
            scenario.apply(overrides);
            check::check(scenario, folder, &places, &mut source)
        });
        source.finish(checked).map(|checked| checked.expect("invalid TOML is a problem"))
    }

    fn apply(&mut self, overrides: &Overrides) {
        if let Some(seed) = overrides.seed {
            self.run.seed = seed;
        }
        if let Some(duration) = overrides.duration {
            self.run.duration_s = duration;
        }
        if let Some(topology) = &overrides.topology {
            self.topology = TopologySection { generate: Some(topology.clone()), file: None };
        }
        if let Some(file) = &overrides.topology_file {
            // An absolute path is not relative to the scenario's folder.
            let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
            self.topology = TopologySection { generate: None, file: Some(file) };
        }
        self.run.at.extend(overrides.at.iter().cloned());
        self.run.expect.extend(overrides.expect.iter().cloned());
    }

    /// Returns a TOML file with every option, its documentation and its default.
    pub fn reference() -> String {
        let mut text = String::from(
            "# A scenario of the simulator: every option with its default. A file needs only what differs.\n",
        );
        write::<Run>(&mut text);
        write::<TopologySection>(&mut text);
        write::<Links>(&mut text);
        write::<Routers>(&mut text);
        write::<Routing>(&mut text);
        write::<Failures>(&mut text);
        write_item::<NodeItem>(&mut text);
        write_item::<LinkItem>(&mut text);
        write_item::<StrategyItem>(&mut text);
        write_item::<ProducerItem>(&mut text);
        write_item::<ConsumerItem>(&mut text);
        text
    }
}

#[cfg(test)]
mod tests;
