//! The words that two CrawlForge processes agree on.
//!
//! Generated messages live in [`v1`]; they are also the records that the stores keep, so disk and wire have
//! one shape and one rule of evolution (add fields, never reuse a tag). Everything with a rule of its own —
//! a URL, a host, a domain, a scope, an id, a moment — is a type here and is parsed once, at the door.

mod clock;
mod code;
pub mod cookies;
mod crawl_url;
mod host_key;
mod ids;
mod scope;
mod states;
mod status;
mod timestamp;
mod url_rules;

pub use clock::Clock;
pub use code::Code;
pub use crawl_url::{CrawlUrl, UrlError};
pub use host_key::{DomainKey, HostKey};
pub use ids::{Digest, IdError, SessionId};
pub use scope::{CompiledScope, ScopeError};
pub use states::{SESSION_STATES, URL_STATES};
pub use status::{ErrorCode, Refusal};
pub use timestamp::Timestamp;
pub use url_rules::{Shape, Skip, TrapRules, UrlRules, Years};

/// Generated messages, clients and servers of the `crawlforge.v1` package.
#[allow(
    missing_docs,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::too_many_lines,
    unreachable_pub,
    reason = "generated; the .proto files carry the words"
)]
pub mod v1 {
    tonic::include_proto!("crawlforge.v1");
}

/// The version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The most that one gRPC message may weigh, in bytes; bodies travel in frames below it.
pub const MAX_MESSAGE_BYTES: usize = 32 * 1024 * 1024;

/// The most that one frame of a body may weigh, in bytes.
pub const BODY_FRAME_BYTES: usize = 256 * 1024;

/// The metadata key that carries the token of a process joining over a socket.
pub const TOKEN_METADATA: &str = "x-crawlforge-token";
