//! What must hold at the end of a run: `[APPLICATION] MEASURE OPERATOR NUMBER`.

use core::fmt;

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub help: &'static str,
    /// It can be asked of one application, too.
    pub of_application: bool,
}

impl Metric {
    /// Every measure.
    pub const ALL: &'static [Metric] = &[
        Metric {
            name: "satisfied",
            help: "share of Interests that consumers sent and got Data for, those still on their way left out",
            of_application: true,
        },
        Metric { name: "sent", help: "Interests that consumers sent", of_application: true },
        Metric {
            name: "timeouts",
            help: "Interests of consumers without an answer in their lifetime",
            of_application: true,
        },
        Metric { name: "nacks", help: "Interests of consumers that were refused", of_application: true },
        Metric { name: "rtt_mean_ms", help: "mean time from Interest to Data", of_application: true },
        Metric { name: "rtt_p50_ms", help: "half of the times are at most that", of_application: true },
        Metric { name: "rtt_p99_ms", help: "99 % of the times are at most that", of_application: true },
        Metric {
            name: "done_s",
            help: "when the last download was complete; none is infinite",
            of_application: true,
        },
        Metric { name: "mbps", help: "megabits of Data that consumers got a second", of_application: true },
        Metric {
            name: "cs_hit_ratio",
            help: "share of Interests at routers that content stores answered",
            of_application: false,
        },
        Metric { name: "dropped", help: "packets that links dropped or lost", of_application: false },
        Metric {
            name: "queue_drops",
            help: "packets that came when a link's queue was full",
            of_application: false,
        },
        Metric { name: "link_packets", help: "packets that were given to links", of_application: false },
    ];
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// As it was written.
    pub text: String,
    /// Of which application: its name, or its name and node (`viewers@paris`).
    pub application: Option<String>,
    /// Which measure.
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
    /// From text.
    ///
    /// # Errors
    /// What should be there.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (application, [name, operator, bound]) = match words[..] {
            [name, operator, bound] => (None, [name, operator, bound]),
            [application, name, operator, bound] => (Some(application.to_owned()), [name, operator, bound]),
            _ => return Err("a measure, an operator and a number, such as \"satisfied >= 0.99\", or an application before them".into()),
        };
        let known = Metric::ALL.iter().find(|metric| metric.name == name);
        let Some(metric) = known.filter(|metric| application.is_none() || metric.of_application) else {
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
        let bound =
            bound.parse().ok().filter(|bound: &f64| bound.is_finite()).ok_or("a number at the end")?;
        Ok(Expectation { text: text.to_owned(), application, metric: metric.name, operator, bound })
    }

    /// Whether a value is as it should be; one that is not there never is.
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
