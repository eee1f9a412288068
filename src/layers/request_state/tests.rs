#![allow(clippy::similar_names, reason = "a sealer seals what is sealed")]

use std::collections::HashSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::super::testing::{Outcome, logged, request, send, send_to, streamed};
use super::*;
use crate::clock::{ManualClock, Timestamp};
use crate::message::{ErrorObject, RawObject};
use crate::store::{MemoryReplayStore, StoreFuture};

const START: u64 = 1_000_000;

fn key(byte: u8) -> StateKey {
    StateKey::new(&[byte; 32]).unwrap()
}

fn keys(bytes: &[u8]) -> StateKeys {
    StateKeys::new(bytes.iter().map(|byte| key(*byte))).unwrap()
}

/// A layer and its clock, which the test moves.
fn layer_with(keys: StateKeys, audience: &str) -> (RequestStateLayer, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    clock.set(Timestamp::from_millis(START * 1_000));
    (RequestStateLayer::new(keys, audience).with_clock(Arc::clone(&clock)), clock)
}

fn layer() -> RequestStateLayer {
    layer_with(keys(&[1]), "a").0
}

fn call(method: &str, params: Value) -> Request<Message> {
    request(&json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string(), [])
}

fn tool(state: Option<&str>) -> Request<Message> {
    call("tools/call", json!({"name": "t", "arguments": {"a": 1}, "requestState": state}))
}

fn principal(subject: &str) -> Principal {
    Principal::new("https://issuer.example", subject)
}

fn by(mut request: Request<Message>, who: Option<Principal>) -> Request<Message> {
    if let Some(who) = who {
        request.extensions_mut().insert(who);
    }
    request
}

/// An answer that gives the state whose JSON text is `state`.
fn asks(state: &str) -> Reply {
    let result = format!(r#"{{"resultType":"input_required","requestState":{state}}}"#);
    Reply::Answer(Answer::result(Some(7.into()), RawObject::parse(result).unwrap()))
}

/// Has the server give the state `"s"` in answer to `request`, and returns what leaves.
async fn sealed_for(layer: &RequestStateLayer, request: Request<Message>) -> String {
    let outcome = send_to(layer, request, |_| asks("\"s\"")).await;
    outcome.passed();
    outcome.body["result"]["requestState"].as_str().expect("a state").to_owned()
}

#[track_caller]
fn invalid(outcome: &Outcome) {
    let message = outcome.refused(400, -32602, Some(json!({"reason": "invalid_request_state"})));
    assert_eq!(
        message,
        "invalid or expired `requestState`: send the request again without it, to start anew"
    );
}

#[tokio::test]
async fn a_state_makes_the_round_on_all_three_methods_and_comes_back_byte_for_byte() {
    let layer = layer();
    for (method, params) in [
        ("tools/call", json!({"name": "t", "arguments": {"a": [1, {"b": 2}]}})),
        ("prompts/get", json!({"name": "t"})),
        ("resources/read", json!({"uri": "a://b"})),
    ] {
        for state in [r#""""#, r#""plain""#, r#""é\u00e9\/\n\"\\ 😀""#, r#""{\"a\":1.0}""#] {
            let outcome = send_to(&layer, call(method, params.clone()), move |request| {
                assert_eq!(request.extensions().get(), Some(&TrustedState));
                asks(state)
            })
            .await;
            outcome.passed();
            let sealed = outcome.body["result"]["requestState"].clone();
            assert!(sealed.as_str().is_some_and(|sealed| sealed.starts_with("v1.")), "{sealed}");

            let mut retry = params.clone();
            retry["requestState"] = sealed;
            retry["inputResponses"] = json!({"k": {}});
            let outcome = send_to(&layer, call(method, retry), move |request| {
                assert_eq!(request.body().request_state().map(Raw::text), Some(state));
                assert_eq!(request.extensions().get(), Some(&TrustedState));
                Reply::Answer(Answer::result(Some(7.into()), RawObject::new()))
            })
            .await;
            outcome.passed();
        }
    }
}

#[tokio::test]
async fn an_answer_at_the_end_of_a_stream_is_sealed_as_well() {
    let layer = layer();
    let respond = async |state: &'static str| {
        let outcome = send_to(&layer, tool(None), move |_| {
            let Reply::Answer(answer) = asks(state) else { unreachable!() };
            streamed(answer)
        })
        .await;
        assert_eq!((outcome.status, outcome.streamed, outcome.calls), (200, true, 1));
        outcome.body
    };
    let answer = respond("\"s\"").await;
    send(&layer, tool(answer["result"]["requestState"].as_str())).await.passed();
    let answer = respond("17").await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32603)));
}

#[tokio::test]
async fn what_is_no_string_is_refused_and_null_is_no_state() {
    for state in [json!(1), json!(true), json!([]), json!({}), json!(["v1."])] {
        invalid(&send(&layer(), call("tools/call", json!({"name": "t", "requestState": state}))).await);
    }
    send(&layer(), tool(None)).await.passed();
    send(&layer(), call("tools/call", json!({"name": "t"}))).await.passed();
    send(&layer(), call("tools/list", json!({"requestState": 1}))).await.passed();
}

#[tokio::test]
async fn a_notification_is_given_no_unverified_state() {
    let body = r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"t","requestState":"forged"}}"#;
    let outcome = send(&layer(), request(body, [])).await;
    outcome.refused_as(None, 400, -32602, Some(json!({"reason": "invalid_request_state"})));
}

#[tokio::test]
async fn a_state_belongs_to_its_request() {
    let layer = layer();
    let of = |method: &str, params: Value| {
        let (method, mut params) = (method.to_owned(), params);
        move |state: Option<&str>| {
            params["requestState"] = json!(state);
            call(&method, params.clone())
        }
    };
    let mut requests = [
        of("tools/call", json!({"name": "t", "arguments": {"a": 1}})),
        of("tools/call", json!({"name": "u", "arguments": {"a": 1}})),
        of("tools/call", json!({"name": "t", "arguments": {"a": 2}})),
        of("tools/call", json!({"name": "t", "arguments": {}})),
        of("prompts/get", json!({"name": "t", "arguments": {"a": 1}})),
        of("resources/read", json!({"uri": "t"})),
        of("resources/read", json!({"uri": "t/"})),
    ];
    for from in 0..requests.len() {
        let sealed = sealed_for(&layer, requests[from](None)).await;
        for (to, request) in requests.iter_mut().enumerate() {
            let outcome = send(&layer, request(Some(&sealed))).await;
            if to == from { outcome.passed() } else { invalid(&outcome) }
        }
    }
}

#[tokio::test]
async fn the_spelling_of_arguments_does_not_matter() {
    let layer = layer();
    let ask = |arguments: &str, state: Option<&str>| {
        let state = json!(state);
        let params = format!(r#"{{"name":"t","arguments":{arguments},"requestState":{state}}}"#);
        request(&format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#), [])
    };
    let sealed = sealed_for(&layer, ask(r#"{"n":1,"s":"é","big":18446744073709551616}"#, None)).await;
    for same in [
        r#"{"n":1.0,"big":18446744073709551616,"s":"\u00e9"}"#,
        r#"{"s":"é","big":18446744073709551616.0,"\u006e":1e0}"#,
    ] {
        send(&layer, ask(same, Some(&sealed))).await.passed();
    }
    for other in [
        r#"{"n":1,"s":"é","big":18446744073709551617}"#,
        r#"{"n":1,"s":"é"}"#,
        r#"{"n":1,"n":1,"s":"é","big":18446744073709551616}"#,
    ] {
        invalid(&send(&layer, ask(other, Some(&sealed))).await);
    }
}

#[tokio::test]
async fn a_state_belongs_to_its_caller_whatever_the_token() {
    let layer = layer();
    let callers = [
        None,
        Some(principal("ada")),
        Some(principal("bob")),
        Some(principal("ada").with_client("c")),
        Some(Principal::new("https://other.example", "ada")),
    ];
    for from in &callers {
        let sealed = sealed_for(&layer, by(tool(None), from.clone())).await;
        for to in &callers {
            let outcome = send(&layer, by(tool(Some(&sealed)), to.clone())).await;
            let same = from.as_ref().map(Principal::partition) == to.as_ref().map(Principal::partition);
            if same { outcome.passed() } else { invalid(&outcome) }
        }
    }
    let before = principal("ada").with_credential(b"token 1").with_scopes(["a"]);
    let after = principal("ada").with_credential(b"token 2").with_scopes(["a", "b"]);
    let sealed = sealed_for(&layer, by(tool(None), Some(before))).await;
    send(&layer, by(tool(Some(&sealed)), Some(after))).await.passed();
}

#[tokio::test]
async fn a_state_belongs_to_its_server() {
    let (one, other) = (layer_with(keys(&[1]), "a").0, layer_with(keys(&[1]), "b").0);
    let sealed = sealed_for(&one, tool(None)).await;
    send(&one, tool(Some(&sealed))).await.passed();
    invalid(&send(&other, tool(Some(&sealed))).await);
    let replica = layer_with(keys(&[1]), "a").0;
    send(&replica, tool(Some(&sealed))).await.passed();
}

#[tokio::test]
async fn keys_are_replaced_without_refusing_a_live_state() {
    let [old, both, swapped, new] =
        [&[1][..], &[1, 2], &[2, 1], &[2]].map(|bytes| layer_with(keys(bytes), "a").0);
    let by_old = sealed_for(&old, tool(None)).await;
    let by_both = sealed_for(&both, tool(None)).await;
    let by_swapped = sealed_for(&swapped, tool(None)).await;
    for (sealed, opens) in [(&by_old, [&old, &both, &swapped]), (&by_both, [&old, &both, &swapped])] {
        for layer in opens {
            send(layer, tool(Some(sealed))).await.passed();
        }
        invalid(&send(&new, tool(Some(sealed))).await);
    }
    for layer in [&both, &swapped, &new] {
        send(layer, tool(Some(&by_swapped))).await.passed();
    }
    invalid(&send(&old, tool(Some(&by_swapped))).await);
}

#[tokio::test]
async fn a_state_lives_from_when_it_is_sealed_until_it_expires() {
    let (layer, clock) = layer_with(keys(&[1]), "a");
    let sealed = sealed_for(&layer, tool(None)).await;
    for (offset, passes) in
        [(-61, false), (-60, true), (0, true), (599, true), (600, false), (100_000, false)]
    {
        let now = i64::try_from(START).unwrap() + offset;
        clock.set(Timestamp::from_millis(u64::try_from(now).unwrap() * 1_000));
        let outcome = send(&layer, tool(Some(&sealed))).await;
        if passes { outcome.passed() } else { invalid(&outcome) }
    }
    let brief = layer.with_lifetime(Duration::from_secs(1));
    clock.set(Timestamp::from_millis(START * 1_000 + 999));
    let sealed = sealed_for(&brief, tool(None)).await;
    clock.advance(Duration::from_millis(1));
    invalid(&send(&brief, tool(Some(&sealed))).await);
}

#[tokio::test]
async fn a_chain_of_rounds_ends_however_often_it_is_renewed() {
    let (layer, clock) = layer_with(keys(&[1]), "a");
    let layer = layer.with_max_chain(Duration::from_secs(1_000));
    let mut sealed = sealed_for(&layer, tool(None)).await;
    for _ in 0..3 {
        clock.advance(Duration::from_secs(300));
        sealed = sealed_for(&layer, tool(Some(&sealed))).await;
    }
    clock.advance(Duration::from_secs(99));
    send(&layer, tool(Some(&sealed))).await.passed();
    clock.advance(Duration::from_secs(1));
    invalid(&send(&layer, tool(Some(&sealed))).await);
    // The bound is the server's: making it shorter ends what is under way.
    let (layer, _) = layer_with(keys(&[1]), "a");
    let sealed = sealed_for(&layer, tool(None)).await;
    invalid(&send(&layer.with_max_chain(Duration::ZERO), tool(Some(&sealed))).await);
}

#[tokio::test]
async fn two_states_are_never_the_same() {
    let layer = layer();
    let mut seen = HashSet::new();
    for _ in 0..100 {
        assert!(seen.insert(sealed_for(&layer, tool(None)).await));
    }
}

#[tokio::test]
async fn what_is_too_long_is_neither_looked_at_nor_given() {
    let layer = layer().with_max_bytes(200);
    invalid(&send(&layer, tool(Some(&"x".repeat(201)))).await);
    invalid(&send(&layer, tool(Some(&"x".repeat(10_000)))).await);
    // 13 + 40 + 32 bytes around the state, 62 of which fill the 200 up.
    let give = |length: usize| {
        let state = format!("\"{}\"", "s".repeat(length));
        send_to(&layer, tool(None), move |_| asks(&state))
    };
    let outcome = give(62).await;
    outcome.passed();
    let sealed = outcome.body["result"]["requestState"].as_str().unwrap().to_owned();
    assert_eq!(sealed.len(), 199);
    send(&layer, tool(Some(&sealed))).await.passed();
    let outcome = give(63).await;
    assert_eq!((outcome.status, outcome.calls, &outcome.body["error"]["code"]), (200, 1, &json!(-32603)));
    assert_eq!(outcome.body["id"], 7);
}

#[tokio::test]
async fn a_state_of_the_servers_that_cannot_be_sealed_does_not_leave() {
    for state in ["1", "true", "[]", "{}"] {
        let outcome = send_to(&layer(), tool(None), move |_| asks(state)).await;
        assert_eq!((outcome.status, &outcome.body["error"]["code"]), (200, &json!(-32603)), "{state}");
    }
    let outcome = send_to(&layer(), tool(None), |_| asks("null")).await;
    assert_eq!(outcome.body["result"], json!({"resultType": "input_required"}));

    let twice =
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","arguments":{"a":1,"a":1}}}"#;
    let outcome = send_to(&layer(), request(twice, []), |_| asks("\"s\"")).await;
    assert_eq!((outcome.status, &outcome.body["error"]["code"]), (400, &json!(-32602)));
    assert_eq!(outcome.body["error"].get("data"), None);
}

#[tokio::test]
async fn answers_that_ask_for_nothing_pass_untouched() {
    for result in
        [json!({"resultType": "complete", "requestState": "s"}), json!({"requestState": 1}), json!({})]
    {
        let text = result.to_string();
        let outcome = send_to(&layer(), tool(None), move |_| {
            Reply::Answer(Answer::result(Some(7.into()), RawObject::parse(text.clone()).unwrap()))
        })
        .await;
        assert_eq!(outcome.body["result"], result);
    }
    let outcome = send_to(&layer(), tool(None), |_| {
        Reply::Answer(Answer::error(Some(7.into()), ErrorObject::new(1, "no")))
    })
    .await;
    assert_eq!(outcome.body["error"]["code"], 1);
    let asked = send_to(&layer(), call("tools/list", json!({})), |_| asks("\"s\"")).await;
    assert_eq!(asked.body["result"]["requestState"], "s", "another layer's business");
}

#[test]
fn the_log_tells_reasons_apart_and_keeps_what_is_secret() {
    let sealer = |bytes: &[u8], audience| StateSealer::new(keys(bytes), audience);
    let one = sealer(&[1], "a");
    let bind = |request: &Request<Message>| {
        Binding::new(request.body(), request.extensions().get::<Principal>()).unwrap()
    };
    let bound = bind(&tool(None));
    let sealed = one.seal("s", &bound, None).unwrap();
    let other = bind(&call("tools/call", json!({"name": "t", "arguments": {"a": 2}})));
    let ada = bind(&by(tool(None), Some(principal("ada"))));
    let mut forged = sealed.clone();
    forged.replace_range(30..31, if &sealed[30..31] == "A" { "B" } else { "A" });
    assert_eq!(one.open(&forged, &bound), Err(OpenFault::Forged));
    assert_eq!(one.open(&sealed, &other), Err(OpenFault::Elsewhere(vec!["arguments"])));
    assert_eq!(one.open(&sealed, &ada), Err(OpenFault::Elsewhere(vec!["principal"])));
    assert_eq!(sealer(&[1], "b").open(&sealed, &bound), Err(OpenFault::Elsewhere(vec!["audience"])));
    assert_eq!(sealer(&[2], "a").open(&sealed, &bound), Err(OpenFault::UnknownKey));
    assert!(matches!(one.open("v2.AAAA", &bound), Err(OpenFault::Malformed(_))));
    assert!(matches!(one.open("", &bound), Err(OpenFault::Malformed(_))));

    let layer = RequestStateLayer::new(keys(&[2]), "a");
    let log = logged(|| {
        let _ = layer.policy.policy().on_request(&mut tool(Some(&sealed)));
    });
    assert!(log.contains("StateKeys") && log.contains("tools/call"), "{log}");
    assert!(!log.contains(&sealed), "{log}");
    let log = logged(|| drop(StateKeys::random_per_process()));
    assert!(log.contains("WARN") && log.contains("replicas"), "{log}");
    let shown = format!("{layer:?} {:?} {bound:?} {:?}", keys(&[9]), one.open(&sealed, &bound).unwrap());
    assert!(!shown.contains("9, 9") && !shown.contains("\"s\""), "{shown}");
}

#[test]
fn keys_are_long_and_none_comes_twice() {
    assert_eq!(StateKey::new(&[0; 31]).unwrap_err(), KeyError::TooShort { bytes: 31 });
    assert!(StateKey::new(&[0; 32]).is_ok() && StateKey::new(&[0; 1000]).is_ok());
    assert_eq!(StateKeys::new([]).unwrap_err(), KeyError::None);
    assert_eq!(StateKeys::new([key(1), key(2), key(1)]).unwrap_err(), KeyError::Duplicate);
}

#[test]
fn what_the_same_keys_sealed_for_another_purpose_is_no_state_of_a_request() {
    let sealer = StateSealer::new(keys(&[1]), "a");
    let sealed = sealer.seal("\",\"x\":\"", &Binding::new(tool(None).body(), None).unwrap(), None).unwrap();
    let layer = RequestStateLayer::from(sealer);
    let rejected = layer.policy.policy().on_request(&mut tool(Some(&sealed))).unwrap_err();
    assert_eq!(rejected.code(), -32602);
}

#[tokio::test]
async fn a_state_that_may_be_used_once_is_used_once() {
    let (layer, clock) = layer_with(keys(&[1]), "a");
    let layer = layer.with_single_use(MemoryReplayStore::new());
    let sealed = sealed_for(&layer, tool(None)).await;
    // Presented wrongly it is not burnt.
    let elsewhere = call("tools/call", json!({"name": "u", "arguments": {"a": 1}, "requestState": sealed}));
    invalid(&send(&layer, elsewhere).await);
    let next = sealed_for(&layer, tool(Some(&sealed))).await;
    invalid(&send(&layer, tool(Some(&sealed))).await);
    clock.advance(Duration::from_secs(599));
    invalid(&send(&layer, tool(Some(&sealed))).await);
    send(&layer, tool(Some(&next))).await.passed();
    send(&layer, tool(None)).await.passed();
}

#[tokio::test]
async fn a_clock_that_jumps_forward_and_back_does_not_undo_single_use() {
    let (layer, clock) = layer_with(keys(&[1]), "a");
    let layer = layer.with_single_use(MemoryReplayStore::new());
    let sealed = sealed_for(&layer, tool(None)).await;
    send(&layer, tool(Some(&sealed))).await.passed();
    clock.advance(Duration::from_secs(700));
    let other = sealed_for(&layer, tool(None)).await;
    send(&layer, tool(Some(&other))).await.passed();
    clock.set(Timestamp::from_millis(START * 1_000));
    invalid(&send(&layer, tool(Some(&sealed))).await);
}

#[tokio::test]
async fn the_store_is_told_who_uses_a_state() {
    struct Told(Arc<std::sync::Mutex<Vec<Option<crate::principal::Partition>>>>);

    impl ReplayStore for Told {
        fn burn(&self, used: StateUse) -> StoreFuture<bool> {
            self.0.lock().unwrap().push(used.partition);
            Box::pin(async { Ok(true) })
        }
    }

    let told = Arc::default();
    let layer = layer().with_single_use(Told(Arc::clone(&told)));
    let ada = Principal::new("i", "ada");
    for principal in [None, Some(ada.clone())] {
        let request = |state: Option<&str>| {
            let mut request = tool(state);
            request.extensions_mut().extend(principal.iter().cloned().fold(
                http::Extensions::new(),
                |mut all, principal| {
                    all.insert(principal);
                    all
                },
            ));
            request
        };
        let sealed = sealed_for(&layer, request(None)).await;
        send(&layer, request(Some(&sealed))).await.passed();
    }
    assert_eq!(*told.lock().unwrap(), [None, Some(ada.partition())]);
}

#[tokio::test]
async fn a_lifetime_is_at_least_a_second_and_parts_of_one_are_rounded_up() {
    for (lifetime, seconds) in [(0, 1), (1, 1), (500, 1), (1_000, 1), (1_001, 2)] {
        let (layer, clock) = layer_with(keys(&[1]), "a");
        let layer = layer
            .with_lifetime(Duration::from_millis(lifetime))
            .with_max_chain(Duration::from_millis(lifetime.max(1)));
        clock.set(Timestamp::from_millis(START * 1_000));
        let sealed = sealed_for(&layer, tool(None)).await;
        clock.advance(Duration::from_millis(seconds * 1_000 - 1));
        send(&layer, tool(Some(&sealed))).await.passed();
        clock.advance(Duration::from_millis(1));
        invalid(&send(&layer, tool(Some(&sealed))).await);
    }
    let layer = layer().with_lifetime(Duration::MAX).with_max_chain(Duration::MAX);
    let sealed = sealed_for(&layer, tool(None)).await;
    send(&layer, tool(Some(&sealed))).await.passed();
}

#[tokio::test]
async fn a_store_that_cannot_tell_lets_nothing_pass() {
    struct Broken;

    impl ReplayStore for Broken {
        fn burn(&self, _: StateUse) -> StoreFuture<bool> {
            Box::pin(async {
                tokio::task::yield_now().await;
                Err("no route to host".into())
            })
        }
    }

    for layer in
        [layer().with_single_use(Broken), layer().with_single_use(MemoryReplayStore::new().with_capacity(0))]
    {
        let sealed = sealed_for(&layer, tool(None)).await;
        let message = send(&layer, tool(Some(&sealed))).await.refused(503, 503, None);
        assert!(!message.contains("route"), "{message}");
    }
}

#[test]
fn of_many_uses_at_once_exactly_one_passes() {
    const THREADS: usize = 4;
    let layer = layer().with_single_use(MemoryReplayStore::new());
    let runtime = || tokio::runtime::Builder::new_current_thread().build().unwrap();
    let main = runtime();
    for _ in 0..50 {
        let sealed = main.block_on(sealed_for(&layer, tool(None)));
        let (barrier, passed, refused) = (Barrier::new(THREADS), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let runtime = runtime();
                    barrier.wait();
                    let outcome = runtime.block_on(send(&layer, tool(Some(&sealed))));
                    if outcome.calls == 1 { &passed } else { &refused }.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!((passed.load(Ordering::SeqCst), refused.load(Ordering::SeqCst)), (1, THREADS - 1));
    }
}

#[tokio::test]
async fn a_handler_reads_the_state_that_it_gave_as_its_own_type() {
    use crate::dispatch::{Context, Dispatch, InputRequired, Tool, ToolResult};

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Asked {
        times: u32,
        of: String,
    }

    let tool_of = Tool::raw("t", json!({"type": "object"}), |_, context: Context| async move {
        Ok(match context.request_state::<Asked>() {
            Some(asked) => ToolResult::from(format!("{} {}", asked.times, asked.of)),
            None => InputRequired::new().with_state(&Asked { times: 1, of: "\"é\"".to_owned() }).into(),
        })
    });
    let server = Dispatch::builder("s", "1").tool(tool_of).build().unwrap();
    let service = layer().layer(server);
    let text = async |state: Option<&str>| {
        let response = service.clone().oneshot(tool(state)).await.unwrap();
        serde_json::from_str::<Value>(&response.body().answer().unwrap().to_string()).unwrap()
    };
    let asked = text(None).await;
    let done = text(asked["result"]["requestState"].as_str()).await;
    assert_eq!(done["result"]["content"][0]["text"], "1 \"é\"");
}

#[cfg(feature = "aead")]
#[tokio::test]
async fn an_encrypted_state_cannot_be_read_and_a_signed_one_is_still_opened() {
    let signed = layer();
    let encrypted = layer().with_encryption();
    let secret = "a secret that is easily found";
    let give = |layer: RequestStateLayer| async move {
        let state = format!("\"{secret}\"");
        let outcome = send_to(&layer, tool(None), move |_| asks(&state)).await;
        outcome.body["result"]["requestState"].as_str().unwrap().to_owned()
    };
    let readable = |sealed: &str| {
        let bytes = base64_simd::URL_SAFE_NO_PAD.decode_to_vec(&sealed[3..]).unwrap();
        String::from_utf8_lossy(&bytes).contains(secret)
    };
    let (plain, hidden) = (give(signed.clone()).await, give(encrypted.clone()).await);
    assert!(readable(&plain) && !readable(&hidden));
    for sealed in [&plain, &hidden] {
        send(&encrypted, tool(Some(sealed))).await.passed();
        send(&signed, tool(Some(sealed))).await.passed();
        let elsewhere =
            call("tools/call", json!({"name": "u", "arguments": {"a": 1}, "requestState": sealed}));
        invalid(&send(&encrypted, elsewhere).await);
    }
}

fn sealers() -> Vec<StateSealer> {
    let sealer = StateSealer::new(keys(&[1, 2]), "a");
    #[cfg(feature = "aead")]
    return vec![sealer.clone(), sealer.with_encryption()];
    #[cfg(not(feature = "aead"))]
    vec![sealer]
}

#[test]
fn no_byte_of_a_sealed_state_can_be_changed_left_out_or_added() {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let binding = Binding::new(tool(None).body(), None).unwrap();
    for sealer in sealers() {
        // All three lengths of the last group of base64.
        for state in ["", "s", "st", "sta"] {
            let sealed = sealer.seal(state, &binding, None).unwrap();
            assert_eq!(sealer.open(&sealed, &binding).unwrap().state, state);
            for at in 0..sealed.len() {
                // Every letter at the end, where bits may be left over; one in seven elsewhere.
                let few = if at + 3 > sealed.len() { 1 } else { 7 };
                for other in ALPHABET.iter().skip(at % few).step_by(few).chain(b".=+/ \n\0") {
                    if sealed.as_bytes()[at] == *other {
                        continue;
                    }
                    let mut changed = sealed.clone().into_bytes();
                    changed[at] = *other;
                    let changed = String::from_utf8(changed).unwrap();
                    assert!(sealer.open(&changed, &binding).is_err(), "{changed}");
                }
                assert!(sealer.open(&sealed[..at], &binding).is_err(), "{at}");
                let mut without = sealed.clone();
                without.remove(at);
                assert!(sealer.open(&without, &binding).is_err(), "{at}");
            }
            for more in ["=", "==", "A", "AA", " ", "\n", "-TAMPERED", ".", "\0"] {
                assert!(sealer.open(&format!("{sealed}{more}"), &binding).is_err(), "{more:?}");
                assert!(sealer.open(&format!("{more}{sealed}"), &binding).is_err(), "{more:?}");
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Situation {
    method: &'static str,
    target: String,
    arguments: i64,
    subject: Option<String>,
}

fn situation() -> impl Strategy<Value = Situation> {
    (
        prop_oneof![Just("tools/call"), Just("prompts/get")],
        "[ab]{0,2}",
        0..3_i64,
        proptest::option::of("[ab]{0,1}"),
    )
        .prop_map(|(method, target, arguments, subject)| Situation {
            method,
            target,
            arguments,
            subject,
        })
}

impl Situation {
    fn binding(&self) -> Binding {
        let request = call(self.method, json!({"name": self.target, "arguments": {"n": self.arguments}}));
        Binding::new(request.body(), self.subject.as_deref().map(principal).as_ref()).unwrap()
    }
}

proptest! {
    #[test]
    fn a_state_opens_in_its_own_situation_and_in_no_other(
        state in "\\PC{0,40}",
        one in situation(),
        other in situation(),
    ) {
        for sealer in sealers() {
            let sealed = sealer.seal(&state, &one.binding(), None).unwrap();
            prop_assert_eq!(sealer.open(&sealed, &one.binding()).unwrap().state, state.clone());
            prop_assert_eq!(sealer.open(&sealed, &other.binding()).is_ok(), one == other);
        }
    }

    #[test]
    fn any_text_is_refused(text in "(v1\\.)?[A-Za-z0-9_=.\\-]{0,200}") {
        let binding = Binding::new(tool(None).body(), None).unwrap();
        for sealer in sealers() {
            prop_assert!(sealer.open(&text, &binding).is_err());
        }
    }

    #[test]
    fn any_time_but_its_own_is_refused(offset in -200_i64..1_000, lifetime in 1_u64..700) {
        let clock = Arc::new(ManualClock::new());
        clock.set(Timestamp::from_millis(START * 1_000));
        let sealer = StateSealer::new(keys(&[1]), "a")
            .with_clock(Arc::clone(&clock))
            .with_lifetime(Duration::from_secs(lifetime));
        let binding = Binding::new(tool(None).body(), None).unwrap();
        let sealed = sealer.seal("s", &binding, None).unwrap();
        clock.set(Timestamp::from_millis(START.checked_add_signed(offset).unwrap() * 1_000));
        let lives = -60 <= offset && offset < i64::try_from(lifetime).unwrap();
        prop_assert_eq!(sealer.open(&sealed, &binding).is_ok(), lives);
    }
}
