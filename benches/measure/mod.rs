//! Counts what a server takes for one request, and prints it as a table.
//!
//! Client and server are one thread with a pipe in memory between them, and only what happens while the server is polled
//! counts. Instructions are counted by valgrind, in a process of its own for each line; without valgrind the table has
//! times of client and server together instead.

use std::cell::Cell;
use std::error::Error;
use std::pin::Pin;
use std::process::Command;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

/// One line of a table.
pub(crate) trait Line: Copy {
    /// What it is about; lines with the same words share a floor.
    fn group(&self) -> &'static str;

    /// What is measured.
    fn stack(&self) -> &'static str;

    fn name(&self) -> String {
        format!("{}: {}", self.group(), self.stack())
    }
}

/// Allocations of one request, and the time it took.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    allocations: u64,
    took: Duration,
}

/// Prints a table of `lines`, of which those named `floor` are what the others are compared with. `perform` does the work of
/// one line; `environment` is for the processes in which instructions are counted.
pub(crate) fn print_table<L: Line>(
    lines: &[L],
    floor: &str,
    environment: &[(&str, &str)],
    perform: impl Fn(L, Rc<Tally>) -> Result<Sample, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [command, name] = arguments.as_slice()
        && command == "count"
    {
        let line = lines.iter().find(|line| line.name() == *name).ok_or("no such line")?;
        return perform(*line, Tally::new(Mode::Instructions)).map(drop);
    }
    let has_valgrind = Command::new("valgrind").arg("--version").output().is_ok();
    let unit = if has_valgrind { "instructions" } else { "ns" };
    println!("| request | stack | {unit} | more | of the {floor} | allocations |");
    println!("|---|---|--:|--:|--:|--:|");
    let (mut group, mut before, mut of_floor) = ("", None, None);
    for line in lines {
        if !arguments.is_empty() && !arguments.iter().any(|part| line.name().contains(part.as_str())) {
            continue;
        }
        if group != line.group() {
            (group, before, of_floor) = (line.group(), None, None);
        }
        let allocations = perform(*line, Tally::new(Mode::Allocations))?.allocations;
        let cost = if has_valgrind {
            instructions(&line.name(), environment)?
        } else {
            u64::try_from(perform(*line, Tally::new(Mode::Time))?.took.as_nanos())?
        };
        if line.stack() == floor {
            of_floor = Some(cost);
        }
        let more = before.map_or(String::new(), |before| format!("{:+}", cost.cast_signed() - before));
        let ratio = of_floor.map_or(String::new(), |floor| {
            let hundredths = (100 * cost + floor / 2) / floor;
            format!("{}.{:02}", hundredths / 100, hundredths % 100)
        });
        println!("| {group} | {} | {cost} | {more} | {ratio} | {allocations} |", line.stack());
        before = Some(cost.cast_signed());
    }
    Ok(())
}

/// Counts the instructions of one request, in a process of its own.
fn instructions(name: &str, environment: &[(&str, &str)]) -> Result<u64, Box<dyn Error>> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*counted*"])
        .arg(std::env::current_exe()?)
        .args(["count", name])
        .envs(environment.iter().copied())
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.split("Collected : ").nth(1).and_then(|rest| rest.split_whitespace().next());
    match collected {
        Some(count) if output.status.success() => {
            Ok(count.parse::<u64>()? / u64::from(Mode::Instructions.times()))
        }
        _ => Err(text.into()),
    }
}

/// The parameters of a request without those of its method.
pub(crate) fn params() -> Value {
    json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1.0.0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }})
}

/// A request as it is on the wire. `more` is lines of its head.
pub(crate) fn post(method: &str, name: Option<&str>, more: &str, body: &str) -> String {
    let name = name.map_or(String::new(), |name| format!("mcp-name: {name}\r\n"));
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\n\
         {name}{more}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Objects in arrays, of all kinds of values.
pub(crate) fn rows(size: usize) -> Value {
    let mut total = 0;
    let row = |n: u32| {
        json!({"id": n, "name": format!("Item number {n}"), "price": f64::from(n) * 1.25, "tags": ["a", "b\n", "c"],
               "stock": {"here": n % 7, "there": null}, "sold": n.is_multiple_of(2)})
    };
    let rows = (0..).map(row).take_while(|row| {
        total += row.to_string().len() + 1;
        total <= size
    });
    json!({"rows": rows.collect::<Vec<_>>()})
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Instructions,
    Allocations,
    Time,
}

impl Mode {
    /// Bytes that are moved are not waited for: a few thousand times are enough.
    const fn times(self) -> u32 {
        match self {
            Self::Instructions | Self::Allocations => 100,
            Self::Time => 5000,
        }
    }
}

/// What has been counted so far, and whether it counts.
pub(crate) struct Tally {
    mode: Mode,
    is_on: Cell<bool>,
    allocations: Cell<u64>,
}

impl Tally {
    fn new(mode: Mode) -> Rc<Self> {
        Rc::new(Self { mode, is_on: Cell::new(false), allocations: Cell::new(0) })
    }

    fn count<T>(&self, work: impl FnOnce() -> T) -> T {
        match self.mode {
            _ if !self.is_on.get() => work(),
            Mode::Time => work(),
            Mode::Instructions => counted(work),
            Mode::Allocations => {
                let mut kept = None;
                let info = allocation_counter::measure(|| kept = Some(work()));
                self.allocations.set(self.allocations.get() + info.count_total);
                kept.expect("has been done")
            }
        }
    }

    /// The same again and again, without HTTP.
    #[allow(dead_code, reason = "not every bench does that")]
    pub(crate) fn repeat<T>(&self, mut work: impl FnMut() -> T) -> Sample {
        std::hint::black_box(work());
        self.is_on.set(true);
        let start = Instant::now();
        for _ in 0..self.mode.times() {
            std::hint::black_box(self.count(&mut work));
        }
        self.sample(start)
    }

    fn sample(&self, start: Instant) -> Sample {
        self.is_on.set(false);
        let times = self.mode.times();
        Sample { allocations: self.allocations.get() / u64::from(times), took: start.elapsed() / times }
    }
}

/// What valgrind looks at: it knows this function by its name.
#[inline(never)]
fn counted<T>(work: impl FnOnce() -> T) -> T {
    std::hint::black_box(work())
}

/// Work that is counted while it is polled.
pub(crate) struct Counted<F> {
    work: Pin<Box<F>>,
    tally: Rc<Tally>,
}

impl<F> Counted<F> {
    pub(crate) fn new(work: F, tally: &Rc<Tally>) -> Self {
        Self { work: Box::pin(work), tally: Rc::clone(tally) }
    }
}

impl<F: Future> Future for Counted<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { work, tally } = &mut *self;
        tally.count(|| work.as_mut().poll(context))
    }
}

/// Serves one connection on which `request` comes again and again, while `beside` is done as well.
pub(crate) async fn drive<S, B>(
    tally: &Rc<Tally>,
    service: S,
    request: &str,
    beside: impl Future<Output = ()>,
) -> Sample
where
    S: hyper::service::Service<
            Request<Incoming>,
            Response = Response<B>,
            Error: Into<Box<dyn Error + Send + Sync>>,
        >,
    B: Body<Error: Into<Box<dyn Error + Send + Sync>>> + 'static,
{
    let (near, far) = tokio::io::duplex(1 << 20);
    let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(far), service);
    let (sample, ended, ()) =
        tokio::join!(client(tally, near, request), Counted::new(connection, tally), beside);
    ended.expect("the client ends well");
    sample
}

/// Writes the same request again and again, and only looks for the end of each response.
async fn client(tally: &Tally, mut stream: DuplexStream, request: &str) -> Sample {
    let mut buffer = vec![0; 2 << 20];
    let mut start = Instant::now();
    // Whoever comes first finds nothing that is remembered, and does not count.
    for turn in 0..tally.mode.times() + 3 {
        if turn == 3 {
            tally.is_on.set(true);
            start = Instant::now();
        }
        stream.write_all(request.as_bytes()).await.expect("writes");
        let (mut read, mut expected) = (0, usize::MAX);
        while read < expected {
            read += stream.read(&mut buffer[read..]).await.expect("reads");
            let text = &buffer[..read];
            if expected == usize::MAX
                && let Some(end) = text.windows(4).position(|window| window == b"\r\n\r\n")
            {
                let head = std::str::from_utf8(&text[..end]).expect("is text").to_ascii_lowercase();
                assert!(head.starts_with("http/1.1 200"), "{}", String::from_utf8_lossy(text));
                if let Some((_, length)) = head.split_once("content-length: ") {
                    let length = length.split("\r\n").next().expect("has an end");
                    expected = end + 4 + length.parse::<usize>().expect("is a number");
                }
            }
            // A stream has no length, and its last chunk is empty.
            if expected == usize::MAX && text.ends_with(b"\r\n0\r\n\r\n") {
                expected = read;
            }
        }
    }
    tally.sample(start)
}
