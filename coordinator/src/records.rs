//! What the stores keep beside the messages of the doors.
//!
//! Rows are prost messages as well, so that one rule of evolution holds: fields are added, tags never reused.

use proto::v1;

/// A URL of a session: its ledger entry and where it waits.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct UrlRow {
    #[prost(message, optional, tag = "1")]
    pub(crate) entry: Option<v1::LedgerEntry>,
    /// The key in the queue; empty when it waits nowhere.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) waits_at: Vec<u8>,
    #[prost(bool, tag = "3")]
    pub(crate) is_seed: bool,
    #[prost(bool, tag = "4")]
    pub(crate) is_redirect_target: bool,
    /// The outcome that waits for the decision about its digest.
    #[prost(message, optional, tag = "5")]
    pub(crate) fetched: Option<v1::Captured>,
    /// Tries that ended with the host's push-back.
    #[prost(uint32, tag = "6")]
    pub(crate) push_backs: u32,
    /// How well the text of the best link to it fits the query, from 0 to 1.
    #[prost(float, tag = "7")]
    pub(crate) relevance: f32,
    /// Links to it that were seen.
    #[prost(uint32, tag = "8")]
    pub(crate) in_links: u32,
    /// Its place in the strict order.
    #[prost(uint64, tag = "9")]
    pub(crate) rank: u64,
}

/// What is known of a host.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HostRow {
    #[prost(uint64, tag = "1")]
    pub(crate) not_before: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) epoch: u64,
    #[prost(message, optional, tag = "3")]
    pub(crate) robots: Option<v1::RobotsCopy>,
    /// When the copy was fetched.
    #[prost(uint64, tag = "4")]
    pub(crate) robots_at: u64,
    #[prost(uint32, tag = "5")]
    pub(crate) robots_tries: u32,
    /// The last back-off after a push-back; zero when the host is content.
    #[prost(uint64, tag = "6")]
    pub(crate) back_off: u64,
    #[prost(uint64, tag = "7")]
    pub(crate) written_at: u64,
    #[prost(uint64, tag = "8")]
    pub(crate) interval: u64,
    /// Until then the copy holds though it is old: the file could not be read.
    #[prost(uint64, tag = "9")]
    pub(crate) robots_until: u64,
}

/// A lease that is out.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LeaseRow {
    #[prost(uint64, tag = "1")]
    pub(crate) lease_id: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) epoch: u64,
    #[prost(string, tag = "3")]
    pub(crate) host: String,
    #[prost(string, tag = "4")]
    pub(crate) worker: String,
    #[prost(uint64, tag = "5")]
    pub(crate) expires: u64,
    #[prost(message, repeated, tag = "6")]
    pub(crate) tickets: Vec<TicketRow>,
    #[prost(uint64, tag = "7")]
    pub(crate) interval: u64,
}

/// One URL of a lease.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TicketRow {
    #[prost(uint64, tag = "1")]
    pub(crate) ticket_id: u64,
    #[prost(string, tag = "2")]
    pub(crate) session: String,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) fingerprint: Vec<u8>,
    #[prost(string, tag = "4")]
    pub(crate) robots_origin: String,
    #[prost(uint32, tag = "5")]
    pub(crate) robots_hops: u32,
}

/// A session's numbers at one shard.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CountersRow {
    /// One number per value of `UrlState`.
    #[prost(uint64, repeated, tag = "1")]
    pub(crate) counts: Vec<u64>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) reasons: Vec<v1::ReasonCount>,
    #[prost(uint64, tag = "3")]
    pub(crate) admitted: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) pages: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) bytes: u64,
    #[prost(uint64, tag = "6")]
    pub(crate) queue_next: u64,
    #[prost(uint64, tag = "7")]
    pub(crate) sitemaps: u64,
    /// Mail of this session that waits in the outbox.
    #[prost(uint64, tag = "8")]
    pub(crate) outbox: u64,
    /// Hosts that ever had a URL of this session.
    #[prost(uint32, tag = "9")]
    pub(crate) hosts: u32,
    /// Some site of this shard set one.
    #[prost(bool, tag = "10")]
    pub(crate) has_cookies: bool,
    /// Tries that were made again because the one before failed.
    #[prost(uint64, tag = "11")]
    pub(crate) retries: u64,
    /// The link texts that were read, for the weight of a query's words.
    #[prost(message, optional, tag = "12")]
    pub(crate) corpus: Option<CorpusRow>,
}

/// Link texts as BM25 counts them.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CorpusRow {
    #[prost(uint64, tag = "1")]
    pub(crate) texts: u64,
    /// Words of all texts.
    #[prost(uint64, tag = "2")]
    pub(crate) words: u64,
    /// Texts that hold each word of the query, in its order.
    #[prost(uint64, repeated, tag = "3")]
    pub(crate) with_word: Vec<u64>,
}

/// The cookies of a session at a domain, the oldest first.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CookiesRow {
    #[prost(message, repeated, tag = "1")]
    pub(crate) cookies: Vec<v1::Cookie>,
}

/// Out-links of a captured page.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LinksRow {
    #[prost(string, repeated, tag = "1")]
    pub(crate) urls: Vec<String>,
}

/// Who holds a content digest.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ClaimRow {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) fingerprint: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(crate) url: String,
    /// The shortest distance at which the content was found, by whatever URL.
    #[prost(uint32, tag = "3")]
    pub(crate) depth: u32,
}

/// Where a snapshot's page lies.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SnapshotRow {
    #[prost(string, tag = "1")]
    pub(crate) session: String,
    #[prost(uint32, tag = "2")]
    pub(crate) shard: u32,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) fingerprint: Vec<u8>,
}

/// A URL on its way into a frontier.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Admission {
    #[prost(string, tag = "1")]
    pub(crate) session: String,
    #[prost(string, tag = "2")]
    pub(crate) url: String,
    #[prost(uint32, tag = "3")]
    pub(crate) depth: u32,
    #[prost(uint32, tag = "4")]
    pub(crate) hops: u32,
    #[prost(string, tag = "5")]
    pub(crate) found_by: String,
    #[prost(message, optional, tag = "6")]
    pub(crate) facts: Option<v1::SitemapFacts>,
    #[prost(enumeration = "Via", tag = "7")]
    pub(crate) via: i32,
    /// How well the link's text fits the query, from 0 to 1.
    #[prost(float, tag = "8")]
    pub(crate) relevance: f32,
    /// Its place among the URLs of its depth in the strict order.
    #[prost(uint64, tag = "9")]
    pub(crate) rank: u64,
    /// The link was admitted before, with a longer path.
    #[prost(bool, tag = "10")]
    pub(crate) is_repeat: bool,
}

/// What led to a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum Via {
    /// A link of a page.
    Link = 0,
    /// The caller.
    Seed = 1,
    /// A redirect.
    Redirect = 2,
    /// A line of a sitemap.
    Sitemap = 3,
    /// The URL is a sitemap document itself.
    SitemapDocument = 4,
}

/// A page asks whether it is the first of its session with this content.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Claim {
    #[prost(string, tag = "1")]
    pub(crate) session: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) digest: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) fingerprint: Vec<u8>,
    #[prost(string, tag = "4")]
    pub(crate) url: String,
    #[prost(uint32, tag = "5")]
    pub(crate) depth: u32,
}

/// Mail from one shard to another, kept until it is answered.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Mail {
    #[prost(message, optional, tag = "1")]
    pub(crate) admission: Option<Admission>,
    #[prost(message, optional, tag = "2")]
    pub(crate) claim: Option<Claim>,
}

impl Mail {
    /// The session it belongs to.
    pub(crate) fn session(&self) -> &str {
        match (&self.admission, &self.claim) {
            (Some(admission), _) => &admission.session,
            (None, Some(claim)) => &claim.session,
            (None, None) => "",
        }
    }
}
