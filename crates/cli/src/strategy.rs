//! `nw strategy …`

use crate::args::strategy::StrategyCommand;
use crate::exit::not_found;
use crate::management::{CommandResult, connect_and_fetch, send_command};
use crate::output::{json_line, row, table};
use crate::render;
use anyhow::Context;
use nw_api::management::parameters::Strategy;
use nw_api::management::{ControlParameters, Dataset, StrategyChoice, Verb};
use nw_name::Name;
use std::process::ExitCode;

/// Runs `nw strategy …`.
pub fn strategy(action: &StrategyCommand) -> CommandResult {
    match action {
        StrategyCommand::List { query } => {
            let choices: Vec<StrategyChoice> =
                connect_and_fetch(query, Dataset::StrategyChoiceList)?;
            if query.json {
                choices.iter().try_for_each(|choice| json_line(&render::strategy(choice)))?;
                return Ok(ExitCode::SUCCESS);
            }
            let head = row([&"prefix", &"strategy"]);
            let rows: Vec<_> = std::iter::once(head)
                .chain(choices.iter().map(|c| row([&c.name, &c.strategy.0])))
                .collect();
            table(&rows)?;
            Ok(ExitCode::SUCCESS)
        }
        StrategyCommand::Show { name, query } => {
            let choices: Vec<StrategyChoice> =
                connect_and_fetch(query, Dataset::StrategyChoiceList)?;
            let choice = choice_for(&choices, name).context("the router has no strategy for /")?;
            if query.json {
                json_line(&render::strategy(choice))?;
            } else {
                outln!("{name} is forwarded by {}, chosen for {}", choice.strategy.0, choice.name)?;
            }
            Ok(ExitCode::SUCCESS)
        }
        StrategyCommand::Set { prefix, strategy, command } => {
            let name: Name = match strategy.starts_with('/') {
                true => strategy.parse()?,
                false => format!("/localhost/nfd/strategy/{strategy}").parse()?,
            };
            let parameters = ControlParameters {
                strategy: Some(Strategy(name)),
                ..ControlParameters::of(prefix.clone())
            };
            send_command(command, Verb::StrategyChoiceSet, &parameters, &[], |body| {
                format!(
                    "{prefix} is forwarded by {}",
                    body.strategy_name().map_or(String::new(), |name| name.to_string())
                )
            })
        }
        StrategyCommand::Unset { prefix, command } => {
            let choices: Vec<StrategyChoice> =
                connect_and_fetch(&command.query, Dataset::StrategyChoiceList)?;
            if !choices.iter().any(|choice| choice.name == *prefix) {
                return Err(not_found(format!(
                    "no strategy is set for {prefix} (`nw strategy list` shows all choices)"
                )));
            }
            let parameters = ControlParameters::of(prefix.clone());
            send_command(command, Verb::StrategyChoiceUnset, &parameters, &[], |_| {
                format!("{prefix} uses the strategy of the next shorter prefix")
            })
        }
    }
}

/// Returns the choice for the longest prefix of `name`.
fn choice_for<'a>(choices: &'a [StrategyChoice], name: &Name) -> Option<&'a StrategyChoice> {
    let is_above = |choice: &&StrategyChoice| choice.name.as_ref().is_prefix_of(name.as_ref());
    choices.iter().filter(is_above).max_by_key(|choice| choice.name.as_ref().len())
}
