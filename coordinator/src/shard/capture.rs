//! Pages and sitemaps that were read: the permit is spent once, and what was found in them is admitted.

use proto::v1::{self, UrlState};
use proto::{CrawlUrl, HostKey, SessionId, Timestamp};

use super::core::{ShardCore, TicketHere};
use crate::gate::Phase;
use crate::keys::{self, Fingerprint};
use crate::records::{Admission, LinksRow, SnapshotRow, UrlRow, Via};
use crate::store::{StoreError, Table};

const MAX_NESTING: u32 = 5;

impl ShardCore {
    pub(super) fn fetched(
        &mut self,
        now: Timestamp,
        id: &SessionId,
        ticket: &TicketHere,
        mut row: UrlRow,
        captured: v1::Captured,
    ) -> Result<(), StoreError> {
        let fingerprint = ticket.fingerprint;
        let entry = row.entry.get_or_insert_default();
        entry.status = captured.page.as_ref().map_or(0, |page| page.status);
        let earlier = self.earlier(id, fingerprint)?;
        if let (Some(earlier), Some(page)) = (&earlier, &captured.page)
            && earlier.is_same(page)
        {
            self.return_permit(ticket);
            let same = earlier.seen_as(page.clone());
            self.unchanged(now, id, fingerprint, &mut row, same)?;
            self.write_url(id, fingerprint, &row);
            return Ok(());
        }
        Self::seen_changed(now, earlier.as_ref(), &mut row);
        let entry = row.entry.get_or_insert_default();
        let drops = self
            .sessions
            .get(id)
            .is_some_and(|h| h.shared.drops_duplicates());
        if ticket.permit.is_some() {
            self.claiming.insert((id.clone(), fingerprint));
        }
        if !drops || captured.content_digest.is_empty() {
            return self.capture(now, id, fingerprint, row, captured);
        }
        let digest = captured.content_digest.to_vec();
        let at = (entry.url.clone(), entry.depth);
        row.fetched = Some(captured);
        self.set_state(id, &mut row, UrlState::Fetched);
        self.write_url(id, fingerprint, &row);
        self.claim(now, id, fingerprint, digest, at)
    }

    /// Delivers a page: its permit is spent, it gets its place in the manifest, its links are admitted.
    pub(super) fn capture(
        &mut self,
        now: Timestamp,
        id: &SessionId,
        fingerprint: Fingerprint,
        mut row: UrlRow,
        mut captured: v1::Captured,
    ) -> Result<(), StoreError> {
        let mut page = captured.page.take().unwrap_or_default();
        let url = row.entry.get_or_insert_default().url.clone();
        let Ok(host) = HostKey::parse(&url) else {
            return Ok(());
        };
        let is_spent = self.spend_permit(id, fingerprint, &host, page.size)?;
        let Some(here) = self.sessions.get_mut(id) else {
            return Ok(());
        };
        if !is_spent {
            // Another page holds the last permit and may still give it back: this one is fetched again then.
            row.fetched = None;
            if let Phase::Settling(how) = here.shared.phase() {
                self.settle_row(id, &mut row, how);
            } else {
                self.place(id, fingerprint, &mut row)?;
            }
            self.write_url(id, fingerprint, &row);
            return Ok(());
        }
        let sequence = here.counters.pages;
        here.counters.pages += 1;
        here.counters.bytes += page.size;
        let entry = row.entry.get_or_insert_default();
        page.session_id = id.to_string();
        page.depth = entry.depth;
        page.sitemap.clone_from(&entry.sitemap);
        let depth = entry.depth;
        if page.fetched_at_millis == 0 {
            page.fetched_at_millis = now.as_millis();
        }
        self.index_page(id, fingerprint, sequence, &url, &page);
        let entry = row.entry.get_or_insert_default();
        entry.page = Some(page);
        row.fetched = None;
        self.set_state(id, &mut row, UrlState::Captured);
        self.write_url(id, fingerprint, &row);
        let follows = self
            .sessions
            .get(id)
            .is_some_and(|h| h.shared.follows_links());
        if follows {
            let page = row.entry.as_ref().and_then(|entry| entry.page.as_ref());
            let title = page.map_or("", |page| page.title.as_str());
            let links = self.links(id, title, &captured);
            self.follow_all(now, id, fingerprint, (&url, depth), links)?;
        }
        Ok(())
    }

    fn index_page(
        &mut self,
        id: &SessionId,
        fingerprint: Fingerprint,
        sequence: u64,
        url: &str,
        page: &v1::Page,
    ) {
        let bytes = fingerprint.to_be_bytes().to_vec();
        let key = keys::sequence(self.shard, id, sequence);
        self.slice.put_bytes(Table::Manifest, key, bytes.clone());
        self.name_bodies(id, fingerprint, page);
        if let Ok(url) = CrawlUrl::parse(url) {
            let row = SnapshotRow {
                session: id.to_string(),
                shard: u32::from(self.shard),
                fingerprint: bytes,
            };
            let key = keys::snapshot(&url.url_hash(), page.fetched_at_millis, id);
            self.slice.put(Table::Snapshots, key, &row);
        }
    }

    /// Makes the bodies of a page readable by the session, and keeps them for as long as it.
    pub(super) fn name_bodies(
        &mut self,
        id: &SessionId,
        fingerprint: Fingerprint,
        page: &v1::Page,
    ) {
        let bytes = fingerprint.to_be_bytes().to_vec();
        for part in &page.parts {
            let key = keys::digest(keys::COMMON, id, &part.digest);
            self.slice.put_bytes(Table::Claims, key, bytes.clone());
            let key = keys::body(&part.digest, id);
            self.slice.put_bytes(Table::Bodies, key, Vec::new());
        }
    }

    /// The links of a page that are followed, and how well each fits the session's query.
    fn links(
        &mut self,
        id: &SessionId,
        title: &str,
        captured: &v1::Captured,
    ) -> Vec<(String, f32)> {
        let Some(here) = self.sessions.get_mut(id) else {
            return Vec::new();
        };
        let shared = here.shared.clone();
        let ignores = shared.spec.ignore_nofollow;
        let followed = |link: &&v1::Link| ignores || !(captured.nofollow || link.nofollow);
        let links = captured.links.iter().filter(followed);
        if !shared.walk.reads_text() {
            return links.map(|link| (link.url.clone(), 0.0)).collect();
        }
        let corpus = here.counters.corpus.get_or_insert_default();
        let title = shared.walk.relevance(title, corpus);
        let fit = |link: &v1::Link| {
            let relevance = shared.walk.relevance_of_link(&link.anchor, title, corpus);
            (link.url.clone(), relevance)
        };
        links.map(fit).collect()
    }

    /// Admits the links of a page and keeps those that are in scope, for when a shorter path to it shows up.
    pub(super) fn follow_all(
        &mut self,
        now: Timestamp,
        id: &SessionId,
        fingerprint: Fingerprint,
        page: (&str, u32),
        links: Vec<(String, f32)>,
    ) -> Result<(), StoreError> {
        let mut kept = LinksRow::default();
        for (link, rank) in self.in_order(id, links) {
            let admission = Admission {
                session: id.to_string(),
                url: link.0,
                depth: page.1 + 1,
                found_by: page.0.to_owned(),
                via: Via::Link.into(),
                relevance: link.1,
                rank,
                ..Admission::default()
            };
            kept.urls.extend(self.follow(now, id, admission)?);
        }
        if !kept.urls.is_empty() {
            let key = keys::url(self.shard, id, fingerprint);
            self.slice.put(Table::Links, key, &kept);
        }
        Ok(())
    }

    /// What was found in one document, with the place of each in the strict order.
    fn in_order<T>(&self, id: &SessionId, mut found: Vec<T>) -> Vec<(T, u64)> {
        let Some(here) = self.sessions.get(id) else {
            return Vec::new();
        };
        let walk = &here.shared.walk;
        if walk.is_newest_first() {
            // The first of a page is the newest.
            found.reverse();
        }
        // Documents come one at a time in the strict order, so later ones have more URLs before them.
        let base = if walk.is_strict() {
            here.shared.admitted() << 24
        } else {
            0
        };
        found.into_iter().zip(base..).collect()
    }

    /// Admits what is in scope, as the session's rules spell it; the rest is not of this session.
    fn follow(
        &mut self,
        now: Timestamp,
        id: &SessionId,
        mut admission: Admission,
    ) -> Result<Option<String>, StoreError> {
        let Some(here) = self.sessions.get(id) else {
            return Ok(None);
        };
        let shared = here.shared.clone();
        let parsed = CrawlUrl::parse(&admission.url);
        let Ok(url) = parsed.and_then(|url| shared.rules.stripped(url)) else {
            return Ok(None);
        };
        if !shared.scope.allows(&url) {
            return Ok(None);
        }
        url.as_str().clone_into(&mut admission.url);
        self.route(now, id, admission)?;
        Ok(Some(url.into()))
    }

    pub(super) fn sitemap_read(
        &mut self,
        now: Timestamp,
        id: &SessionId,
        row: &mut UrlRow,
        read: v1::SitemapRead,
    ) -> Result<(), StoreError> {
        let entry = row.entry.get_or_insert_default();
        entry.status = read.status;
        entry.detail = read.warning;
        let (url, nesting) = (entry.url.clone(), entry.hops);
        self.set_state(id, row, UrlState::Captured);
        for (found, rank) in self.in_order(id, read.urls) {
            let admission = Admission {
                session: id.to_string(),
                url: found.url,
                depth: 1,
                found_by: url.clone(),
                facts: Some(found.facts.unwrap_or_default()),
                via: Via::Sitemap.into(),
                rank,
                ..Admission::default()
            };
            self.follow(now, id, admission)?;
        }
        if nesting < MAX_NESTING {
            for (child, rank) in self.in_order(id, read.sitemaps) {
                let admission = Admission {
                    session: id.to_string(),
                    url: child,
                    rank,
                    hops: nesting + 1,
                    found_by: url.clone(),
                    via: Via::SitemapDocument.into(),
                    ..Admission::default()
                };
                self.route(now, id, admission)?;
            }
        }
        Ok(())
    }
}
