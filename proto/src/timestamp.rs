//! A moment, to the millisecond.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::macros::format_description;

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
}
