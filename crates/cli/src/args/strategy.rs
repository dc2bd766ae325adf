//! Options of `nw strategy …`.

use super::flags::{CommandArgs, QueryArgs};
use clap::Subcommand;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use nw_api::config::STRATEGIES;
use nw_name::Name;

#[derive(Debug, Subcommand)]
pub enum StrategyCommand {
    /// List all strategy choices
    List {
        #[command(flatten)]
        query: QueryArgs,
    },
    /// Show which strategy applies to a name, and the prefix it was chosen for
    Show {
        /// The name
        name: Name,
        #[command(flatten)]
        query: QueryArgs,
    },
    /// Choose the strategy of a prefix
    Set {
        /// The prefix
        prefix: Name,
        /// Strategy with optional parameters: `asf`, `asf/v=5/probing-interval~30000`, or a full
        /// name
        ///
        /// best-route, multicast: retx-suppression-initial, -max (ms), -multiplier. These also
        /// apply
        ///   to all others except self-learning, random and access.
        /// asf: probing-interval, measurements-lifetime (ms), max-timeouts.
        /// self-learning, random, access: none.
        /// weighted: weights, as in weights~5-3-1, cheapest next hop first; by cost if not given.
        /// hash: depth (components).
        /// round-robin: none of its own.
        /// fail-over: max-timeouts, recovery-interval (ms).
        #[arg(verbatim_doc_comment, value_parser = StrategyNameParser)]
        strategy: String,
        #[command(flatten)]
        command: CommandArgs,
    },
    /// Remove the strategy choice of a prefix, which then uses that of the next shorter prefix
    Unset {
        /// The prefix
        prefix: Name,
        #[command(flatten)]
        command: CommandArgs,
    },
}

/// Accepts any text, since other routers may have more strategies; completions and help offer the
/// strategies of this router.
#[derive(Clone, Copy, Debug)]
struct StrategyNameParser;

impl TypedValueParser for StrategyNameParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(STRATEGIES.iter().map(PossibleValue::new)))
    }
}
