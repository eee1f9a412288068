//! What a well-behaved client gets.

use std::pin::Pin;
use std::task::Poll;

use http::StatusCode;
use serde_json::json;

use crate::support::{Events, Server, WIRES, in_time};

#[tokio::test]
async fn a_client_discovers_lists_and_calls() {
    for wire in WIRES {
        let server = Server::start(wire).await;

        let (head, answer) = server.answer(server.request("0", "server/discover", json!({}))).await;
        assert_eq!(head.status, StatusCode::OK);
        let result = &answer["result"];
        assert_eq!(result["supportedVersions"], json!(["2026-07-28"]));
        assert_eq!(
            result["capabilities"],
            json!({
                "tools": { "listChanged": true },
                "resources": { "listChanged": true, "subscribe": true },
            })
        );
        let info = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(*info, json!({ "name": "small", "version": "1.2.3" }));
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(60_000), &json!("public")));

        let (head, answer) = server.answer(server.request("\"list\"", "tools/list", json!({}))).await;
        assert_eq!((head.status, &answer["id"]), (StatusCode::OK, &json!("list")));
        let tools = answer["result"]["tools"].as_array().unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["query", "count", "wait"]);
        assert_eq!(answer["result"]["ttlMs"], 60_000);

        let (head, answer) = server.answer(server.query("9007199254740993")).await;
        assert_eq!(head.status, StatusCode::OK);
        assert_eq!(answer["id"], json!(9_007_199_254_740_993_u64));
        assert_eq!(answer["result"]["structuredContent"], json!({ "region": "eu", "limit": 10 }));
        assert_eq!(answer["result"]["resultType"], "complete");

        let read = server.request("2", "resources/read", json!({ "uri": "note://1" }));
        let (head, answer) = server.answer(read).await;
        assert_eq!(head.status, StatusCode::OK);
        assert_eq!(answer["result"]["contents"], json!([{ "uri": "note://1", "text": "Hi" }]));
        assert_eq!(server.runs(), 1);
    }
}

#[tokio::test]
async fn a_mirrored_value_may_be_encoded_and_an_absent_argument_has_no_header() {
    for wire in WIRES {
        let server = Server::start(wire).await;
        let mut request = server.query("1");
        request.headers_mut().insert("mcp-param-region", "=?base64?ZXU=?=".parse().unwrap());
        assert_eq!(server.answer(request).await.0.status, StatusCode::OK);
        let (head, _) = server.answer(server.request("2", "tools/call", json!({ "name": "query" }))).await;
        assert_eq!(head.status, StatusCode::OK);
        assert_eq!(server.runs(), 2);
    }
}

#[tokio::test]
async fn progress_comes_before_the_answer_on_the_same_stream_and_only_if_asked_for() {
    for wire in WIRES {
        let server = Server::start(wire).await;
        let (_, answer) = server.answer(server.request("1", "tools/call", json!({ "name": "count" }))).await;
        assert_eq!(answer["result"]["content"][0]["text"], "counted");

        let params = json!({ "name": "count", "_meta": { "progressToken": "t" } });
        let response = server.send(server.request("1", "tools/call", params)).await;
        assert_eq!(response.status(), StatusCode::OK);
        let mut events = Events::of(response);
        for step in [1.0, 2.0] {
            let params =
                json!({ "progressToken": "t", "progress": step, "total": 2.0, "message": "counting" });
            let notification =
                json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
            assert_eq!(events.next().await.unwrap(), notification);
        }
        let answer = events.next().await.unwrap();
        assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(1), &json!("counted")));
        assert_eq!(events.next().await, None);
    }
}

#[tokio::test]
async fn requests_with_the_same_id_do_not_get_each_others_answers() {
    for wire in WIRES {
        let server = Server::start(wire).await;
        let calls = (0..100).map(|limit| {
            let params = json!({ "name": "query", "arguments": { "limit": limit } });
            tokio::spawn(server.answer(server.request("1", "tools/call", params)))
        });
        // All are sent before the first one is waited for.
        for (limit, call) in calls.collect::<Vec<_>>().into_iter().enumerate() {
            let (_, answer) = call.await.unwrap();
            assert_eq!(answer["result"]["structuredContent"], json!({ "limit": limit }));
        }
        assert_eq!(server.runs(), 100);
    }
}

#[tokio::test]
async fn a_server_that_shuts_down_finishes_what_it_has_begun_and_refuses_the_rest() {
    for wire in WIRES {
        let mut server = Server::start(wire).await;
        let begun = server.answer(server.request("\"begun\"", "tools/call", json!({ "name": "wait" })));
        let begun = tokio::spawn(begun);
        assert_eq!(server.next_of_call().await, "started");

        let dispatch = server.dispatch.clone();
        let mut shutdown = Box::pin(dispatch.shutdown());
        assert!(is_pending(&mut shutdown).await);
        for (id, method) in
            [("late", "tools/call"), ("later", "tools/list"), ("latest", "subscriptions/listen")]
        {
            let late = server.request(&json!(id).to_string(), method, json!({ "name": "query" }));
            let (head, answer) = server.answer(late).await;
            assert_eq!(head.status, StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(503)));
        }
        assert!(is_pending(&mut shutdown).await);

        server.go_on.add_permits(1);
        let (head, answer) = begun.await.unwrap();
        assert_eq!((head.status, &answer["id"]), (StatusCode::OK, &json!("begun")));
        assert_eq!(answer["result"]["content"][0]["text"], "waited");
        in_time(shutdown).await;
        assert_eq!(server.next_of_call().await, "finished");
        assert_eq!(server.runs(), 1);
    }
}

/// Polls once.
async fn is_pending(mut future: impl Future + Unpin) -> bool {
    std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut future).poll(cx).is_pending())).await
}
