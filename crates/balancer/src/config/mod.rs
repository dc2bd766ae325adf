//! The balancer's configuration file (TOML). Every option is declared once; all mistakes are
//! reported at once.

mod check;
mod options;
#[cfg(test)]
mod tests;
mod values;

pub(crate) use check::is_identifier;
pub use check::{Fault, MEMBERS_MAX, member_faults};
pub use options::{
    Attach, Cluster, ControlSection, Drain, Elastic, Health, LauncherKind, Measure, MemberItem,
    Routes, RuleItem, Vrrp,
};
pub use values::{Cidr, Ip, WEIGHT_MAX, Weight};

use nw_api::config::diagnostics::Source;
use nw_api::config::read::read;
use nw_api::config::section::{write, write_item};
use nw_api::config::{Diagnostics, Page, Renamed};

/// The configuration of a balancer.
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
    /// `[page]`
    pub page: Page,
    /// `[vrrp]`
    pub vrrp: Vrrp,
    /// Options that the file calls by their old names.
    pub renamed: Vec<Renamed>,
}

impl Config {
    /// Parses and checks a configuration. `file` is its name in messages.
    ///
    /// # Errors
    /// All mistakes, each with its line, the value found and the value expected.
    pub fn parse(file: &str, text: &str) -> Result<Config, Diagnostics> {
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
            page: file.section(),
            vrrp: file.section(),
            renamed: Vec::new(),
        });
        let config = sections.map(|(mut config, places)| {
            check::contradictions(&config, &places, &mut source);
            config.renamed = places.renamed().to_vec();
            config
        });
        source.finish(config).map(|config| config.expect("invalid TOML is a problem"))
    }

    /// Returns all options with documentation and defaults, as `docs/reference/balancer.md` has
    /// them.
    pub fn reference() -> String {
        let mut text = String::from(
            "# Configuration of a balancer: `nw balancer run -c FILE`. Every option is shown with its default; \
             a file needs only those that differ.\n",
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
        write::<Page>(&mut text);
        write::<Vrrp>(&mut text);
        text
    }
}
