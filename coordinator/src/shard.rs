//! A shard: the frontier of a slice of the domain space, and its one writer.
//!
//! `core` holds what is in memory and how rows change, `restore` how it is rebuilt; `admit`, `pick`, `lease`,
//! `giveback`, `outcome`, `cookies`, `capture`, `revisit`, `host`, `mail` and `settle` are the decisions, all pure: they take `now`, write
//! into the [`crate::slice::Slice`] and push effects in the order in which these must happen after the commit.
//! `actor` carries them out.

pub(crate) mod actor;
mod admit;
mod capture;
mod cookies;
mod core;
mod giveback;
mod host;
mod lease;
mod mail;
mod open_lease;
mod outcome;
mod permit;
mod pick;
mod restore;
mod revisit;
mod rows;
mod settle;
#[cfg(test)]
mod tests;
mod told;

pub(crate) use self::core::{Decision, Effect, Policy, ShardCore};
pub(crate) use self::lease::reserve;
