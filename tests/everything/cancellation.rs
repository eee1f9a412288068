//! A client that goes away cancels its call, and nobody else's.

use http::StatusCode;
use serde_json::json;

use crate::support::{Events, Server, WIRES};

#[tokio::test]
async fn a_client_that_goes_away_before_the_response_cancels_its_call() {
    for wire in WIRES {
        let mut server = Server::start(wire).await;
        let call = server.send(server.request("1", "tools/call", json!({ "name": "wait" })));
        tokio::select! {
            _ = call => panic!("nothing lets it go on"),
            told = server.next_of_call() => assert_eq!(told, "started"),
        }
        // `select!` has dropped the call.
        assert_eq!(server.next_of_call().await, "cancelled");
        still_serves(&mut server).await;
    }
}

#[tokio::test]
async fn a_client_that_goes_away_during_a_stream_cancels_its_call() {
    for wire in WIRES {
        let mut server = Server::start(wire).await;
        let params = json!({ "name": "wait", "_meta": { "progressToken": 1 } });
        let mut events = Events::of(server.send(server.request("1", "tools/call", params)).await);
        assert_eq!(events.next().await.unwrap()["method"], "notifications/progress");
        assert_eq!(server.next_of_call().await, "started");
        drop(events);
        assert_eq!(server.next_of_call().await, "cancelled");
        still_serves(&mut server).await;
    }
}

#[tokio::test]
async fn a_client_cannot_cancel_the_call_of_another_by_its_id() {
    for wire in WIRES {
        let mut server = Server::start(wire).await;
        let call = tokio::spawn(server.answer(server.request("7", "tools/call", json!({ "name": "wait" }))));
        assert_eq!(server.next_of_call().await, "started");

        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
        let response = server.send(server.post(cancel)).await;
        assert_eq!(response.status(), StatusCode::ACCEPTED);
        // So does one that goes away with the same id.
        let same_id = server.send(server.request("7", "tools/call", json!({ "name": "wait" })));
        tokio::select! {
            _ = same_id => panic!("nothing lets it go on"),
            told = server.next_of_call() => assert_eq!(told, "started"),
        }
        assert_eq!(server.next_of_call().await, "cancelled");

        server.go_on.add_permits(1);
        let (_, answer) = call.await.unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], "waited");
        assert_eq!(server.next_of_call().await, "finished");
    }
}

async fn still_serves(server: &mut Server) {
    let (head, answer) = server.answer(server.query("2")).await;
    assert_eq!((head.status, &answer["id"]), (StatusCode::OK, &json!(2)));
    assert!(server.nothing_more_of_calls());
    assert_eq!(server.runs(), 2);
}
