use serde_json::{Value, json};

use super::super::testing::{Outcome, request, send};
use super::*;
use crate::catalog::StaticCatalog;

fn call(arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"sum","arguments":{arguments}}}}}"#
    )
}

async fn post(layer: &LimitsLayer, body: &str) -> Outcome {
    send(layer, request(body, [])).await
}

fn three() -> LimitsLayer {
    LimitsLayer::new().with_max_elements(NonZeroUsize::new(3))
}

#[track_caller]
fn assert_tool_error(outcome: &Outcome, id: &Value) -> String {
    let text = outcome.body["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    let expected = json!({
        "jsonrpc": "2.0",
        "id": id,
        "result": {"resultType": "complete", "content": [{"type": "text", "text": text}], "isError": true},
    });
    assert_eq!((outcome.status, outcome.calls, &outcome.body), (200, 0, &expected));
    text
}

#[tokio::test]
async fn nothing_is_limited_unless_asked_for() {
    let deep = format!("{}{}", "[".repeat(120), "]".repeat(120));
    post(&LimitsLayer::new(), &call(&deep)).await.passed();
    post(&LimitsLayer::new(), &call(&format!("[{}0]", "0,".repeat(100_000)))).await.passed();
    post(&three().with_max_elements(None), &call("[1,2,3,4]")).await.passed();
}

#[tokio::test]
async fn too_many_elements_are_answered_with_a_tool_result_that_names_tool_and_maximum() {
    post(&three(), &call(r#"{"a":[1,2]}"#)).await.passed();
    let text = assert_tool_error(&post(&three(), &call(r#"{"a":[1,2,3]}"#)).await, &json!(7));
    assert!(text.contains("`sum`") && text.contains('3'), "{text}");
}

#[tokio::test]
async fn each_bound_says_what_it_bounds() {
    let two = NonZeroUsize::new(2);
    for (layer, arguments, word) in [
        (LimitsLayer::new().with_max_elements(two), "[1,2,3]", "elements"),
        (LimitsLayer::new().with_max_depth(two), "[[[]]]", "nested"),
        (LimitsLayer::new().with_max_string_bytes(two), r#"["abc"]"#, "bytes"),
    ] {
        let text = assert_tool_error(&post(&layer, &call(arguments)).await, &json!(7));
        assert!(text.contains(word) && text.contains("most 2 "), "{text}");
        let message =
            post(&layer.with_protocol_errors(true), &call(arguments)).await.refused(400, -32602, None);
        assert_eq!(message, text);
    }
}

#[tokio::test]
async fn that_a_tool_is_unknown_comes_first() {
    let catalog = StaticCatalog::new([("sum", &json!({}))]).unwrap();
    let layer = three().with_catalog(catalog);
    let long = call("[1,2,3,4]");
    assert_tool_error(&post(&layer, &long).await, &json!(7));
    let message = post(&layer, &long.replace("sum", "rm")).await.refused(400, -32602, None);
    assert!(message.starts_with("unknown tool `rm`"), "{message}");
    // Within the limits it is for others to say.
    post(&layer, &call("[]").replace("sum", "rm")).await.passed();
}

#[tokio::test]
async fn only_calls_of_tools_are_limited() {
    let long = call("[1,2,3,4]");
    post(&three(), &long.replace("tools/call", "prompts/get")).await.passed();
    post(&three(), &long.replace(r#""id":7,"#, "")).await.passed();
    post(&three(), &long.replace(r#""name":"sum","#, "")).await.passed();
    post(&three(), &long.replace("arguments", "other")).await.passed();
    for scalar in ["null", "1", "\"abcdef\""] {
        post(&three(), &call(scalar)).await.passed();
    }
}

#[tokio::test]
async fn the_refusal_is_told_to_those_who_count_refusals() {
    use tower::{Layer as _, ServiceExt as _};

    let inner =
        tower::service_fn(async |_: Request<Message>| -> Result<http::Response<crate::message::Reply>, ()> {
            unreachable!()
        });
    let response = three().layer(inner).oneshot(request(&call("[1,2,3,4]"), [])).await.unwrap();
    assert_eq!(response.extensions().get::<Rejection>().map(Rejection::code), Some(-32602));
}
