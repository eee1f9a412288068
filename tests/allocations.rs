//! How often the path of a request allocates. Counts repeat exactly; times do not.

use mcp_layers::message::Message;

fn call(arguments: &str) -> bytes::Bytes {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{arguments},"_meta":{{
        "io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    )
    .into()
}

fn allocations<T>(work: impl FnOnce() -> T) -> u64 {
    let mut kept = None;
    let info = allocation_counter::measure(|| kept = Some(work()));
    drop(kept);
    info.count_total
}

#[test]
fn parsing_a_call_allocates_the_same_few_times_whatever_its_arguments_are() {
    let members: Vec<_> = (0..5_000).map(|n| format!("\"k{n}\\u0041\": [{n}, {{\"x\": null}}]")).collect();
    let shapes = [
        "{}".to_owned(),
        r#"{"a":1}"#.to_owned(),
        format!("{{{}}}", members.join(",")),
        format!("{{\"a\":{}1{}}}", "[".repeat(120), "]".repeat(120)),
        format!("{{\"a\":\"{}\"}}", "x".repeat(1 << 20)),
    ];
    for shape in shapes {
        let body = call(&shape);
        // The envelope's, the parameters' and the metadata's members, and what the clones share.
        assert_eq!(allocations(|| Message::parse(body.clone()).unwrap()), 4, "{:.60}", shape);
    }
}

#[test]
fn looking_at_a_message_and_cloning_it_allocates_nothing() {
    let message = Message::parse(call(r#"{"a": [1, 2]}"#)).unwrap();
    let count = allocations(|| {
        let copy = message.clone();
        assert_eq!((copy.method(), copy.target().as_deref()), ("tools/call", Some("t")));
        assert!(copy.meta().is_some_and(|meta| meta.protocol_version().is_some()));
        assert_eq!(copy.arguments().map(|raw| raw.text().len()), Some(13));
        assert!(copy.id().is_some() && !copy.bytes().is_empty());
    });
    assert_eq!(count, 0);
}
