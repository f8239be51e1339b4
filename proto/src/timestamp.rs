//! A moment, to the millisecond.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use time::macros::format_description;
use time::{Date, Month, OffsetDateTime};

/// Milliseconds since the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Takes milliseconds since the Unix epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero when it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// `YYYYMMDDThhmmss.mmmZ`, the form that snapshot addresses use.
    pub fn compact(self) -> String {
        let format =
            format_description!("[year][month][day]T[hour][minute][second].[subsecond digits:3]Z");
        self.date().format(&format).unwrap_or_default()
    }

    /// Reads what [`Timestamp::compact`] wrote; `None` for anything else.
    pub fn from_compact(text: &str) -> Option<Self> {
        let format =
            format_description!("[year][month][day]T[hour][minute][second].[subsecond digits:3]Z");
        let parsed = time::PrimitiveDateTime::parse(text, &format).ok()?;
        let millis = parsed.assume_utc().unix_timestamp_nanos() / 1_000_000;
        u64::try_from(millis).ok().map(Self)
    }

    /// The latest moment that a date of the W3C profile of ISO 8601 may mean: the end of `2026`, `2026-03` or
    /// `2026-03-01`, and the moment itself where a time is given. A time without a zone is UTC. `None` for what is no
    /// such date, or before 1970.
    pub fn latest_of_w3c(text: &str) -> Option<Self> {
        let text = text.trim();
        let (day, clock) = match text.split_once(['T', 't', ' ']) {
            Some((day, clock)) => (day, Some(clock)),
            None => (text, None),
        };
        let mut parts = day.split('-');
        let mut next = || parts.next().map(|part| part.parse::<u8>().ok());
        let year: i32 = day.get(..4)?.parse().ok()?;
        next();
        let (month, in_month) = (next(), next());
        let first_of = |year: i32, month: u8| {
            let month = Month::try_from(month).ok()?;
            Date::from_calendar_date(year, month, 1).ok()
        };
        let end = match (month, in_month) {
            (None, _) => first_of(year + 1, 1)?,
            (Some(month), None) => match month? {
                12 => first_of(year + 1, 1)?,
                month => first_of(year, month + 1)?,
            },
            (Some(month), Some(in_month)) => {
                let month = Month::try_from(month?).ok()?;
                let day = Date::from_calendar_date(year, month, in_month?).ok()?;
                if let Some(clock) = clock {
                    return Self::at_clock(day, clock.trim());
                }
                day.next_day()?
            }
        };
        let millis = end.midnight().assume_utc().unix_timestamp_nanos() / 1_000_000 - 1;
        u64::try_from(millis).ok().map(Self)
    }

    fn at_clock(day: Date, clock: &str) -> Option<Self> {
        let (clock, zone) = match clock.find(['Z', 'z', '+', '-']) {
            Some(at) => clock.split_at_checked(at)?,
            None => (clock, "Z"),
        };
        let mut parts = clock.trim_end().splitn(3, ':');
        let hour: i64 = parts.next()?.parse().ok()?;
        let minute: i64 = parts.next()?.parse().ok()?;
        let second: f64 = parts.next().map_or(Some(0.0), |part| part.parse().ok())?;
        let offset = match zone.strip_prefix(['+', '-']) {
            None => 0,
            Some(digits) => {
                let digits: String = digits.chars().filter(|c| *c != ':').collect();
                let hours: i64 = digits.get(..2)?.parse().ok()?;
                let minutes: i64 = digits.get(2..4).map_or(Some(0), |two| two.parse().ok())?;
                let sign = if zone.starts_with('-') { -1 } else { 1 };
                sign * (hours * 60 + minutes)
            }
        };
        let is_clock =
            (0..24).contains(&hour) && (0..60).contains(&minute) && (0.0..61.0).contains(&second);
        if !is_clock || offset.abs() >= 24 * 60 {
            return None;
        }
        let minutes = time::Duration::minutes(hour * 60 + minute - offset);
        let span = minutes + time::Duration::seconds_f64(second);
        let at = day.midnight().assume_utc().checked_add(span)?;
        u64::try_from(at.unix_timestamp_nanos() / 1_000_000)
            .ok()
            .map(Self)
    }

    /// RFC 3339 with milliseconds, for people and JSON.
    pub fn rfc3339(self) -> String {
        let format = format_description!(
            "[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z"
        );
        self.date().format(&format).unwrap_or_default()
    }

    fn date(self) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000_000)
            .unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(millis))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.rfc3339())
    }
}

#[cfg(test)]
mod tests {
    use super::Timestamp;

    #[test]
    fn the_compact_form_reads_back() {
        let moment = Timestamp::from_millis(1_796_095_265_042);
        assert_eq!(moment.compact(), "20261201T032105.042Z");
        assert_eq!(Timestamp::from_compact(&moment.compact()), Some(moment));
        assert_eq!(Timestamp::from_compact("20261201"), None);
    }

    #[test]
    fn a_w3c_date_means_the_latest_moment_it_may() {
        let latest = |text| Timestamp::latest_of_w3c(text).map(Timestamp::rfc3339);
        let is = |text, moment: &str| assert_eq!(latest(text).as_deref(), Some(moment), "{text}");
        is("2025", "2025-12-31T23:59:59.999Z");
        is("2024-02", "2024-02-29T23:59:59.999Z");
        is("2025-12", "2025-12-31T23:59:59.999Z");
        is("2026-03-01", "2026-03-01T23:59:59.999Z");
        is("2026-03-01T12:00", "2026-03-01T12:00:00.000Z");
        is("2026-03-01T12:00:30.5Z", "2026-03-01T12:00:30.500Z");
        is("2026-03-01T00:30:00+02:00", "2026-02-28T22:30:00.000Z");
        is("2026-03-01 23:30:00-0100", "2026-03-02T00:30:00.000Z");
        for none in [
            "",
            "x",
            "2026-13",
            "2026-02-30",
            "2026-03-01T25:00",
            "1969",
            "2026-03-01T10:00+99:00",
            "9999-12-31T23:59:60-23:00",
            "2026-03-01Tnan:00",
            "２０２６",
        ] {
            assert_eq!(latest(none), None, "{none}");
        }
    }
}
