//! What the tests that cross a room are made of: webs to visit, processes to run, clients to speak with.
//!
//! [`fake_web`] serves a known [`site`] and logs every visit, [`scripted`] answers byte for byte, [`dns`] answers
//! names; [`process`], [`command`] and [`cluster`] run the real program; [`mcp_client`] speaks to it, [`nginx`] serves real pages to it. [`laws`] says
//! what holds of the pure readers for any input. Nothing else reaches into a room: the tests judge what a visitor log, a folder or a client can see.

pub mod certificates;
pub mod cluster;
pub mod command;
pub mod dns;
pub mod fake_web;
pub mod laws;
pub mod live;
pub mod mcp_client;
pub mod nginx;
pub mod politeness;
pub mod process;
pub mod scripted;
pub mod site;
