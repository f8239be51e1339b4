//! `crawlforge-mcp` is `crawlforge mcp`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut words: Vec<_> = std::env::args_os().collect();
    words.insert(words.len().min(1), "mcp".into());
    crawlforge::run(words)
}
