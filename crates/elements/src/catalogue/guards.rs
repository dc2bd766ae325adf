//! Elements that refuse packets, made from parameters.

use super::{Configured, fixed, live};
use crate::name_filter::{self, Rule, Verdict};
use crate::rate_limiter::{self, Limits, Rate};
use crate::{NameFilter, NameFilterConfig, RateLimiter, RateLimiterConfig};
use core::time::Duration;
use nw_element_api::parameters::{ParameterInfo, Reader};
use nw_element_api::{Context, Instant};
use nw_name::Name;

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

impl Configured for RateLimiter {
    const PARAMETERS: &'static [ParameterInfo] = &[
        fixed("prefixes_max", "4096", "prefixes with limits at most"),
        live("rate", "0", "Interests a second of each face; 0 is no limit"),
        live("burst", "0", "Interests of a face at once after a pause; 0 is a tenth of a second's"),
        live("prefixes", "[]", "\"/prefix N [burst=M]\": Interests a second below it, of all faces"),
        live(
            "least_share",
            "0.01",
            "what a face keeps of its rate though nothing it asks is answered; 1 is all",
        ),
        live("patience_ms", "2000", "how long an answer may take"),
        live("over", "drop", "what becomes of what is too much: drop, or nack (Congestion)"),
    ];

    fn make(reader: &mut Reader<'_>) -> Self {
        let prefixes_max = reader.integer("prefixes_max", 1 << 12, 1..=1 << 20) as usize;
        let config = RateLimiterConfig { prefixes_max, ..RateLimiterConfig::default() };
        RateLimiter::new(reader.making().key, config)
    }

    fn apply(&mut self, _: Instant, reader: &mut Reader<'_>, _: &mut Context<'_, rate_limiter::Out>) {
        let per_s = reader.integer("rate", 0, 0..=RATE_MAX) as u32;
        let burst = reader.integer("burst", 0, 0..=BURST_MAX) as u32;
        let share = reader.number("least_share", 0.01, 0.001..=1.0);
        self.set_limits(Limits {
            face: (per_s != 0).then(|| rate(per_s, burst)),
            share_min_milli: (share * 1000.0) as u32,
            patience: Duration::from_millis(reader.integer("patience_ms", 2000, 1..=600_000)),
            nacks: reader.word("over", 0, &["drop", "nack"]) == 1,
        });
        let texts = reader.texts("prefixes");
        let wanted: Vec<(Name, Rate)> =
            texts.into_iter().filter_map(|text| prefix_limit(reader, text)).collect();
        for (name, ..) in self.prefix_limits() {
            if !wanted.iter().any(|(wanted, _)| *wanted == name) {
                self.remove_prefix_limit(name.as_ref());
            }
        }
        for (name, rate) in wanted {
            if let Err(error) = self.set_prefix_limit(name.as_ref(), rate) {
                reader.wrong("prefixes", format!("{name}: {error}"));
            }
        }
    }
}

const RATE_MAX: u64 = 1_000_000_000;
const BURST_MAX: u64 = 10_000_000;

fn rate(per_s: u32, burst: u32) -> Rate {
    if burst == 0 { Rate::of(per_s) } else { Rate { per_s, burst } }
}

/// `/prefix N [burst=M]`.
fn prefix_limit(reader: &mut Reader<'_>, text: &str) -> Option<(Name, Rate)> {
    let mut words = text.split_whitespace();
    let name = reader.name("prefixes", words.next().unwrap_or_default())?;
    let number = |word: &str, most| word.parse::<u64>().ok().filter(|n| (1..=most).contains(n));
    let per_s = words.next().and_then(|word| number(word, RATE_MAX));
    let burst = match words.next() {
        None => Some(0),
        Some(word) => word.strip_prefix("burst=").and_then(|word| number(word, BURST_MAX)),
    };
    match (per_s, burst, words.next()) {
        (Some(per_s), Some(burst), None) => Some((name, rate(per_s as u32, burst as u32))),
        _ => {
            reader.wrong("prefixes", format!("{text:?} is no limit: PREFIX N [burst=M] is expected"));
            None
        }
    }
}
