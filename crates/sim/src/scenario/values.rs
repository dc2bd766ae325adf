//! Types of options: decimal numbers with a unit, kept as whole ones of a smaller unit, so that equal is equal.

use nw_api::config::value::{DeValue, Limits, Value};

/// A number, whole or decimal, within bounds, in millionths of its unit (rounded); `scale` of them to one.
fn decimal(value: &DeValue<'_>, scale: f64, most: f64) -> Option<u64> {
    let text = match value {
        DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
        DeValue::Float(float) => float.as_str(),
        _ => return None,
    };
    number(text, scale, most)
}

/// The same of text, as on the command line.
fn number(text: &str, scale: f64, most: f64) -> Option<u64> {
    let number: f64 = text.replace('_', "").parse().ok()?;
    (0.0..=most).contains(&number).then(|| (number * scale).round() as u64)
}

macro_rules! decimals {
    ($($(#[$meta:meta])* $name:ident($scale:expr, $most:expr) = $what:literal;)+) => {
        $($(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(pub u64);

        impl $name {
            /// From text, as it stands in the file.
            pub fn parse(text: &str) -> Option<Self> {
                number(text, $scale, $most).map($name)
            }

            /// In its unit.
            pub fn value(self) -> f64 {
                self.0 as f64 / $scale
            }
        }

        impl Value for $name {
            fn read(value: &DeValue<'_>, limits: &Limits) -> Option<Self> {
                let number = decimal(value, $scale, $most)?;
                limits.as_ref().is_none_or(|limits| limits.contains(&number)).then_some($name(number))
            }

            fn write(&self) -> Option<String> {
                Some(self.value().to_string())
            }

            fn expected(limits: &Limits) -> String {
                let (least, most) = match limits {
                    Some(limits) => (*limits.start() as f64 / $scale, *limits.end() as f64 / $scale),
                    None => (0.0, $most),
                };
                format!(concat!($what, " from {} to {}"), least, most)
            }
        })+
    };
}

decimals! {
    /// Milliseconds, as nanoseconds.
    Ms(1e6, 1e9) = "a number of milliseconds";
    /// Seconds, as nanoseconds.
    Secs(1e9, 1e6) = "a number of seconds";
    /// Megabits a second, as bits a second.
    Mbps(1e6, 1e7) = "a number of megabits a second (0: without bound)";
    /// A share of 1, in billionths.
    Share(1e9, 1.0) = "a share";
    /// A plain number, in billionths.
    Decimal(1e9, 1e9) = "a number";
}
