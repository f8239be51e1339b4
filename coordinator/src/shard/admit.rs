//! Admission: scope, seen, depth, queue.
//!
//! Admitting is idempotent by session and fingerprint, so mail that comes twice changes nothing the second time.

use std::collections::BTreeMap;

use proto::v1::{SessionKind, UrlState};
use proto::{Code, CrawlUrl, HostKey, SessionId, Timestamp};

use super::core::{DEEP, Effect, ShardCore};
use super::mail::shorter;
use super::rows::state_of;
use crate::gate::Phase;
use crate::keys::{self, Fingerprint};
use crate::order::Candidate;
use crate::records::{Admission, LinksRow, Mail, UrlRow, Via};
use crate::store::{StoreError, Table};

/// Told apart from a page of the same URL.
const SITEMAP_MARK: Fingerprint = 0x5173_6d61_7000_0000_5173_6d61_7000_0001;
/// Sitemap documents of one session at one shard.
const MAX_SITEMAPS: u64 = 500;

/// The fingerprint of a URL as a page or as a sitemap document.
pub(super) fn fingerprint_of(url: &CrawlUrl, is_sitemap: bool) -> Fingerprint {
    let mark = if is_sitemap { SITEMAP_MARK } else { 0 };
    url.fingerprint() ^ mark
}

impl ShardCore {
    /// Takes the seeds of a session that fall to this shard.
    pub(crate) fn seed(
        &mut self,
        now: Timestamp,
        session: &SessionId,
        urls: &[CrawlUrl],
    ) -> Result<(), StoreError> {
        let ranks = self.ranks_of_seeds(session);
        for url in urls {
            let admission = Admission {
                session: session.to_string(),
                url: url.as_str().to_owned(),
                via: Via::Seed.into(),
                rank: ranks.get(url.as_str()).copied().unwrap_or(0),
                ..Admission::default()
            };
            self.admit(now, &admission)?;
        }
        self.effects.push(Effect::Seeded {
            session: session.clone(),
        });
        Ok(())
    }

    /// The places of the seeds in a strict order.
    fn ranks_of_seeds(&self, session: &SessionId) -> BTreeMap<String, u64> {
        let shared = self.directory.get(session);
        let Some(shared) = shared.filter(|shared| shared.walk.is_strict()) else {
            return BTreeMap::new();
        };
        let mut ranks = BTreeMap::new();
        for (seed, rank) in shared.spec.seeds.iter().zip(0..) {
            ranks.entry(seed.clone()).or_insert(rank);
        }
        ranks
    }

    /// Admits here or mails to the shard that owns the URL's domain.
    pub(super) fn route(
        &mut self,
        now: Timestamp,
        session: &SessionId,
        admission: Admission,
    ) -> Result<(), StoreError> {
        let Ok(url) = CrawlUrl::parse(&admission.url) else {
            return Ok(());
        };
        let to = url.domain().shard(self.shards);
        if to == self.shard {
            return self.admit(now, &admission);
        }
        let mail = Mail {
            admission: Some(admission),
            claim: None,
        };
        self.post_mail(now, session, to, mail);
        Ok(())
    }

    /// Admits one URL of this shard.
    pub(super) fn admit(&mut self, now: Timestamp, given: &Admission) -> Result<(), StoreError> {
        let (Ok(id), Ok(url)) = (
            given.session.parse::<SessionId>(),
            CrawlUrl::parse(&given.url),
        ) else {
            return Ok(());
        };
        if !self.open(&id)? {
            return Ok(());
        }
        let is_sitemap = given.via() == Via::SitemapDocument;
        let fingerprint = fingerprint_of(&url, is_sitemap);
        match self.url(&id, fingerprint)? {
            Some(row) => self.admit_again(now, &id, fingerprint, row, given),
            None => self.admit_new(now, &id, &url, fingerprint, given),
        }
    }

    fn admit_new(
        &mut self,
        now: Timestamp,
        id: &SessionId,
        url: &CrawlUrl,
        fingerprint: Fingerprint,
        given: &Admission,
    ) -> Result<(), StoreError> {
        self.count_host(id, &url.host_key())?;
        let Some(here) = self.sessions.get_mut(id) else {
            return Ok(());
        };
        let shared = here.shared.clone();
        let is_sitemap = given.via() == Via::SitemapDocument;
        if is_sitemap {
            if here.counters.sitemaps >= MAX_SITEMAPS {
                return Ok(());
            }
            here.counters.sitemaps += 1;
        }
        let sequence = here.counters.admitted;
        let mut row = UrlRow {
            is_seed: given.via() == Via::Seed,
            is_redirect_target: given.via() == Via::Redirect,
            relevance: given.relevance,
            in_links: u32::from(given.via() == Via::Link),
            rank: given.rank,
            ..UrlRow::default()
        };
        let entry = row.entry.get_or_insert_default();
        url.as_str().clone_into(&mut entry.url);
        entry.depth = given.depth;
        entry.hops = given.hops;
        entry.found_by.clone_from(&given.found_by);
        entry.sitemap.clone_from(&given.facts);
        entry.is_sitemap = is_sitemap;
        let key = keys::sequence(self.shard, id, sequence);
        self.slice
            .put_bytes(Table::Admitted, key, fingerprint.to_be_bytes().to_vec());
        let is_free = given.via() == Via::Seed
            || is_sitemap
            || (given.via() == Via::Redirect && shared.is_interactive());
        // A site may send every visitor on to an address that names the visit: what it redirects to is taken as it is.
        let is_bound = matches!(given.via(), Via::Link | Via::Sitemap);
        let skip = shared.rules.check(url).err().filter(|_| is_bound);
        if let Some(skip) = skip {
            let detail = format!("{skip} ({})", skip.reason());
            self.end(id, &mut row, UrlState::Refused, skip.code().word(), &detail);
        } else if !is_free && !shared.scope.allows(url) {
            let detail = "the redirect leads out of the session's scope";
            let code = Code::OutOfScope.word();
            self.end(id, &mut row, UrlState::Refused, code, detail);
        } else if let Phase::Settling(how) = shared.phase() {
            self.settle_row(id, &mut row, how);
        } else {
            self.place(id, fingerprint, &mut row)?;
        }
        self.write_url(id, fingerprint, &row);
        if given.via() == Via::Seed && shared.reads_sitemaps() {
            self.want_sitemaps(now, id, &url.host_key())?;
        }
        if shared.kind() == SessionKind::Scrape {
            self.extend(now, &url.host_key())?;
        }
        Ok(())
    }

    /// Counts a host of the session once.
    fn count_host(&mut self, id: &SessionId, host: &HostKey) -> Result<(), StoreError> {
        let key = keys::host_of_session(self.shard, id, host);
        let Some(here) = self.sessions.get_mut(id) else {
            return Ok(());
        };
        // Its URLs wait here, so it has its mark.
        if here.hosts.contains(host) || self.slice.get_bytes(Table::Counters, &key)?.is_some() {
            return Ok(());
        }
        here.counters.hosts += 1;
        self.slice.put_bytes(Table::Counters, key, Vec::new());
        Ok(())
    }

    /// A shorter path lowers the depth, and with it that of all that was found through the URL.
    fn admit_again(
        &mut self,
        now: Timestamp,
        id: &SessionId,
        fingerprint: Fingerprint,
        mut row: UrlRow,
        given: &Admission,
    ) -> Result<(), StoreError> {
        if given.via() == Via::Seed
            && self.reads_sitemaps(id)
            && let Ok(host) = HostKey::parse(&given.url)
        {
            self.want_sitemaps(now, id, &host)?;
        }
        let has_learned = self.learn(id, &mut row, given);
        let entry = row.entry.get_or_insert_default();
        let is_shorter = given.depth < entry.depth;
        if !has_learned && !is_shorter {
            return Ok(());
        }
        entry.depth = entry.depth.min(given.depth);
        if let Some(page) = entry.page.as_mut() {
            page.depth = entry.depth;
        }
        let target = entry.target.clone();
        let hops = entry.hops;
        let state = entry.state();
        let may_move = has_learned && !is_shorter && self.moves(id);
        if may_move && matches!(state, UrlState::Queued | UrlState::Waiting) {
            self.take_out(&mut row);
            self.place(id, fingerprint, &mut row)?;
        }
        if is_shorter {
            match state {
                UrlState::Queued | UrlState::Waiting | UrlState::TooDeep => {
                    self.take_out(&mut row);
                    self.place(id, fingerprint, &mut row)?;
                }
                UrlState::Captured | UrlState::NotModified => {
                    self.relax(now, id, fingerprint, given)?;
                }
                UrlState::Redirected => {
                    let onward = Admission {
                        url: target,
                        hops: hops + 1,
                        found_by: given.url.clone(),
                        via: Via::Redirect.into(),
                        ..given.clone()
                    };
                    self.route(now, id, onward)?;
                }
                UrlState::Duplicate => {
                    let kept = shorter(&given.session, &target, given.depth, &given.url);
                    self.route(now, id, kept)?;
                }
                UrlState::Unspecified
                | UrlState::Leased
                | UrlState::Fetched
                | UrlState::Refused
                | UrlState::Failed
                | UrlState::Cancelled
                | UrlState::OverBudget => {}
            }
        }
        self.write_url(id, fingerprint, &row);
        Ok(())
    }

    /// Takes in what another mention says of a URL; answers whether that is new.
    fn learn(&self, id: &SessionId, row: &mut UrlRow, given: &Admission) -> bool {
        let entry = row.entry.get_or_insert_default();
        let has_facts = given.facts.is_some() && entry.sitemap.is_none();
        if has_facts {
            entry.sitemap.clone_from(&given.facts);
        }
        let waits = matches!(
            entry.state(),
            UrlState::Queued | UrlState::Waiting | UrlState::TooDeep
        );
        let is_scored = self
            .sessions
            .get(id)
            .is_some_and(|here| here.shared.walk.is_scored());
        let is_another = waits && is_scored && given.via() == Via::Link && !given.is_repeat;
        if is_another {
            row.in_links = row.in_links.saturating_add(1);
            row.relevance = row.relevance.max(given.relevance);
        }
        has_facts || is_another
    }

    fn relax(
        &mut self,
        now: Timestamp,
        id: &SessionId,
        fingerprint: Fingerprint,
        given: &Admission,
    ) -> Result<(), StoreError> {
        let key = keys::url(self.shard, id, fingerprint);
        let links: LinksRow = self.slice.get(Table::Links, &key)?.unwrap_or_default();
        for url in links.urls {
            let onward = Admission {
                session: given.session.clone(),
                url,
                depth: given.depth + 1,
                hops: 0,
                found_by: given.url.clone(),
                via: Via::Link.into(),
                is_repeat: true,
                ..Admission::default()
            };
            self.route(now, id, onward)?;
        }
        Ok(())
    }

    /// Whether what is learned of a URL may move it in its queue.
    fn moves(&self, id: &SessionId) -> bool {
        let here = self.sessions.get(id);
        here.is_some_and(|here| here.shared.revisits.is_some() || here.shared.walk.is_scored())
    }

    fn reads_sitemaps(&self, id: &SessionId) -> bool {
        let here = self.sessions.get(id);
        here.is_some_and(|here| here.shared.reads_sitemaps())
    }

    /// Queues a URL, or lets it wait for a shorter path.
    pub(super) fn place(
        &mut self,
        id: &SessionId,
        fingerprint: Fingerprint,
        row: &mut UrlRow,
    ) -> Result<(), StoreError> {
        let entry = row.entry.get_or_insert_default();
        let rank = self.rank(id, fingerprint, entry)?;
        let Some(here) = self.sessions.get_mut(id) else {
            return Ok(());
        };
        let Ok(host) = HostKey::parse(&entry.url) else {
            return Ok(());
        };
        let is_deep = here.shared.max_depth().is_some_and(|max| entry.depth > max);
        let is_deep = is_deep && !entry.is_sitemap;
        let band = match (
            here.shared.is_interactive(),
            row.is_redirect_target || entry.is_sitemap,
        ) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        };
        let place = if is_deep { DEEP } else { host.as_str() };
        let walk = &here.shared.walk;
        let order = rank.order(walk.place(&Candidate {
            depth: entry.depth,
            facts: entry.sitemap.as_ref(),
            relevance: row.relevance,
            in_links: row.in_links,
        }));
        let next = here.counters.queue_next;
        here.counters.queue_next += 1;
        let prefix = keys::queue_prefix(self.shard, place, id);
        let key = if walk.is_strict() {
            keys::queue(&prefix, band, order, row.rank, &fingerprint.to_be_bytes())
        } else if walk.is_newest_first() {
            keys::queue(&prefix, band, order, u64::MAX - next, &[])
        } else {
            keys::queue(&prefix, band, order, next, &[])
        };
        row.waits_at.clone_from(&key);
        if !is_deep {
            here.hosts.insert(host.clone());
            let cursor = self.host(&host)?.sessions.entry(id.clone()).or_default();
            if cursor.as_ref().is_some_and(|cursor| *cursor >= key) {
                *cursor = None;
            }
            self.schedule(&host);
        }
        self.slice
            .put_bytes(Table::Queue, key, fingerprint.to_be_bytes().to_vec());
        let state = match (is_deep, state_of(row)) {
            (true, _) => UrlState::TooDeep,
            (false, UrlState::Waiting) => UrlState::Waiting,
            (false, _) => UrlState::Queued,
        };
        self.set_state(id, row, state);
        Ok(())
    }

    /// Takes a URL out of the queue it waits in.
    pub(super) fn take_out(&mut self, row: &mut UrlRow) {
        if !row.waits_at.is_empty() {
            let key = std::mem::take(&mut row.waits_at);
            self.slice.delete(Table::Queue, key);
        }
    }

    /// Admits the sitemaps that a host's robots.txt names, once there is a copy.
    pub(super) fn want_sitemaps(
        &mut self,
        now: Timestamp,
        id: &SessionId,
        host: &HostKey,
    ) -> Result<(), StoreError> {
        let Some(copy) = self.host(host)?.row.robots.clone() else {
            return Ok(());
        };
        let mut urls = copy.sitemaps;
        if urls.is_empty() {
            urls.push(format!("{host}/sitemap.xml"));
        }
        for (url, rank) in urls.into_iter().zip(0..) {
            let admission = Admission {
                session: id.to_string(),
                url,
                rank,
                found_by: host.robots_url(),
                via: Via::SitemapDocument.into(),
                ..Admission::default()
            };
            self.route(now, id, admission)?;
        }
        Ok(())
    }
}
