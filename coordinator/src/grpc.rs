//! The two doors: what gateways ask and what workers report, converted and handed to the actors.

pub(crate) mod fleet;
pub(crate) mod requests;
pub(crate) mod sessions;
mod spec;
