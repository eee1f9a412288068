//! What parsing a request costs, beside reading the same bytes with `serde_json`.
//!
//! `cargo bench --bench message`. Compare the medians within one run: times differ from machine to machine, their
//! ratio and the allocation counts hardly do. Parsing 64 KiB of structured arguments is to cost at most 0.45 of
//! `value`; `raw_value` only finds the end of the text.

use bytes::Bytes;
use divan::{AllocProfiler, Bencher, black_box};
use mcp_layers::message::Message;
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// The body of a `tools/call` whose arguments take about `size` bytes: objects in arrays, of all kinds of values.
fn body(size: usize) -> Bytes {
    let rows: Vec<Value> = (0..100_000)
        .map(|n| {
            json!({"id": n, "name": format!("Item number {n}"), "price": f64::from(n) * 1.25, "tags": ["a", "b\n", "c"],
                   "stock": {"here": n % 7, "there": null}, "sold": n % 2 == 0})
        })
        .scan(0, |total, row| {
            *total += row.to_string().len();
            Some((*total, row))
        })
        .take_while(|(total, _)| *total < size)
        .map(|(_, row)| row)
        .collect();
    let params = json!({
        "name": "import",
        "arguments": {"rows": rows},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1.0.0"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        },
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string().into()
}

const SIZES: [usize; 3] = [100, 4 << 10, 64 << 10];

#[divan::bench(args = SIZES)]
fn message(bencher: Bencher<'_, '_>, size: usize) {
    let body = body(size);
    bencher.bench(|| Message::parse(black_box(body.clone())));
}

#[divan::bench(args = SIZES)]
fn value(bencher: Bencher<'_, '_>, size: usize) {
    let body = body(size);
    bencher.bench(|| serde_json::from_slice::<Value>(black_box(&body)));
}

#[divan::bench(args = SIZES)]
fn raw_value(bencher: Bencher<'_, '_>, size: usize) {
    let body = body(size);
    bencher.bench(|| {
        serde_json::from_slice::<&serde_json::value::RawValue>(black_box(&body)).map(|raw| raw.get().len())
    });
}
