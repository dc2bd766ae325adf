//! The balancer's file: TOML, every option written down once, all mistakes named at once.

mod check;
mod options;
#[cfg(test)]
mod tests;
mod values;

pub(crate) use check::is_word;
pub use check::{Fault, MEMBERS_MAX, member_faults};
pub use options::{
    Attach, Cluster, ControlSection, Drain, Elastic, EngineKind, Health, Measure, MemberItem, Routes,
    RuleItem, Vrrp,
};
pub use values::{Cidr, Ip, WEIGHT_MAX, Weight};

use nw_api::config::Problems;
use nw_api::config::problem::Source;
use nw_api::config::read::read;
use nw_api::config::section::{write, write_item};

/// All that a balancer is told at its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `[cluster]`
    pub cluster: Cluster,
    /// `[[member]]`
    pub member: Vec<MemberItem>,
    /// `[[rule]]`
    pub rule: Vec<RuleItem>,
    /// `[health]`
    pub health: Health,
    /// `[drain]`
    pub drain: Drain,
    /// `[routes]`
    pub routes: Routes,
    /// `[measure]`
    pub measure: Measure,
    /// `[elastic]`
    pub elastic: Elastic,
    /// `[control]`
    pub control: ControlSection,
    /// `[vrrp]`
    pub vrrp: Vrrp,
}

impl Config {
    /// Reads a file's text and checks it whole. `file` is what problems call it.
    ///
    /// # Errors
    /// Every mistake, with its line, what is there and what should be.
    pub fn parse(file: &str, text: &str) -> Result<Config, Problems> {
        let mut source = Source::new(file, text);
        let sections = read(&mut source, |file| Config {
            cluster: file.section(),
            member: file.items(),
            rule: file.items(),
            health: file.section(),
            drain: file.section(),
            routes: file.section(),
            measure: file.section(),
            elastic: file.section(),
            control: file.section(),
            vrrp: file.section(),
        });
        let config = sections.map(|(config, places)| {
            check::contradictions(&config, &places, &mut source);
            config
        });
        source.finish(config).map(|config| config.expect("what is no TOML is a problem"))
    }

    /// Every option with its documentation and default.
    pub fn reference() -> String {
        let mut text = String::from(
            "# Configuration of a balancer: `nw balancer run -c FILE`. Every option is here with its default; a file needs only what differs.\n",
        );
        write::<Cluster>(&mut text);
        write_item::<MemberItem>(&mut text);
        write_item::<RuleItem>(&mut text);
        write::<Health>(&mut text);
        write::<Drain>(&mut text);
        write::<Routes>(&mut text);
        write::<Measure>(&mut text);
        write::<Elastic>(&mut text);
        write::<ControlSection>(&mut text);
        write::<Vrrp>(&mut text);
        text
    }
}
