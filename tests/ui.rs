//! What the types forbid.

use std::process::Command;

/// The compiler whose messages are on record beside the cases: others word them differently.
const RECORDED_WITH: &str = "rustc 1.95";

#[test]
fn stacks_in_an_order_that_cannot_work_do_not_compile() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().expect("rustc runs").stdout;
    let version = String::from_utf8_lossy(&version);
    if !version.starts_with(RECORDED_WITH) {
        // The examples marked `compile_fail` in the documentation of `layers` say the same to every compiler.
        eprintln!("skipped: the messages are those of {RECORDED_WITH}, this is {version}");
        return;
    }
    let cases = trybuild::TestCases::new();
    // Nothing here passes: then the dependencies need only be checked, not built once more.
    cases.compile_fail("tests/ui/message_layer_above_the_endpoint.rs");
    cases.compile_fail("tests/ui/message_layer_around_an_http_service.rs");
}
