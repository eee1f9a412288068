//! The contract of [`CacheStore`] as tests that any store can run.
//!
//! [`cache_store_contract!`](crate::cache_store_contract) makes one `#[tokio::test]` of each function here, so the crate
//! that uses it needs `tokio` with the features `macros` and `rt`.
//!
//! ```
//! mod redis {
//!     # #[derive(Default)] struct RedisStore;
//!     # impl RedisStore { async fn connect() -> mcp_layers::store::MemoryStore { Default::default() } }
//!     // The expression is evaluated anew for each test, in async code.
//!     mcp_layers::cache_store_contract!(RedisStore::connect().await);
//! }
//! ```

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytestring::ByteString;

use super::entry::Stamp;
use super::key::Operation;
use super::{CacheKey, CacheStore, Entry, Invalidation};
use crate::message::RawObject;
use crate::principal::Partition;
use crate::protocol::Revision;

const HOUR: Duration = Duration::from_secs(3600);

/// Makes tests of the [contract](crate::store::CacheStore#the-contract) for the store that the expression makes. See
/// [`contract`](crate::store::contract).
#[macro_export]
macro_rules! cache_store_contract {
    ($make:expr) => {
        $crate::cache_store_contract! { @tests $make;
            what_was_put_is_found
            what_was_not_put_is_not_found
            a_later_put_replaces_an_earlier_one
            what_was_removed_is_gone
            removing_what_is_not_there_is_no_error
            no_part_of_a_key_runs_into_another
            partitions_are_kept_apart
            an_invalidation_drops_all_pages_and_partitions
            an_invalidation_leaves_the_rest_alone
            an_invalidation_is_of_one_upstream
            large_entries_come_back_whole_or_not_at_all
            entries_are_put_by_many_at_once
            a_future_that_is_dropped_does_no_harm
        }
    };
    (@tests $make:expr; $($name:ident)*) => {
        $(
            #[::tokio::test]
            async fn $name() {
                $crate::store::contract::$name($make).await;
            }
        )*
    };
}

/// A key for tests.
///
/// # Panics
/// If `method` is not one of the six that can be cached.
#[must_use]
pub fn key(upstream: &str, method: &str, param: Option<&str>, partition: Option<&str>) -> CacheKey {
    CacheKey {
        upstream: Arc::<str>::from(upstream).into(),
        revision: Revision::V2026_07_28,
        operation: Operation::of(method).expect("a method that can be cached"),
        param: param.map(ByteString::from),
        partition: partition.map(|partition| Partition::of("contract", &[Some(partition.as_bytes())])),
    }
}

/// An entry for tests, with the result `text`.
///
/// # Panics
/// If `text` is not a JSON object.
#[must_use]
pub fn entry(key: &CacheKey, text: &str) -> Entry {
    let stamp = Stamp { requested: 1, received: 2, ttl: 3_600_000, writer: 4, generation: 5 };
    let result = RawObject::parse(text.to_owned()).expect("a JSON object");
    Entry::new(key.clone(), stamp, result)
}

async fn put(store: &impl CacheStore, key: &CacheKey, text: &str) {
    store.put(entry(key, text), HOUR).await.expect("puts an entry");
}

async fn get(store: &impl CacheStore, key: &CacheKey) -> Option<String> {
    let got = store.get(key).await.expect("gets an entry");
    if let Some(peeked) = store.peek(key) {
        let got = got.as_ref().expect("what can be peeked at can be got");
        assert_eq!(peeked.result().to_string(), got.result().to_string());
    }
    got.map(|entry| {
        assert_eq!(entry.key(), key);
        entry.result().to_string()
    })
}

/// Text, key and times come back as they were.
///
/// # Panics
/// If not.
pub async fn what_was_put_is_found(store: impl CacheStore) {
    let key = key("a", "resources/read", Some("file:///é\n"), Some("ada"));
    let text = r#"{"contents":[{"text":"\u00e9\n","n":1.0}],"ttlMs":3600000}"#;
    put(&store, &key, text).await;
    assert_eq!(get(&store, &key).await.as_deref(), Some(text));
    let got = store.get(&key).await.expect("gets an entry").expect("is there");
    let expected = entry(&key, text);
    assert_eq!((got.received(), got.ttl()), (expected.received(), expected.ttl()));
}

/// A key that is new is a miss and no error.
///
/// # Panics
/// If not.
pub async fn what_was_not_put_is_not_found(store: impl CacheStore) {
    assert_eq!(get(&store, &key("a", "tools/list", None, None)).await, None);
}

/// The last one counts.
///
/// # Panics
/// If not.
pub async fn a_later_put_replaces_an_earlier_one(store: impl CacheStore) {
    let key = key("a", "tools/list", None, None);
    put(&store, &key, r#"{"tools":[1]}"#).await;
    put(&store, &key, r#"{"tools":[2]}"#).await;
    assert_eq!(get(&store, &key).await.as_deref(), Some(r#"{"tools":[2]}"#));
}

/// And can be put again.
///
/// # Panics
/// If not.
pub async fn what_was_removed_is_gone(store: impl CacheStore) {
    let key = key("a", "tools/list", None, None);
    put(&store, &key, "{}").await;
    store.remove(&key).await.expect("removes an entry");
    assert_eq!(get(&store, &key).await, None);
    put(&store, &key, "{}").await;
    assert_eq!(get(&store, &key).await.as_deref(), Some("{}"));
}

/// Neither one key nor a group of them.
///
/// # Panics
/// If it is.
pub async fn removing_what_is_not_there_is_no_error(store: impl CacheStore) {
    store.remove(&key("a", "tools/list", None, None)).await.expect("has nothing to remove");
    store.invalidate("a", &Invalidation::Everything).await.expect("has nothing to remove");
}

/// Names, cursors and URIs that would read the same if they were joined.
///
/// # Panics
/// If one entry is found under another's key.
pub async fn no_part_of_a_key_runs_into_another(store: impl CacheStore) {
    let keys = [
        key("a", "tools/list", None, None),
        key("a", "tools/list", Some(""), None),
        key("a", "tools/list", Some("b"), None),
        key("a", "prompts/list", Some("b"), None),
        key("a:tools/list", "tools/list", None, None),
        key("a\0tools/list\0b", "tools/list", None, None),
        key("a|b", "resources/read", Some("c"), None),
        key("a", "resources/read", Some("b|c"), None),
        key("a", "resources/read", Some("B|C"), None),
        key("", "resources/read", Some("a|b|c"), None),
    ];
    for (at, key) in keys.iter().enumerate() {
        put(&store, key, &format!("{{\"at\":{at}}}")).await;
    }
    for (at, key) in keys.iter().enumerate() {
        assert_eq!(get(&store, key).await, Some(format!("{{\"at\":{at}}}")));
    }
}

/// What one may have the other may not, and neither is what all may have.
///
/// # Panics
/// If they are not.
pub async fn partitions_are_kept_apart(store: impl CacheStore) {
    let of = |partition| key("a", "tools/list", None, partition);
    put(&store, &of(Some("ada")), r#"{"for":"ada"}"#).await;
    assert_eq!(get(&store, &of(Some("bob"))).await, None);
    assert_eq!(get(&store, &of(None)).await, None);
    put(&store, &of(None), r#"{"for":"all"}"#).await;
    assert_eq!(get(&store, &of(Some("ada"))).await.as_deref(), Some(r#"{"for":"ada"}"#));
    assert_eq!(get(&store, &of(Some("bob"))).await, None);
}

/// Wherever they are.
///
/// # Panics
/// If it does not.
pub async fn an_invalidation_drops_all_pages_and_partitions(store: impl CacheStore) {
    let uri = "file:///a";
    for (method, param, what) in [
        ("tools/list", Some("2"), Invalidation::Tools),
        ("prompts/list", None, Invalidation::Prompts),
        ("resources/list", None, Invalidation::Resources),
        ("resources/templates/list", Some("2"), Invalidation::Resources),
        ("resources/read", Some(uri), Invalidation::Resource(uri.into())),
        ("server/discover", None, Invalidation::Everything),
        ("resources/read", Some(uri), Invalidation::Everything),
    ] {
        let keys = [None, Some("ada"), Some("bob")].map(|who| key("a", method, param, who));
        for key in &keys {
            put(&store, key, "{}").await;
        }
        store.invalidate("a", &what).await.expect("invalidates");
        for key in &keys {
            assert_eq!(get(&store, key).await, None, "{what:?} {key:?}");
        }
    }
}

/// Each has its own.
///
/// # Panics
/// If it does not.
pub async fn an_invalidation_leaves_the_rest_alone(store: impl CacheStore) {
    let keys = [
        key("a", "server/discover", None, None),
        key("a", "tools/list", None, None),
        key("a", "prompts/list", None, None),
        key("a", "resources/list", None, None),
        key("a", "resources/read", Some("file:///a"), None),
        key("a", "resources/read", Some("file:///a/b"), None),
    ];
    for key in &keys {
        put(&store, key, "{}").await;
    }
    store.invalidate("a", &Invalidation::Prompts).await.expect("invalidates");
    store.invalidate("a", &Invalidation::Resource("file:///a".into())).await.expect("invalidates");
    for (at, key) in keys.iter().enumerate() {
        assert_eq!(get(&store, key).await.is_none(), at == 2 || at == 4, "{key:?}");
    }
}

/// Two that share a store do not disturb each other.
///
/// # Panics
/// If it is not.
pub async fn an_invalidation_is_of_one_upstream(store: impl CacheStore) {
    let (a, b) = (key("a", "tools/list", None, None), key("b", "tools/list", None, None));
    put(&store, &a, "{}").await;
    put(&store, &b, "{}").await;
    store.invalidate("a", &Invalidation::Everything).await.expect("invalidates");
    assert_eq!(get(&store, &a).await, None);
    assert_eq!(get(&store, &b).await.as_deref(), Some("{}"));
}

/// A store may have no room for them, but must not cut them.
///
/// # Panics
/// If one comes back changed.
pub async fn large_entries_come_back_whole_or_not_at_all(store: impl CacheStore) {
    let key = key("a", "resources/read", Some("file:///large"), None);
    let text = format!("{{\"contents\":[\"{}\"]}}", "x".repeat(1 << 20));
    put(&store, &key, &text).await;
    if let Some(got) = get(&store, &key).await {
        assert!(got == text, "a large entry came back changed");
    }
}

/// None is lost or mixed up.
///
/// # Panics
/// If one is.
pub async fn entries_are_put_by_many_at_once(store: impl CacheStore) {
    let keys: Vec<_> =
        (0..32).map(|at| key("a", "resources/read", Some(&format!("file:///{at}")), None)).collect();
    let mut running: Vec<_> =
        keys.iter().enumerate().map(|(at, key)| Box::pin(put_often(&store, key, at))).collect();
    std::future::poll_fn(|cx| {
        running.retain_mut(|work| work.as_mut().poll(cx).is_pending());
        if running.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

async fn put_often(store: &impl CacheStore, key: &CacheKey, at: usize) {
    for round in 0..20 {
        let text = format!("{{\"at\":{at},\"round\":{round}}}");
        put(store, key, &text).await;
        assert_eq!(get(store, key).await, Some(text));
    }
}

/// The store answers as before.
///
/// # Panics
/// If it does not.
pub async fn a_future_that_is_dropped_does_no_harm(store: impl CacheStore) {
    let key = key("a", "tools/list", None, None);
    put(&store, &key, "{}").await;
    drop(store.get(&key));
    drop(store.remove(&key));
    let mut cx = Context::from_waker(Waker::noop());
    let mut half_way = Box::pin(store.put(entry(&key, r#"{"again":1}"#), HOUR));
    let _ = half_way.as_mut().poll(&mut cx);
    drop(half_way);
    let got = get(&store, &key).await;
    assert!(matches!(got.as_deref(), Some("{}" | r#"{"again":1}"#)), "{got:?}");
    store.remove(&key).await.expect("removes an entry");
    assert_eq!(get(&store, &key).await, None);
}
