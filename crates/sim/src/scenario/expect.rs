//! Expectations checked at the end of a run: `[APPLICATION] MEASURE OPERATOR NUMBER`.

use core::fmt;

/// A measure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name in scenarios.
    pub name: &'static str,
    /// Explanation for users.
    pub help: &'static str,
    /// True if it is also available for one application.
    pub of_application: bool,
}

impl Metric {
    /// All measures.
    pub const ALL: &'static [Metric] = &[
        Metric {
            name: "satisfied",
            help: "share of Interests satisfied, without those still pending",
            of_application: true,
        },
        Metric { name: "sent", help: "Interests that consumers sent", of_application: true },
        Metric {
            name: "timeouts",
            help: "Interests of consumers that timed out",
            of_application: true,
        },
        Metric {
            name: "nacks",
            help: "Interests of consumers answered by a Nack",
            of_application: true,
        },
        Metric {
            name: "rtt_mean_ms",
            help: "mean time from Interest to Data",
            of_application: true,
        },
        Metric {
            name: "rtt_p50_ms",
            help: "median time from Interest to Data",
            of_application: true,
        },
        Metric {
            name: "rtt_p99_ms",
            help: "99th percentile of the time from Interest to Data",
            of_application: true,
        },
        Metric {
            name: "done_s",
            help: "when the last download was complete; infinite if one was not",
            of_application: true,
        },
        Metric {
            name: "mbps",
            help: "megabits of Data that consumers received per second",
            of_application: true,
        },
        Metric {
            name: "cs_hit_ratio",
            help: "share of Interests at routers satisfied by content stores",
            of_application: false,
        },
        Metric {
            name: "dropped",
            help: "packets that links dropped or lost",
            of_application: false,
        },
        Metric {
            name: "queue_drops",
            help: "packets dropped at full queues of links",
            of_application: false,
        },
        Metric {
            name: "link_packets",
            help: "packets transmitted on links",
            of_application: false,
        },
    ];
}

/// One expectation.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// The text as written.
    pub text: String,
    /// Application name, or name and node (`viewers@paris`); `None` for all consumers.
    pub application: Option<String>,
    /// Name of the measure.
    pub metric: &'static str,
    operator: Operator,
    bound: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    AtLeast,
    AtMost,
    Above,
    Below,
    Equal,
}

impl Expectation {
    /// Parses an expectation.
    ///
    /// # Errors
    /// What is expected, for the message.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (application, [name, operator, bound]) = match words[..] {
            [name, operator, bound] => (None, [name, operator, bound]),
            [application, name, operator, bound] => (Some(application.to_owned()), [name, operator, bound]),
            _ => return Err("a measure, an operator and a number, such as \"satisfied >= 0.99\", or an application before them".into()),
        };
        let known = Metric::ALL.iter().find(|metric| metric.name == name);
        let Some(metric) = known.filter(|metric| application.is_none() || metric.of_application)
        else {
            let names: Vec<_> = Metric::ALL
                .iter()
                .filter(|m| application.is_none() || m.of_application)
                .map(|m| m.name)
                .collect();
            return Err(format!("one of the measures {}", names.join(", ")));
        };
        let operator = match operator {
            ">=" => Operator::AtLeast,
            "<=" => Operator::AtMost,
            ">" => Operator::Above,
            "<" => Operator::Below,
            "=" | "==" => Operator::Equal,
            _ => return Err("one of the operators >= <= > < ==".into()),
        };
        let bound = bound
            .parse()
            .ok()
            .filter(|bound: &f64| bound.is_finite())
            .ok_or("a number at the end")?;
        Ok(Expectation { text: text.to_owned(), application, metric: metric.name, operator, bound })
    }

    /// Returns whether a value meets the expectation; `None` never does.
    pub fn holds(&self, value: Option<f64>) -> bool {
        value.is_some_and(|value| match self.operator {
            Operator::AtLeast => value >= self.bound,
            Operator::AtMost => value <= self.bound,
            Operator::Above => value > self.bound,
            Operator::Below => value < self.bound,
            Operator::Equal => value == self.bound,
        })
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
