//! Moments of the Gregorian calendar: as certificates write them, and as people do.

const DAY_S: u64 = 86_400;
/// 9999-12-31T23:59:59, the last moment that four digits of a year can say.
const LAST_S: u64 = 253_402_300_799;

/// A second since 1970 as people read it: `2026-01-31 12:00:00`, UTC.
pub fn text(seconds: u64) -> String {
    let written = moment(seconds);
    let part = |from: usize, to: usize| String::from_utf8_lossy(&written[from..to]).into_owned();
    format!("{}-{}-{} {}:{}:{}", part(0, 4), part(4, 6), part(6, 8), part(9, 11), part(11, 13), part(13, 15))
}

/// The second since 1970 of `YYYYMMDDThhmmss`, `YYYY-MM-DD`, or `YYYY-MM-DD hh:mm:ss` (a T between them, a Z behind them will do), UTC.
pub fn parse(text: &str) -> Option<u64> {
    let mut digits: String = text.trim_end_matches('Z').chars().filter(|c| !matches!(c, '-' | ':')).collect();
    if digits.len() == 8 {
        digits.push_str("T000000");
    }
    let digits = digits.replace(' ', "T");
    let well_formed = digits.len() == 15
        && digits.bytes().enumerate().all(|(at, octet)| match at {
            8 => octet == b'T',
            _ => octet.is_ascii_digit(),
        });
    if well_formed { parse_moment(digits.as_bytes()) } else { None }
}

/// `YYYYMMDDThhmmss`, UTC.
pub(crate) fn moment(seconds: u64) -> [u8; 15] {
    let seconds = seconds.min(LAST_S);
    let (year, month, day) = date(seconds / DAY_S);
    let rest = seconds % DAY_S;
    let written =
        format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    written.into_bytes().try_into().expect("fifteen characters")
}

/// Returns the second since 1970 of `YYYYMMDDThhmmss`, UTC, as certificates and prefix announcements write it; 0 for earlier years. `None` if it is
/// written otherwise, or if the calendar has no such day.
pub fn parse_moment(text: &[u8]) -> Option<u64> {
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
        return Some(0); // before our time, which is all that matters
    }
    let days = days_since_1970(year, month, day);
    (date(days) == (year, month, day)).then_some(days * DAY_S + hour * 3600 + minute * 60 + second)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. Years begin in March here, so that the leap day is the last.
const fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

/// The inverse: year, month, day.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // from 0000-03-01
    let (era, day_of_era) = (days / 146_097, days % 146_097); // 400 years each
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
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
    fn moments_known_by_heart() {
        for (seconds, written) in [
            (0, "19700101T000000"),
            (951_782_399, "20000228T235959"),
            (951_782_400, "20000229T000000"),
            (1_700_000_000, "20231114T221320"),
            (4_107_542_400, "21000301T000000"),
            (LAST_S, "99991231T235959"),
        ] {
            assert_eq!(moment(seconds), written.as_bytes());
            assert_eq!(parse_moment(written.as_bytes()), Some(seconds));
        }
        for nowhere in [
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
            assert_eq!(parse_moment(nowhere.as_bytes()), None, "{nowhere}");
        }
        assert_eq!(moment(u64::MAX), moment(LAST_S));
    }

    #[test]
    fn moments_as_people_write_them() {
        for written in ["20231114T221320", "2023-11-14 22:13:20", "2023-11-14T22:13:20Z"] {
            assert_eq!(parse(written), Some(1_700_000_000), "{written}");
        }
        assert_eq!(parse("2023-11-14").map(text).as_deref(), Some("2023-11-14 00:00:00"));
        for nowhere in ["", "tomorrow", "2023-11", "2023-11-31", "20231114x221320", "2023111é"] {
            assert_eq!(parse(nowhere), None, "{nowhere}");
        }
    }

    proptest! {
        #[test]
        fn moments_come_back(seconds in 0..=LAST_S) {
            prop_assert_eq!(parse_moment(&moment(seconds)), Some(seconds));
        }
    }
}
