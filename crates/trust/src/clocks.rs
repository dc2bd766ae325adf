//! The two clocks of a host: monotonic for time limits, wall clock for timestamps.

/// One reading of both clocks.
///
/// The wall clock may be set at any time, by hand or by NTP, and it alone advances while a machine
/// sleeps. So it is read for each command and never computed from an earlier reading (decision
/// 0045).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// Milliseconds of the monotonic clock: for time limits.
    pub elapsed_ms: u64,
    /// Milliseconds since 1970 on the wall clock: for timestamps and validity periods.
    pub unix_ms: u64,
}

/// Formats a time span for people: `121 s`, `3 h 20 min`, `17 days`. Seconds are rounded up, so
/// that a span just beyond a limit never looks equal to it.
pub fn describe_span(span_ms: u64) -> String {
    let seconds = span_ms.div_ceil(1000);
    let minutes = (span_ms / 1000 + 30) / 60;
    match (seconds, minutes) {
        (0..600, _) => format!("{seconds} s"),
        (_, 0..60) => format!("{minutes} min"),
        (_, 60..2880) if minutes.is_multiple_of(60) => format!("{} h", minutes / 60),
        (_, 60..2880) => format!("{} h {} min", minutes / 60, minutes % 60),
        _ => format!("{} days", (minutes + 720) / 1440),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_is_described_in_the_unit_that_fits() {
        for (seconds, text) in [
            (121, "121 s"),
            (601, "10 min"),
            (3600, "1 h"),
            (12_000, "3 h 20 min"),
            (172_800, "2 days"),
            (1_764_000_000, "20417 days"),
        ] {
            assert_eq!(describe_span(seconds * 1000), text);
        }
        assert_eq!(describe_span(120_001), "121 s");
    }
}
