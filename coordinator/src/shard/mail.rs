//! What shards tell each other: foreign admissions, claims of digests, answers about robots.txt.
//!
//! Mail lies in the outbox until it is answered and is sent again by a timer and after a restart. What it asks for
//! is idempotent (an admission by session and fingerprint, a claim by fingerprint), so the receiver keeps no record
//! of what it applied. It answers after its own commit; until then the sender's outbox counts as work.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proto::v1::{self, UrlState};
use proto::{CrawlUrl, HostKey, SessionId, Timestamp};

use super::core::{Decision, Effect, ShardCore};
use super::lease::reserve;
use super::rows::state_of;
use crate::keys::{self, Fingerprint};
use crate::records::{Admission, Claim, ClaimRow, Mail, Via};
use crate::slice::decode;
use crate::store::{StoreError, Table};

/// Unanswered mail to one shard; the rest waits in the store.
const WINDOW: usize = 256;
const RESEND: Duration = Duration::from_secs(5);

/// Mail to one shard.
#[derive(Default)]
pub(super) struct Destination {
    sent: BTreeMap<u64, Timestamp>,
    /// The last number that was sent.
    last: u64,
    /// More lies in the outbox.
    is_behind: bool,
}

impl ShardCore {
    /// Puts mail into the outbox, and on its way if the window allows.
    pub(super) fn post_mail(&mut self, now: Timestamp, id: &SessionId, to: u16, mail: Mail) {
        let number = self.number();
        self.slice
            .put(Table::Outbox, keys::outbox(self.shard, to, number), &mail);
        if let Some(here) = self.sessions.get_mut(id) {
            here.counters.outbox += 1;
        }
        self.dirty.insert(id.clone());
        let destination = self.mailing.entry(to).or_default();
        if destination.is_behind || destination.sent.len() >= WINDOW {
            destination.is_behind = true;
            return;
        }
        destination.sent.insert(number, now);
        destination.last = number;
        match self.effects.last_mut() {
            Some(Effect::Mail { to: same, items }) if *same == to => items.push((number, mail)),
            Some(_) | None => self.effects.push(Effect::Mail {
                to,
                items: vec![(number, mail)],
            }),
        }
    }

    /// Finds mail of an earlier run.
    pub(super) fn restore_mail(&mut self, now: Timestamp) -> Result<(), StoreError> {
        for to in 0..self.shards {
            let prefix = keys::outbox_prefix(self.shard, to);
            if !self.slice.scan(Table::Outbox, &prefix, None, 1)?.is_empty() {
                self.mailing.entry(to).or_default().is_behind = true;
                self.refill_mail(now, to)?;
            }
        }
        Ok(())
    }

    fn refill_mail(&mut self, now: Timestamp, to: u16) -> Result<(), StoreError> {
        let destination = self.mailing.entry(to).or_default();
        if !destination.is_behind || destination.sent.len() > WINDOW / 2 {
            return Ok(());
        }
        let after = keys::outbox(self.shard, to, destination.last);
        let room = WINDOW - destination.sent.len();
        let prefix = keys::outbox_prefix(self.shard, to);
        let found = self
            .slice
            .scan(Table::Outbox, &prefix, Some(&after), room)?;
        let is_all = found.len() < room;
        let mut items = Vec::new();
        for (key, value) in found {
            let Some(number) = keys::last_number(&key) else {
                continue;
            };
            let mail: Mail = decode(Table::Outbox, &value)?;
            self.hold_permit(&mail)?;
            items.push((number, mail));
        }
        let destination = self.mailing.entry(to).or_default();
        destination.is_behind = !is_all;
        for (number, _) in &items {
            destination.sent.insert(*number, now);
            destination.last = *number;
        }
        if !items.is_empty() {
            self.effects.push(Effect::Mail { to, items });
        }
        Ok(())
    }

    /// A claim of an earlier run holds its permit again, if there is one.
    fn hold_permit(&mut self, mail: &Mail) -> Result<(), StoreError> {
        let Some(claim) = &mail.claim else {
            return Ok(());
        };
        let (Ok(id), Some(fingerprint)) = (
            claim.session.parse::<SessionId>(),
            keys::fingerprint(&claim.fingerprint),
        ) else {
            return Ok(());
        };
        if !self.open(&id)? || self.claiming.contains(&(id.clone(), fingerprint)) {
            return Ok(());
        }
        let Some(here) = self.sessions.get(&id) else {
            return Ok(());
        };
        let reserve = reserve(&here.shared);
        let Ok(host) = HostKey::parse(&claim.url) else {
            return Ok(());
        };
        if self.take_permit(&id, &host, reserve)? {
            self.claiming.insert((id, fingerprint));
        }
        Ok(())
    }

    /// Sends again what was not answered in time.
    pub(super) fn resend_mail(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let mut again = Vec::new();
        for (to, destination) in &mut self.mailing {
            for (number, sent) in &mut destination.sent {
                if *sent + RESEND <= now {
                    *sent = now;
                    again.push((*to, *number));
                }
            }
        }
        for (to, number) in again {
            let key = keys::outbox(self.shard, to, number);
            match self.slice.get::<Mail>(Table::Outbox, &key)? {
                Some(mail) => self.effects.push(Effect::Mail {
                    to,
                    items: vec![(number, mail)],
                }),
                None => {
                    if let Some(destination) = self.mailing.get_mut(&to) {
                        destination.sent.remove(&number);
                    }
                }
            }
        }
        Ok(())
    }

    /// When mail is to be sent again.
    pub(super) fn next_resend(&self) -> Option<Timestamp> {
        let all = self.mailing.values().flat_map(|d| d.sent.values());
        all.min().map(|sent| *sent + RESEND)
    }

    /// Applies mail of another shard.
    pub(crate) fn mail(
        &mut self,
        now: Timestamp,
        from: u16,
        items: Vec<(u64, Mail)>,
    ) -> Result<(), StoreError> {
        for (number, mail) in items {
            let mut decision = None;
            if let Some(admission) = &mail.admission {
                self.admit(now, admission)?;
            } else if let Some(claim) = &mail.claim {
                decision = Some(self.decide(now, claim)?);
            }
            self.effects.push(Effect::Answer {
                to: from,
                number,
                decision,
            });
        }
        Ok(())
    }

    /// Another shard applied our mail.
    pub(crate) fn answered(
        &mut self,
        now: Timestamp,
        from: u16,
        number: u64,
        decision: Option<Decision>,
    ) -> Result<(), StoreError> {
        let key = keys::outbox(self.shard, from, number);
        if let Some(destination) = self.mailing.get_mut(&from) {
            destination.sent.remove(&number);
        }
        if let Some(mail) = self.slice.get::<Mail>(Table::Outbox, &key)? {
            self.slice.delete(Table::Outbox, key);
            if let Ok(id) = mail.session().parse::<SessionId>()
                && self.open(&id)?
            {
                if let Some(here) = self.sessions.get_mut(&id) {
                    here.counters.outbox = here.counters.outbox.saturating_sub(1);
                }
                self.dirty.insert(id);
            }
            if let (Some(claim), Some(decision)) = (mail.claim, decision) {
                self.decided(now, &claim, decision)?;
            }
        }
        self.refill_mail(now, from)
    }

    /// Asks whether a page is the first with its content.
    pub(super) fn claim(
        &mut self,
        now: Timestamp,
        id: &SessionId,
        fingerprint: Fingerprint,
        digest: Vec<u8>,
        at: (String, u32),
    ) -> Result<(), StoreError> {
        let slot = digest
            .iter()
            .take(2)
            .fold(0_u16, |sum, byte| (sum << 8) | u16::from(*byte));
        let to = slot % self.shards.max(1);
        let claim = Claim {
            session: id.to_string(),
            digest,
            fingerprint: fingerprint.to_be_bytes().to_vec(),
            url: at.0,
            depth: at.1,
        };
        if to == self.shard {
            let decision = self.decide(now, &claim)?;
            return self.decided(now, &claim, decision);
        }
        let mail = Mail {
            admission: None,
            claim: Some(claim),
        };
        self.post_mail(now, id, to, mail);
        Ok(())
    }

    /// The first page with a content keeps it. One that comes later on a shorter path leads to the kept page's links.
    fn decide(&mut self, now: Timestamp, claim: &Claim) -> Result<Decision, StoreError> {
        let Ok(id) = claim.session.parse::<SessionId>() else {
            return Ok(Decision::Won);
        };
        let key = keys::digest(self.shard, &id, &claim.digest);
        let Some(mut row) = self.slice.get::<ClaimRow>(Table::Claims, &key)? else {
            let row = ClaimRow {
                fingerprint: claim.fingerprint.clone(),
                url: claim.url.clone(),
                depth: claim.depth,
            };
            self.slice.put(Table::Claims, key, &row);
            return Ok(Decision::Won);
        };
        if row.fingerprint == claim.fingerprint {
            return Ok(Decision::Won);
        }
        let kept = row.url.clone();
        if claim.depth < row.depth && self.open(&id)? {
            row.depth = claim.depth;
            self.slice.put(Table::Claims, key, &row);
            self.route(
                now,
                &id,
                shorter(&claim.session, &kept, claim.depth, &claim.url),
            )?;
        }
        Ok(Decision::Lost(kept))
    }

    fn decided(
        &mut self,
        now: Timestamp,
        claim: &Claim,
        decision: Decision,
    ) -> Result<(), StoreError> {
        let (Ok(id), Some(fingerprint)) = (
            claim.session.parse::<SessionId>(),
            keys::fingerprint(&claim.fingerprint),
        ) else {
            return Ok(());
        };
        if !self.open(&id)? {
            return Ok(());
        }
        let Some(mut row) = self.url(&id, fingerprint)? else {
            return Ok(());
        };
        if state_of(&row) != UrlState::Fetched {
            return Ok(());
        }
        if self
            .sessions
            .get(&id)
            .is_some_and(|here| here.shared.walk.waits_for_links())
        {
            self.poke(BTreeSet::from([self.shard]));
        }
        match decision {
            Decision::Won => {
                let captured = row.fetched.clone().unwrap_or_default();
                self.capture(now, &id, fingerprint, row, captured)
            }
            Decision::Lost(url) => {
                if self.claiming.remove(&(id.clone(), fingerprint))
                    && let Ok(host) = HostKey::parse(&claim.url)
                {
                    self.give_back_permit(&id, &host);
                }
                row.fetched = None;
                let entry = row.entry.get_or_insert_default();
                entry.target.clone_from(&url);
                let depth = entry.depth;
                self.set_state(&id, &mut row, UrlState::Duplicate);
                self.write_url(&id, fingerprint, &row);
                if depth < claim.depth {
                    // A shorter path to it showed up while the claim was on its way.
                    self.route(now, &id, shorter(&claim.session, &url, depth, &claim.url))?;
                }
                Ok(())
            }
        }
    }

    /// A host of another shard redirects its robots.txt to one of ours.
    pub(crate) fn ask_robots(
        &mut self,
        origin: HostKey,
        target: CrawlUrl,
        hops: u32,
    ) -> Result<(), StoreError> {
        let key = target.host_key();
        let host = self.host(&key)?;
        if host.lease.is_none() || !host.asks.contains_key(&origin) {
            host.asks.insert(origin, (target, hops));
        }
        self.schedule(&key);
        Ok(())
    }

    /// The robots.txt of a host, fetched elsewhere.
    pub(crate) fn tell_robots(
        &mut self,
        now: Timestamp,
        origin: &HostKey,
        copy: v1::RobotsCopy,
    ) -> Result<(), StoreError> {
        if self.host(origin)?.elsewhere.is_some() {
            self.robots(now, origin, copy)?;
        }
        self.evict(origin);
        Ok(())
    }
}

/// Tells the page that was kept for a content that a duplicate of it has a shorter path.
pub(super) fn shorter(session: &str, kept: &str, depth: u32, found_by: &str) -> Admission {
    Admission {
        session: session.to_owned(),
        url: kept.to_owned(),
        depth,
        found_by: found_by.to_owned(),
        via: Via::Link.into(),
        is_repeat: true,
        ..Admission::default()
    }
}
