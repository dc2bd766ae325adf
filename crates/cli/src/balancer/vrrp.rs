//! `nw balancer vrrp`: prints a keepalived configuration.

use super::run::load;
use crate::output::stdout;
use anyhow::Result;
use clap::Args;
use nw_balancer::vrrp::{VrrpOptions, configuration};
use std::io::Write;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct VrrpArgs {
    /// Configuration file of the balancer, with a section [vrrp]
    #[arg(long, short, value_name = "FILE")]
    pub config: PathBuf,
    /// VRRP priority; the balancer with the highest one has the addresses
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=254))]
    pub priority: u8,
    /// Interface towards clients, if its name differs on this machine
    #[arg(long, value_name = "INTERFACE")]
    pub outside: Option<String>,
    /// Interface towards members, if its name differs on this machine
    #[arg(long, value_name = "INTERFACE")]
    pub inside: Option<String>,
}

/// Runs `nw balancer vrrp`.
pub fn vrrp(args: &VrrpArgs) -> Result<()> {
    let config = load(&args.config)?;
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("nw"));
    let options = VrrpOptions {
        priority: args.priority,
        outside: args.outside.clone(),
        inside: args.inside.clone(),
        program: program.display().to_string(),
        control: config.control.path.display().to_string(),
    };
    Ok(write!(stdout(), "{}", configuration(&config, &options)?)?)
}
