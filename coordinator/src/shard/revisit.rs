//! Re-crawl: what an earlier session knew of a URL, whether it is worth a look, and what no change means.
//!
//! The interval adapts as in Nutch's adaptive fetch schedule: 40 % longer after a look that saw no change, 20 %
//! shorter after one that did.

use proto::v1::{self, UrlState};
use proto::{SessionId, Timestamp};

use super::core::{SessionHere, ShardCore};
use crate::keys::{self, Fingerprint};
use crate::records::{LinksRow, UrlRow};
use crate::store::{StoreError, Table};

const MINUTE: u64 = 60_000;
const DAY: u64 = 24 * 60 * MINUTE;
const SHORTEST: u64 = MINUTE;
const LONGEST: u64 = 365 * DAY;
/// The state's code of a page that was not asked for because its time has not come.
const FRESH: &str = "fresh";

/// How much of a body's digest tells two contents apart.
const CONTENT_DIGEST: usize = 16;

/// What an earlier session knew of a URL.
#[derive(Clone)]
pub(super) struct Earlier {
    pub(super) page: v1::Page,
    visit: v1::Visit,
}

impl Earlier {
    fn of(entry: v1::LedgerEntry) -> Option<Self> {
        let page = entry.page?;
        let visit = entry.visit.unwrap_or(v1::Visit {
            at_millis: page.fetched_at_millis,
            changed_at_millis: page.fetched_at_millis,
            interval_millis: DAY,
        });
        Some(Self { page, visit })
    }

    /// The same content with the validators and headers of a later answer.
    pub(super) fn seen_as(&self, page: v1::Page) -> Self {
        let visit = self.visit;
        Self { page, visit }
    }

    /// Whether an answer has the content that the page had.
    pub(super) fn is_same(&self, page: &v1::Page) -> bool {
        !page.digest.is_empty()
            && page.digest == self.page.digest
            && page.status == self.page.status
    }
}

/// How soon a page of a re-crawl is asked for; the smaller the sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// New, or a sitemap says that it changed.
    Changed = 0,
    /// Its time has come.
    Due = 1,
    /// It is not likely to have changed.
    Fresh = 2,
}

impl Rank {
    /// A place in a queue: by rank, then by the place below 2^24 within it.
    pub(super) fn order(self, place: u32) -> u32 {
        ((self as u32) << 24) | place
    }
}

/// Ranks a URL by its last visit and what a sitemap says of it, for a session that began then.
fn rank(began: Timestamp, visit: Option<&v1::Visit>, facts: Option<&v1::SitemapFacts>) -> Rank {
    let Some(visit) = visit else {
        return Rank::Changed;
    };
    // A date without a time may mean any moment of that day.
    let changed = facts.and_then(|facts| Timestamp::latest_of_w3c(&facts.lastmod));
    if let Some(changed) = changed {
        return match changed.as_millis() > visit.at_millis {
            true => Rank::Changed,
            false => Rank::Fresh,
        };
    }
    let due = visit.at_millis.saturating_add(visit.interval_millis);
    match due <= began.as_millis() {
        true => Rank::Due,
        false => Rank::Fresh,
    }
}

/// The visit that follows `earlier`.
fn next_visit(
    now: Timestamp,
    earlier: Option<&v1::Visit>,
    facts: Option<&v1::SitemapFacts>,
    is_changed: bool,
) -> v1::Visit {
    let interval = match earlier {
        None => first_interval(facts),
        Some(visit) if is_changed => visit.interval_millis / 5 * 4,
        Some(visit) => visit.interval_millis.saturating_mul(7) / 5,
    };
    let since = earlier.filter(|_| !is_changed);
    v1::Visit {
        at_millis: now.as_millis(),
        changed_at_millis: since.map_or(now.as_millis(), |visit| visit.changed_at_millis),
        interval_millis: interval.clamp(SHORTEST, LONGEST),
    }
}

/// What a sitemap's changefreq names; a day where it names nothing.
fn first_interval(facts: Option<&v1::SitemapFacts>) -> u64 {
    match facts.map(|facts| facts.changefreq.as_str()) {
        Some("always") => SHORTEST,
        Some("hourly") => 60 * MINUTE,
        Some("weekly") => 7 * DAY,
        Some("monthly") => 30 * DAY,
        Some("yearly" | "never") => LONGEST,
        Some(_) | None => DAY,
    }
}

impl ShardCore {
    /// What the session that is revisited knew of a URL's content. The URL's domain is the same, so it is in this shard.
    pub(super) fn earlier(
        &self,
        id: &SessionId,
        fingerprint: Fingerprint,
    ) -> Result<Option<Earlier>, StoreError> {
        let here = self.sessions.get(id);
        let Some(from) = here.and_then(|here| here.shared.revisits.as_ref()) else {
            return Ok(None);
        };
        let key = keys::url(self.shard, from, fingerprint);
        let row: Option<UrlRow> = self.slice.get(Table::Urls, &key)?;
        Ok(row.and_then(|row| row.entry).and_then(Earlier::of))
    }

    /// The rank of a URL in its session; all are the same where nothing is revisited.
    pub(super) fn rank(
        &self,
        id: &SessionId,
        fingerprint: Fingerprint,
        entry: &v1::LedgerEntry,
    ) -> Result<Rank, StoreError> {
        let here = self.sessions.get(id);
        let Some(here) = here.filter(|here| here.shared.revisits.is_some()) else {
            return Ok(Rank::Changed);
        };
        if entry.is_sitemap {
            return Ok(Rank::Changed);
        }
        let earlier = self.earlier(id, fingerprint)?;
        let visit = earlier.as_ref().map(|earlier| &earlier.visit);
        Ok(rank(here.shared.started, visit, entry.sitemap.as_ref()))
    }

    /// Writes down that new content of a URL was seen.
    pub(super) fn seen_changed(now: Timestamp, earlier: Option<&Earlier>, row: &mut UrlRow) {
        let entry = row.entry.get_or_insert_default();
        let before = earlier.map(|earlier| &earlier.visit);
        entry.visit = Some(next_visit(now, before, entry.sitemap.as_ref(), true));
    }

    /// Ends a URL whose content is as the earlier session saw it.
    pub(super) fn unchanged(
        &mut self,
        now: Timestamp,
        id: &SessionId,
        fingerprint: Fingerprint,
        row: &mut UrlRow,
        earlier: Earlier,
    ) -> Result<(), StoreError> {
        let entry = row.entry.get_or_insert_default();
        let facts = entry.sitemap.as_ref();
        entry.visit = Some(next_visit(now, Some(&earlier.visit), facts, false));
        self.carry_over(now, id, fingerprint, row, earlier.page)
    }

    /// A server said that a URL's content is as its validators name it.
    pub(super) fn not_modified(
        &mut self,
        now: Timestamp,
        id: &SessionId,
        fingerprint: Fingerprint,
        row: &mut UrlRow,
    ) -> Result<(), StoreError> {
        match self.earlier(id, fingerprint)? {
            Some(earlier) => self.unchanged(now, id, fingerprint, row, earlier),
            None => {
                self.set_state(id, row, UrlState::NotModified);
                Ok(())
            }
        }
    }

    /// Whether the session leaves out a URL whose time has not come, and ends it then: its visit stays as it was.
    pub(super) fn skip_fresh(
        &mut self,
        now: Timestamp,
        id: &SessionId,
        fingerprint: Fingerprint,
        row: &mut UrlRow,
    ) -> Result<bool, StoreError> {
        let only_due = |here: &&SessionHere| {
            let revisit = here.shared.spec.revisit.as_ref();
            revisit.is_some_and(|revisit| revisit.only_due)
        };
        let Some(here) = self.sessions.get(id).filter(only_due) else {
            return Ok(false);
        };
        let began = here.shared.started;
        let Some(earlier) = self.earlier(id, fingerprint)? else {
            return Ok(false);
        };
        let entry = row.entry.get_or_insert_default();
        if entry.is_sitemap
            || rank(began, Some(&earlier.visit), entry.sitemap.as_ref()) < Rank::Fresh
        {
            return Ok(false);
        }
        entry.visit = Some(earlier.visit);
        FRESH.clone_into(&mut entry.code);
        "its time to be asked for has not come".clone_into(&mut entry.detail);
        self.take_out(row);
        self.carry_over(now, id, fingerprint, row, earlier.page)?;
        self.write_url(id, fingerprint, row);
        Ok(true)
    }

    /// The page of the earlier session stays readable here, and its links are followed.
    fn carry_over(
        &mut self,
        now: Timestamp,
        id: &SessionId,
        fingerprint: Fingerprint,
        row: &mut UrlRow,
        mut page: v1::Page,
    ) -> Result<(), StoreError> {
        let entry = row.entry.get_or_insert_default();
        let (url, depth) = (entry.url.clone(), entry.depth);
        let digest = page.digest.get(..CONTENT_DIGEST).map(<[u8]>::to_vec);
        page.session_id = id.to_string();
        page.depth = depth;
        self.name_bodies(id, fingerprint, &page);
        entry.page = Some(page);
        self.set_state(id, row, UrlState::NotModified);
        let drops = |here: &SessionHere| here.shared.drops_duplicates();
        if let Some(digest) = digest
            && self.sessions.get(id).is_some_and(drops)
        {
            // Others with this content are duplicates of it; the answer to itself changes nothing.
            self.write_url(id, fingerprint, row);
            self.claim(now, id, fingerprint, digest, (url.clone(), depth))?;
        }
        self.old_links(now, id, fingerprint, (&url, depth))
    }

    /// Follows the links that the earlier session found in a page.
    fn old_links(
        &mut self,
        now: Timestamp,
        id: &SessionId,
        fingerprint: Fingerprint,
        page: (&str, u32),
    ) -> Result<(), StoreError> {
        let Some(here) = self.sessions.get(id) else {
            return Ok(());
        };
        let (true, Some(from)) = (here.shared.follows_links(), here.shared.revisits.clone()) else {
            return Ok(());
        };
        let key = keys::url(self.shard, &from, fingerprint);
        let links: LinksRow = self.slice.get(Table::Links, &key)?.unwrap_or_default();
        let links = links.urls.into_iter().map(|url| (url, 0.0)).collect();
        self.follow_all(now, id, fingerprint, page, links)
    }
}

#[cfg(test)]
mod tests {
    use proto::Timestamp;
    use proto::v1::{SitemapFacts, Visit};

    use super::{DAY, LONGEST, Rank, SHORTEST, next_visit, rank};

    fn facts(lastmod: &str, changefreq: &str) -> SitemapFacts {
        SitemapFacts {
            lastmod: lastmod.to_owned(),
            changefreq: changefreq.to_owned(),
            ..SitemapFacts::default()
        }
    }

    /// 2026-03-01T12:00:00Z.
    const NOON: u64 = 1_772_366_400_000;

    #[test]
    fn a_newer_lastmod_comes_first_and_an_older_one_last() {
        let visit = Visit {
            at_millis: NOON,
            interval_millis: DAY,
            ..Visit::default()
        };
        let now = Timestamp::from_millis(NOON + 2 * DAY);
        let of = |lastmod: &str| rank(now, Some(&visit), Some(&facts(lastmod, "")));
        assert_eq!(of("2026-03-01T12:00:01Z"), Rank::Changed);
        assert_eq!(of("2026-03-01"), Rank::Changed, "later on the same day");
        assert_eq!(of("2026-02-28"), Rank::Fresh);
        assert_eq!(of("2026-03-01T13:30:00+02:00"), Rank::Fresh);
        assert_eq!(of("2026"), Rank::Changed);
        assert_eq!(of(""), Rank::Due, "nothing is said");
        assert_eq!(rank(now, None, None), Rank::Changed, "never seen");
        let soon = Timestamp::from_millis(NOON + DAY - 1);
        assert_eq!(rank(soon, Some(&visit), None), Rank::Fresh);
        assert!(Rank::Changed < Rank::Due && Rank::Due < Rank::Fresh);
    }

    #[test]
    fn the_interval_follows_the_page() {
        let now = Timestamp::from_millis(NOON);
        let first = next_visit(now, None, None, true);
        assert_eq!(
            (first.interval_millis, first.changed_at_millis),
            (DAY, NOON)
        );
        let later = Timestamp::from_millis(NOON + DAY);
        let same = next_visit(later, Some(&first), None, false);
        assert_eq!(same.interval_millis, DAY * 7 / 5);
        assert_eq!(same.changed_at_millis, NOON);
        let other = next_visit(later, Some(&first), None, true);
        assert_eq!(other.interval_millis, DAY * 4 / 5);
        assert_eq!(other.changed_at_millis, NOON + DAY);
        let mut visit = first;
        for _ in 0..100 {
            visit = next_visit(now, Some(&visit), None, false);
        }
        assert_eq!(visit.interval_millis, LONGEST);
        for _ in 0..200 {
            visit = next_visit(now, Some(&visit), None, true);
        }
        assert_eq!(visit.interval_millis, SHORTEST);
        let weekly = next_visit(now, None, Some(&facts("", "weekly")), true);
        assert_eq!(weekly.interval_millis, 7 * DAY);
    }
}
