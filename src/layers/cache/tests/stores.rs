use super::*;
use crate::store::{CacheKey, Entry};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

/// A store outside of the process: finds bytes by a digest, and lets its caller wait.
#[derive(Default)]
struct Remote {
    bytes: Mutex<HashMap<[u8; 32], (CacheKey, bytes::Bytes)>>,
    down: AtomicBool,
    stuck: AtomicBool,
    /// What it cannot do.
    refuses: Mutex<&'static str>,
    /// How many invalidations it was told of.
    told: AtomicUsize,
    /// How long a put takes once its bytes are there.
    slow: Mutex<Duration>,
}

impl Remote {
    async fn round_trip(&self, operation: &str) -> Result<(), BoxError> {
        tokio::task::yield_now().await;
        if *self.refuses.lock().unwrap() == operation {
            return Err("not allowed".into());
        }
        if self.stuck.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.down.load(Ordering::SeqCst) { Err("connection refused".into()) } else { Ok(()) }
    }

    /// Puts these bytes in the place of all others.
    fn poison(&self, poison: impl Fn(&[u8]) -> Vec<u8>) {
        for (_, bytes) in self.bytes.lock().unwrap().values_mut() {
            *bytes = poison(bytes).into();
        }
    }
}

impl CacheStore for Remote {
    async fn get(&self, key: &CacheKey) -> Result<Option<Entry>, BoxError> {
        self.round_trip("get").await?;
        let bytes = self.bytes.lock().unwrap().get(&key.digest()).map(|(_, bytes)| bytes.clone());
        Ok(bytes.map(|bytes| Entry::decode(key, bytes)).transpose()?)
    }

    async fn put(&self, entry: Entry, _: Duration) -> Result<(), BoxError> {
        self.round_trip("put").await?;
        let kept = (entry.key().clone(), entry.encode());
        self.bytes.lock().unwrap().insert(entry.key().digest(), kept);
        let slow = *self.slow.lock().unwrap();
        if !slow.is_zero() {
            tokio::time::sleep(slow).await;
        }
        Ok(())
    }

    async fn remove(&self, key: &CacheKey) -> Result<(), BoxError> {
        self.round_trip("remove").await?;
        self.bytes.lock().unwrap().remove(&key.digest());
        Ok(())
    }

    async fn invalidate(&self, upstream: &str, what: &Invalidation) -> Result<(), BoxError> {
        self.told.fetch_add(1, Ordering::SeqCst);
        self.round_trip("invalidate").await?;
        self.bytes.lock().unwrap().retain(|_, (key, _)| key.upstream() != upstream || !what.covers(key));
        Ok(())
    }
}

mod remote_contract {
    crate::cache_store_contract!(super::Remote::default());
}

mod shared_contract {
    crate::cache_store_contract!(std::sync::Arc::new(crate::store::MemoryStore::default()));
}

fn remote() -> (ResponseCache<Arc<Remote>>, Arc<Remote>, Arc<ManualClock>) {
    let (store, clock) = (Arc::new(Remote::default()), Arc::new(ManualClock::new()));
    (ResponseCache::with_store_and_clock("up", Arc::clone(&store), Arc::clone(&clock)), store, clock)
}

#[tokio::test(start_paused = true)]
async fn a_store_that_must_be_awaited_serves_hits_too() {
    let (cache, _, clock) = remote();
    let upstream = Upstream::saying(result("public", "5000"));
    let service = layered(&cache, &upstream);
    ask(&service, tools()).await;
    clock.advance(ms(100));
    assert_eq!(ttl(&ask(&service, tools()).await), "4900");
    assert_eq!((upstream.calls(), cache.statistics().hits), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_or_hangs_is_a_miss() {
    let (cache, store, _) = remote();
    let upstream = Upstream::saying(result("public", "5000"));
    let service = layered(&cache, &upstream);
    ask(&service, tools()).await;
    store.down.store(true, Ordering::SeqCst);
    ask(&service, tools()).await;
    store.down.store(false, Ordering::SeqCst);
    store.stuck.store(true, Ordering::SeqCst);
    let start = tokio::time::Instant::now();
    ask(&service, tools()).await;
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    store.stuck.store(false, Ordering::SeqCst);
    assert_eq!(upstream.calls(), 3);
    ask(&service, tools()).await;
    assert_eq!(upstream.calls(), 3);
    assert!(cache.statistics().failures >= 4);
}

#[tokio::test(start_paused = true)]
async fn poisoned_entries_are_misses() {
    type Poison = Box<dyn Fn(&[u8]) -> Vec<u8>>;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let poisons: [Poison; 5] = [
        Box::new(|_| b"\xff\0garbage".to_vec()),
        Box::new(|_| Vec::new()),
        Box::new(|bytes| bytes[..bytes.len() - 1].to_vec()),
        Box::new(move |bytes| text(bytes).replace("\"ttl\":", "\"ttl\":1e400,\"x\":").into_bytes()),
        // From the future.
        Box::new(move |bytes| {
            text(bytes).replace("\"received\":", "\"received\":9999999999999,\"x\":").into_bytes()
        }),
    ];
    for poison in poisons {
        let (cache, store, _) = remote();
        let upstream = Upstream::saying(result("public", "5000"));
        let service = layered(&cache, &upstream);
        ask(&service, tools()).await;
        store.poison(poison);
        ask(&service, tools()).await;
        assert_eq!(upstream.calls(), 2);
        // And a good one has taken its place.
        ask(&service, tools()).await;
        assert_eq!(upstream.calls(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn an_entry_with_an_endless_lifetime_is_cut_when_it_is_read() {
    let (cache, store, clock) = remote();
    let upstream = Upstream::saying(result("public", "5000"));
    let service = layered(&cache, &upstream);
    ask(&service, tools()).await;
    store.poison(|bytes| {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        text.replace("\"ttl\":5000", "\"ttl\":18446744073709551615").into_bytes()
    });
    assert_eq!(ttl(&ask(&service, tools()).await), "86400000");
    clock.advance(Duration::from_secs(86_400));
    ask(&service, tools()).await;
    assert_eq!(upstream.calls(), 2);
}

/// Gives everybody the first entry that it was given.
#[derive(Default)]
struct Confused(Mutex<Option<Entry>>);

impl CacheStore for Confused {
    fn peek(&self, _: &CacheKey) -> Option<Entry> {
        self.0.lock().unwrap().clone()
    }
    async fn get(&self, key: &CacheKey) -> Result<Option<Entry>, BoxError> {
        Ok(self.peek(key))
    }
    async fn put(&self, entry: Entry, _: Duration) -> Result<(), BoxError> {
        self.0.lock().unwrap().get_or_insert(entry);
        Ok(())
    }
    async fn remove(&self, _: &CacheKey) -> Result<(), BoxError> {
        Ok(())
    }
    async fn invalidate(&self, _: &str, _: &Invalidation) -> Result<(), BoxError> {
        Ok(())
    }
}

#[tokio::test]
async fn a_store_that_mixes_up_its_entries_gives_nobody_what_is_not_his() {
    let cache = ResponseCache::with_store("up", Confused::default());
    let upstream = Upstream::saying(result("private", "5000"));
    let service = layered(&cache, &upstream);
    ask(&service, tools().by("ada")).await;
    ask(&service, tools().by("bob")).await;
    ask(&service, read("a").by("ada")).await;
    assert_eq!(upstream.calls(), 3);
    // And one that forgets nothing serves nothing that is invalid.
    ask(&service, tools().by("ada")).await;
    assert_eq!(upstream.calls(), 3);
    cache.invalidate(&Invalidation::Tools);
    ask(&service, tools().by("ada")).await;
    assert_eq!(upstream.calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn an_invalidation_during_a_write_wins() {
    let (cache, store, _) = remote();
    let upstream = Upstream::saying(result("public", "5000"));
    let service = layered(&cache, &upstream);
    *store.slow.lock().unwrap() = ms(100);
    let filling = tokio::spawn(service.clone().oneshot(tools()));
    tokio::time::sleep(ms(50)).await;
    assert_eq!(store.bytes.lock().unwrap().len(), 1);
    cache.invalidate(&Invalidation::Tools);
    filling.await.unwrap().unwrap();
    assert_eq!(store.bytes.lock().unwrap().len(), 0);
    assert_eq!(cache.statistics().stores, 0);
    ask(&service, tools()).await;
    assert_eq!(upstream.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_must_be_awaited_is_told_of_invalidations_before_it_is_asked_again() {
    let (cache, store, _) = remote();
    let service = layered(&cache, &Upstream::saying(result("public", "5000")));
    ask(&service, tools()).await;
    ask(&service, read("a")).await;
    cache.invalidate(&Invalidation::Tools);
    cache.invalidate(&Invalidation::Tools);
    assert_eq!(store.bytes.lock().unwrap().len(), 2);
    ask(&service, read("a")).await;
    assert_eq!(store.bytes.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn caches_in_several_processes_share_entries_and_believe_none_from_before_a_change() {
    let (one, store, clock) = remote();
    let two = ResponseCache::with_store_and_clock("up", Arc::clone(&store), Arc::clone(&clock));
    let upstream = Upstream::saying(result("public", "5000"));
    let (at_one, at_two) = (layered(&one, &upstream), layered(&two, &upstream));
    ask(&at_one, tools()).await;
    clock.advance(ms(10));
    assert_eq!(ttl(&ask(&at_two, tools()).await), "4990");
    // The other one has forgotten to tell the store.
    store.down.store(true, Ordering::SeqCst);
    two.invalidate(&Invalidation::Tools);
    ask(&at_two, read("a")).await;
    store.down.store(false, Ordering::SeqCst);
    let calls = upstream.calls();
    ask(&at_two, tools()).await;
    assert_eq!(upstream.calls(), calls + 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_the_store_no_longer_than_its_timeout_in_all() {
    for (expired, stuck) in [(false, true), (true, true), (false, false)] {
        let (cache, store, clock) = remote();
        let service = layered(&cache, &Upstream::saying(result("public", "5000")));
        ask(&service, tools().by("ada")).await;
        if expired {
            clock.advance(ms(6000));
        }
        for at in 0..2000 {
            cache.invalidate(&Invalidation::Resource(at.to_string().into()));
        }
        store.told.store(0, Ordering::SeqCst);
        store.stuck.store(stuck, Ordering::SeqCst);
        let start = tokio::time::Instant::now();
        ask(&service, tools().by("ada")).await;
        // Timers are as fine as a millisecond.
        assert!(start.elapsed() <= ms(252), "{:?}", start.elapsed());
        let told = store.told.load(Ordering::SeqCst);
        assert!((1..=32).contains(&told), "{told}");
    }
}

/// Asserts that the next cache over this store, after a restart say, does not find the tools.
async fn is_forgotten(store: &Arc<Remote>, clock: &Arc<ManualClock>) {
    let next = ResponseCache::with_store_and_clock("up", Arc::clone(store), Arc::clone(clock));
    let upstream = Upstream::saying(result("public", "5000"));
    ask(&layered(&next, &upstream), tools()).await;
    assert_eq!(upstream.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_to_invalidate_is_told_again() {
    for stuck in [false, true] {
        let (cache, store, clock) = remote();
        let service = layered(&cache, &Upstream::saying(result("public", "5000")));
        ask(&service, tools()).await;
        cache.invalidate(&Invalidation::Tools);
        store.stuck.store(stuck, Ordering::SeqCst);
        store.down.store(!stuck, Ordering::SeqCst);
        ask(&service, read("a")).await;
        store.stuck.store(false, Ordering::SeqCst);
        store.down.store(false, Ordering::SeqCst);
        ask(&service, read("a")).await;
        is_forgotten(&store, &clock).await;
        // Once it knows, it is told no more.
        let told = store.told.load(Ordering::SeqCst);
        ask(&service, read("a")).await;
        assert_eq!(store.told.load(Ordering::SeqCst), told);
    }
}

#[tokio::test(start_paused = true)]
async fn an_invalidation_is_told_although_the_caller_who_told_it_hung_up() {
    let (cache, store, clock) = remote();
    let service = layered(&cache, &Upstream::saying(result("public", "5000")));
    ask(&service, tools()).await;
    cache.invalidate(&Invalidation::Tools);
    store.stuck.store(true, Ordering::SeqCst);
    let mut telling = Box::pin(service.clone().oneshot(read("a")));
    let polled = poll_fn(|cx| Poll::Ready(telling.as_mut().poll(cx))).await;
    assert!(polled.is_pending());
    drop(telling);
    store.stuck.store(false, Ordering::SeqCst);
    ask(&service, read("a")).await;
    is_forgotten(&store, &clock).await;
}

#[tokio::test(start_paused = true)]
async fn until_the_store_knows_of_a_change_what_others_wrote_is_not_served() {
    let (one, store, clock) = remote();
    let ahead = Arc::new(ManualClock::new());
    ahead.advance(ms(1));
    let two = ResponseCache::with_store_and_clock("up", Arc::clone(&store), ahead);
    let upstream = Upstream::saying(result("public", "5000"));
    let (at_one, at_two) = (layered(&one, &upstream), layered(&two, &upstream));
    ask(&at_two, tools()).await;
    ask(&at_two, read("a")).await;
    *store.refuses.lock().unwrap() = "invalidate";
    one.invalidate(&Invalidation::Tools);
    // So that the entries are not from the future.
    clock.advance(ms(1));
    ask(&at_one, read("a")).await;
    assert_eq!(upstream.calls(), 2);
    ask(&at_one, tools()).await;
    assert_eq!(upstream.calls(), 3);
    // What has been asked for since is served, whatever the store knows.
    ask(&at_one, tools()).await;
    assert_eq!(upstream.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_the_store_cannot_remove_is_not_served_all_the_same() {
    let (cache, store, _) = remote();
    let upstream = Upstream::new(|request, call| {
        Ok(answered(request, result(if call == 0 { "public" } else { "private" }, "5000")))
    });
    let service = layered(&cache, &upstream);
    ask(&service, tools().by("ada")).await;
    *store.refuses.lock().unwrap() = "remove";
    let mut refresh = tools().by("ada");
    refresh.extensions_mut().insert(CacheMode::Refresh);
    ask(&service, refresh).await;
    // It was public, and is not any more.
    ask(&service, tools().by("bob")).await;
    assert_eq!(upstream.calls(), 3);
}
