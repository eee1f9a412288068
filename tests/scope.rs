//! What scopes allow, in front of a dispatcher.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_core::Stream;
use http::{Request, Response};
use mcp_layers::catalog::{ToolCatalog, ToolFacts};
use mcp_layers::dispatch::{Dispatch, Prompt, Resource, ResourceTemplate, Tool};
use mcp_layers::layers::scope::{ScopeLayer, ScopeRules};
use mcp_layers::message::{Answer, Event, Message, RawObject, Reply, ReplyStream};
use mcp_layers::principal::Principal;
use mcp_layers::protocol::{PromptMessage, ResourceContents, Scopes};
use serde_json::{Value, json};
use tower::{Layer as _, ServiceExt as _, service_fn};

/// A server with something of every kind.
fn server() -> Dispatch {
    let tool = |name: &str| Tool::raw(name, json!({"type": "object"}), |_, _| async { Ok("done") });
    let prompt = |name: &str| Prompt::new(name, |_, _| async { Ok(Vec::<PromptMessage>::new()) });
    let resource = |uri: &'static str| {
        Resource::new(uri, uri, move |_| async move { Ok(ResourceContents::text(uri, "text")) })
    };
    let template = ResourceTemplate::new("file:///{+path}", "files", |variables, _| async move {
        Ok(ResourceContents::text(variables.uri().to_owned(), "text"))
    });
    Dispatch::builder("s", "1.0.0")
        .tool(tool("read"))
        .tool(tool("write").with_scopes("files:write"))
        .tool(tool("purge").with_scopes(Scopes::any(["admin", "ops"])))
        .prompt(prompt("open"))
        .prompt(prompt("closed"))
        .resource(resource("note://open"))
        .resource(resource("note://closed/1"))
        .resource_template(template)
        .build()
        .expect("a server")
}

fn rules() -> ScopeRules {
    ScopeRules::new()
        .with_endpoint("mcp")
        .with_catalog(server())
        .with_prompt("closed", "prompts")
        .with_resource_prefix("note://closed/", "notes")
        .with_resource_prefix("file:///secret/", "secrets")
}

struct Sent {
    status: u16,
    challenge: Option<String>,
    body: Value,
    text: String,
    calls: usize,
}

fn message(method: &str, params: &Value) -> Message {
    let body = json!({"jsonrpc": "2.0", "id": "seven", "method": method, "params": params});
    Message::parse(body.to_string()).expect("a message")
}

/// Sends a request of somebody with these scopes; of nobody without.
async fn send(rules: ScopeRules, scopes: Option<&str>, method: &str, params: Value) -> Sent {
    let calls = Arc::new(AtomicUsize::new(0));
    let inner = {
        let (server, calls) = (server(), Arc::clone(&calls));
        service_fn(move |request: Request<Message>| {
            calls.fetch_add(1, Ordering::Relaxed);
            server.clone().oneshot(request)
        })
    };
    let mut request = Request::new(message(method, &params));
    if let Some(scopes) = scopes {
        request.extensions_mut().insert(Principal::new("i", "ada").with_scopes(scopes.split_whitespace()));
    }
    let layer = ScopeLayer::new(rules).expect("rules");
    let response = layer.layer(inner).oneshot(request).await.expect("infallible");
    let challenges: Vec<_> = response.headers().get_all("www-authenticate").iter().collect();
    assert!(challenges.len() <= 1);
    let text = response.body().answer().map(ToString::to_string).unwrap_or_default();
    Sent {
        status: response.status().as_u16(),
        challenge: challenges.first().map(|value| value.to_str().unwrap().to_owned()),
        body: serde_json::from_str(&text).unwrap_or_default(),
        text,
        calls: calls.load(Ordering::Relaxed),
    }
}

async fn call(rules: ScopeRules, scopes: &str, tool: &str) -> Sent {
    send(rules, Some(scopes), "tools/call", json!({"name": tool})).await
}

impl Sent {
    #[track_caller]
    fn passed(self) -> Value {
        assert_eq!((self.status, self.challenge, self.calls), (200, None, 1), "{}", self.text);
        assert!(self.body["error"].is_null(), "{}", self.text);
        self.body
    }

    #[track_caller]
    fn lacks(self, scopes: &str) {
        let message = format!("this operation needs the scopes {scopes}");
        let challenge = format!(
            "Bearer error=\"insufficient_scope\", error_description=\"{message}\", scope=\"{scopes}\""
        );
        assert_eq!((self.status, self.challenge.as_deref(), self.calls), (403, Some(challenge.as_str()), 0));
        let body = json!({"jsonrpc": "2.0", "id": "seven", "error": {"code": 403, "message": message}});
        assert_eq!(self.body, body);
    }

    #[track_caller]
    fn refused(self, message: &str) {
        assert_eq!((self.status, self.challenge, self.calls), (400, None, 0), "{}", self.text);
        let error = json!({"code": -32602, "message": message});
        assert_eq!((&self.body["id"], &self.body["error"]), (&json!("seven"), &error));
    }
}

fn names(body: &Value, list: &str, name: &str) -> Vec<String> {
    let items = body["result"][list].as_array().expect("a list");
    items.iter().map(|item| item[name].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn one_challenge_names_every_scope_of_the_operation() {
    call(rules(), "mcp", "read").await.passed();
    call(rules(), "mcp files:write", "write").await.passed();
    call(rules(), "", "write").await.lacks("mcp files:write");
    call(rules(), "mcp", "write").await.lacks("mcp files:write");
    call(rules(), "files:write", "write").await.lacks("mcp files:write");
    let more = rules().with_method("tools/call", "call mcp").with_tool("write", "extra");
    call(more, "mcp", "write").await.lacks("mcp call extra files:write");
}

#[tokio::test]
async fn the_challenge_says_where_the_metadata_is_if_that_is_known() {
    let rules = rules().with_resource_metadata("https://h/.well-known/oauth-protected-resource");
    let sent = call(rules, "", "read").await;
    assert_eq!((sent.status, sent.calls), (403, 0));
    assert_eq!(
        sent.challenge.as_deref(),
        Some(
            "Bearer error=\"insufficient_scope\", error_description=\"this operation needs the scopes mcp\", \
             scope=\"mcp\", resource_metadata=\"https://h/.well-known/oauth-protected-resource\""
        )
    );
}

#[tokio::test]
async fn any_of_several_scopes_is_enough() {
    call(rules(), "mcp ops", "purge").await.passed();
    call(rules(), "mcp", "purge").await.lacks("mcp admin");
    call(rules(), "ops", "purge").await.lacks("mcp ops");
}

#[tokio::test]
async fn nobody_is_asked_to_come_with_a_token() {
    let sent = send(rules(), None, "tools/call", json!({"name": "write"})).await;
    assert_eq!((sent.status, sent.calls), (401, 0));
    assert_eq!(sent.challenge.as_deref(), Some("Bearer scope=\"mcp files:write\""));
    assert_eq!((&sent.body["id"], &sent.body["error"]["code"]), (&json!("seven"), &json!(401)));
    let open = ScopeRules::new().with_catalog(server());
    send(open, None, "tools/call", json!({"name": "read"})).await.passed();
}

#[tokio::test]
async fn a_broader_scope_includes_what_the_implication_says() {
    let rules = || rules().with_implication(|granted, needed| granted == "root" && needed != "admin");
    call(rules(), "root", "write").await.passed();
    call(rules(), "root", "purge").await.passed();
    call(rules(), "toor", "write").await.lacks("mcp files:write");
}

#[tokio::test]
async fn a_default_is_for_what_has_no_rule() {
    let rules = || rules().with_default("other").with_tool("read", Scopes::none());
    call(rules(), "mcp", "read").await.passed();
    call(rules(), "mcp files:write", "write").await.passed();
    send(rules(), Some("mcp"), "prompts/get", json!({"name": "open"})).await.lacks("mcp other");
    send(rules(), Some("mcp"), "resources/read", json!({"uri": "note://open"})).await.lacks("mcp other");
    send(rules(), Some("mcp"), "server/discover", json!({})).await.passed();
    let none = ScopeRules::new().with_default("other");
    send(none, Some(""), "tools/call", json!({"name": "read"})).await.lacks("other");
}

#[tokio::test]
async fn an_unknown_tool_is_never_a_challenge() {
    for rules in [rules(), rules().with_default("other"), rules().with_tool("rm", "rm")] {
        call(rules, "", "rm").await.refused("there is no tool `rm`; `tools/list` tells which there are");
    }
}

#[tokio::test]
async fn without_a_catalog_a_name_needs_what_a_tool_of_that_name_would() {
    let rules = || ScopeRules::new().with_default("other").with_tool("write", "files:write");
    call(rules(), "", "rm").await.lacks("other");
    call(rules(), "files:write", "rm").await.lacks("other");
    // Who may use it, and everybody where there is no default, learns from the server that there is none.
    for (rules, scopes) in [(rules(), "other"), (ScopeRules::new(), "")] {
        let sent = call(rules, scopes, "rm").await;
        assert_eq!((sent.status, sent.challenge, sent.calls), (400, None, 1), "{}", sent.text);
        assert_eq!(sent.body["error"]["code"], -32602);
    }
}

#[tokio::test]
async fn a_hidden_tool_looks_exactly_like_one_that_does_not_exist() {
    let hide = || rules().with_hidden_denials(true);
    let theirs = server().oneshot(Request::new(message("tools/call", &json!({"name": "write"}))));
    drop(theirs);
    for params in [json!({}), json!({"arguments": []}), json!({"arguments": {"a": 1}})] {
        let mut texts = Vec::new();
        for (scopes, tool) in [("mcp", "write"), ("", "write"), ("mcp", "wxyz_")] {
            let mut params = params.clone();
            params["name"] = tool[..5].into();
            let sent = send(hide(), Some(scopes), "tools/call", params).await;
            assert_eq!((sent.status, sent.challenge, sent.calls), (400, None, 0));
            texts.push(sent.text.replace(&tool[..5], "TOOL"));
        }
        assert!(texts.windows(2).all(|pair| pair[0] == pair[1]), "{texts:?}");
    }
    // The dispatcher itself says the same, byte for byte.
    let unknown =
        server().oneshot(Request::new(message("tools/call", &json!({"name": "wxyz_"})))).await.unwrap();
    let hidden = call(hide(), "mcp", "write").await;
    assert_eq!(unknown.status().as_u16(), hidden.status);
    assert_eq!(unknown.body().answer().unwrap().to_string().replace("wxyz_", "write"), hidden.text);

    call(hide(), "mcp files:write", "write").await.passed();
    call(hide(), "files:write", "write").await.lacks("mcp files:write");
    send(hide(), Some("mcp"), "prompts/get", json!({"name": "closed"}))
        .await
        .refused("there is no prompt `closed`; `prompts/list` tells which there are");
    let sent = send(hide(), Some("mcp"), "resources/read", json!({"uri": "note://closed/1"})).await;
    assert_eq!((sent.status, sent.challenge, sent.calls), (400, None, 0));
    assert_eq!(sent.body["error"]["data"], json!({"uri": "note://closed/1"}));
}

#[tokio::test]
async fn layers_above_see_no_hidden_tool_either() {
    let see = |hide: bool, scopes: &str| {
        let layer = ScopeLayer::new(rules().with_hidden_denials(hide)).unwrap();
        let mut extensions = http::Extensions::new();
        extensions.insert(Principal::new("i", "ada").with_scopes(scopes.split_whitespace()));
        layer.visible_tools().tool("write", &extensions).is_some()
    };
    assert_eq!([see(true, ""), see(true, "files:write"), see(false, "")], [false, true, true]);
}

#[tokio::test]
async fn what_a_request_is_about_must_be_a_string() {
    for (method, member) in [("tools/call", "name"), ("prompts/get", "name"), ("resources/read", "uri")] {
        for params in [json!({}), json!({member: 1}), json!({member: ["read"]}), json!({member: null})] {
            send(rules(), Some("mcp"), method, params)
                .await
                .refused(&format!("`params.{member}` must be a string"));
        }
    }
}

#[tokio::test]
async fn headers_decide_nothing() {
    let layer = ScopeLayer::new(rules()).unwrap();
    let mut request = Request::new(message("tools/call", &json!({"name": "write"})));
    request.headers_mut().insert("mcp-name", "read".parse().unwrap());
    request.headers_mut().insert("mcp-method", "tools/list".parse().unwrap());
    request.extensions_mut().insert(Principal::new("i", "ada").with_scopes(["mcp"]));
    assert_eq!(layer.layer(server()).oneshot(request).await.unwrap().status(), 403);
}

#[tokio::test]
async fn prompts_resources_and_completions_have_rules_of_their_own() {
    send(rules(), Some("mcp"), "prompts/get", json!({"name": "open"})).await.passed();
    send(rules(), Some("mcp"), "prompts/get", json!({"name": "closed"})).await.lacks("mcp prompts");
    send(rules(), Some("mcp prompts"), "prompts/get", json!({"name": "closed"})).await.passed();
    send(rules(), Some("mcp"), "resources/read", json!({"uri": "note://open"})).await.passed();
    send(rules(), Some("mcp"), "resources/read", json!({"uri": "note://closed/1"})).await.lacks("mcp notes");
    let exact = rules().with_resource("note://closed/1", "one");
    send(exact, Some("mcp notes"), "resources/read", json!({"uri": "note://closed/1"}))
        .await
        .lacks("mcp notes one");

    let complete = |reference: Value| json!({"ref": reference, "argument": {"name": "a", "value": ""}});
    let prompt = complete(json!({"type": "ref/prompt", "name": "closed"}));
    send(rules(), Some("mcp"), "completion/complete", prompt).await.lacks("mcp prompts");
    let template = complete(json!({"type": "ref/resource", "uri": "file:///secret/{x}"}));
    send(rules(), Some("mcp"), "completion/complete", template).await.lacks("mcp secrets");
}

#[tokio::test]
async fn no_spelling_of_a_uri_gets_around_a_prefix() {
    for uri in [
        "file:///secret/x",
        "file:///public/../secret/x",
        "file:///%73ecret/x",
        "file:///%2573ecret/x",
        "file:///secret%2fx",
        "file:///SECRET/x",
        "FILE:///secret/x",
        "file:///.//secret/x",
        "file:///secret\\x",
        "file:/secret/x",
        "file://localhost/secret/x",
        "file://u@localhost./secret/x",
        "file://elsewhere/secret/x",
        "file:///%2525252573ecret/x",
        "file:///%2525252525252525252573ecret/x",
        "file:///%2%3573ecret/x?y",
    ] {
        send(rules(), Some("mcp"), "resources/read", json!({"uri": uri})).await.lacks("mcp secrets");
    }
    send(rules(), Some("mcp"), "resources/read", json!({"uri": "file:///public/x"})).await.passed();
    // A way out of what is open leads to the default, not past it.
    let open = || rules().with_default("other").with_resource_prefix("file:///public/", Scopes::none());
    send(open(), Some("mcp"), "resources/read", json!({"uri": "file:///public/x"})).await.passed();
    send(open(), Some("mcp"), "resources/read", json!({"uri": "file:///public/../x"}))
        .await
        .lacks("mcp other");
}

#[tokio::test]
async fn no_spelling_of_a_host_gets_around_a_prefix() {
    let rules = || {
        ScopeRules::new()
            .with_resource_prefix("https://h/secret/", "secrets")
            .with_resource("https://other", "other")
            .with_resource_prefix("HTTPS://u@third:443/", "third")
    };
    for uri in [
        "https://h:443/secret/x",
        "https://h./secret/x",
        "https://u@h/secret/x",
        "https://u%2f@H:0443/secret/x",
        "https:h/secret/x",
        "https:\\\\h\\secret\\x",
        "https:\\//y%2fu:p@h/secret/x",
    ] {
        send(rules(), Some("mcp"), "resources/read", json!({"uri": uri})).await.lacks("secrets");
    }
    for uri in ["https://other", "https://other/", "https://other:443", "https://other?x", "https://other/#x"]
    {
        send(rules(), Some("mcp"), "resources/read", json!({"uri": uri})).await.lacks("other");
    }
    // However the rule is spelled itself.
    for uri in ["https://third/x", "https://third./x", "https://v@third/x"] {
        send(rules(), Some("mcp"), "resources/read", json!({"uri": uri})).await.lacks("third");
    }
}

#[tokio::test]
async fn a_uri_that_readers_take_for_different_ones_is_unknown_where_there_are_rules() {
    for uri in [
        " file:///secret/x",
        "file:///public/x ",
        "file:///se\tcret/x",
        "file:///secret/x\n",
        "fi\rle:///secret/x",
        "\0file:///secret/x",
        "file:///%73ecret/x?/../../public/y",
        "file:///%73ecret/x%2f../../public",
        "file:///%73ecret//../x",
        "file:///public/%2e%2E/secret/x",
        "file:///public/../secret/%2e/../x",
        "file:///s%65cret/..%20",
        "file:///secret/x%00.txt",
        "https://0x7f.1/x",
    ] {
        for scopes in ["mcp", "mcp secrets"] {
            let sent = send(rules(), Some(scopes), "resources/read", json!({"uri": uri})).await;
            assert_eq!((sent.status, &sent.challenge, sent.calls), (400, &None, 0), "{uri:?} {}", sent.text);
            let error = &sent.body["error"];
            assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(-32602), &json!(uri)));
            assert_eq!(sent.body["id"], json!("seven"));
        }
    }
    let complete = json!({"ref": {"type": "ref/resource", "uri": "file:///se\tcret/{x}"}, "argument": {"name": "a", "value": ""}});
    let sent = send(rules(), Some("mcp secrets"), "completion/complete", complete).await;
    assert_eq!((sent.status, sent.calls, &sent.body["error"]["code"]), (400, 0, &json!(-32602)));
    // Without rules there is nothing to get around.
    let sent = send(ScopeRules::new(), None, "resources/read", json!({"uri": "https://0x7f.1/x"})).await;
    assert_eq!(sent.calls, 1);
}

#[tokio::test]
async fn a_rule_that_is_spelled_otherwise_adds_to_the_default_and_does_not_replace_it() {
    let rules = || {
        ScopeRules::new()
            .with_default("other")
            .with_resource_prefix("file:///Public/", Scopes::none())
            .with_resource("NOTE://closed/1?x", "notes")
    };
    send(rules(), Some("mcp"), "resources/read", json!({"uri": "file:///public/x"})).await.lacks("other");
    let sent = send(rules(), Some("mcp"), "resources/read", json!({"uri": "note://closed/1?x"})).await;
    sent.lacks("notes other");
}

#[tokio::test]
async fn who_a_uri_names_as_user_may_decide_what_is_needed() {
    let rules = || {
        ScopeRules::new()
            .with_default("other")
            .with_resource_prefix("mail://ada@h/", "ada")
            .with_resource_prefix("mail://bob@h/", "bob")
    };
    send(rules(), Some("mcp"), "resources/read", json!({"uri": "mail://ada@h/1"})).await.lacks("ada");
    send(rules(), Some("mcp"), "resources/read", json!({"uri": "mail://eve@h/1"})).await.lacks("other");
}

#[tokio::test]
async fn lists_show_what_may_be_called_and_become_private() {
    let list = async |scopes: &str| send(rules(), Some(scopes), "tools/list", json!({})).await.passed();
    for (scopes, shown) in [
        ("mcp", &["read"][..]),
        ("mcp files:write", &["read", "write"]),
        ("mcp ops", &["read", "purge"]),
        ("mcp admin files:write", &["read", "write", "purge"]),
    ] {
        let body = list(scopes).await;
        assert_eq!(names(&body, "tools", "name"), shown);
        assert_eq!(body["result"]["cacheScope"], "private", "others may see another list");
        for tool in ["read", "write", "purge"] {
            let callable = call(rules(), scopes, tool).await.status == 200;
            assert_eq!(callable, shown.contains(&tool), "{scopes} {tool}");
        }
    }
    send(rules(), Some(""), "tools/list", json!({})).await.lacks("mcp");

    let body = send(rules(), Some("mcp"), "prompts/list", json!({})).await.passed();
    assert_eq!(names(&body, "prompts", "name"), ["open"]);
    let body = send(rules(), Some("mcp"), "resources/list", json!({})).await.passed();
    assert_eq!(names(&body, "resources", "uri"), ["note://open"]);
    let files = rules().with_resource_prefix("file:///", "files");
    let body = send(files, Some("mcp"), "resources/templates/list", json!({})).await.passed();
    assert_eq!(names(&body, "resourceTemplates", "uriTemplate"), [""; 0]);
    let body = send(rules(), Some("mcp"), "resources/templates/list", json!({})).await.passed();
    assert_eq!(
        names(&body, "resourceTemplates", "uriTemplate"),
        ["file:///{+path}"],
        "a part of it may be read"
    );
}

#[tokio::test]
async fn a_list_that_everybody_sees_stays_as_it_is() {
    let rules = ScopeRules::new().with_endpoint("mcp");
    let ours = send(rules, Some("mcp"), "tools/list", json!({})).await;
    let theirs = server().oneshot(Request::new(message("tools/list", &json!({})))).await.unwrap();
    assert_eq!(ours.text, theirs.body().answer().unwrap().to_string());
}

/// Answers every list with the same piece of memory, as a cache does.
fn from_a_cache(result: RawObject) -> Upstream {
    tower::util::BoxCloneSyncService::new(service_fn(move |_: Request<Message>| {
        let answer = Answer::result(Some("seven".into()), result.clone());
        std::future::ready(Ok(Response::new(Reply::Answer(answer))))
    }))
}

type Upstream = tower::util::BoxCloneSyncService<Request<Message>, Response<Reply>, Infallible>;

async fn tools_shown_to<S>(service: &S, scopes: &str) -> Vec<String>
where
    S: tower::Service<Request<Message>, Response = Response<Reply>, Error = Infallible> + Clone,
{
    let mut request = Request::new(message("tools/list", &json!({})));
    request.extensions_mut().insert(Principal::new("i", "ada").with_scopes(scopes.split_whitespace()));
    let response = service.clone().oneshot(request).await.expect("infallible");
    let text = response.body().answer().expect("an answer").to_string();
    names(&serde_json::from_str(&text).expect("JSON"), "tools", "name")
}

#[tokio::test]
async fn a_list_from_a_cache_follows_the_scopes_of_the_caller_and_the_changes_of_the_catalog() {
    let server = server();
    let list = r#"{"tools":[{"name":"read"},{"name":"write"},{"name":"purge"}],"cacheScope":"public"}"#;
    let layer = ScopeLayer::new(ScopeRules::new().with_catalog(server.clone())).expect("rules");
    let service = layer.layer(from_a_cache(RawObject::parse(list).expect("an object")));
    for _ in 0..2 {
        assert_eq!(tools_shown_to(&service, "").await, ["read"]);
        assert_eq!(tools_shown_to(&service, "files:write").await, ["read", "write"]);
        assert_eq!(tools_shown_to(&service, "ops files:write").await, ["read", "write", "purge"]);
        assert_eq!(tools_shown_to(&service, "other").await, ["read"]);
    }

    assert!(server.set_tool_enabled("read", false));
    assert_eq!(tools_shown_to(&service, "files:write").await, ["write"]);
    assert!(server.remove_tool("write"));
    assert_eq!(tools_shown_to(&service, "files:write").await, [""; 0]);
    let open = Tool::raw("write", json!({"type": "object"}), |_, _| async { Ok("done") });
    server.add_tool(open).expect("a tool");
    assert_eq!(tools_shown_to(&service, "").await, ["write"]);
}

#[tokio::test]
async fn a_catalog_that_does_not_tell_its_generation_is_asked_about_each_tool_each_time() {
    struct Fickle(AtomicUsize);

    impl ToolCatalog for Fickle {
        fn tool(&self, _: &str, _: &http::Extensions) -> Option<Arc<ToolFacts>> {
            let needed = format!("s{}", self.0.fetch_add(1, Ordering::Relaxed));
            Some(Arc::new(ToolFacts::default().with_scopes(needed.as_str())))
        }
    }

    let catalog = Fickle(AtomicUsize::new(0));
    let layer = ScopeLayer::new(ScopeRules::new().with_catalog(catalog)).expect("rules");
    let list = RawObject::parse(r#"{"tools":[{"name":"a"},{"name":"b"}]}"#).expect("an object");
    let service = layer.layer(from_a_cache(list));
    // Each list asks once for each of the two.
    assert_eq!(tools_shown_to(&service, "s1").await, ["b"]);
    assert_eq!(tools_shown_to(&service, "s1").await, [""; 0]);
    assert_eq!(tools_shown_to(&service, "s4 s5").await, ["a", "b"]);
    assert_eq!(tools_shown_to(&service, "s6").await, ["a"]);
}

#[tokio::test]
async fn rules_on_arguments_ask_more_of_calls_and_hide_nothing() {
    let rules = || {
        rules().with_call_rule(|message| {
            let drops = message.arguments().is_some_and(|arguments| arguments.text().contains("drop"));
            if drops { Scopes::from("danger") } else { Scopes::none() }
        })
    };
    let with = |value: &str| json!({"name": "read", "arguments": {"sql": value}});
    send(rules(), Some("mcp"), "tools/call", with("select")).await.passed();
    send(rules(), Some("mcp"), "tools/call", with("drop")).await.lacks("mcp danger");
    send(rules(), Some("mcp danger"), "tools/call", with("drop")).await.passed();
    send(rules().with_hidden_denials(true), Some("mcp"), "tools/call", with("drop"))
        .await
        .lacks("mcp danger");
    let strict = rules().with_call_rule(|_| "nobody".into());
    let body = send(strict, Some("mcp"), "tools/list", json!({})).await.passed();
    assert_eq!(names(&body, "tools", "name"), ["read"]);
    let broken = rules().with_call_rule(|_| Scopes::all(["not a scope"]));
    let sent = call(broken, "mcp", "read").await;
    assert_eq!((sent.status, sent.calls, &sent.body["error"]["code"]), (500, 0, &json!(-32603)));
}

/// The layer in front of a server that answers with `reply`.
async fn filtered(method: &str, reply: impl Fn() -> Reply + Clone) -> Reply {
    let inner = service_fn(move |_: Request<Message>| {
        let reply = reply();
        async { Ok::<_, Infallible>(Response::new(reply)) }
    });
    let mut request = Request::new(message(method, &json!({})));
    request.extensions_mut().insert(Principal::new("i", "ada").with_scopes(["mcp"]));
    let rules = ScopeRules::new().with_tool("b", "b").with_tool("d", "d");
    ScopeLayer::new(rules).unwrap().layer(inner).oneshot(request).await.unwrap().into_body()
}

fn page(result: &str) -> Answer {
    Answer::result(Some(1.into()), RawObject::parse(result.to_owned()).unwrap())
}

async fn filtered_page(result: &'static str) -> String {
    let reply = filtered("tools/list", move || Reply::Answer(page(result))).await;
    reply.answer().unwrap().to_string()
}

const ONE: &str = r#"{"jsonrpc":"2.0","id":1,"result":"#;

#[tokio::test]
async fn what_is_shown_keeps_its_order_its_digits_and_its_cursor() {
    let page = r#"{"tools":[{"name":"c","n":1.0},{"name":"b"},{"n":2e1,"name":"a"}],"nextCursor":"x","cacheScope":"public"}"#;
    let kept =
        r#"{"tools":[{"name":"c","n":1.0},{"n":2e1,"name":"a"}],"nextCursor":"x","cacheScope":"private"}"#;
    assert_eq!(filtered_page(page).await, format!("{ONE}{kept}}}"));
    let empty = r#"{"tools":[],"nextCursor":"x","cacheScope":"private"}"#;
    let page = r#"{"tools":[{"name":"b"},{"name":"d"}],"nextCursor":"x"}"#;
    assert_eq!(filtered_page(page).await, format!("{ONE}{empty}}}"));
}

#[tokio::test]
async fn items_without_one_name_are_not_shown() {
    let page = r#"{"tools":[{"name":"b","name":"a"},{"n\u0061me":"b"},{"name":1},{},7,{"name":"a"}]}"#;
    assert_eq!(
        filtered_page(page).await,
        format!(r#"{ONE}{{"tools":[{{"name":"a"}}],"cacheScope":"private"}}}}"#)
    );
}

#[tokio::test]
async fn a_list_that_cannot_be_understood_is_not_shown() {
    for page in [r#"{"tools":{"name":"b"}}"#, r#"{"tools":"b"}"#, r#"{"items":[{"name":"b"}]}"#, "{}"] {
        let text = filtered_page(page).await;
        assert!(text.contains("\"code\":-32603") && !text.contains("\"b\""), "{text}");
    }
}

#[tokio::test]
async fn a_list_at_the_end_of_a_stream_is_filtered_too() {
    struct Events(VecDeque<Event>);
    impl Stream for Events {
        type Item = Event;
        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Event>> {
            Poll::Ready(self.0.pop_front())
        }
    }
    let reply = filtered("tools/list", || {
        let note = Message::notification("notifications/progress", RawObject::new()).unwrap();
        let list = page(r#"{"tools":[{"name":"a"},{"name":"b"}]}"#);
        Reply::Stream(ReplyStream::new(Events([Event::Notification(note), Event::Answer(list)].into())))
    })
    .await;
    let Reply::Stream(mut stream) = reply else { panic!("not a stream") };
    let mut next = async || std::future::poll_fn(|cx| Pin::new(&mut stream).poll_next(cx)).await;
    assert!(matches!(next().await, Some(Event::Notification(_))));
    let Some(Event::Answer(answer)) = next().await else { panic!("no answer") };
    let expected = format!(r#"{ONE}{{"tools":[{{"name":"a"}}],"cacheScope":"private"}}}}"#);
    assert_eq!(answer.to_string(), expected);
}

#[tokio::test]
async fn a_subscription_covers_only_what_may_be_read() {
    let seen = Arc::new(std::sync::Mutex::new(None));
    let inner = {
        let seen = Arc::clone(&seen);
        service_fn(move |request: Request<Message>| {
            *seen.lock().unwrap() = Some(String::from_utf8(request.body().bytes().to_vec()).unwrap());
            async { Ok::<_, Infallible>(Response::new(Reply::Accepted)) }
        })
    };
    let layer = ScopeLayer::new(rules()).unwrap();
    let listen = async |notifications: Value| {
        let mut request =
            Request::new(message("subscriptions/listen", &json!({"notifications": notifications})));
        request.extensions_mut().insert(Principal::new("i", "ada").with_scopes(["mcp"]));
        let status = layer.layer(inner.clone()).oneshot(request).await.unwrap().status().as_u16();
        (status, seen.lock().unwrap().take())
    };
    let uris = json!([
        "note://open",
        "note://closed/1",
        "NOTE://closed/2",
        "note://x/../closed/3",
        "note://u@closed./4",
        "note://open/\t5",
    ]);
    let (status, sent) = listen(json!({"toolsListChanged": true, "resourceSubscriptions": uris})).await;
    let sent: Value = serde_json::from_str(&sent.unwrap()).unwrap();
    let kept = json!({"toolsListChanged": true, "resourceSubscriptions": ["note://open"]});
    assert_eq!((status, &sent["params"]["notifications"]), (200, &kept));
    for bad in [
        json!({"resourceSubscriptions": "note://closed/1"}),
        json!({"resourceSubscriptions": [1]}),
        json!([]),
    ] {
        assert_eq!(listen(bad).await, (400, None));
    }
    assert_eq!(listen(json!({"toolsListChanged": true})).await.0, 200);
}

#[tokio::test]
async fn rules_that_no_token_can_meet_are_an_error_at_build() {
    for rules in [
        ScopeRules::new().with_endpoint("offline_access"),
        ScopeRules::new().with_tool("t", Scopes::all(["a b"])),
        ScopeRules::new().with_prompt("p", Scopes::any([""; 0])),
        ScopeRules::new().with_resource("r:", Scopes::all(["\""])),
        ScopeRules::new().with_default(Scopes::all(["\n"])),
    ] {
        assert!(ScopeLayer::new(rules).is_err());
    }
    let tool =
        Tool::raw("t", json!({"type": "object"}), |_, _| async { Ok("") }).with_scopes(Scopes::all(["a b"]));
    let error = Dispatch::builder("s", "1").tool(tool).build().unwrap_err();
    assert!(error.to_string().starts_with("in the tool `t`: `a b` cannot be a scope"), "{error}");
}
