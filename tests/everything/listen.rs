//! Clients are told of changes that they listen for.

use http::StatusCode;
use mcp_layers::dispatch::Tool;
use serde_json::{Value, json};

use crate::support::{Events, Server, WIRES, read_answer};

const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

#[tokio::test]
async fn a_listener_hears_what_it_asked_for_until_the_server_shuts_down() {
    for wire in WIRES {
        let server = Server::start(wire).await;
        let wanted = json!({
            "toolsListChanged": true,
            "promptsListChanged": true,
            "resourceSubscriptions": ["note://1"],
        });
        let mut events = listen(&server, "\"mine\"", wanted).await;
        let acknowledged = events.next().await.unwrap();
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
        // There are no prompts, so there is no news of them.
        let honoured = json!({ "toolsListChanged": true, "resourceSubscriptions": ["note://1"] });
        assert_eq!(acknowledged["params"]["notifications"], honoured);
        assert_eq!(acknowledged["params"]["_meta"][SUBSCRIPTION_ID], "mine");

        let publisher = server.dispatch.publisher();
        publisher.prompts_list_changed();
        publisher.resource_updated("note://2");
        publisher.resource_updated("note://1");
        let updated = events.next().await.unwrap();
        assert_eq!(updated["method"], "notifications/resources/updated");
        assert_eq!(updated["params"]["uri"], "note://1");
        assert_eq!(updated["params"]["_meta"][SUBSCRIPTION_ID], "mine");

        server
            .dispatch
            .add_tool(Tool::raw("new", json!({ "type": "object" }), |_, _| async { Ok("") }))
            .unwrap();
        let changed = events.next().await.unwrap();
        assert_eq!(changed["method"], "notifications/tools/list_changed");
        assert_eq!(changed["params"]["_meta"][SUBSCRIPTION_ID], "mine");
        let (_, list) = server.answer(server.request("1", "tools/list", json!({}))).await;
        assert_eq!(list["result"]["tools"][3]["name"], "new");

        server.dispatch.shutdown().await;
        let answer = events.next().await.unwrap();
        assert_eq!((&answer["id"], &answer["result"]["resultType"]), (&json!("mine"), &json!("complete")));
        assert_eq!(answer["result"]["_meta"][SUBSCRIPTION_ID], "mine");
        assert_eq!(events.next().await, None);
    }
}

#[tokio::test]
async fn listeners_keep_their_own_ids_and_one_that_leaves_does_not_stop_the_others() {
    for wire in WIRES {
        let server = Server::start(wire).await;
        let wanted = || json!({ "toolsListChanged": true });
        let mut first = listen(&server, "1", wanted()).await;
        let mut second = listen(&server, "2", wanted()).await;
        for (events, id) in [(&mut first, 1), (&mut second, 2)] {
            assert_eq!(events.next().await.unwrap()["params"]["_meta"][SUBSCRIPTION_ID], id);
        }
        drop(first);
        assert!(server.dispatch.set_tool_enabled("count", false));
        // It is hidden already: nothing changes, and nobody is told.
        assert!(server.dispatch.set_tool_enabled("count", false));
        let changed = second.next().await.unwrap();
        assert_eq!(changed["params"]["_meta"][SUBSCRIPTION_ID], 2);
        server.dispatch.shutdown().await;
        assert_eq!(second.next().await.unwrap()["id"], 2);
        assert_eq!(second.next().await, None);
    }
}

#[tokio::test]
async fn a_listener_that_takes_no_stream_is_refused() {
    for wire in WIRES {
        let server = Server::start(wire).await;
        let params = json!({ "notifications": { "toolsListChanged": true } });
        let mut request = server.request("5", "subscriptions/listen", params);
        request.headers_mut().insert("accept", "application/json".parse().unwrap());
        let (head, answer) = server.answer(request).await;
        assert_eq!(head.status, StatusCode::NOT_ACCEPTABLE);
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(5), &json!(406)));

        let response = server.send(server.request("6", "subscriptions/listen", json!({}))).await;
        let (head, answer) = read_answer(response).await;
        assert_eq!(head.status, StatusCode::BAD_REQUEST);
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(6), &json!(-32602)));
    }
}

async fn listen(server: &Server, id: &str, wanted: Value) -> Events {
    let request = server.request(id, "subscriptions/listen", json!({ "notifications": wanted }));
    let response = server.send(request).await;
    assert_eq!(response.status(), StatusCode::OK);
    Events::of(response)
}
