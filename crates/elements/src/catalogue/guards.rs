//! Parameters of `name_filter` and `rate_limiter`.

use super::Configured;
use crate::name_filter::{self, Rule, Verdict};
use crate::rate_limiter::{self, Limits, Rate};
use crate::{NameFilter, NameFilterConfig, RateLimiter, RateLimiterConfig};
use core::time::Duration;
use nw_element_api::parameters::{ParameterInfo, ParameterReader};
use nw_element_api::{Context, Timestamp};
use nw_name::Name;

impl Configured for NameFilter {
    const PARAMETERS: &'static [ParameterInfo] = &[
        ParameterInfo::fixed("rules_max", "65536", "most rules without wildcards"),
        ParameterInfo::live(
            "rules",
            "[]",
            "\"allow /prefix\", \"deny exact /name\", \"deny /a/*/c\", \"deny /a/**/c\": the most specific one decides",
        ),
        ParameterInfo::live(
            "default",
            "allow",
            "what happens to names that match no rule: allow or deny",
        )
        .formerly("otherwise"),
        ParameterInfo::live(
            "on_deny",
            "drop",
            "what happens to packets with a denied name: drop, or port (they leave by refused)",
        )
        .formerly("refused")
        .gates("refused"),
    ];

    fn make(reader: &mut ParameterReader<'_>) -> Self {
        let rules_max = reader.integer("rules_max", 1 << 16, 1..=1 << 24) as usize;
        NameFilter::new(
            reader.context().key,
            NameFilterConfig { rules_max, ..NameFilterConfig::default() },
        )
    }

    fn apply(
        &mut self,
        _: Timestamp,
        reader: &mut ParameterReader<'_>,
        _: &mut Context<'_, name_filter::Out>,
    ) {
        let default_verdict =
            [Verdict::Allow, Verdict::Deny][reader.choice("default", 0, &["allow", "deny"])];
        self.set_default(default_verdict, reader.choice("on_deny", 0, &["drop", "port"]) == 0);
        let mut configured: Vec<Rule> = Vec::new();
        for text in reader.strings("rules") {
            match text.parse() {
                Ok(rule) => configured.push(rule),
                Err(error) => reader.error("rules", format!("{text:?}: {error}")),
            }
        }
        let known: Vec<Rule> = self.rules().into_iter().map(|(rule, _)| rule).collect();
        for rule in known.iter().filter(|rule| !configured.contains(rule)) {
            self.remove(&rule.pattern);
        }
        for rule in configured.into_iter().filter(|rule| !known.contains(rule)) {
            let text = rule.to_string();
            if let Err(error) = self.add(rule) {
                reader.error("rules", format!("{text:?}: {error}"));
            }
        }
    }
}

impl Configured for RateLimiter {
    const PARAMETERS: &'static [ParameterInfo] = &[
        ParameterInfo::fixed("prefixes_max", "4096", "most prefixes with limits"),
        ParameterInfo::live("rate", "0", "Interests per second of each face; 0 is no limit"),
        ParameterInfo::live(
            "burst",
            "0",
            "Interests of a face at once after a pause; 0 is a tenth of the rate",
        ),
        ParameterInfo::live(
            "prefixes",
            "[]",
            "\"/prefix N [burst=M]\": Interests per second below it, for all faces together",
        ),
        ParameterInfo::live(
            "min_share",
            "0.01",
            "share of its rate that a face keeps even if none of its Interests is answered; 1 is all",
        )
        .formerly("least_share"), // (retired word)
        ParameterInfo::live("reply_timeout_ms", "2000", "time within which a reply counts as an answer")
            .formerly("patience_ms"), // (retired word)
        ParameterInfo::live(
            "on_exceed",
            "drop",
            "what happens to Interests above the rate: drop, or nack (Congestion)",
        )
        .formerly("over"),
    ];

    fn make(reader: &mut ParameterReader<'_>) -> Self {
        let prefixes_max = reader.integer("prefixes_max", 1 << 12, 1..=1 << 20) as usize;
        let config = RateLimiterConfig { prefixes_max, ..RateLimiterConfig::default() };
        RateLimiter::new(reader.context().key, config)
    }

    fn apply(
        &mut self,
        _: Timestamp,
        reader: &mut ParameterReader<'_>,
        _: &mut Context<'_, rate_limiter::Out>,
    ) {
        let per_s = reader.integer("rate", 0, 0..=RATE_MAX) as u32;
        let burst = reader.integer("burst", 0, 0..=BURST_MAX) as u32;
        let share = reader.number("min_share", 0.01, 0.001..=1.0);
        self.set_limits(Limits {
            face: (per_s != 0).then(|| rate(per_s, burst)),
            share_min_milli: (share * 1000.0) as u32,
            reply_timeout: Duration::from_millis(reader.integer(
                "reply_timeout_ms",
                2000,
                1..=600_000,
            )),
            nacks: reader.choice("on_exceed", 0, &["drop", "nack"]) == 1,
        });
        let texts = reader.strings("prefixes");
        let configured: Vec<(Name, Rate)> =
            texts.into_iter().filter_map(|text| prefix_limit(reader, text)).collect();
        for (name, ..) in self.prefix_limits() {
            if !configured.iter().any(|(configured, _)| *configured == name) {
                self.remove_prefix_limit(name.as_ref());
            }
        }
        for (name, rate) in configured {
            if let Err(error) = self.set_prefix_limit(name.as_ref(), rate) {
                reader.error("prefixes", format!("{name}: {error}"));
            }
        }
    }
}

const RATE_MAX: u64 = 1_000_000_000;
const BURST_MAX: u64 = 10_000_000;

/// Returns the limit; `burst` 0 is a tenth of the rate.
fn rate(per_s: u32, burst: u32) -> Rate {
    if burst == 0 { Rate::of(per_s) } else { Rate { per_s, burst } }
}

/// `/prefix N [burst=M]`.
fn prefix_limit(reader: &mut ParameterReader<'_>, text: &str) -> Option<(Name, Rate)> {
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
            reader.error(
                "prefixes",
                format!("{text:?} is not a limit: PREFIX N [burst=M] is expected"),
            );
            None
        }
    }
}
