//! Times of the Gregorian calendar (UTC): the form in certificates, and the form people read.

use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{Date, PrimitiveDateTime, UtcDateTime};

/// 9999-12-31T23:59:59, the last second with a four-digit year.
const LAST_S: u64 = 253_402_300_799;

/// The form in certificates.
const TIMESTAMP: &[BorrowedFormatItem<'_>] =
    format_description!("[year][month][day]T[hour][minute][second]");
const READABLE: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
const DATE: &[BorrowedFormatItem<'_>] = format_description!("[year]-[month]-[day]");

/// Formats a second since 1970 for people: `2026-01-31 12:00:00` (UTC).
pub fn format_utc(seconds: u64) -> String {
    format(seconds, READABLE)
}

/// Parses `YYYYMMDDThhmmss`, `YYYY-MM-DD` or `YYYY-MM-DD hh:mm:ss` (UTC; `T` instead of the space
/// and a final `Z` are accepted) to the second since 1970. `None` if malformed.
pub fn parse(text: &str) -> Option<u64> {
    let text = text.trim_end_matches('Z');
    if let Ok(date) = Date::parse(text, DATE) {
        return Some(seconds_of(date.midnight()));
    }
    if let Some(seconds) = parse_timestamp(text.as_bytes()) {
        return Some(seconds);
    }
    PrimitiveDateTime::parse(&text.replace('T', " "), READABLE).ok().map(seconds_of)
}

/// Formats a second since 1970 as `YYYYMMDDThhmmss` (UTC), the form in certificates.
pub(crate) fn format_timestamp(seconds: u64) -> [u8; 15] {
    format(seconds, TIMESTAMP).into_bytes().try_into().expect("fifteen characters")
}

/// Parses `YYYYMMDDThhmmss` (UTC), the form in certificates and prefix announcements, to the second
/// since 1970; years before 1970 give 0. `None` if malformed or not a date of the calendar.
pub fn parse_timestamp(text: &[u8]) -> Option<u64> {
    // The parser accepts a sign before the year.
    if text.len() != 15 || !text[0].is_ascii_digit() {
        return None;
    }
    let text = core::str::from_utf8(text).ok()?;
    PrimitiveDateTime::parse(text, TIMESTAMP).ok().map(seconds_of)
}

fn format(seconds: u64, form: &[BorrowedFormatItem<'_>]) -> String {
    UtcDateTime::from_unix_timestamp(seconds.min(LAST_S) as i64)
        .ok()
        .and_then(|time| time.format(form).ok())
        .expect("a year of four digits can be written")
}

/// Returns the second since 1970; 0 before.
fn seconds_of(time: PrimitiveDateTime) -> u64 {
    time.as_utc().unix_timestamp().try_into().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn timestamp_known_seconds_round_trip_and_invalid_dates_are_none() {
        for (seconds, written) in [
            (0, "19700101T000000"),
            (951_782_399, "20000228T235959"),
            (951_782_400, "20000229T000000"),
            (1_700_000_000, "20231114T221320"),
            (4_107_542_400, "21000301T000000"),
            (LAST_S, "99991231T235959"),
        ] {
            assert_eq!(format_timestamp(seconds), written.as_bytes());
            assert_eq!(parse_timestamp(written.as_bytes()), Some(seconds));
        }
        for invalid in [
            "20231301T000000",
            "20230229T000000",
            "20260231T000000",
            "20230100T000000",
            "20230101T240000",
            "2023+101T000000",
            "20230101 000000",
            "20230101T000000Z",
            "20230101T00000",
        ] {
            assert_eq!(parse_timestamp(invalid.as_bytes()), None, "{invalid}");
        }
        assert_eq!(format_timestamp(u64::MAX), format_timestamp(LAST_S));
    }

    #[test]
    fn parse_accepts_readable_forms_and_rejects_others() {
        for written in ["20231114T221320", "2023-11-14 22:13:20", "2023-11-14T22:13:20Z"] {
            assert_eq!(parse(written), Some(1_700_000_000), "{written}");
        }
        assert_eq!(parse("2023-11-14").map(format_utc).as_deref(), Some("2023-11-14 00:00:00"));
        for invalid in ["", "tomorrow", "2023-11", "2023-11-31", "20231114x221320", "2023111é"] {
            assert_eq!(parse(invalid), None, "{invalid}");
        }
    }

    proptest! {
        #[test]
        fn timestamp_formatted_parses_to_the_same_second(seconds in 0..=LAST_S) {
            prop_assert_eq!(parse_timestamp(&format_timestamp(seconds)), Some(seconds));
        }
    }
}
