//! Shapes of addresses that have no end: paths that repeat themselves, calendars, visits named in the address.
//!
//! Judged from one address alone, so that every shard and every restart judges alike: a calendar is endless where it
//! shows a year far from the one in which the session began.

use std::fmt;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::parameter_name;
use crate::{CrawlUrl, Timestamp};

/// Which addresses look endless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrapRules {
    /// How often a run of segments may follow its own first appearance directly.
    pub max_repeat: usize,
    /// How many segments that are not empty a path may have.
    pub max_segments: usize,
    /// The years that a calendar may show; without them calendars are not looked for.
    #[serde(default)]
    pub years: Option<Years>,
    /// Whether an address that names a visit is refused. What `strip_session` removes is gone before.
    #[serde(default)]
    pub sessions: bool,
}

/// The years that a calendar may show, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Years {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

impl Years {
    /// How far back and ahead real calendars go: events of thirty years, plans of five.
    const BACK: i32 = 30;
    const AHEAD: i32 = 5;

    /// The years around a moment.
    pub fn around(now: Timestamp) -> Self {
        let seconds = i64::try_from(now.as_millis() / 1000).unwrap_or(0);
        let now = OffsetDateTime::from_unix_timestamp(seconds);
        let year = now.map_or(1970, OffsetDateTime::year);
        let within = |year: i32| u16::try_from(year).unwrap_or(0);
        Self {
            first: within(year - Self::BACK),
            last: within(year + Self::AHEAD),
        }
    }
}

/// What makes an address look endless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// A run of path segments follows itself too often.
    Repeats,
    /// The path has too many segments.
    TooDeep,
    /// A calendar shows a year that is far away.
    Calendar,
    /// The address names a visit, so every visit makes new ones.
    Session,
}

impl Shape {
    /// The stable word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Repeats => "repeated_segments",
            Self::TooDeep => "too_many_segments",
            Self::Calendar => "endless_calendar",
            Self::Session => "session_id",
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Repeats => "its path repeats itself",
            Self::TooDeep => "its path has too many segments",
            Self::Calendar => "it shows a year far from now, as calendars without an end do",
            Self::Session => "it names a visit, so every visit would make it new",
        })
    }
}

impl TrapRules {
    /// What a crawl that begins now does well to use.
    pub fn usual(now: Timestamp) -> Self {
        Self {
            max_repeat: 3,
            max_segments: 32,
            years: Some(Years::around(now)),
            sessions: true,
        }
    }

    /// What makes this address look endless, if anything does. Takes time in the square of the number of segments at
    /// most, and that number is bounded first.
    pub fn catches(&self, url: &CrawlUrl) -> Option<Shape> {
        let (path, query) = (url.url().path(), url.url().query());
        let inner = path.strip_prefix('/').unwrap_or(path);
        let inner = inner.strip_suffix('/').unwrap_or(inner);
        let segments: Vec<&str> = inner.split('/').collect();
        let filled = segments.iter().filter(|segment| !segment.is_empty());
        if filled.count() > self.max_segments {
            return Some(Shape::TooDeep);
        }
        let times = self.max_repeat.saturating_add(1);
        let longest = segments.len() / times.saturating_add(1);
        if (1..=longest).any(|run| repeats(&segments, run, times)) {
            return Some(Shape::Repeats);
        }
        if self.sessions && names_a_visit(path, query) {
            return Some(Shape::Session);
        }
        let years = self.years?;
        shows_other_years(&segments, query.unwrap_or_default(), years).then_some(Shape::Calendar)
    }
}

/// Whether some run of `run` segments is followed by itself `times` times.
fn repeats(segments: &[&str], run: usize, times: usize) -> bool {
    let wanted = run.saturating_mul(times);
    let mut streak = 0;
    for (segment, later) in segments.iter().zip(segments.iter().skip(run)) {
        streak = if segment == later { streak + 1 } else { 0 };
        if streak >= wanted {
            return true;
        }
    }
    false
}

/// Parameters that name a visit whatever their value.
const VISITS: [&str; 8] = [
    "jsessionid",
    "phpsessid",
    "sessionid",
    "session_id",
    "sessid",
    "oscsid",
    "zenid",
    "cftoken",
];

/// Parameters that name a visit where their value looks like nothing a person chose.
const MAYBE_VISITS: [&str; 4] = ["sid", "s", "session", "sess"];

fn names_a_visit(path: &str, query: Option<&str>) -> bool {
    let in_path = path.split('/').any(|segment| {
        // ASP.NET without cookies writes `/(S(4xk3...))/`.
        let is_bracketed = segment.starts_with('(') && segment.ends_with("))");
        is_bracketed || segment.split(';').skip(1).any(is_visit)
    });
    in_path || query.is_some_and(|query| query.split('&').any(is_visit))
}

fn is_visit(parameter: &str) -> bool {
    let name = parameter_name(parameter).to_ascii_lowercase();
    let value = parameter.get(name.len() + 1..).unwrap_or_default();
    VISITS.contains(&name.as_str())
        || name.starts_with("aspsessionid")
        || (MAYBE_VISITS.contains(&name.as_str()) && looks_drawn(value))
}

/// Whether a text looks drawn by lot: long, of one piece, letters and digits mixed.
fn looks_drawn(value: &str) -> bool {
    value.len() >= 16
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && value.bytes().any(|byte| byte.is_ascii_digit())
        && value.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Words in a path that say "calendar".
const CALENDARS: [&str; 16] = [
    "calendar",
    "calendars",
    "kalender",
    "calendrier",
    "calendario",
    "agenda",
    "schedule",
    "event",
    "events",
    "termine",
    "veranstaltungen",
    "evenements",
    "eventos",
    "month",
    "week",
    "day",
];

/// Words in the names of parameters that hold a date.
const DATES: [&str; 14] = [
    "date", "month", "year", "day", "week", "start", "end", "from", "to", "time", "ts", "cal",
    "calendar", "m",
];

/// Words in the names of parameters whose bare number is a year.
const YEARS: [&str; 5] = ["year", "yr", "y", "jahr", "annee"];

fn shows_other_years(segments: &[&str], query: &str, years: Years) -> bool {
    let is_calendar = segments.iter().any(|segment| {
        let mut words = segment.split(|letter: char| !letter.is_ascii_alphanumeric());
        words.any(|word| is_word_of(word, &CALENDARS))
    });
    let is_out = |year: u16| year > years.last || (is_calendar && year < years.first);
    let in_path = segments.iter().enumerate().any(|(at, segment)| {
        let next = segments.get(at + 1).copied().unwrap_or_default();
        // A year alone is a number like any other; a month behind it makes it a date.
        let year =
            date(segment).or_else(|| year(segment).filter(|_| is_calendar || is_month(next)));
        year.is_some_and(is_out)
    });
    in_path
        || query.split('&').any(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let mut words = name.split(|letter: char| !letter.is_ascii_alphanumeric());
            let is_named = |names: &[&str]| words.clone().any(|word| is_word_of(word, names));
            let found = if is_named(&YEARS) {
                year(value)
            } else if is_named(&DATES) || is_calendar {
                date(value).or_else(|| epoch_year(value).filter(|_| is_calendar))
            } else {
                None
            };
            words.next().is_some() && found.is_some_and(is_out)
        })
}

fn is_word_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// The year of `2031-05`, `2031-05-17`, `203105` or `20310517`.
fn date(text: &str) -> Option<u16> {
    let (year_text, rest) = text.split_at_checked(4)?;
    let year = year(year_text)?;
    let rest = rest.strip_prefix(['-', '_', '.']).unwrap_or(rest);
    let (month, day) = rest.split_at_checked(2)?;
    let day = day.strip_prefix(['-', '_', '.']).unwrap_or(day);
    let is_day = day.is_empty() || number(day, 2).is_some_and(|day| (1..=31).contains(&day));
    (is_month(month) && is_day).then_some(year)
}

fn year(text: &str) -> Option<u16> {
    number(text, 4).filter(|year| *year >= 1000)
}

fn is_month(text: &str) -> bool {
    let month = number(text, 2).or_else(|| number(text, 1));
    month.is_some_and(|month| (1..=12).contains(&month))
}

fn number(text: &str, digits: usize) -> Option<u16> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// The year of a moment in seconds since 1970, as some calendars write it.
fn epoch_year(text: &str) -> Option<u16> {
    let is_number =
        (9..=12).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let seconds: i64 = text.parse().ok().filter(|_| is_number)?;
    let moment = OffsetDateTime::from_unix_timestamp(seconds).ok()?;
    u16::try_from(moment.year()).ok()
}

#[cfg(test)]
mod tests {
    use super::{Shape, TrapRules, Years};
    use crate::{CrawlUrl, Timestamp};

    /// Noon of the first of May 2025.
    const NOW: Timestamp = Timestamp::from_millis(1_746_100_800_000);

    fn caught(rules: TrapRules, path: &str) -> Option<Shape> {
        let url = CrawlUrl::parse(&format!("https://site.test{path}")).unwrap();
        rules.catches(&url)
    }

    #[test]
    fn endless_paths_are_caught_and_dates_are_not() {
        let rules = TrapRules {
            max_repeat: 2,
            max_segments: 8,
            years: None,
            sessions: false,
        };
        for (path, shape) in [
            ("/a/b/a/b/a/b/", None),
            ("/a/b/a/b/a/b/a/b", Some(Shape::Repeats)),
            ("/x/x/x", None),
            ("/x/x/x/x", Some(Shape::Repeats)),
            ("/2024/05/05/news", None),
            ("/1/2/3/4/5/6/7/8", None),
            ("/1/2/3/4/5/6/7/8/9", Some(Shape::TooDeep)),
            ("/calendar/2999/01", None),
        ] {
            assert_eq!(caught(rules, path), shape, "{path}");
        }
    }

    #[test]
    fn a_calendar_ends_some_years_away() {
        let rules = TrapRules::usual(NOW);
        assert_eq!(
            rules.years,
            Some(Years {
                first: 1995,
                last: 2030
            })
        );
        for path in [
            "/calendar/2031/05",
            "/calendar/2031",
            "/calendar/1994/12/31",
            "/events/2031-05-17",
            "/events/month/?tribe-bar-date=2044-01-01",
            "/2077/11/",
            "/cal.php?month=5&year=2031",
            "/x?month=203105",
            "/agenda?d=19940101",
            "/calendar/view.php?view=month&time=2208988800",
        ] {
            assert_eq!(caught(rules, path), Some(Shape::Calendar), "{path}");
        }
    }

    #[test]
    fn what_only_looks_like_a_date_is_no_calendar() {
        let rules = TrapRules::usual(NOW);
        for path in [
            "/calendar/2025/05",
            "/calendar/1995/01",
            "/archive/1890/05/17",
            "/articles?year=1890",
            "/item/2999",
            "/item/20991231999",
            "/rfc/9110",
            "/x?id=2044-01-01",
            "/x?price=9999",
            "/events/9",
            "/2077/13/",
            "/x?year=",
            "/x?=2044-01",
        ] {
            assert_eq!(caught(rules, path), None, "{path}");
        }
    }

    #[test]
    fn addresses_that_name_a_visit_are_told_from_others() {
        let rules = TrapRules::usual(NOW);
        for path in [
            "/a;jsessionid=1",
            "/a?x=1&PHPSESSID=2",
            "/a?ASPSESSIONIDQQ=3",
            "/(S(lit3py55t21z5v55vlm25s55))/orders.aspx",
            "/a?sid=9f86d081884c7d659a2f",
            "/a?s=0123456789abcdef0123456789abcdef",
        ] {
            assert_eq!(caught(rules, path), Some(Shape::Session), "{path}");
        }
        for path in [
            "/a?sid=12",
            "/?s=a+search",
            "/a;v=1",
            "/(x)",
            "/a?session=keynote-2024",
            "/wiki/A_(b_(c))",
        ] {
            assert_eq!(caught(rules, path), None, "{path}");
        }
    }
}
