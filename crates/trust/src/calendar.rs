//! Times of the Gregorian calendar (UTC): the form in certificates, and the form people read.

const DAY_S: u64 = 86_400;
/// 9999-12-31T23:59:59, the last second with a four-digit year.
const LAST_S: u64 = 253_402_300_799;

/// Formats a second since 1970 for people: `2026-01-31 12:00:00` (UTC).
pub fn format_utc(seconds: u64) -> String {
    let written = format_timestamp(seconds);
    let part = |from: usize, to: usize| String::from_utf8_lossy(&written[from..to]).into_owned();
    format!(
        "{}-{}-{} {}:{}:{}",
        part(0, 4),
        part(4, 6),
        part(6, 8),
        part(9, 11),
        part(11, 13),
        part(13, 15)
    )
}

/// Parses `YYYYMMDDThhmmss`, `YYYY-MM-DD` or `YYYY-MM-DD hh:mm:ss` (UTC; `T` instead of the space
/// and a final `Z` are accepted) to the second since 1970. `None` if malformed.
pub fn parse(text: &str) -> Option<u64> {
    let mut digits: String =
        text.trim_end_matches('Z').chars().filter(|c| !matches!(c, '-' | ':')).collect();
    if digits.len() == 8 {
        digits.push_str("T000000");
    }
    let digits = digits.replace(' ', "T");
    let well_formed = digits.len() == 15
        && digits.bytes().enumerate().all(|(at, byte)| match at {
            8 => byte == b'T',
            _ => byte.is_ascii_digit(),
        });
    if well_formed { parse_timestamp(digits.as_bytes()) } else { None }
}

/// Formats a second since 1970 as `YYYYMMDDThhmmss` (UTC), the form in certificates.
pub(crate) fn format_timestamp(seconds: u64) -> [u8; 15] {
    let seconds = seconds.min(LAST_S);
    let (year, month, day) = date(seconds / DAY_S);
    let second_of_day = seconds % DAY_S;
    let (hour, minute) = (second_of_day / 3600, second_of_day / 60 % 60);
    let written =
        format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{:02}", second_of_day % 60);
    written.into_bytes().try_into().expect("fifteen characters")
}

/// Parses `YYYYMMDDThhmmss` (UTC), the form in certificates and prefix announcements, to the second
/// since 1970; years before 1970 give 0. `None` if malformed or not a date of the calendar.
pub fn parse_timestamp(text: &[u8]) -> Option<u64> {
    if text.len() != 15 || text[8] != b'T' {
        return None;
    }
    let number = |from: usize, to: usize| {
        text[from..to].iter().try_fold(0u64, |number, digit| {
            digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0'))
        })
    };
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(9, 11)?, number(11, 13)?, number(13, 15)?);
    if !(1..=12).contains(&month) || day == 0 || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    if year < 1970 {
        return Some(0); // always in the past
    }
    let days = days_since_1970(year, month, day);
    (date(days) == (year, month, day)).then_some(days * DAY_S + hour * 3600 + minute * 60 + second)
}

/// Returns the days from 1970-01-01 to a Gregorian date. A year starts in March here, so that the
/// leap day is its last day.
const fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

/// Returns year, month and day of a day since 1970: the inverse of `days_since_1970`.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // from 0000-03-01
    let (era, day_of_era) = (days / 146_097, days % 146_097); // 400 years each
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year_of_era + carry, month, day)
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
