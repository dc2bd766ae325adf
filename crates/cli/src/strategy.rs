//! `nw strategy …`

use crate::args::StrategyVerb;
use crate::control::{Done, command, read_of};
use crate::exit::not_found;
use crate::output::{json_line, row, table};
use crate::shown;
use anyhow::Context;
use nw_api::management::parameters::Strategy;
use nw_api::management::{ControlParameters, Dataset, StrategyChoice, Verb};
use nw_name::Name;
use std::process::ExitCode;

/// Does what `verb` says.
pub fn strategy(verb: &StrategyVerb) -> Done {
    match verb {
        StrategyVerb::List { reading } => {
            let choices: Vec<StrategyChoice> = read_of(reading, Dataset::StrategyChoiceList)?;
            if reading.json {
                choices.iter().try_for_each(|choice| json_line(&shown::strategy(choice)))?;
                return Ok(ExitCode::SUCCESS);
            }
            let head = row([&"prefix", &"strategy"]);
            let rows: Vec<_> =
                std::iter::once(head).chain(choices.iter().map(|c| row([&c.name, &c.strategy.0]))).collect();
            table(&rows)?;
            Ok(ExitCode::SUCCESS)
        }
        StrategyVerb::Show { name, reading } => {
            let choices: Vec<StrategyChoice> = read_of(reading, Dataset::StrategyChoiceList)?;
            let choice = applies(&choices, name).context("the router has no strategy for /")?;
            if reading.json {
                json_line(&shown::strategy(choice))?;
            } else {
                outln!("{name} is forwarded by {}, chosen for {}", choice.strategy.0, choice.name)?;
            }
            Ok(ExitCode::SUCCESS)
        }
        StrategyVerb::Set { prefix, strategy, order } => {
            let name: Name = match strategy.starts_with('/') {
                true => strategy.parse()?,
                false => format!("/localhost/nfd/strategy/{strategy}").parse()?,
            };
            let parameters =
                ControlParameters { strategy: Some(Strategy(name)), ..ControlParameters::of(prefix.clone()) };
            command(order, Verb::StrategyChoiceSet, &parameters, &[], |body| {
                format!(
                    "{prefix} is forwarded by {}",
                    body.strategy_name().map_or(String::new(), |name| name.to_string())
                )
            })
        }
        StrategyVerb::Unset { prefix, order } => {
            let choices: Vec<StrategyChoice> = read_of(&order.reading, Dataset::StrategyChoiceList)?;
            if !choices.iter().any(|choice| choice.name == *prefix) {
                return Err(not_found(format!(
                    "no strategy was chosen for {prefix} (`nw strategy list` shows where one was)"
                )));
            }
            let parameters = ControlParameters::of(prefix.clone());
            command(order, Verb::StrategyChoiceUnset, &parameters, &[], |_| {
                format!("{prefix} is forwarded as what is above it")
            })
        }
    }
}

/// The choice for the longest prefix of `name`.
fn applies<'a>(choices: &'a [StrategyChoice], name: &Name) -> Option<&'a StrategyChoice> {
    let is_above = |choice: &&StrategyChoice| choice.name.as_ref().is_prefix_of(name.as_ref());
    choices.iter().filter(is_above).max_by_key(|choice| choice.name.as_ref().len())
}
