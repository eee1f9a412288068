//! The response cache alone, in front of an MCP service that is slow: what it saves.
//!
//! ```text
//! cargo run --release --example cache_gateway
//! ```
//!
//! Twenty callers, each with a token of its own, ask for the list of tools (public), and read a document (private),
//! again and again. The same requests go to the service as it is, and to the service with the cache in front. Halfway
//! through, the service tells on its stream of notifications that its tools have changed.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::{Request, Response};
use mcp_layers::body::BoxError;
use mcp_layers::layers::cache::{CacheLayer, ResponseCache};
use mcp_layers::message::{Answer, Message, RawObject, Reply};
use mcp_layers::principal::Principal;
use tower::{Layer as _, Service, ServiceExt as _, service_fn};

const CALLERS: usize = 20;
const ROUNDS: usize = 25;
const LATENCY: Duration = Duration::from_millis(20);

/// A server that needs 20 ms for whatever it is asked.
async fn slow(request: Request<Message>, calls: Arc<AtomicU64>) -> Result<Response<Reply>, Infallible> {
    calls.fetch_add(1, Ordering::Relaxed);
    tokio::time::sleep(LATENCY).await;
    let message = request.body();
    let text = if message.method() == "tools/list" {
        let tools: Vec<_> =
            (0..40).map(|n| format!(r#"{{"name":"tool{n}","inputSchema":{{"type":"object"}}}}"#)).collect();
        format!(
            r#"{{"resultType":"complete","tools":[{}],"ttlMs":60000,"cacheScope":"public"}}"#,
            tools.join(",")
        )
    } else {
        let who = request.extensions().get::<Principal>().map_or("nobody", Principal::subject);
        format!(
            r#"{{"resultType":"complete","contents":[{{"uri":"notes://today","text":"Notes of {who}"}}],"ttlMs":60000,"cacheScope":"private"}}"#
        )
    };
    let result = RawObject::parse(text).expect("is a JSON object");
    Ok(Response::new(Reply::Answer(Answer::result(message.id().cloned(), result))))
}

fn request(caller: usize, id: usize) -> Request<Message> {
    let (method, params) = if id.is_multiple_of(2) {
        ("tools/list", "")
    } else {
        ("resources/read", r#""uri":"notes://today","#)
    };
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}"_meta":{{
            "io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}}}}"#
    );
    let mut request = Request::new(Message::parse(text).expect("is a request"));
    let token = format!("token of {caller}");
    let principal = Principal::new("https://issuer.example", format!("caller {caller}"));
    // An authentication layer would leave it there.
    request.extensions_mut().insert(principal.with_credential(token.as_bytes()));
    request
}

/// All callers at once, each with one request after the other. Gives how long each request took.
async fn run<S>(service: S, halfway: impl Fn()) -> Result<Vec<Duration>, BoxError>
where
    S: Service<Request<Message>, Response = Response<Reply>> + Clone + Send + 'static,
    S::Error: Into<BoxError> + Send,
    S::Future: Send,
{
    let mut took = Vec::new();
    for half in 0..2 {
        if half == 1 {
            halfway();
        }
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let service = service.clone();
                tokio::spawn(async move {
                    let mut took = Vec::new();
                    for id in 0..ROUNDS {
                        let start = Instant::now();
                        let response =
                            service.clone().oneshot(request(caller, id)).await.map_err(Into::into)?;
                        took.push(start.elapsed());
                        let text = response.body().answer().expect("is an answer").to_string();
                        let own = format!("Notes of caller {caller}\"");
                        assert!(id % 2 == 0 || text.contains(&own), "nobody reads the notes of another");
                    }
                    Ok::<_, BoxError>(took)
                })
            })
            .collect();
        for caller in callers {
            took.extend(caller.await??);
        }
    }
    took.sort_unstable();
    Ok(took)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let calls = Arc::new(AtomicU64::new(0));
    let in_service = Arc::clone(&calls);
    let service = service_fn(move |request| slow(request, Arc::clone(&in_service)));

    let before = run(service.clone(), || ()).await?;
    let calls_before = calls.swap(0, Ordering::Relaxed);

    let cache = ResponseCache::new("slow service");
    let in_halfway = cache.clone();
    let changed = Message::parse(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#)?;
    let after = run(CacheLayer::new(cache.clone()).layer(service), || {
        // What the layer does with the notifications on streams that pass it.
        in_halfway.invalidate_by(&changed, &[]);
    })
    .await?;
    let calls_after = calls.load(Ordering::Relaxed);

    let statistics = cache.statistics();
    println!(
        "{:<8}{:>10}{:>12}{:>12}{:>12}{:>16}{:>12}",
        "", "requests", "median", "95 %", "longest", "upstream calls", "hit ratio"
    );
    for (name, took, calls, ratio) in
        [("before", before, calls_before, 0.0), ("after", after, calls_after, statistics.hit_ratio())]
    {
        let at =
            |percent: usize| format!("{:.3} ms", took[(took.len() - 1) * percent / 100].as_secs_f64() * 1e3);
        println!(
            "{name:<8}{:>10}{:>12}{:>12}{:>12}{calls:>16}{:>10.1} %",
            took.len(),
            at(50),
            at(95),
            at(100),
            ratio * 100.0
        );
    }
    println!("\n{statistics:?}");
    // Two lists of tools, one before and one after the change, and the notes of each caller.
    assert!(calls_after <= (2 * CALLERS + CALLERS) as u64);
    Ok(())
}
