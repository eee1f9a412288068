//! `cargo +nightly fuzz run open_state`
#![no_main]

#[path = "../../tests/corpus/checks.rs"]
#[allow(dead_code, reason = "each target uses one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::open_state(input));
