//! Random operations against references that are too simple to be wrong.

use super::*;
use std::collections::HashMap;
use std::task::Waker;
use tokio::sync::oneshot;

/// Xorshift: the same numbers in every run.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

const TOKENS: [Option<&str>; 4] = [None, Some("ada"), Some("bob"), Some("eve")];
const UPSTREAMS: [&str; 2] = ["up", "up/tools"];
/// Method, parameters, and the index of the change that is about it.
const KEYS: [(&str, &str, usize); 7] = [
    ("tools/list", "", 0),
    ("tools/list", r#""cursor":"2""#, 0),
    ("prompts/list", "", 1),
    ("resources/list", "", 2),
    ("resources/templates/list", "", 2),
    ("resources/read", r#""uri":"a""#, 3),
    ("resources/read", r#""uri":"a/b""#, 4),
];
const TTLS: [&str; 8] = ["100", "40", "1", "0", "-5", "1e400", "1180591620717411303424", "\"5\""];
const SCOPES: [&str; 3] = ["public", "private", "PUBLIC"];
const MAX_TTL: u64 = 150;

fn changes() -> [Invalidation; 6] {
    [
        Invalidation::Tools,
        Invalidation::Prompts,
        Invalidation::Resources,
        Invalidation::Resource("a".into()),
        Invalidation::Resource("a/b".into()),
        Invalidation::Everything,
    ]
}

fn lifetime(ttl: &str) -> u64 {
    match ttl {
        "100" | "40" | "1" => ttl.parse().unwrap(),
        "1180591620717411303424" => MAX_TTL,
        _ => 0,
    }
}

/// What a caller asks, as indexes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Ask {
    upstream: usize,
    key: usize,
    token: usize,
}

impl Ask {
    fn random(random: &mut Random) -> Self {
        Self {
            upstream: random.below(UPSTREAMS.len()),
            key: random.below(KEYS.len()),
            token: random.below(TOKENS.len()),
        }
    }

    fn request(self, id: &str) -> Request<Message> {
        let (method, params, _) = KEYS[self.key];
        let request = request_with(id, method, params);
        match TOKENS[self.token] {
            None => request,
            Some(token) => request.by(token),
        }
    }

    fn is_about(self, upstream: usize, change: usize) -> bool {
        self.upstream == upstream && (change == 5 || KEYS[self.key].2 == change)
    }
}

fn numbered(serial: u64, scope: &str, ttl: &str) -> RawObject {
    RawObject::parse(format!(
        r#"{{"resultType":"complete","serial":{serial},"ttlMs":{ttl},"cacheScope":"{scope}"}}"#
    ))
    .unwrap()
}

fn serial(object: &RawObject) -> u64 {
    object.get("serial").unwrap().decode().unwrap()
}

/// Runs what never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a store in memory does not wait"),
    }
}

#[derive(Clone, Copy)]
struct Kept {
    serial: u64,
    received: u64,
    lifetime: u64,
}

/// The plain cache against a map: every hit is one that the map has, with the remaining lifetime that it has.
#[test]
fn a_million_operations_serve_what_a_map_would() {
    let threads: Vec<_> =
        (1..=4).map(|seed| std::thread::spawn(move || serve_what_a_map_would(seed, 250_000))).collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

fn serve_what_a_map_would(seed: u64, operations: u64) {
    let mut random = Random::new(seed);
    let (cache, clock) = cache();
    let cache = cache.with_max_ttl(ms(MAX_TTL));
    let caches = UPSTREAMS.map(|name| cache.for_upstream(name));
    // Requests are made once: parsing them is not what is tested here.
    let mut requests = HashMap::new();
    // By upstream, key, and whose it is: index 0 of the tokens stands for everybody.
    let mut map: HashMap<Ask, Kept> = HashMap::new();
    let mut in_flight: Vec<(Ask, Query, u64)> = Vec::new();
    let mut changed: HashMap<(usize, usize), u64> = HashMap::new();
    let (mut millis, mut hits, mut lost) = (0, 0_u64, 0_u64);
    for operation in 1..=operations {
        match random.below(20) {
            0..=7 => {
                let ask = Ask::random(&mut random);
                let request = requests.entry(ask).or_insert_with(|| ask.request("1"));
                let query = caches[ask.upstream].query(request).unwrap();
                let found = now(caches[ask.upstream].lookup(&query));
                let places = [Some(ask).filter(|ask| ask.token > 0), Some(Ask { token: 0, ..ask })];
                // Topics that share a counter invalidate each other, so an entry may be lost, and then the next place
                // counts. What is served must be there.
                let mut served = false;
                for place in places.into_iter().flatten() {
                    let Some(kept) = map.get(&place).copied() else { continue };
                    if millis >= kept.received + kept.lifetime {
                        continue;
                    }
                    match &found {
                        Some(hit) if serial(hit.entry().result()) == kept.serial => {
                            let remaining = ms(kept.received + kept.lifetime - millis);
                            assert_eq!(hit.remaining(), remaining, "{ask:?} in {operation}");
                            (served, hits) = (true, hits + 1);
                            break;
                        }
                        _ => {
                            lost += 1;
                            map.remove(&place);
                        }
                    }
                }
                assert_eq!(
                    served,
                    found.is_some(),
                    "{ask:?} was answered in {operation} with what is not there"
                );
                if in_flight.len() < 30 {
                    in_flight.push((ask, query, operation));
                }
            }
            8..=12 if !in_flight.is_empty() => {
                let (ask, query, began) = in_flight.swap_remove(random.below(in_flight.len()));
                let (scope, ttl) = (random.of(&SCOPES), random.of(&TTLS));
                let fails = random.below(10) == 0;
                let response = if fails {
                    Rejection::internal("no").into_response(None)
                } else {
                    Response::new(Reply::Answer(Answer::result(None, numbered(operation, scope, ttl))))
                };
                let stored = now(caches[ask.upstream].insert(&query, &response));
                let place = if scope == "public" { 0 } else { ask.token };
                let causes = [(ask.upstream, KEYS[ask.key].2), (ask.upstream, 5)];
                let is_changed =
                    causes.iter().any(|change| changed.get(change).is_some_and(|&at| at > began));
                let kept_by = scope == "public" || ask.token > 0;
                let expected = !fails && lifetime(ttl) > 0 && kept_by && !is_changed;
                assert!(!stored || expected, "{ask:?} was kept in {operation}");
                if stored {
                    let kept = Kept { serial: operation, received: millis, lifetime: lifetime(ttl) };
                    map.insert(Ask { token: place, ..ask }, kept);
                    let other = if place == 0 { ask.token } else { 0 };
                    if other != place {
                        map.remove(&Ask { token: other, ..ask });
                    }
                } else if expected {
                    lost += 1;
                }
            }
            13 if !in_flight.is_empty() => {
                drop(in_flight.swap_remove(random.below(in_flight.len())));
            }
            14 => {
                let (upstream, change) = (random.below(UPSTREAMS.len()), random.below(6));
                caches[upstream].invalidate(&changes()[change]);
                map.retain(|ask, _| !ask.is_about(upstream, change));
                changed.insert((upstream, change), operation);
            }
            15..=18 => {
                let step = random.below(6) as u64;
                millis += step;
                clock.advance(ms(step));
            }
            _ => {}
        }
    }
    assert!(hits > operations / 50, "{hits} hits are too few to say anything");
    assert!(lost < hits / 2, "{lost} entries were lost beside {hits} hits");
}

/// What is known of an answer that the upstream gave.
struct Given {
    ask: Ask,
    /// The number of the operation in which the call began.
    began: u64,
    received: u64,
    lifetime: u64,
    is_public: bool,
    is_error: bool,
}

/// A call that waits for its answer: the id of its request, and where to send it.
type Call = (u64, oneshot::Sender<Result<Response<Reply>, BoxError>>);

/// The id of a request, and its answer to come.
type Running = (u64, Pin<Box<CacheFuture<Manual, MemoryStore>>>);

/// An upstream whose calls are answered by the test.
#[derive(Clone)]
struct Manual(Arc<Mutex<Vec<Call>>>);

impl Service<Request<Message>> for Manual {
    type Response = Response<Reply>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Reply>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Message>) -> Self::Future {
        let (sender, receiver) = oneshot::channel();
        let id = request.body().id().unwrap().text().parse().unwrap();
        self.0.lock().unwrap().push((id, sender));
        Box::pin(async move { receiver.await.unwrap_or_else(|_| Err("gone".into())) })
    }
}

/// The layer with requests that overlap, wait for each other and are given up: whatever is answered must be something
/// that this caller may have.
#[test]
fn overlapping_requests_get_nothing_that_is_not_theirs() {
    for seed in 1..=4 {
        overlap(seed, if seed % 2 == 0 { 60 } else { 0 });
    }
}

#[expect(clippy::too_many_lines, reason = "the operations share everything")]
fn overlap(seed: u64, stale: u64) {
    let mut random = Random::new(seed);
    let (cache, clock) = cache();
    let cache = cache.with_max_ttl(ms(MAX_TTL)).with_stale_if_error(ms(stale));
    let upstream = Manual(Arc::default());
    let services = UPSTREAMS.map(|name| CacheLayer::new(cache.for_upstream(name)).layer(upstream.clone()));
    let mut asked: HashMap<u64, (Ask, u64)> = HashMap::new();
    let mut given: HashMap<u64, Given> = HashMap::new();
    let mut running: Vec<Running> = Vec::new();
    let mut log: Vec<(u64, usize, usize)> = Vec::new();
    let (mut millis, mut shared) = (0, 0);
    for operation in 1..=25_000_u64 {
        match random.below(16) {
            0..=5 if running.len() < 40 => {
                let ask = Ask::random(&mut random);
                let request = ask.request(&operation.to_string());
                asked.insert(operation, (ask, operation));
                running.push((operation, Box::pin(services[ask.upstream].clone().call(request))));
            }
            6..=10 => {
                let mut calls = upstream.0.lock().unwrap();
                if !calls.is_empty() {
                    let at = random.below(calls.len());
                    let (id, sender) = calls.swap_remove(at);
                    drop(calls);
                    let (ask, _) = asked[&id];
                    let (scope, ttl) = (random.of(&SCOPES), random.of(&TTLS));
                    let outcome = random.below(8);
                    let response = match outcome {
                        0 => Err("down".into()),
                        1 => {
                            let error = ErrorObject::new(-32000, "no").with_data(&operation).unwrap();
                            Ok(Response::new(Reply::Answer(Answer::error(Some(5.into()), error))))
                        }
                        _ => Ok(Response::new(Reply::Answer(Answer::result(
                            Some((i64::try_from(id).unwrap()).into()),
                            numbered(operation, scope, ttl),
                        )))),
                    };
                    given.insert(
                        operation,
                        Given {
                            ask,
                            began: id,
                            received: millis,
                            lifetime: lifetime(ttl),
                            is_public: scope == "public",
                            is_error: outcome < 2,
                        },
                    );
                    let _ = sender.send(response);
                }
            }
            11 if !running.is_empty() => {
                let at = random.below(running.len());
                drop(running.swap_remove(at));
            }
            12 => {
                let (to, change) = (random.below(UPSTREAMS.len()), random.below(6));
                cache.for_upstream(UPSTREAMS[to]).invalidate(&changes()[change]);
                log.push((operation, to, change));
            }
            13 => {
                let step = random.below(40) as u64;
                millis += step;
                clock.advance(ms(step));
            }
            _ => {}
        }
        // Everybody is polled until nothing moves.
        loop {
            let before = running.len();
            running.retain_mut(|(id, future)| {
                let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                let Poll::Ready(outcome) = polled else { return true };
                let (ask, began) = asked[id];
                // A failure of the upstream says nothing that could be somebody else's.
                let Ok(response) = outcome else { return false };
                let answer = response.body().answer().unwrap();
                let number = match answer.outcome() {
                    Ok(result) => serial(result),
                    Err(error) => error.data().unwrap().decode().unwrap(),
                };
                let what = &given[&number];
                if what.began == *id {
                    return false;
                }
                shared += 1;
                assert_eq!((ask.upstream, ask.key), (what.ask.upstream, what.ask.key));
                assert_eq!(answer.id().unwrap().text(), id.to_string());
                if what.is_error {
                    assert_eq!(ask.token, what.ask.token, "an error went to another caller");
                    assert!(number > began, "an error was kept");
                    return false;
                }
                let is_own = ask.token > 0 && ask.token == what.ask.token;
                assert!(what.is_public || is_own, "a private result went to another caller");
                let expires = what.received + what.lifetime;
                assert!(what.lifetime > 0 && millis < expires + stale, "a result was served too late");
                let left = answer.outcome().unwrap().get("ttlMs").unwrap().text().to_owned();
                assert_eq!(left, expires.saturating_sub(millis).to_string());
                let is_void = log
                    .iter()
                    .any(|&(at, to, change)| ask.is_about(to, change) && what.began < at && at < began);
                assert!(!is_void, "a result was served after it was invalidated");
                false
            });
            if running.len() == before {
                break;
            }
        }
    }
    drop(running);
    assert_eq!(cache.flights().len(), 0);
    assert!(shared > 500, "{shared} answers are too few to say anything");
}
