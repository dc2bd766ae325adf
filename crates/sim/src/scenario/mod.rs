//! What is to be simulated: one TOML file, every option written down once, all mistakes named at once.

mod actions;
mod check;
mod expect;
mod options;
mod values;

pub use actions::{Action, Timed};
pub use check::{
    Asks, Checked, ConsumerPlan, NodePlan, ProducerPlan, STRATEGY_DEFAULT, StrategyPlan, is_called,
};
pub use expect::{Expectation, Metric};
pub use options::{
    Arrivals, ConsumerItem, ConsumerKind, Failures, LinkItem, Links, Metric as RoutingMetric, NodeItem,
    Policy, ProducerItem, Routers, Routing, Run, Signature, StrategyItem, TopologySection,
};
pub use values::{Decimal, Mbps, Ms, Secs, Share};

use nw_api::config::Problems;
use nw_api::config::problem::Source;
use nw_api::config::read::read;
use nw_api::config::section::{write, write_item};

/// A scenario, as it is written.
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

/// What the command line says otherwise than the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `run.seed`
    pub seed: Option<u64>,
    /// `run.duration_s`
    pub duration: Option<Secs>,
    /// `topology.generate`, in place of any topology of the file.
    pub topology: Option<String>,
    /// More of `run.at`.
    pub at: Vec<String>,
    /// More of `run.expect`.
    pub expect: Vec<String>,
}

/// A scenario of a few lines, for a beginning.
pub const EXAMPLE: &str = include_str!("example.toml");

impl Scenario {
    /// Reads a file's text and checks it whole. `file` is what problems call it; topology files are found from the folder `beside`.
    ///
    /// # Errors
    /// Every mistake, with its line and what should be there.
    pub fn parse(
        file: &str,
        text: &str,
        beside: Option<&std::path::Path>,
        overrides: &Overrides,
    ) -> Result<Checked, Problems> {
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
            check::check(scenario, beside, &places, &mut source)
        });
        source.finish(checked).map(|checked| checked.expect("what is no TOML is a problem"))
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
        self.run.at.extend(overrides.at.iter().cloned());
        self.run.expect.extend(overrides.expect.iter().cloned());
    }

    /// Every option with its documentation and default.
    pub fn reference() -> String {
        let mut text = String::from(
            "# A scenario of the simulator. Every option is here with its default; a file needs only what differs.\n",
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
