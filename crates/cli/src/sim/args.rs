//! Options of `nw sim`.

use clap::{Args, Subcommand, ValueEnum};
use nw_sim::scenario::Secs;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Run a scenario, and print the results
    ///
    /// The same scenario and seed give the same result. If an expectation of the scenario fails,
    /// the command fails and prints how to repeat the run.
    Run(Run),
    /// Print a topology as TOML, Graphviz or SVG; without an argument, list all topologies
    Topology(Topology),
    /// Print an example scenario
    Example,
    /// Print all options of a scenario with explanations
    Options,
    /// List the measures that a scenario's expectations can use
    Measures {
        /// Print one JSON object per measure
        #[arg(long)]
        json: bool,
    },
}

/// A scenario and what replaces or extends it.
#[derive(Debug, Args)]
pub struct ScenarioArgs {
    /// Scenario (TOML)
    ///
    /// Without a file, but with --topology, every node requests names from one producer with Zipf
    /// popularity.
    #[arg(required_unless_present = "topology")]
    pub file: Option<PathBuf>,
    /// Topology, overriding the scenario: grid:10x10, scale-free:1000:2, abilene … (`nw sim
    /// topology` lists all), or a file
    #[arg(long, value_name = "TOPOLOGY")]
    pub topology: Option<String>,
    /// Random seed, overriding the scenario
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Duration in seconds, overriding the scenario
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub duration: Option<Secs>,
    /// Event, in addition to run.at: "2s link a-b down", "3s node c restart"
    #[arg(long, value_name = "EVENT")]
    pub at: Vec<String>,
    /// Expectation, in addition to run.expect: "satisfied >= 0.99"
    #[arg(long, value_name = "CONDITION")]
    pub expect: Vec<String>,
    /// Write tables (CSV) and charts (HTML) into this folder; for several runs one subfolder each
    #[arg(long, short, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Print one JSON object per run
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Number of runs, with consecutive seeds, in parallel on all processors
    #[arg(
        long,
        default_value_t = 1,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    pub runs: u32,
    /// Record the run into this file; `nw open FILE` replays it in the browser
    #[arg(long, value_name = "FILE", conflicts_with = "runs")]
    pub record: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Topology {
    /// grid:10x10, abilene …, or a file: GML, Mini-NDN, or one link per line
    pub topology: Option<String>,
    /// Seed for random topologies
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Output format
    #[arg(long = "as", value_enum, default_value_t = Format::Toml, value_name = "FORMAT")]
    pub format: Format,
    /// List all topologies as JSON, one object each
    #[arg(long, conflicts_with = "topology")]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Sections of a scenario
    Toml,
    /// Graphviz
    Dot,
    /// SVG picture
    Svg,
}

fn seconds(text: &str) -> Result<Secs, String> {
    Secs::parse(text)
        .filter(|seconds| seconds.0 >= 1_000_000)
        .ok_or_else(|| "give a number of seconds from 0.001 to 1000000".into())
}
