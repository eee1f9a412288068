//! What all servers have in common: the tools, what is asked of them, and how they listen.
//!
//! Every server runs on one thread, with hyper's HTTP/1 connections as they are by default and without Nagle's
//! algorithm, so that what differs is what answers.

use std::io::Write as _;
use std::net::Ipv4Addr;

use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

/// The arguments of every tool but [`TOTAL`].
#[derive(Clone, Copy, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Add {
    /// The first summand.
    pub a: i64,
    /// The second summand.
    pub b: i64,
}

impl Add {
    /// The text that every server answers with.
    #[must_use]
    pub fn answer(self) -> String {
        (self.a + self.b).to_string()
    }
}

/// One row of a stock-taking.
#[derive(Clone, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Row {
    pub id: u64,
    pub name: String,
    pub price: f64,
    pub tags: Vec<String>,
    pub stock: Stock,
    pub sold: bool,
}

/// How many there are, and where.
#[derive(Clone, Copy, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stock {
    pub here: u64,
    pub there: Option<u64>,
}

/// The arguments of [`TOTAL`].
#[derive(Clone, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rows {
    pub rows: Vec<Row>,
}

impl Rows {
    /// Rows that take about `size` bytes as JSON.
    #[must_use]
    pub fn of_size(size: usize) -> Self {
        let mut total = 0;
        let rows = (0..u32::MAX).map(|n| Row {
            id: n.into(),
            name: format!("Item number {n}"),
            price: f64::from(n) * 1.25,
            tags: ["a", "b\n", "c"].map(str::to_owned).to_vec(),
            stock: Stock { here: (n % 7).into(), there: None },
            sold: n % 2 == 0,
        });
        let within = |row: &Row| {
            total += serde_json::to_string(row).map_or(0, |text| text.len() + 1);
            total < size
        };
        Self { rows: rows.take_while(within).collect() }
    }

    /// The text that every server answers with.
    #[must_use]
    pub fn answer(&self) -> String {
        format!("{} of {}", self.rows.iter().map(|row| row.stock.here).sum::<u64>(), self.rows.len())
    }
}

/// The tool that adds two numbers.
pub const ADD: &str = "add";
/// The tool that takes many rows.
pub const TOTAL: &str = "total";

/// Names and descriptions of so many tools: [`ADD`], [`TOTAL`], and then more like the first.
pub fn tools(count: usize) -> impl Iterator<Item = (String, String)> {
    (0..count).map(|at| match at {
        0 => (ADD.to_owned(), "Adds two numbers and says what they make".to_owned()),
        1 => (TOTAL.to_owned(), "Says how many things there are in all rows of a stock-taking".to_owned()),
        _ => (
            format!("add-{at}"),
            format!("Adds two numbers as department {at} does it, and says what they make"),
        ),
    })
}

/// What the server was told on its command line: how many tools it is to have.
///
/// # Panics
/// If it was told anything else.
#[must_use]
pub fn tool_count() -> usize {
    std::env::args().nth(1).and_then(|text| text.parse().ok()).expect("usage: SERVER TOOLS")
}

/// Serves on a port that is free, which it prints.
///
/// # Panics
/// If there is none, or if accepting fails.
pub fn serve<S, B>(service: impl AsyncFnOnce() -> S)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let service = service().await;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        println!("{}", listener.local_addr().expect("an address").port());
        std::io::stdout().flush().expect("somebody reads it");
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            stream.set_nodelay(true).expect("can be set");
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service.clone());
            // Clients that hang up are no failure.
            tokio::spawn(async { connection.await.ok() });
        }
    });
}

/// Who makes the tokens.
pub const ISSUER: &str = "https://issuer.example";
/// For whom they are.
pub const AUDIENCE: &str = "https://mcp.example.com/mcp";
/// What they must allow.
pub const SCOPE: &str = "stock:read";
