//! Words of `nw sim`, with the help that teaches them.

use clap::{Args, Subcommand, ValueEnum};
use nw_sim::scenario::Secs;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum SimVerb {
    /// Run a scenario, and show what came of it
    ///
    /// The same scenario and seed give the same result. A run that does not come out as expected fails, and says how to repeat it.
    Run(Run),
    /// Show a topology as sections of a scenario, for Graphviz or as a picture; without one, list what there is
    Topology(Topology),
    /// Print a scenario to begin with
    Example,
    /// Print every option of a scenario, explained
    Options,
    /// List what a scenario can expect of a run
    Measures {
        /// Print one JSON object for each
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub struct Run {
    /// Scenario (TOML); with --topology and no file: everybody asks one producer for names by Zipf's law
    #[arg(required_unless_present = "topology")]
    pub file: Option<PathBuf>,
    /// Topology instead of the scenario's: grid:10x10, scale-free:1000:2, abilene … (`nw sim topology` lists them)
    #[arg(long, value_name = "TOPOLOGY")]
    pub topology: Option<String>,
    /// Seed instead of the scenario's
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Virtual seconds instead of the scenario's
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub duration: Option<Secs>,
    /// Something that happens, besides run.at: "2s link a-b down", "3s node c restart"
    #[arg(long, value_name = "WHAT")]
    pub at: Vec<String>,
    /// Something that must hold, besides run.expect: "satisfied >= 0.99"
    #[arg(long, value_name = "WHAT")]
    pub expect: Vec<String>,
    /// So many runs, each with the seed after the last one's, on all processors
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: u32,
    /// Write tables (CSV) and charts (HTML) into this folder; with --runs a folder for each seed in it
    #[arg(long, short, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Print one JSON object a run
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Topology {
    /// grid:10x10, abilene …, or a file: GML, or a link a line
    pub topology: Option<String>,
    /// Seed of those that are random
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// As what
    #[arg(long = "as", value_enum, default_value_t = Format::Toml, value_name = "FORMAT")]
    pub format: Format,
    /// List what there is as JSON, an object for each
    #[arg(long, conflicts_with = "topology")]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Sections of a scenario
    Toml,
    /// For Graphviz
    Dot,
    /// A picture
    Svg,
}

fn seconds(text: &str) -> Result<Secs, String> {
    Secs::parse(text)
        .filter(|seconds| seconds.0 >= 1_000_000)
        .ok_or_else(|| "write a number of seconds from 0.001 to 1000000".into())
}
