//! Why a URL was refused or failed: one stable code each, the same in ledger, answer, metric and documentation.

use std::fmt;

/// A reason. The word never changes once it was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// robots.txt forbids it.
    Robots,
    /// robots.txt could not be had, so nothing is asked of the host.
    RobotsUnreachable,
    /// It is outside the session's scope.
    OutOfScope,
    /// It is further from the seeds than the session goes.
    TooDeep,
    /// Its domain has delivered all the pages that the session allows it.
    DomainLimit,
    /// The address is private, loopback, link-local, metadata or otherwise not public.
    BlockedAddress,
    /// The scheme is neither http nor https.
    BlockedScheme,
    /// The page asks not to be kept.
    Noindex,
    /// The link that led here asks not to be followed.
    Nofollow,
    /// The shape of the URL is that of a trap.
    Trap,
    /// The content is of a kind that is not kept.
    ContentType,
    /// The answer is a success without a page.
    NoContent,
    /// The name does not resolve.
    Dns,
    /// Nothing listens there.
    Refused,
    /// No answer within the time.
    Timeout,
    /// The connection was reset.
    Reset,
    /// The connection closed before any answer.
    EmptyResponse,
    /// TLS could not be agreed on.
    Tls,
    /// The answer is not HTTP.
    Protocol,
    /// Lengths or chunks of the answer contradict each other.
    BadFraming,
    /// The answer ended early.
    Truncated,
    /// The content coding could not be undone.
    Decode,
    /// The content coding is unknown.
    UnsupportedCoding,
    /// The body is larger than the cap.
    TooLarge,
    /// The headers are larger than the cap.
    HeadersTooLarge,
    /// A redirect leads back to where it came from.
    RedirectLoop,
    /// There were more redirects than are followed.
    TooManyRedirects,
    /// A redirect names no address that can be fetched.
    BadRedirect,
    /// The final status is 400 or above.
    HttpStatus,
    /// The host asks to come back later.
    RetryLater,
    /// No worker that can do this is attached.
    NoWorker,
    /// A document could not be read as a sitemap.
    NotASitemap,
    /// A fault of ours.
    Internal,
}

impl Code {
    /// Every code.
    pub const ALL: [Self; 33] = [
        Self::Robots,
        Self::RobotsUnreachable,
        Self::OutOfScope,
        Self::TooDeep,
        Self::DomainLimit,
        Self::BlockedAddress,
        Self::BlockedScheme,
        Self::Noindex,
        Self::Nofollow,
        Self::Trap,
        Self::ContentType,
        Self::NoContent,
        Self::Dns,
        Self::Refused,
        Self::Timeout,
        Self::Reset,
        Self::EmptyResponse,
        Self::Tls,
        Self::Protocol,
        Self::BadFraming,
        Self::Truncated,
        Self::Decode,
        Self::UnsupportedCoding,
        Self::TooLarge,
        Self::HeadersTooLarge,
        Self::RedirectLoop,
        Self::TooManyRedirects,
        Self::BadRedirect,
        Self::HttpStatus,
        Self::RetryLater,
        Self::NoWorker,
        Self::NotASitemap,
        Self::Internal,
    ];

    /// The stable word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Robots => "robots",
            Self::RobotsUnreachable => "robots_unreachable",
            Self::OutOfScope => "out_of_scope",
            Self::TooDeep => "too_deep",
            Self::DomainLimit => "domain_limit",
            Self::BlockedAddress => "blocked_address",
            Self::BlockedScheme => "blocked_scheme",
            Self::Noindex => "noindex",
            Self::Nofollow => "nofollow",
            Self::Trap => "trap",
            Self::ContentType => "content_type",
            Self::NoContent => "no_content",
            Self::Dns => "dns",
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::Reset => "reset",
            Self::EmptyResponse => "empty_response",
            Self::Tls => "tls",
            Self::Protocol => "protocol",
            Self::BadFraming => "bad_framing",
            Self::Truncated => "truncated",
            Self::Decode => "decode",
            Self::UnsupportedCoding => "unsupported_coding",
            Self::TooLarge => "too_large",
            Self::HeadersTooLarge => "headers_too_large",
            Self::RedirectLoop => "redirect_loop",
            Self::TooManyRedirects => "too_many_redirects",
            Self::BadRedirect => "bad_redirect",
            Self::HttpStatus => "http_status",
            Self::RetryLater => "retry_later",
            Self::NoWorker => "no_worker",
            Self::NotASitemap => "not_a_sitemap",
            Self::Internal => "internal",
        }
    }

    /// The code that a word names.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.word() == word)
    }

    /// What the caller can do about it: one sentence, for people and models.
    pub const fn next_step(self) -> &'static str {
        match self {
            Self::Robots => {
                "The site's robots.txt forbids this page to us; choose a page it allows, or ask the site's owner."
            }
            Self::RobotsUnreachable => {
                "Until robots.txt can be read nothing is asked of this host; try again later."
            }
            Self::OutOfScope => "Widen the scope, or name the URL as a seed.",
            Self::TooDeep => "Raise max_depth, or name the URL as a seed.",
            Self::DomainLimit => "Raise max_pages_per_domain.",
            Self::BlockedAddress => {
                "Private and local addresses are refused; the operator can let a network through with --allow-net CIDR."
            }
            Self::BlockedScheme => "Only http and https are crawled.",
            Self::Noindex => "The page asks not to be kept.",
            Self::Nofollow => {
                "The link asks not to be followed; name the URL as a seed to fetch it."
            }
            Self::Trap => {
                "The URL looks endless; name it as a seed, or crawl with url_rules strip_session or allow_traps."
            }
            Self::ContentType => "Use `download` or `fetch_url` for what is not a page.",
            Self::NoContent => "There is nothing to read at this address; choose another one.",
            Self::Dns => "Check the host name.",
            Self::Refused => "Check the host and the port; nothing answers there.",
            Self::Timeout => "Try again later, or give a longer timeout.",
            Self::Reset | Self::EmptyResponse | Self::Truncated => "Try again later.",
            Self::Tls => "The site's certificate or TLS set-up is at fault; check the address.",
            Self::Protocol | Self::BadFraming | Self::Decode | Self::UnsupportedCoding => {
                "The server's answer is broken; there is nothing to change on this side."
            }
            Self::TooLarge | Self::HeadersTooLarge => {
                "The answer is larger than the cap; the operator can raise it."
            }
            Self::RedirectLoop | Self::TooManyRedirects | Self::BadRedirect => {
                "The site's redirects lead nowhere; try the final address directly."
            }
            Self::HttpStatus => "Check the address; the server answers with an error.",
            Self::RetryLater => "The host asks for a pause; try again after it.",
            Self::NoWorker => "Start a worker: `crawlforge worker --coordinator URL`.",
            Self::NotASitemap => "Check the sitemap's address.",
            Self::Internal => "This is a fault of CrawlForge; the log says more.",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Code;

    #[test]
    fn every_code_has_a_word_of_its_own() {
        let words: BTreeSet<_> = Code::ALL.iter().map(|code| code.word()).collect();
        assert_eq!(words.len(), Code::ALL.len());
        for code in Code::ALL {
            assert_eq!(Code::from_word(code.word()), Some(code));
        }
    }
}
