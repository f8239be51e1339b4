//! The closed sets of states, and their names in ledgers, answers and metrics.

use crate::v1::{PartKind, SessionKind, SessionState, UrlState};

/// Every state of a URL, in the order of its life.
pub const URL_STATES: [UrlState; 13] = [
    UrlState::Queued,
    UrlState::Leased,
    UrlState::Waiting,
    UrlState::Fetched,
    UrlState::TooDeep,
    UrlState::Captured,
    UrlState::Duplicate,
    UrlState::Redirected,
    UrlState::NotModified,
    UrlState::Refused,
    UrlState::Failed,
    UrlState::Cancelled,
    UrlState::OverBudget,
];

/// Every state of a session.
pub const SESSION_STATES: [SessionState; 9] = [
    SessionState::Running,
    SessionState::Paused,
    SessionState::Completed,
    SessionState::PageLimit,
    SessionState::ByteLimit,
    SessionState::TimeLimit,
    SessionState::CreditLimit,
    SessionState::Cancelled,
    SessionState::Failed,
];

impl UrlState {
    /// The word that ledgers, answers and metrics use.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::Queued => "queued",
            Self::Leased => "leased",
            Self::Waiting => "waiting",
            Self::Fetched => "fetched",
            Self::TooDeep => "too_deep",
            Self::Captured => "captured",
            Self::Duplicate => "duplicate",
            Self::Redirected => "redirected",
            Self::NotModified => "not_modified",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::OverBudget => "over_budget",
        }
    }

    /// The state that [`UrlState::word`] names.
    pub fn from_word(word: &str) -> Option<Self> {
        URL_STATES.into_iter().find(|state| state.word() == word)
    }

    /// Whether a URL ends in this state.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Unspecified
            | Self::Queued
            | Self::Leased
            | Self::Waiting
            | Self::Fetched
            | Self::TooDeep => false,
            Self::Captured
            | Self::Duplicate
            | Self::Redirected
            | Self::NotModified
            | Self::Refused
            | Self::Failed
            | Self::Cancelled
            | Self::OverBudget => true,
        }
    }
}

impl SessionState {
    /// The word that answers and metrics use.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::PageLimit => "page_limit",
            Self::ByteLimit => "byte_limit",
            Self::TimeLimit => "time_limit",
            Self::CreditLimit => "credit_limit",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }

    /// Whether a session ends in this state.
    pub const fn is_terminal(self) -> bool {
        !matches!(self, Self::Unspecified | Self::Running | Self::Paused)
    }
}

impl SessionKind {
    /// The word that answers and metrics use.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::Scrape => "scrape",
            Self::Crawl => "crawl",
            Self::Map => "map",
            Self::Batch => "batch",
        }
    }
}

impl PartKind {
    /// The media type of such a part; of the body itself, what the page says.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Markdown => "text/markdown; charset=utf-8",
            Self::Text => "text/plain; charset=utf-8",
            Self::Html => "text/html; charset=utf-8",
            Self::Facts | Self::Selected => "application/json",
            Self::Body | Self::Unspecified => "application/octet-stream",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::URL_STATES;
    use crate::v1::UrlState;

    #[test]
    fn every_state_has_a_word_of_its_own() {
        for state in URL_STATES {
            assert_eq!(UrlState::from_word(state.word()), Some(state));
        }
    }
}
