//! The `crawlforge` command: composes the rooms in one process, or starts one role.
//!
//! Reading order: `args` and `settings` (what can be said), `door` (which coordinator is spoken to: ours, that of
//! another process on the same folder, or a cluster's), `node` (coordinator and worker in this process), then `commands`.

mod args;
mod commands;
mod door;
mod exporter;
mod listen_file;
mod node;
mod ops;
mod progress;
mod rooms;
mod sessions;
mod settings;
mod span;
mod summary;
mod telemetry;

pub use commands::run;
