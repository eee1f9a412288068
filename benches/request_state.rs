//! What sealing a state and opening it again costs, beside one HMAC-SHA-256 over the same bytes.
//!
//! `cargo bench --bench request_state`. Compare the medians of `round` and `hmac` within one run: `round`, which is both
//! sealing and opening, is to cost at most four times `hmac`. `bind` is what both need to know of the request besides.

use divan::{Bencher, black_box};
use hmac::{Hmac, KeyInit as _, Mac as _};
use mcp_layers::layers::request_state::{Binding, StateKey, StateKeys, StateSealer};
use mcp_layers::message::Message;
use sha2::Sha256;

fn main() {
    divan::main();
}

const SIZES: [usize; 4] = [64, 256, 1 << 10, 8 << 10];

fn message() -> Message {
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete","arguments":{"path":"/tmp/file"}}}"#;
    Message::parse(call).expect("a request")
}

fn sealer() -> StateSealer {
    let key = StateKey::new(&[7; 32]).expect("32 bytes");
    StateSealer::new(StateKeys::new([key]).expect("one key"), "https://mcp.example.com")
}

#[divan::bench(args = SIZES)]
fn round(bencher: Bencher<'_, '_>, size: usize) {
    let (sealer, state) = (sealer(), "s".repeat(size));
    let binding = Binding::new(&message(), None).expect("no name comes twice");
    bencher.bench(|| {
        let text = sealer.seal(black_box(&state), &binding, None).expect("is short");
        sealer.open(black_box(&text), &binding).expect("was just sealed")
    });
}

#[divan::bench(args = SIZES)]
fn hmac(bencher: Bencher<'_, '_>, size: usize) {
    let state = "s".repeat(size);
    bencher.bench(|| {
        let mut mac = Hmac::<Sha256>::new_from_slice(black_box(&[7; 32])).expect("any length");
        mac.update(black_box(state.as_bytes()));
        mac.finalize()
    });
}

#[divan::bench]
fn bind(bencher: Bencher<'_, '_>) {
    let message = message();
    bencher.bench(|| Binding::new(black_box(&message), None));
}
