//! What the types forbid.

#[test]
fn stacks_in_an_order_that_cannot_work_do_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/message_layer_below_the_endpoint.rs");
    cases.compile_fail("tests/ui/message_layer_above_the_endpoint.rs");
    cases.compile_fail("tests/ui/message_layer_around_an_http_service.rs");
}
