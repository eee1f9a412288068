//! The catalog in front of an upstream, between the layers that use it and a cache.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::task::Poll;

use futures_core::Stream;
use http::{Request, Response};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tower::{Layer as _, ServiceBuilder, ServiceExt as _, service_fn};

use super::*;
use crate::clock::ManualClock;
use crate::layers::cache::CacheLayer;
use crate::layers::{HeadersLayer, ScopeLayer, ScopeRules};
use crate::message::{Answer, ErrorObject, Event, Message, Reply, ReplyStream};
use crate::principal::Principal;
use crate::store::Invalidation;

type Say = Box<dyn Fn(&Request<Message>) -> Response<Reply> + Send + Sync>;
type Stack = tower::util::BoxCloneService<Request<Message>, Response<Reply>, crate::body::BoxError>;

/// What came to the upstream: method and cursor, or method and tool.
type Seen = Arc<Mutex<Vec<String>>>;

struct World {
    clock: Arc<ManualClock>,
    cache: ResponseCache,
    stack: Stack,
    seen: Seen,
    gate: Arc<Semaphore>,
    requests: Arc<Mutex<Vec<Request<Message>>>>,
}

/// A schema that mirrors `region` into the header `Mcp-Param-{header}`.
fn mirroring(header: &str) -> Value {
    json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": header}}})
}

fn page(tools: &[(&str, Value)], hints: Value) -> Value {
    let tools: Vec<_> =
        tools.iter().map(|(name, schema)| json!({"name": name, "inputSchema": schema})).collect();
    let mut page = json!({"resultType": "complete", "tools": tools});
    page.as_object_mut().unwrap().extend(hints.as_object().unwrap().clone());
    page
}

fn answered(request: &Request<Message>, result: &Value) -> Response<Reply> {
    let result = RawObject::from_value(result).unwrap();
    Response::new(Reply::Answer(Answer::result(request.body().id().cloned(), result)))
}

fn refused(request: &Request<Message>, code: i64) -> Response<Reply> {
    let error = ErrorObject::new(code, "no");
    let mut response = Response::new(Reply::Answer(Answer::error(request.body().id().cloned(), error)));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response
}

/// The answer at the end of a stream, perhaps after a notification.
fn streamed(answer: Answer, after_another: bool) -> Response<Reply> {
    struct Events(Vec<Event>);
    impl Stream for Events {
        type Item = Event;
        fn poll_next(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> Poll<Option<Event>> {
            Poll::Ready((!self.0.is_empty()).then(|| self.0.remove(0)))
        }
    }
    let note = Message::notification("notifications/message", RawObject::new()).unwrap();
    let mut events = vec![Event::Notification(note), Event::Answer(answer)];
    if !after_another {
        events.remove(0);
    }
    Response::new(Reply::Stream(ReplyStream::new(Events(events))))
}

/// Says that the call was made.
fn done(request: &Request<Message>) -> Response<Reply> {
    answered(request, &json!({"resultType": "complete", "content": []}))
}

/// An upstream that has this one list.
fn listing(list: Value) -> World {
    World::new(move |request| match request.body().method() {
        "tools/list" => answered(request, &list),
        _ => done(request),
    })
}

impl World {
    fn new(say: impl Fn(&Request<Message>) -> Response<Reply> + Send + Sync + 'static) -> Self {
        Self::with(say, |catalog| catalog)
    }

    fn with(
        say: impl Fn(&Request<Message>) -> Response<Reply> + Send + Sync + 'static,
        change: impl FnOnce(LearnedCatalog) -> LearnedCatalog,
    ) -> Self {
        Self::with_rules(say, change, ScopeRules::new())
    }

    fn with_rules(
        say: impl Fn(&Request<Message>) -> Response<Reply> + Send + Sync + 'static,
        change: impl FnOnce(LearnedCatalog) -> LearnedCatalog,
        rules: ScopeRules,
    ) -> Self {
        let clock = Arc::new(ManualClock::new());
        let cache = ResponseCache::with_store_and_clock("u", MemoryStore::default(), Arc::clone(&clock));
        let catalog = change(LearnedCatalog::new(cache.clone()));
        let (seen, gate) = (Seen::default(), Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)));
        let requests = Arc::<Mutex<Vec<Request<Message>>>>::default();
        let say: Arc<Say> = Arc::new(Box::new(say));
        let upstream = {
            let (seen, gate, requests) = (Arc::clone(&seen), Arc::clone(&gate), Arc::clone(&requests));
            service_fn(move |request: Request<Message>| {
                let message = request.body();
                let of = message.param("cursor").or(message.param("name")).and_then(Raw::to_str);
                seen.lock().unwrap().push(format!("{} {}", message.method(), of.unwrap_or_default()));
                let (say, gate) = (Arc::clone(&say), Arc::clone(&gate));
                requests.lock().unwrap().push(request.clone());
                async move {
                    gate.acquire().await.unwrap().forget();
                    Ok::<_, Infallible>(say(&request))
                }
            })
        };
        let bottom = ServiceBuilder::new()
            .layer(catalog.learn())
            .layer(CacheLayer::new(cache.clone()))
            .service(upstream);
        let scopes = ScopeLayer::new(rules.with_catalog(catalog.clone())).unwrap();
        let stack = ServiceBuilder::new()
            .layer(catalog.look_up(bottom.clone()).with_scopes(&scopes))
            .layer(HeadersLayer::params_only(catalog))
            .layer(scopes)
            .service(bottom);
        Self { clock, cache, stack: Stack::new(stack), seen, gate, requests }
    }

    async fn send(&self, request: Request<Message>) -> (u16, Value) {
        let response = self.stack.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let answer = match response.into_body() {
            Reply::Answer(answer) => answer,
            Reply::Stream(stream) => last(stream).await.expect("an answer"),
            Reply::Accepted => panic!("no answer"),
        };
        (status, serde_json::from_str(&answer.to_string()).unwrap())
    }

    /// Calls a tool whose argument `region` is `eu`, mirrored so. Returns the status and the code of the error, or 0.
    async fn call(&self, who: &str, tool: &str, header: &str) -> (u16, i64) {
        let (status, body) = self.send(call(who, tool, header)).await;
        (status, body["error"]["code"].as_i64().unwrap_or_default())
    }

    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

async fn last(stream: ReplyStream) -> Option<Answer> {
    let mut stream = pin!(stream);
    while let Some(event) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
        if let Event::Answer(answer) = event {
            return Some(answer);
        }
    }
    None
}

/// A request of `who`; of nobody that is known if that is empty.
fn request(who: &str, method: &str, params: &str) -> Request<Message> {
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{{params}"_meta":{{"progressToken":1,"x":2,
            "io.modelcontextprotocol/logLevel":"info","io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}}}}"#
    );
    let mut request = Request::new(Message::parse(text).unwrap());
    if !who.is_empty() {
        let principal = Principal::new("issuer", who).with_credential(who.as_bytes());
        request.extensions_mut().insert(principal);
    }
    request
}

fn list(who: &str) -> Request<Message> {
    request(who, "tools/list", "")
}

fn call(who: &str, tool: &str, header: &str) -> Request<Message> {
    let mut request =
        request(who, "tools/call", &format!(r#""name":"{tool}","arguments":{{"region":"eu"}},"#));
    if !header.is_empty() {
        request.headers_mut().insert(
            http::HeaderName::try_from(format!("mcp-param-{header}")).unwrap(),
            http::HeaderValue::from_static("eu"),
        );
    }
    request
}

/// The same from somebody who has been granted these scopes.
fn granted(mut request: Request<Message>, scopes: &[&str]) -> Request<Message> {
    let principal = request.extensions_mut().get_mut::<Principal>().expect("is known");
    *principal = principal.clone().with_scopes(scopes.iter().copied());
    request
}

const PASSED: (u16, i64) = (200, 0);
const MISMATCH: (u16, i64) = (400, -32020);
const UNKNOWN: (u16, i64) = (400, -32602);

fn private(ttl: u64) -> Value {
    json!({"ttlMs": ttl, "cacheScope": "private"})
}

fn public(ttl: u64) -> Value {
    json!({"ttlMs": ttl, "cacheScope": "public"})
}

#[tokio::test]
async fn an_unknown_tool_is_looked_up_once_and_then_known() {
    let world = listing(page(&[("sql", mirroring("region"))], private(60_000)));
    assert_eq!(world.call("ada", "sql", "region").await, PASSED);
    assert_eq!(world.call("ada", "sql", "").await, MISMATCH);
    assert_eq!(world.call("ada", "sql", "region").await, PASSED);
    assert_eq!(world.seen(), ["tools/list ", "tools/call sql", "tools/call sql"]);
}

#[tokio::test]
async fn a_list_that_passes_is_learned_from() {
    // Nothing of it is for the cache.
    let world = listing(page(&[("sql", mirroring("region"))], json!({})));
    assert_eq!(world.send(list("ada")).await.0, 200);
    assert_eq!(world.call("ada", "sql", "").await, MISMATCH);
    assert_eq!(world.call("ada", "sql", "region").await, PASSED);
    assert_eq!(world.seen(), ["tools/list ", "tools/call sql"]);
}

#[tokio::test]
async fn a_list_at_the_end_of_a_stream_is_learned_from_as_well() {
    let world = World::new(|request| {
        if request.body().method() != "tools/list" {
            return done(request);
        }
        let Reply::Answer(answer) =
            answered(request, &page(&[("sql", mirroring("region"))], private(0))).into_body()
        else {
            unreachable!()
        };
        streamed(answer, true)
    });
    assert_eq!(world.send(list("ada")).await.0, 200);
    assert_eq!(world.call("ada", "sql", "").await, MISMATCH);
    assert_eq!(world.seen(), ["tools/list "]);
    // And so is one that is looked up.
    assert_eq!(world.call("bob", "sql", "").await, MISMATCH);
    assert_eq!(world.seen(), ["tools/list "]);
}

#[tokio::test]
async fn a_list_whose_stream_fails_is_refused_with_the_status_that_its_code_says() {
    for (code, status) in [(502, 502), (504, 504), (-32601, 200)] {
        for after_another in [false, true] {
            let world = World::new(move |request| {
                let error = ErrorObject::new(code, "it has broken off");
                streamed(Answer::error(request.body().id().cloned(), error), after_another)
            });
            for who in ["ada", ""] {
                let (found, body) = world.send(call(who, "sql", "region")).await;
                assert_eq!(
                    (found, &body["id"], body["error"]["code"].as_i64()),
                    (status, &json!(7), Some(code))
                );
                assert_eq!(world.seen(), ["tools/list "]);
            }
        }
    }
}

#[tokio::test]
async fn a_tool_that_the_complete_list_does_not_have_is_refused_without_a_call() {
    let world = listing(page(&[("sql", json!({}))], private(60_000)));
    let (status, body) = world.send(call("ada", "rm", "")).await;
    assert_eq!(status, 400);
    let message = "there is no tool `rm`; `tools/list` tells which there are";
    assert_eq!(body, json!({"jsonrpc": "2.0", "id": 7, "error": {"code": -32602, "message": message}}));
    assert_eq!(world.call("ada", "rm", "").await, UNKNOWN);
    assert_eq!(world.seen(), ["tools/list "]);
}

#[tokio::test]
async fn what_fails_open_is_left_to_the_upstream() {
    let bottom = |list: Result<Value, &'static str>| {
        service_fn(move |request: Request<Message>| {
            let answer = list.clone().map(|list| answered(&request, &list));
            async { answer }
        })
    };
    let inner = || service_fn(async |request: Request<Message>| Ok::<_, Infallible>(done(&request)));
    for list in [Ok(page(&[], private(60_000))), Ok(json!({})), Err("is down")] {
        for (open, status) in
            [(true, 200), (false, if list == Ok(page(&[], private(60_000))) { 400 } else { 502 })]
        {
            let catalog = LearnedCatalog::new(ResponseCache::new("u")).with_fail_open(open);
            let service = catalog.look_up(bottom(list.clone())).layer(inner());
            let response = service.clone().oneshot(call("ada", "sql", "")).await.unwrap();
            assert_eq!(response.status(), status, "{list:?}, {open}");
            let mut nameless = call("ada", "sql", "");
            nameless.body_mut().edit_params(|params| params.set("name", &5)).unwrap().unwrap();
            let status = service.oneshot(nameless).await.unwrap().status();
            assert_eq!(status, if open { 200 } else { 400 });
        }
    }
}

#[tokio::test]
async fn what_is_below_may_fail_without_telling_why() {
    let down = service_fn(async |_: Request<Message>| Err::<Response<Reply>, _>("the password is x"));
    let inner =
        service_fn(async |_: Request<Message>| -> Result<Response<Reply>, Infallible> { unreachable!() });
    let service = LearnedCatalog::new(ResponseCache::new("u")).look_up(down).layer(inner);
    let response = service.oneshot(call("ada", "sql", "")).await.unwrap();
    let message = "the list of tools, by which this call is checked, cannot be had from the upstream server";
    assert_eq!(
        response.body().answer().unwrap().to_string(),
        format!(r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":502,"message":"{message}"}}}}"#)
    );
}

#[tokio::test]
async fn a_name_that_is_no_string_is_refused() {
    let world = listing(page(&[("sql", json!({}))], private(60_000)));
    for params in ["\"name\":[\"sql\"],", ""] {
        let (status, body) = world.send(request("ada", "tools/call", params)).await;
        assert_eq!((status, &body["error"]["code"], &body["id"]), (400, &json!(-32602), &json!(7)));
        assert_eq!(body["error"]["message"], "`params.name` must be a string");
    }
    assert_eq!(world.seen(), [""; 0]);
}

#[tokio::test]
async fn what_one_caller_was_told_in_private_is_not_held_against_another() {
    let world = World::new(|request| {
        let who = request.extensions().get::<Principal>().map_or("nobody", Principal::subject).to_owned();
        match request.body().method() {
            "tools/list" => answered(request, &page(&[("sql", mirroring(&who))], private(60_000))),
            _ => done(request),
        }
    });
    for _ in 0..2 {
        assert_eq!(world.call("ada", "sql", "ada").await, PASSED);
        assert_eq!(world.call("bob", "sql", "ada").await, MISMATCH);
        assert_eq!(world.call("bob", "sql", "bob").await, PASSED);
    }
    let lists = world.seen().iter().filter(|seen| *seen == "tools/list ").count();
    assert_eq!(lists, 2);
    // Who is not known has no partition: nothing private is kept of what they are told.
    for _ in 0..2 {
        assert_eq!(world.call("", "sql", "nobody").await, PASSED);
        assert_eq!(world.seen(), ["tools/list ", "tools/call sql"]);
    }
}

#[tokio::test]
async fn a_public_list_is_for_everybody() {
    let world = listing(page(&[("sql", mirroring("region"))], public(0)));
    assert_eq!(world.call("ada", "sql", "region").await, PASSED);
    assert_eq!(world.call("bob", "sql", "").await, MISMATCH);
    assert_eq!(world.call("", "sql", "").await, MISMATCH);
    assert_eq!(world.seen(), ["tools/list ", "tools/call sql"]);
}

#[tokio::test]
async fn a_list_is_gone_by_no_longer_than_it_says() {
    let world = listing(page(&[("sql", json!({}))], private(5_000)));
    for _ in 0..2 {
        assert_eq!(world.call("ada", "sql", "").await, PASSED);
        assert_eq!(world.seen(), ["tools/list ", "tools/call sql"]);
        world.clock.advance(Duration::from_millis(4_999));
        assert_eq!(world.call("ada", "sql", "").await, PASSED);
        assert_eq!(world.call("ada", "rm", "").await, UNKNOWN);
        assert_eq!(world.seen(), ["tools/call sql"]);
        world.clock.advance(Duration::from_millis(1));
    }
}

#[tokio::test]
async fn tools_of_a_list_without_ttl_are_known_for_a_while_and_others_asked_for_again() {
    let world = listing(page(&[("sql", json!({}))], json!({})));
    assert_eq!(world.call("ada", "sql", "").await, PASSED);
    assert_eq!(world.call("ada", "rm", "").await, UNKNOWN);
    assert_eq!(world.seen(), ["tools/list ", "tools/call sql"]);
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(world.call("ada", "rm", "").await, UNKNOWN);
    assert_eq!(world.call("ada", "rm", "").await, UNKNOWN);
    assert_eq!(world.seen(), ["tools/list "]);
    world.clock.advance(Duration::from_millis(59_999));
    assert_eq!(world.call("ada", "sql", "").await, PASSED);
    assert_eq!(world.seen(), ["tools/call sql"]);
    world.clock.advance(Duration::from_millis(1));
    assert_eq!(world.call("ada", "sql", "").await, PASSED);
    assert_eq!(world.seen(), ["tools/list ", "tools/call sql"]);
}

#[tokio::test]
async fn a_list_that_passes_again_renews_what_is_known() {
    let world = listing(page(&[("sql", json!({}))], json!({})));
    assert_eq!(world.send(list("ada")).await.0, 200);
    world.clock.advance(Duration::from_secs(50));
    assert_eq!(world.send(list("ada")).await.0, 200);
    world.clock.advance(Duration::from_secs(50));
    assert_eq!(world.call("ada", "sql", "").await, PASSED);
    assert_eq!(world.seen(), ["tools/list ", "tools/list ", "tools/call sql"]);
}

#[tokio::test]
async fn a_list_that_has_become_private_is_not_for_everybody_any_more() {
    let world = World::new(|request| {
        let hints = if request.extensions().get::<Principal>().is_some_and(|ada| ada.subject() == "ada") {
            private(0)
        } else {
            public(0)
        };
        match request.body().method() {
            "tools/list" => answered(request, &page(&[("sql", json!({}))], hints)),
            _ => done(request),
        }
    });
    assert_eq!(world.call("bob", "sql", "").await, PASSED);
    assert_eq!(world.call("eve", "sql", "").await, PASSED);
    assert_eq!(world.seen(), ["tools/list ", "tools/call sql", "tools/call sql"]);
    world.send(list("ada")).await;
    assert_eq!(world.call("eve", "sql", "").await, PASSED);
    assert_eq!(world.seen(), ["tools/list ", "tools/list ", "tools/call sql"]);
}

#[tokio::test]
async fn a_header_mismatch_of_the_upstream_has_the_list_asked_for_again() {
    let changed = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let world = World::new({
        let changed = Arc::clone(&changed);
        move |request| {
            let header = if changed.load(Ordering::SeqCst) { "new" } else { "old" };
            match request.body().method() {
                "tools/list" => answered(request, &page(&[("sql", mirroring(header))], private(60_000))),
                _ if request.headers().contains_key(format!("mcp-param-{header}")) => done(request),
                _ => refused(request, -32020),
            }
        }
    });
    assert_eq!(world.call("ada", "sql", "old").await, PASSED);
    changed.store(true, Ordering::SeqCst);
    assert_eq!(world.call("ada", "sql", "old").await, MISMATCH);
    world.seen();
    assert_eq!(world.call("ada", "sql", "old").await, MISMATCH);
    assert_eq!(world.call("ada", "sql", "new").await, PASSED);
    assert_eq!(world.seen(), ["tools/list ", "tools/call sql"]);
}

#[tokio::test]
async fn an_invalidation_makes_it_forget() {
    let world = listing(page(&[("sql", json!({}))], private(60_000)));
    for _ in 0..2 {
        assert_eq!(world.call("ada", "sql", "").await, PASSED);
        assert_eq!(world.seen(), ["tools/list ", "tools/call sql"]);
        world.cache.invalidate(&Invalidation::Tools);
    }
}

/// Three pages, of which the last has `sql`.
fn three_pages(request: &Request<Message>) -> Response<Reply> {
    let hints = |next: &str| json!({"ttlMs": 60_000, "cacheScope": "private", "nextCursor": next});
    let cursor = request.body().param("cursor").and_then(Raw::to_str);
    match (request.body().method(), cursor.as_deref()) {
        ("tools/list", None) => answered(request, &page(&[("a", json!({}))], hints("1\"\\"))),
        ("tools/list", Some("1\"\\")) => answered(request, &page(&[("b", json!({}))], hints("2"))),
        ("tools/list", Some("2")) => {
            answered(request, &page(&[("sql", mirroring("region"))], private(60_000)))
        }
        ("tools/list", _) => refused(request, -32602),
        _ => done(request),
    }
}

#[tokio::test]
async fn a_tool_is_looked_for_page_by_page() {
    let world = World::new(three_pages);
    assert_eq!(world.call("ada", "b", "").await, PASSED);
    assert_eq!(world.seen(), ["tools/list ", "tools/list 1\"\\", "tools/call b"]);
    assert_eq!(world.call("ada", "sql", "").await, MISMATCH);
    assert_eq!(world.seen(), ["tools/list 2"]);
    assert_eq!(world.call("ada", "rm", "").await, UNKNOWN);
    assert_eq!(world.seen(), [""; 0]);
}

#[tokio::test]
async fn a_list_with_too_many_pages_is_not_walked_to_its_end() {
    let endless = |request: &Request<Message>| match request.body().method() {
        "tools/list" => answered(request, &page(&[("a", json!({}))], json!({"nextCursor": "again"}))),
        _ => done(request),
    };
    let world = World::with(endless, |catalog| catalog.with_max_pages(3));
    let (status, body) = world.send(call("", "sql", "")).await;
    assert_eq!((status, &body["error"]["code"], &body["id"]), (502, &json!(502), &json!(7)));
    assert_eq!(world.seen(), ["tools/list ", "tools/list again", "tools/list again"]);
}

#[tokio::test]
async fn a_cursor_that_is_refused_starts_the_walk_again_past_the_cache() {
    let changed = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let world = World::new({
        let changed = Arc::clone(&changed);
        move |request| {
            let is_list = request.body().method() == "tools/list";
            match (is_list, changed.load(Ordering::SeqCst), request.body().param("cursor").is_some()) {
                (true, false, _) => three_pages(request),
                (true, true, true) => refused(request, -32602),
                (true, true, false) => answered(request, &page(&[("sql", json!({}))], private(60_000))),
                (false, ..) => done(request),
            }
        }
    });
    assert_eq!(world.call("ada", "a", "").await, PASSED);
    world.seen();
    changed.store(true, Ordering::SeqCst);
    assert_eq!(world.call("ada", "sql", "").await, PASSED);
    assert_eq!(world.seen(), ["tools/list 1\"\\", "tools/list ", "tools/call sql"]);
}

#[tokio::test]
async fn what_is_no_list_is_not_gone_by() {
    for (result, passes) in [
        (json!({"resultType": "complete"}), false),
        (json!({"resultType": "complete", "tools": {"sql": {}}}), false),
        (json!({"resultType": "input_required", "tools": [{"name": "sql"}]}), false),
        (json!({"resultType": "complete", "tools": [{"name": "sql"}], "nextCursor": 5}), false),
        (json!({"tools": [{"name": "sql"}], "nextCursor": null}), true),
    ] {
        let world = listing(result.clone());
        let (status, body) = world.send(call("ada", "sql", "")).await;
        let seen = world.seen();
        if passes {
            assert_eq!((status, seen.len()), (200, 2), "{result}");
            continue;
        }
        assert_eq!((status, &body["error"]["code"], &body["id"]), (502, &json!(502), &json!(7)), "{result}");
        let message =
            "the list of tools, by which this call is checked, cannot be had from the upstream server";
        assert_eq!(body["error"]["message"], message);
        assert_eq!(seen, ["tools/list "], "{result}");
    }
}

#[tokio::test]
async fn a_refusal_to_list_is_passed_on() {
    let world = World::new(|request| {
        let mut response = refused(request, 429);
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        response.headers_mut().insert(http::header::RETRY_AFTER, 5.into());
        response
    });
    let response = world.stack.clone().oneshot(call("ada", "sql", "")).await.unwrap();
    assert_eq!((response.status().as_u16(), &response.headers()["retry-after"]), (429, &5.into()));
    let body = response.body().answer().expect("an answer").to_string();
    assert_eq!(body, r#"{"jsonrpc":"2.0","id":7,"error":{"code":429,"message":"no"}}"#);
    assert_eq!(world.seen(), ["tools/list "]);
}

#[tokio::test]
async fn a_tool_that_is_listed_wrongly_or_twice_is_none() {
    let wrong = json!({"properties": {"n": {"type": "number", "x-mcp-header": "N"}}});
    let world = listing(page(
        &[("wrong", wrong), ("twice", json!({})), ("twice", mirroring("r")), ("sql", json!({}))],
        private(60_000),
    ));
    assert_eq!(world.call("ada", "wrong", "").await, UNKNOWN);
    assert_eq!(world.call("ada", "twice", "").await, UNKNOWN);
    assert_eq!(world.call("ada", "sql", "").await, PASSED);
    assert_eq!(world.seen(), ["tools/list ", "tools/call sql"]);
}

#[tokio::test]
async fn calls_that_need_the_same_page_wait_for_one_request() {
    let world = listing(page(&[("a", json!({})), ("b", json!({}))], private(0)));
    world.gate.forget_permits(Semaphore::MAX_PERMITS);
    let calls: Vec<_> = ["a", "b", "c", "a"]
        .into_iter()
        .map(|tool| tokio::spawn(world.stack.clone().oneshot(call("ada", tool, ""))))
        .collect();
    let other = tokio::spawn(world.stack.clone().oneshot(call("bob", "a", "")));
    while world.seen.lock().unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    // Whoever asked for all goes away: the others still get theirs.
    calls[0].abort();
    tokio::task::yield_now().await;
    world.gate.add_permits(9);
    let mut codes = Vec::new();
    for call in calls.into_iter().skip(1) {
        let response = call.await.unwrap().unwrap();
        codes.push(response.body().answer().unwrap().outcome().map_or_else(|error| error.code, |_| 0));
    }
    assert_eq!(codes, [0, -32602, 0]);
    assert_eq!(other.await.unwrap().unwrap().status(), 200);
    let mut seen = world.seen();
    seen.sort_unstable();
    assert_eq!(seen, ["tools/call a", "tools/call a", "tools/call b", "tools/list ", "tools/list "]);
}

#[tokio::test]
async fn looking_up_is_a_request_of_the_caller_and_not_of_the_call() {
    let world = listing(page(&[("sql", json!({}))], private(60_000)));
    let mut request = call("ada", "sql", "region");
    for (name, value) in
        [("mcp-method", "tools/call"), ("mcp-name", "sql"), ("x-tenant", "t"), ("content-length", "9")]
    {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    request.extensions_mut().insert("mark");
    assert_eq!(world.send(request).await.0, 200);
    let requests = world.requests.lock().unwrap();
    let list = &requests[0];
    assert_eq!(list.extensions().get::<&str>(), Some(&"mark"));
    assert_eq!(list.extensions().get::<Principal>().map(Principal::subject), Some("ada"));
    let mut headers: Vec<_> = list.headers().iter().map(|(name, value)| (name.as_str(), value)).collect();
    headers.sort_unstable_by_key(|(name, _)| *name);
    assert_eq!(
        headers,
        [("mcp-method", &"tools/list".parse().unwrap()), ("x-tenant", &"t".parse().unwrap())]
    );
    let text = String::from_utf8(list.body().bytes().to_vec()).unwrap();
    let expected = r#"{"jsonrpc":"2.0","id":"tools-0","method":"tools/list","params":{"_meta":{"x":2,"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    assert_eq!(text, expected);
}

#[tokio::test]
async fn scopes_that_the_upstream_hints_at_decide_lists_and_calls_alike() {
    let tools = json!({"resultType": "complete", "ttlMs": 60_000, "cacheScope": "public", "tools": [
        {"name": "read"}, {"name": "write", "x-scope": "files:write"}, {"name": "odd", "x-scope": "a\"b"}]});
    let world = World::with(
        move |request| match request.body().method() {
            "tools/list" => answered(request, &tools),
            _ => done(request),
        },
        hints,
    );
    // A hit of the cache is filtered as well as the first answer.
    for _ in 0..2 {
        let (_, body) = world.send(list("ada")).await;
        assert_eq!(body["result"]["tools"][0]["name"], "read");
        assert_eq!(body["result"]["tools"][1]["name"], Value::Null);
    }
    assert_eq!(world.call("ada", "read", "").await, PASSED);
    assert_eq!(world.call("ada", "write", "").await, (403, 403));
    assert_eq!(world.call("ada", "odd", "").await, UNKNOWN);
    assert_eq!(world.seen(), ["tools/list ", "tools/call read"]);
}

#[tokio::test]
async fn the_schema_of_results_is_told_as_it_is_written() {
    const LIST: &str = r#"{"resultType":"complete","tools":[{"name":"sql","outputSchema":{ "type":"object","minimum":1.0 }},
        {"name":"none"},{"name":"twice","outputSchema":{},"outputSchema":true}]}"#;
    let bottom = service_fn(async |request: Request<Message>| {
        let result = RawObject::parse(LIST).unwrap();
        Ok::<_, Infallible>(Response::new(Reply::Answer(Answer::result(
            request.body().id().cloned(),
            result,
        ))))
    });
    let catalog = LearnedCatalog::new(ResponseCache::new("u"));
    let told = Arc::new(Mutex::new(Vec::new()));
    let inner = {
        let (catalog, told) = (catalog.clone(), Arc::clone(&told));
        service_fn(move |request: Request<Message>| {
            let tool = request.body().target().unwrap().to_owned();
            let facts = catalog.tool(&tool, request.extensions()).expect("is known");
            told.lock().unwrap().push(facts.output_schema.as_deref().map(str::to_owned));
            std::future::ready(Ok::<_, Infallible>(done(&request)))
        })
    };
    let service = catalog.look_up(bottom).layer(inner);
    for tool in ["sql", "none", "twice"] {
        assert_eq!(service.clone().oneshot(call("ada", tool, "")).await.unwrap().status(), 200);
    }
    let schema = r#"{ "type":"object","minimum":1.0 }"#.to_owned();
    assert_eq!(*told.lock().unwrap(), [Some(schema), None, None]);
}

/// Lists two tools, and hints at scopes if it is asked to.
fn hinting(request: &Request<Message>) -> Response<Reply> {
    let tools = json!({"resultType": "complete", "ttlMs": 60_000, "cacheScope": "private",
        "tools": [{"name": "sql"}, {"name": "write", "x-scope": "files:write"}]});
    match request.body().method() {
        "tools/list" => answered(request, &tools),
        _ => done(request),
    }
}

fn hints(catalog: LearnedCatalog) -> LearnedCatalog {
    catalog.with_scopes(|tool| {
        let hint = tool.members().find(|(name, _)| name == "x-scope");
        hint.and_then(|(_, scope)| scope.to_str()).map_or_else(Scopes::none, |scope| Scopes::from(&*scope))
    })
}

#[tokio::test]
async fn who_lacks_what_the_rules_ask_for_has_nothing_looked_up() {
    let rules = ScopeRules::new()
        .with_endpoint("mcp")
        .with_method("tools/call", "call")
        .with_tool("sql", "sql:read")
        .with_call_rule(|call| if call.arguments().is_some() { "arguments".into() } else { Scopes::none() });
    let world = World::with_rules(hinting, hints, rules);
    let all = ["mcp", "call", "sql:read", "arguments"];
    for missing in 0..all.len() {
        let mut some = all.to_vec();
        some.remove(missing);
        let (status, body) = world.send(granted(call("ada", "sql", ""), &some)).await;
        assert_eq!((status, &body["error"]["code"], &body["id"]), (403, &json!(403), &json!(7)), "{some:?}");
        let message = "this operation needs the scopes mcp call sql:read arguments";
        assert_eq!(body["error"]["message"], message);
    }
    assert_eq!(world.call("", "sql", "").await, (401, 401));
    assert_eq!(world.call("", "rm", "").await, (401, 401));
    assert_eq!(world.seen(), [""; 0]);
    // What is known is judged by all that is known, without asking anybody.
    assert_eq!(world.send(granted(call("ada", "sql", ""), &all)).await.0, 200);
    assert_eq!(world.seen(), ["tools/list ", "tools/call sql"]);
    let (_, body) = world.send(granted(call("ada", "write", ""), &["mcp"])).await;
    let message = "this operation needs the scopes mcp call files:write arguments";
    assert_eq!(body["error"]["message"], message);
    assert_eq!(world.call("ada", "rm", "").await, UNKNOWN);
    assert_eq!(world.seen(), [""; 0]);
}

#[tokio::test]
async fn the_default_is_asked_for_beforehand_unless_a_learned_scope_may_take_its_place() {
    let rules = || ScopeRules::new().with_default("mcp");
    let world = World::with_rules(hinting, |catalog| catalog, rules());
    for (who, scopes, code) in [("", None, 401), ("ada", Some(&[][..]), 403), ("ada", Some(&["x"]), 403)] {
        let request = call(who, "write", "");
        let request = if let Some(scopes) = scopes { granted(request, scopes) } else { request };
        let (status, body) = world.send(request).await;
        assert_eq!((status, &body["error"]["code"]), (code, &json!(code)), "{scopes:?}");
    }
    assert_eq!(world.seen(), [""; 0]);

    let world = World::with_rules(hinting, hints, rules());
    assert_eq!(world.call("", "write", "").await, (401, 401));
    assert_eq!(world.call("ada", "write", "").await, (403, 403));
    assert_eq!(world.seen(), [""; 0]);
    assert_eq!(world.send(granted(call("ada", "write", ""), &["files:write"])).await.0, 200);
    assert_eq!(world.seen(), ["tools/list ", "tools/call write"]);
    assert_eq!(world.send(granted(call("bob", "sql", ""), &["files:write"])).await.0, 403);
    assert_eq!(world.seen(), ["tools/list "]);
}

#[tokio::test]
async fn who_may_not_know_a_tool_is_told_alike_whether_there_is_one_and_nothing_is_looked_up() {
    let rules =
        ScopeRules::new().with_tool("sql", "sql:read").with_tool("gone", "x").with_hidden_denials(true);
    let world = World::with_rules(hinting, |catalog| catalog, rules);
    for tool in ["sql", "gone"] {
        let (status, body) = world.send(call("ada", tool, "")).await;
        assert_eq!((status, &body["error"]["code"]), (400, &json!(-32602)));
        let message = format!("there is no tool `{tool}`; `tools/list` tells which there are");
        assert_eq!(body["error"]["message"], message);
    }
    assert_eq!(world.seen(), [""; 0]);
}

#[tokio::test]
async fn made_up_names_of_callers_whom_nobody_knows_have_few_lists_asked_for() {
    let world = listing(page(&[("sql", json!({})), ("other", json!({}))], private(60_000)));
    assert_eq!(world.call("", "sql", "").await, PASSED);
    world.seen();
    for n in 0..brake::TRIES {
        assert_eq!(world.call("", &format!("none-{n}"), "").await, UNKNOWN);
    }
    assert_eq!(world.seen(), vec!["tools/list "; brake::TRIES as usize]);
    for _ in 0..2 {
        let response = world.stack.clone().oneshot(call("", "none", "")).await.unwrap();
        assert_eq!((response.status().as_u16(), &response.headers()["retry-after"]), (503, &1.into()));
        assert_eq!(
            response.body().answer().expect("an answer").to_string(),
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":503,"message":"too many unknown tools are called; try again later"}}"#
        );
    }
    assert_eq!(world.seen(), [""; 0]);
    // A tool that was found lately goes on, and so do callers who are known.
    assert_eq!(world.call("", "sql", "").await, PASSED);
    assert_eq!(world.call("ada", "none", "").await, UNKNOWN);
    assert_eq!(world.seen(), ["tools/list ", "tools/call sql", "tools/list "]);
    // One that was not waits for a try to come back, and gives it back.
    assert_eq!(world.call("", "other", "").await, (503, 503));
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(world.call("", "other", "").await, PASSED);
    assert_eq!(world.call("", "none", "").await, UNKNOWN);
    assert_eq!(world.call("", "none", "").await, (503, 503));
    assert_eq!(world.seen(), ["tools/list ", "tools/call other", "tools/list "]);
}

#[tokio::test]
async fn many_calls_at_once_of_callers_whom_nobody_knows_wait_for_each_other() {
    let world = listing(page(&[("sql", json!({}))], private(60_000)));
    world.gate.forget_permits(Semaphore::MAX_PERMITS);
    let calls: Vec<_> = (0..3 * brake::TRIES)
        .map(|_| tokio::spawn(world.stack.clone().oneshot(call("", "sql", ""))))
        .collect();
    // Each of them runs once, to where it waits.
    tokio::task::yield_now().await;
    world.gate.add_permits(2 * calls.len());
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().status(), 200);
    }
}

#[tokio::test]
async fn hanging_up_gives_no_try_back() {
    let world = listing(page(&[("sql", json!({}))], private(60_000)));
    world.gate.forget_permits(Semaphore::MAX_PERMITS);
    for _ in 0..brake::TRIES {
        let given_up = tokio::spawn(world.stack.clone().oneshot(call("", "none", "")));
        tokio::task::yield_now().await;
        given_up.abort();
        assert!(given_up.await.unwrap_err().is_cancelled());
    }
    assert_eq!(world.call("", "none", "").await, (503, 503));
    assert_eq!(world.seen(), vec!["tools/list "; brake::TRIES as usize]);
}

#[tokio::test]
async fn no_more_is_kept_than_there_is_room_for() {
    let store = pages(10_000);
    let settings = LearnedCatalog::new(ResponseCache::new("u")).settings;
    let cache = ResponseCache::new("u");
    for n in 0..100 {
        let text =
            RawObject::from_value(&page(&[("sql", json!({"d": "x".repeat(1000)}))], private(5))).unwrap();
        let page = Page::new(&Frame::of(&text).unwrap(), &settings, 0);
        let query = cache.query(&request(&format!("{n}"), "tools/list", "")).unwrap();
        store.insert(query.place(&text).unwrap().detached(), Arc::new(page));
    }
    store.run_pending_tasks();
    assert!(store.weighted_size() <= 10_000 && store.entry_count() > 0, "{}", store.weighted_size());
}
