//! Random bytes for `targets::settings`.
#![no_main]

#[path = "../targets.rs"]
#[expect(dead_code, reason = "the other targets use the rest")]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::settings(bytes));
