//! Elements that refuse packets, made from parameters.

use super::{Configured, fixed, live};
use crate::name_filter::{self, Rule, Verdict};
use crate::{NameFilter, NameFilterConfig};
use nw_element::parameters::{ParameterInfo, Reader};
use nw_element::{Context, Instant};

impl Configured for NameFilter {
    const PARAMETERS: &'static [ParameterInfo] = &[
        fixed("rules_max", "65536", "rules at most"),
        live(
            "rules",
            "[]",
            "\"allow /prefix\", \"deny exact /name\", \"deny /a/*/c\", \"deny /a/**/c\": the one that says most decides",
        ),
        live("otherwise", "allow", "what becomes of names that fit no rule: allow or deny"),
        live("refused", "drop", "what becomes of packets that are refused: drop, or port (they leave by it)"),
    ];

    fn make(reader: &mut Reader<'_>) -> Self {
        let rules_max = reader.integer("rules_max", 1 << 16, 1..=1 << 24) as usize;
        NameFilter::new(reader.making().key, NameFilterConfig { rules_max, ..NameFilterConfig::default() })
    }

    fn apply(&mut self, _: Instant, reader: &mut Reader<'_>, _: &mut Context<'_, name_filter::Out>) {
        let otherwise = [Verdict::Allow, Verdict::Deny][reader.word("otherwise", 0, &["allow", "deny"])];
        self.set_otherwise(otherwise, reader.word("refused", 0, &["drop", "port"]) == 0);
        let mut wanted: Vec<Rule> = Vec::new();
        for text in reader.texts("rules") {
            match text.parse() {
                Ok(rule) => wanted.push(rule),
                Err(error) => reader.wrong("rules", format!("{text:?}: {error}")),
            }
        }
        let known: Vec<Rule> = self.rules().into_iter().map(|(rule, _)| rule).collect();
        for rule in known.iter().filter(|rule| !wanted.contains(rule)) {
            self.remove(&rule.pattern);
        }
        for rule in wanted.into_iter().filter(|rule| !known.contains(rule)) {
            let text = rule.to_string();
            if let Err(error) = self.add(rule) {
                reader.wrong("rules", format!("{text:?}: {error}"));
            }
        }
    }
}
