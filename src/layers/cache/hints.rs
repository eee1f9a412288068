//! Gives results the hints for caches that their server left out.
//!
//! # Rules
//! 1. Complete results of the six cacheable methods have `ttlMs`, a non-negative integer, and `cacheScope`, `"public"` or
//!    `"private"` (`server/utilities/caching`, "Cacheable Results"). What is absent, or is none of these, becomes what it
//!    counts as anyway: 0 and `"private"`. What is valid stays.
//!
//! So results become valid, and none becomes one that a cache keeps: how long a result of another server is good, only a
//! policy of your own can know.
//!
//! # Order
//! In front of a server that somebody else wrote, anywhere below the filters of lists. Reads the method; edits results.
//!
//! # Example
//! ```
//! use std::convert::Infallible;
//!
//! use http::{Request, Response};
//! use mcp_layers::layers::cache::CacheHintsLayer;
//! use mcp_layers::message::{Answer, Message, RawObject, Reply};
//! use tower::{Layer as _, ServiceExt as _, service_fn};
//!
//! async fn upstream(request: Request<Message>) -> Result<Response<Reply>, Infallible> {
//!     let result = RawObject::parse(r#"{"resultType":"complete","tools":[]}"#).expect("is an object");
//!     Ok(Response::new(Reply::Answer(Answer::result(request.body().id().cloned(), result))))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let service = CacheHintsLayer::new().layer(service_fn(upstream));
//! let list = Message::parse(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)?;
//! let response = service.oneshot(Request::new(list)).await?;
//! let result = response.body().answer().expect("is no stream").outcome().expect("is no error");
//! assert_eq!(result.to_string(), r#"{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}"#);
//! # Ok(())
//! # }
//! ```

use bytestring::ByteString;
use http::{Request, Response};

use crate::message::{Answer, Kind, Message, Raw, Reply};
use crate::policy::{Policy, PolicyLayer};
use crate::rejection::Rejection;
use crate::store::key::Operation;

/// Gives results the hints for caches that their server left out; see the [module](self).
pub type CacheHintsLayer = PolicyLayer<CacheHints>;

/// What a [`CacheHintsLayer`] does.
#[derive(Clone, Copy, Debug)]
pub struct CacheHints(());

impl CacheHintsLayer {
    /// Gives no hint that a result does not have already, except that it must not be kept.
    #[must_use]
    pub fn new() -> Self {
        Self::from_policy(CacheHints(()))
    }
}

impl Default for CacheHintsLayer {
    fn default() -> Self {
        Self::new()
    }
}

/// What is remembered of a request: whether its result has hints.
#[derive(Clone, Copy, Debug)]
pub struct Hinted(bool);

impl Policy for CacheHints {
    type Memo = Hinted;

    fn on_request(&self, request: &mut Request<Message>) -> Result<Hinted, Rejection> {
        Ok(Hinted(Operation::of(request.body().method()).is_some()))
    }

    fn on_reply(&self, Hinted(hinted): Hinted, reply: &mut Response<Reply>) {
        if hinted {
            reply.body_mut().edit_answer(complete);
        }
    }
}

fn complete(answer: &mut Answer) {
    let Some(result) = answer.result_mut() else { return };
    if result.get("resultType").is_some_and(|kind| kind.to_str().as_deref() != Some("complete")) {
        return;
    }
    if !result.get("ttlMs").is_some_and(is_ttl) {
        result.set_number("ttlMs", 0);
    }
    let scope = result.get("cacheScope").and_then(Raw::to_str);
    if !matches!(scope.as_deref(), Some("public" | "private")) {
        result.set_text("cacheScope", ByteString::from_static("\"private\""));
    }
}

fn is_ttl(ttl: Raw<'_>) -> bool {
    ttl.kind() == Kind::Number && ttl.text().bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::testing::{request, send_to};
    use crate::message::RawObject;

    async fn hinted(method: &str, result: &'static str) -> String {
        let body = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{"uri":"a:b"}}}}"#);
        let outcome = send_to(&CacheHintsLayer::new(), request(&body, []), move |_| {
            Reply::Answer(Answer::result(Some(7.into()), RawObject::parse(result).unwrap()))
        })
        .await;
        outcome.passed();
        outcome.body["result"].to_string()
    }

    #[tokio::test]
    async fn a_result_is_not_kept_for_the_hints_that_it_is_given() {
        let cache = crate::layers::cache::ResponseCache::new("u");
        let inner = tower::service_fn(async |_: Request<Message>| {
            let result = RawObject::parse(r#"{"resultType":"complete","tools":[]}"#).unwrap();
            let reply = Reply::Answer(Answer::result(Some(1.into()), result));
            Ok::<_, std::convert::Infallible>(Response::new(reply))
        });
        let layers = (crate::layers::CacheLayer::new(cache.clone()), CacheHintsLayer::new());
        let service = tower::Layer::layer(&layers, inner);
        let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{
            "io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        for _ in 0..2 {
            let list = Request::new(Message::parse(list).unwrap());
            tower::ServiceExt::oneshot(service.clone(), list).await.unwrap();
        }
        let statistics = cache.statistics();
        assert_eq!((statistics.hits, statistics.misses, statistics.stores), (0, 2, 0));
    }

    #[tokio::test]
    async fn hints_that_are_missing_or_wrong_are_given_and_others_stay() {
        let none = r#"{"cacheScope":"private","ttlMs":0}"#;
        for wrong in [
            "{}",
            r#"{"ttlMs":-1,"cacheScope":"Public"}"#,
            r#"{"ttlMs":"5","cacheScope":null}"#,
            r#"{"ttlMs":1.5}"#,
        ] {
            assert_eq!(hinted("resources/read", wrong).await, none, "{wrong}");
        }
        for right in [r#"{"cacheScope":"public","ttlMs":5}"#, r#"{"cacheScope":"private","ttlMs":0}"#] {
            assert_eq!(hinted("tools/list", right).await, right);
        }
    }

    #[tokio::test]
    async fn what_cannot_be_kept_gets_no_hints() {
        assert_eq!(hinted("tools/call", r#"{"content":[]}"#).await, r#"{"content":[]}"#);
        let asks = r#"{"resultType":"input_required"}"#;
        assert_eq!(hinted("resources/read", asks).await, asks);
    }
}
