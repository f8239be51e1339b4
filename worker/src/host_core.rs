//! When the next request of one lease may start.
//!
//! Invariants: never more in flight than the lease grants; never less than the interval between two starts; no start
//! later than one fetch timeout before the lease's end. Pure: `now` is an argument.

use std::collections::VecDeque;
use std::time::Duration;

use proto::Timestamp;
use proto::v1::Ticket;

/// What a lease grants, with its times as moments of the worker's clock.
#[derive(Clone, Debug)]
pub struct Grant {
    /// Between two starts.
    pub interval: Duration,
    /// No start before this moment.
    pub not_before: Timestamp,
    /// Everything is aborted at this moment.
    pub ends: Timestamp,
    /// Requests at once.
    pub in_flight: usize,
    /// How long one fetch may take at most.
    pub fetch_timeout: Duration,
}

/// What the host wants to happen next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// A request may start now; it counts as started.
    Start,
    /// Nothing before this moment.
    WaitUntil(Timestamp),
    /// Nothing until a request ends.
    Busy,
    /// No request may start under this lease any more.
    Closed,
}

/// The pacing of one lease.
#[derive(Debug)]
pub struct HostCore {
    grant: Grant,
    queue: VecDeque<Ticket>,
    flying: usize,
}

impl HostCore {
    /// Begins a lease.
    pub fn new(grant: Grant, tickets: Vec<Ticket>) -> Self {
        Self {
            grant,
            queue: tickets.into(),
            flying: 0,
        }
    }

    /// Asks for a request's start at `now`; robots.txt and pages alike.
    pub fn next(&mut self, now: Timestamp) -> Next {
        let latest = self.grant.ends - self.grant.fetch_timeout;
        if now > latest || self.grant.not_before > latest {
            return Next::Closed;
        }
        if self.flying >= self.grant.in_flight.max(1) {
            return Next::Busy;
        }
        if now < self.grant.not_before {
            return Next::WaitUntil(self.grant.not_before);
        }
        self.flying += 1;
        self.grant.not_before = now + self.grant.interval;
        Next::Start
    }

    /// When the next request may start, if one waits and none is in its way.
    pub fn next_start(&self) -> Option<Timestamp> {
        let is_free = !self.queue.is_empty() && self.flying < self.grant.in_flight.max(1);
        is_free.then_some(self.grant.not_before)
    }

    /// A request did not begin before this moment, whenever it was told to.
    pub fn began(&mut self, at: Timestamp) {
        self.grant.not_before = self.grant.not_before.max(at + self.grant.interval);
    }

    /// A request has ended.
    pub fn ended(&mut self) {
        self.flying = self.flying.saturating_sub(1);
    }

    /// Takes the ticket that is next in turn.
    pub fn take(&mut self) -> Option<Ticket> {
        self.queue.pop_front()
    }

    /// Puts urgent tickets before the others, in their order.
    pub fn extend(&mut self, tickets: Vec<Ticket>) {
        for ticket in tickets.into_iter().rev() {
            self.queue.push_front(ticket);
        }
    }

    /// Takes out the tickets of a session that have not begun; of every session when none is named.
    pub fn revoke(&mut self, session_id: &str) -> Vec<Ticket> {
        let (gone, kept) = self
            .queue
            .drain(..)
            .partition(|ticket: &Ticket| session_id.is_empty() || ticket.session_id == session_id);
        self.queue = kept;
        gone.into()
    }

    /// The lease ends later than it did.
    pub fn renew(&mut self, ends: Timestamp) {
        self.grant.ends = self.grant.ends.max(ends);
    }

    /// robots.txt asks for a pause: the interval grows at once, also for the wait that is running.
    pub fn slow_down(&mut self, delay: Duration) {
        if let Some(more) = delay.checked_sub(self.grant.interval) {
            self.grant.not_before = self.grant.not_before + more;
            self.grant.interval = delay;
        }
    }

    /// When everything is aborted.
    pub const fn ends(&self) -> Timestamp {
        self.grant.ends
    }

    /// Requests in flight.
    pub const fn flying(&self) -> usize {
        self.flying
    }

    /// Whether nothing waits and nothing is in flight.
    pub fn is_done(&self) -> bool {
        self.flying == 0 && self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proto::Timestamp;

    use super::{Grant, HostCore, Next};

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn core(in_flight: usize) -> HostCore {
        let grant = Grant {
            interval: Duration::from_secs(2),
            not_before: at(10),
            ends: at(60),
            in_flight,
            fetch_timeout: Duration::from_secs(30),
        };
        HostCore::new(grant, Vec::new())
    }

    #[test]
    fn starts_keep_the_interval_however_many_may_fly() {
        let mut core = core(2);
        assert_eq!(core.next(at(9)), Next::WaitUntil(at(10)));
        assert_eq!(core.next(at(10)), Next::Start);
        assert_eq!(core.next(at(11)), Next::WaitUntil(at(12)));
        assert_eq!(core.next(at(12)), Next::Start);
        assert_eq!(core.next(at(20)), Next::Busy);
        core.ended();
        assert_eq!(core.next(at(20)), Next::Start);
    }

    #[test]
    fn a_request_that_began_late_moves_the_next_one() {
        let mut core = core(1);
        assert_eq!(core.next(at(10)), Next::Start);
        core.began(at(11));
        core.ended();
        assert_eq!(core.next(at(12)), Next::WaitUntil(at(13)));
        assert_eq!(core.next(at(13)), Next::Start);
    }

    #[test]
    fn nothing_starts_within_a_fetch_timeout_of_the_end() {
        let mut core = core(1);
        assert_eq!(core.next(at(31)), Next::Closed);
        core.renew(at(61));
        assert_eq!(core.next(at(31)), Next::Start);
    }

    #[test]
    fn a_crawl_delay_counts_from_the_start_that_read_it() {
        let mut core = core(1);
        assert_eq!(core.next(at(10)), Next::Start);
        core.slow_down(Duration::from_secs(5));
        core.ended();
        assert_eq!(core.next(at(12)), Next::WaitUntil(at(15)));
        assert_eq!(core.next(at(15)), Next::Start);
    }
}
