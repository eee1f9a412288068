//! What sealing a state and opening it again costs, beside one HMAC-SHA-256 over the same bytes.
//!
//! `cargo bench --bench request_state`. A round, which is both sealing and opening, is to cost at most four times the
//! HMAC. `bind` is what both need to know of the request besides. Time is the best of many short runs of both in turn,
//! so that a busy machine disturbs them alike. Instructions are counted where valgrind is installed; it has none for
//! SHA-256, so hashing weighs far more among them than it does in time.

use std::process::Command;
use std::time::{Duration, Instant};

use divan::black_box;
use hmac::{Hmac, KeyInit as _, Mac as _};
use mcp_layers::layers::request_state::{Binding, StateKey, StateKeys, StateSealer};
use mcp_layers::message::Message;
use sha2::Sha256;

const SIZES: [usize; 4] = [64, 256, 1 << 10, 8 << 10];
const CASES: [&str; 3] = ["hmac", "round", "bind"];

fn main() {
    if let Ok(wanted) = std::env::var("COUNT") {
        let mut parts = wanted.split(':');
        let mut next = || parts.next().expect("COUNT=<case>:<bytes>:<times>");
        let mut case = case(next(), next().parse().expect("a size"));
        for _ in 0..next().parse().expect("a number") {
            case();
        }
        return;
    }
    println!(
        "{:>6} {:>10} {:>10} {:>6} {:>10} {:>10} {:>6}",
        "bytes", "hmac", "round", "", "hmac", "round", ""
    );
    for size in SIZES {
        let [hmac, round, _] = times(size).map(|time| time.as_nanos());
        print!("{size:>6} {hmac:>7} ns {round:>7} ns {:>5.2}x", ratio(round, hmac));
        match (instructions("hmac", size), instructions("round", size)) {
            (Some(hmac), Some(round)) => println!(" {hmac:>8} i {round:>8} i {:>5.2}x", ratio(round, hmac)),
            _ => println!(" (no valgrind, no instructions)"),
        }
    }
    println!("binding: {} ns", times(64)[2].as_nanos());
}

#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
fn ratio(one: u128, other: u128) -> f64 {
    one as f64 / other as f64
}

fn case(name: &str, size: usize) -> Box<dyn FnMut()> {
    let state = "s".repeat(size);
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete","arguments":{"path":"/tmp/file"}}}"#;
    let message = Message::parse(call).expect("a request");
    let binding = Binding::new(&message, None).expect("no name comes twice");
    match name {
        "hmac" => Box::new(move || {
            let mut mac = Hmac::<Sha256>::new_from_slice(black_box(&[7; 32])).expect("any length");
            mac.update(black_box(state.as_bytes()));
            black_box(mac.finalize());
        }),
        "round" => {
            let keys = StateKeys::new([StateKey::new(&[7; 32]).expect("32 bytes")]).expect("one key");
            let sealer = StateSealer::new(keys, "https://mcp.example.com");
            Box::new(move || {
                let text = sealer.seal(black_box(&state), &binding, None).expect("is short");
                black_box(sealer.open(black_box(&text), &binding).expect("was just sealed"));
            })
        }
        _ => Box::new(move || {
            black_box(Binding::new(black_box(&message), None).expect("no name comes twice"));
        }),
    }
}

fn times(size: usize) -> [Duration; 3] {
    const TIMES: u32 = 100;
    let mut cases = CASES.map(|name| case(name, size));
    let mut best = [Duration::MAX; 3];
    for _ in 0..500 {
        for (case, best) in cases.iter_mut().zip(&mut best) {
            let start = Instant::now();
            for _ in 0..TIMES {
                case();
            }
            *best = (*best).min(start.elapsed() / TIMES);
        }
    }
    best
}

/// The instructions of one run: the difference between many and few, so that what is set up does not count.
fn instructions(case: &str, size: usize) -> Option<u128> {
    let total = |times: u32| {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(std::env::current_exe().ok()?)
            .env("COUNT", format!("{case}:{size}:{times}"))
            .output()
            .ok()?;
        let log = String::from_utf8(output.stderr).ok()?;
        let (_, count) = log.lines().find_map(|line| line.split_once("Collected :"))?;
        count.trim().parse::<u128>().ok()
    };
    Some((total(1_100)? - total(100)?) / 1_000)
}
