//! Option types: decimal numbers with a unit, stored as integers of a smaller unit, so that they
//! can be compared exactly.

use nw_api::config::value::{DeValue, Limits, Value};

/// Reads a number from 0 to `max` and returns it multiplied by `scale`, rounded.
fn decimal(value: &DeValue<'_>, scale: f64, max: f64) -> Option<u64> {
    let text = match value {
        DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
        DeValue::Float(float) => float.as_str(),
        _ => return None,
    };
    number(text, scale, max)
}

/// Like [`decimal`], from text.
fn number(text: &str, scale: f64, max: f64) -> Option<u64> {
    let number: f64 = text.replace('_', "").parse().ok()?;
    (0.0..=max).contains(&number).then(|| (number * scale).round() as u64)
}

macro_rules! decimals {
    ($($(#[$meta:meta])* $name:ident($scale:expr, $max:expr) = $what:literal;)+) => {
        $($(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(pub u64);

        impl $name {
            /// Parses the number as written in a file.
            pub fn parse(text: &str) -> Option<Self> {
                number(text, $scale, $max).map($name)
            }

            /// Returns the number in its unit.
            pub fn value(self) -> f64 {
                self.0 as f64 / $scale
            }
        }

        impl Value for $name {
            fn read(value: &DeValue<'_>, limits: &Limits) -> Option<Self> {
                let number = decimal(value, $scale, $max)?;
                limits.as_ref().is_none_or(|limits| limits.contains(&number)).then_some($name(number))
            }

            fn write(&self) -> Option<String> {
                Some(self.value().to_string())
            }

            fn expected(limits: &Limits) -> String {
                let (min, max) = match limits {
                    Some(limits) => (*limits.start() as f64 / $scale, *limits.end() as f64 / $scale),
                    None => (0.0, $max),
                };
                format!(concat!($what, " from {} to {}"), min, max)
            }
        })+
    };
}

decimals! {
    /// Milliseconds, stored as nanoseconds.
    Ms(1e6, 1e9) = "a number of milliseconds";
    /// Seconds, stored as nanoseconds.
    Secs(1e9, 1e6) = "a number of seconds";
    /// Megabits per second, stored as bits per second.
    Mbps(1e6, 1e7) = "a number of megabits per second (0: unlimited)";
    /// A share from 0 to 1, stored in billionths.
    Share(1e9, 1.0) = "a share";
    /// A number, stored in billionths.
    Decimal(1e9, 1e9) = "a number";
}
