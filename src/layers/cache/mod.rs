//! Answers requests again with what was answered before, for as long and for whom the server said it may be.
//!
//! [`ResponseCache`] is the cache, as a plain value. [`CacheLayer`] puts it in front of any service that takes a
//! [`Message`](crate::message::Message): a dispatcher, or an upstream in a gateway.
//!
//! # Rules
//! Specification: `server/utilities/caching`.
//! 1. Six methods can be cached: `server/discover`, `tools/list`, `prompts/list`, `resources/list`,
//!    `resources/templates/list` and `resources/read`, in revisions that know `ttlMs`: 2026-07-28 and later. The revision
//!    is the one that a layer left in the extensions, else the one that the request's `_meta` names. Everything else
//!    passes.
//! 2. A result is found by upstream, revision, method, and `cursor` or `uri` as decoded strings ("Cache Key"). `_meta` of
//!    the request does not count. A request with any other parameter, `inputResponses` and `requestState` among
//!    them, or with one of a wrong shape, is neither answered from the cache nor kept: it may affect the result.
//! 3. A result is kept if the HTTP status is 200, `resultType` is `"complete"` and `ttlMs` is a positive integer ("Cacheable
//!    Results", "Time-to-Live (TTL) Field"). What is negative, absent, too large to read or not written as an integer never
//!    fails: it counts as 0, and what is large is cut to 24 hours.
//! 4. A result is for everybody only if `cacheScope` is exactly `"public"`, and that can be
//!    [distrusted](ResponseCache::with_trust_public). Any other is for callers in the same [partition](PartitionBy): by
//!    default those with the very same token ("Cache Scope Field"). Without a
//!    [`Principal`](crate::principal::Principal) there is no partition, and private results are not kept.
//! 5. A hit has the caller's own id, `ttlMs` less the age of the entry, and no header of the response that the entry came
//!    in. Of the result's `_meta` it has what is about the result ([`with_kept_meta`](ResponseCache::with_kept_meta)): the
//!    rest may be about the caller that was answered first. `ttlMs` is its first member; the result is neither parsed nor
//!    copied.
//! 6. Requests of one partition that come while the same is being asked share one call, errors included. It goes on while
//!    anyone waits, whoever came first, and is dropped with the last. Callers in different partitions never wait for
//!    each other; those without a principal share if they show the same `Authorization` and `Cookie`, or neither. In the
//!    first case they share what is public, and errors; in the second only what is public, because an error may be about
//!    something else that one of them showed: each of the others then asks for itself. Where the last answer was not to be
//!    kept, nobody waits.
//! 7. What is [invalidated](ResponseCache::invalidate) is gone at once, in all partitions, and a result that was asked for
//!    before that is not kept ("Interaction with Notifications"). Invalidations come from notifications on
//!    `subscriptions/listen` streams that pass, before their receiver sees them; from a
//!    [`Publisher`](crate::dispatch::Publisher::observe); and by call. `resources/list_changed` is about templates as well. An
//!    updated URI is about reads of that URI, and on a stream also about reads of those of its subscribed URIs that
//!    are ancestors of it; from a stream with more than 1024 of those it is about everything. A call that is refused with -32020 makes the list of tools invalid, and a cursor that was good
//!    and is refused with -32602 all pages of its list.
//! 8. An entry that has expired is served only if asking again fails, and only if that is
//!    [wanted](ResponseCache::with_stale_if_error); its `ttlMs` is 0. A refusal is an answer and no failure: it is passed on,
//!    and the expired entry is forgotten. All this holds for an answer at the end of a stream as well.
//! 9. A [store](crate::store::CacheStore) that fails, takes long or gives what was not asked for is a miss and a line in the
//!    log. A request waits for it no longer than [`with_store_timeout`](ResponseCache::with_store_timeout) in all. What it
//!    has not been told of an invalidation it is told again before it is asked for anything of that upstream, and until it
//!    knows, entries of other writers that are covered are not served.
//!
//! # Rejections
//! None of its own. Where the inner service fails, all who share errors get the same [`InnerError`].
//!
//! # Order
//! Sits after whatever decides who may ask (authorization, version, headers, scopes) and before what answers. It keeps
//! what the *inner* service says, so layers that show each caller something else belong *above* it, where they see hits
//! like any other reply: `[filter, cache, service]`. Below it, a layer that filters a list must make it `private`, or one
//! caller's list is served to all; [`make_private`] does that, and [`ScopeLayer`](crate::layers::ScopeLayer) by itself:
//! such an order is harmless, but each caller costs a call. [`Stack`](crate::stack::Stack) has no place for a layer
//! between the cache and the service, and cannot be told to build it.
//!
//! Reads the [`Principal`](crate::principal::Principal), the [`Revision`](crate::protocol::Revision) and the [`CacheMode`]
//! in the extensions; writes nothing there. Headers do not count: an upstream that answers by `Accept-Language`, say,
//! must not call that `public`.
//!
//! # Example
//! ```
//! use std::convert::Infallible;
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! use http::{Request, Response};
//! use mcp_layers::layers::cache::{CacheLayer, ResponseCache};
//! use mcp_layers::message::{Answer, Message, RawObject, Reply};
//! use tower::{Layer as _, ServiceExt as _, service_fn};
//!
//! static CALLS: AtomicU64 = AtomicU64::new(0);
//!
//! async fn upstream(request: Request<Message>) -> Result<Response<Reply>, Infallible> {
//!     CALLS.fetch_add(1, Ordering::Relaxed);
//!     let result = r#"{"resultType":"complete","tools":[],"ttlMs":60000,"cacheScope":"public"}"#;
//!     let result = RawObject::parse(result).expect("is an object");
//!     Ok(Response::new(Reply::Answer(Answer::result(request.body().id().cloned(), result))))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cache = ResponseCache::new("weather");
//! let service = CacheLayer::new(cache.clone()).layer(service_fn(upstream));
//! for id in 1..=3 {
//!     let list = format!(
//!         r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{{"_meta":{{
//!             "io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}}}}"#,
//!     );
//!     let response = service.clone().oneshot(Request::new(Message::parse(list)?)).await.expect("does not fail");
//!     let answer = response.body().answer().expect("is no stream");
//!     assert_eq!(answer.id().map(|id| id.text()), Some(id.to_string().as_str()));
//! }
//! assert_eq!(CALLS.load(Ordering::Relaxed), 1);
//! assert_eq!((cache.statistics().hits, cache.statistics().misses), (2, 1));
//! # Ok(())
//! # }
//! ```

mod after;
mod fill;
mod flight;
mod generation;
pub mod hints;
mod patience;
mod query;
mod response_cache;
mod service;
mod settings;
mod statistics;
mod stream;
mod tendency;
mod untold;

pub use self::fill::InnerError;
pub use self::hints::CacheHintsLayer;
pub use self::query::{CacheMode, Query};
pub use self::response_cache::{Hit, ResponseCache};
pub use self::service::{CacheFuture, CacheLayer, CacheService};
pub use self::settings::PartitionBy;
pub use self::statistics::Statistics;

pub(super) use self::fill::{Refusal, ttl_of};
pub(super) use self::flight::Flights;

use crate::message::RawObject;

/// Says of a result that it is only for the caller it is given to: for layers that take from a result what this caller
/// may not see. What says nothing of caches is left as it is, because that is private anyway.
///
/// ```
/// use mcp_layers::layers::cache::make_private;
/// use mcp_layers::message::RawObject;
///
/// let mut result = RawObject::parse(r#"{"tools":[],"ttlMs":5,"cacheScope":"public"}"#)?;
/// make_private(&mut result);
/// assert_eq!(result.to_string(), r#"{"tools":[],"ttlMs":5,"cacheScope":"private"}"#);
/// # Ok::<(), mcp_layers::message::NotAnObject>(())
/// ```
pub fn make_private(result: &mut RawObject) {
    if result.get("cacheScope").is_some_and(|scope| scope.text() != "\"private\"") {
        result.set_text("cacheScope", bytestring::ByteString::from_static("\"private\""));
    }
}

#[cfg(test)]
mod tests;
