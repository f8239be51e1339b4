//! `crawlforge` with the fixtures of the official conformance suite; built for its test only.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    crawlforge::run(std::env::args_os().collect())
}
