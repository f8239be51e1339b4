#![no_main]

#[allow(dead_code, reason = "each target checks one law")]
#[path = "../../src/laws.rs"]
mod laws;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| laws::links(bytes));
