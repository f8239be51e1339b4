//! Host actors: robots, pacing, fetching, extracting and body writing for the leases that a coordinator gives out.
//!
//! A worker keeps nothing durable and may die at any time. The pure parts (`robots`, `sitemap`, `media`, `charset`,
//! `page`, the guard and the pacing core) have no clock and no I/O.

pub mod charset;
pub mod guard;
pub mod host_core;
pub mod media;
pub mod page;
pub mod robots;
pub mod sitemap;
