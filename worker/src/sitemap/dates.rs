//! Dates of sitemaps (W3C profile of ISO 8601) and of feeds (RFC 822).

use time::format_description::well_known::{Rfc2822, Rfc3339};
use time::{Date, Month, OffsetDateTime, UtcOffset};

/// Longest text that is taken for a date, in bytes: one with more digits of a second means none of them.
const LONGEST: usize = 60;

/// Whether a text is a date of the W3C profile: `2005`, `2005-05`, `2005-05-17`, or with time and zone.
pub fn is_valid(text: &str) -> bool {
    if text.len() > LONGEST {
        return false;
    }
    let (date, clock) = match text.split_once(['T', 't', ' ']) {
        Some((date, clock)) => (date, Some(clock)),
        None => (text, None),
    };
    is_valid_day(date, clock.is_some()) && clock.is_none_or(is_valid_clock)
}

fn is_valid_day(text: &str, must_be_whole: bool) -> bool {
    let mut parts = text.split('-');
    let year = digits(parts.next(), 4).filter(|year| *year > 0);
    let Some(year) = year else {
        return false;
    };
    let (month, day) = (parts.next(), parts.next());
    if parts.next().is_some() || (must_be_whole && day.is_none()) {
        return false;
    }
    let Some(month) = month else {
        return true;
    };
    let Some(month) = digits(Some(month), 2).and_then(|month| u8::try_from(month).ok()) else {
        return false;
    };
    let Ok(month) = Month::try_from(month) else {
        return false;
    };
    let Some(day) = day else {
        return true;
    };
    let day = digits(Some(day), 2).and_then(|day| u8::try_from(day).ok());
    let year = i32::try_from(year).unwrap_or(0);
    day.is_some_and(|day| Date::from_calendar_date(year, month, day).is_ok())
}

/// `hh:mm`, `hh:mm:ss` or `hh:mm:ss.s`, with or without a zone (many leave it out).
fn is_valid_clock(text: &str) -> bool {
    let text = text.trim();
    let (clock, zone) = match text.find(['Z', 'z', '+', '-']) {
        Some(at) => text.split_at(at),
        None => (text, "Z"),
    };
    let mut parts = clock.trim_end().split(':');
    let hour = digits(parts.next(), 2).is_some_and(|hour| hour < 24);
    let minute = digits(parts.next(), 2).is_some_and(|minute| minute < 60);
    let second = parts.next().is_none_or(|second| {
        let (whole, part) = second.split_once('.').unwrap_or((second, "0"));
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        is_number && digits(Some(whole), 2).is_some_and(|second| second <= 60)
    });
    hour && minute && second && parts.next().is_none() && is_valid_zone(zone)
}

fn is_valid_zone(text: &str) -> bool {
    let Some(offset) = text.strip_prefix(['+', '-']) else {
        return text.eq_ignore_ascii_case("z");
    };
    let (hours, minutes) = match offset.split_once(':') {
        Some(parts) => parts,
        None if offset.len() == 4 && offset.is_ascii() => offset.split_at(2),
        None => (offset, "00"),
    };
    digits(Some(hours), 2).is_some_and(|hours| hours < 24)
        && digits(Some(minutes), 2).is_some_and(|minutes| minutes < 60)
}

fn digits(text: Option<&str>, count: usize) -> Option<u32> {
    let text = text.filter(|text| text.len() == count)?;
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// A feed's date as RFC 3339 in UTC; the day of the week may be missing or wrong.
pub fn rfc822_to_rfc3339(text: &str) -> Option<String> {
    let text = text.trim();
    let text = text.split_once(',').map_or(text, |(_, rest)| rest).trim();
    let moment = OffsetDateTime::parse(text, &Rfc2822)
        .or_else(|_| OffsetDateTime::parse(&with_zone(text), &Rfc2822))
        .ok()?;
    moment.to_offset(UtcOffset::UTC).format(&Rfc3339).ok()
}

/// A date without a zone is taken as UTC, and so is the name `UTC`, which RFC 822 does not know.
fn with_zone(text: &str) -> String {
    let bare = text.strip_suffix("UTC").unwrap_or(text).trim_end();
    format!("{bare} +0000")
}

#[cfg(test)]
mod tests {
    use super::{is_valid, rfc822_to_rfc3339};

    #[test]
    fn dates_of_the_profile_are_told_from_others() {
        for text in [
            "2005",
            "2005-05",
            "2024-02-29",
            "2024-02-29T10:00Z",
            "2024-02-29T10:00:01.5+02:00",
            "2024-02-29T10:00:01+0200",
            "2024-02-29 10:00:01",
        ] {
            assert!(is_valid(text), "{text}");
        }
        for text in [
            "",
            "0000-00-00",
            "2023-02-29",
            "2024-13-01",
            "24-01-01",
            "2024-1-1",
            "2024-01-01T25:00Z",
            "2024T10:00Z",
            "yesterday",
            "2024-01-01T10:00:00+99:00",
            "2024-01-01T10:00:00.000000000000000000000000000000000000000000000Z",
        ] {
            assert!(!is_valid(text), "{text}");
        }
    }

    #[test]
    fn dates_of_feeds_are_read_with_and_without_the_day() {
        for text in [
            "Tue, 14 May 2019 12:11:12 +0200",
            "14 May 2019 10:11:12 GMT",
            "Xxx, 14 May 2019 10:11:12 UTC",
            "14 May 2019 10:11:12",
        ] {
            assert_eq!(
                rfc822_to_rfc3339(text).as_deref(),
                Some("2019-05-14T10:11:12Z"),
                "{text}"
            );
        }
        assert_eq!(rfc822_to_rfc3339("yesterday"), None);
    }
}
