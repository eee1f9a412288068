//! Drives the servers and writes the table and the chart: `benches/compare/run` says how to call it.
//!
//! All servers run at the same time on the first processor, each on one thread; h2load is on the second and sends the same
//! request over 32 connections to one server after the other, in rounds that begin with another server each. What is
//! reported is the processor time of the server process per request, in user space and in the kernel, as the scheduler
//! counts it: the median over the rounds, and the median of what it is as a multiple of the floor's in the same round.
//! Every answer is looked at before and after the load, and any failure under load fails the run.

mod builds;
mod http;
mod issuer;
mod listen;
mod load;
mod report;
mod server;
mod work;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use builds::Build;
use report::{Rest, Row};
use server::Server;
use work::Work;

const SERVERS: [&str; 5] = ["floor", "layers-bare", "layers-full", "rmcp", "tower-mcp"];
/// The row that is not about requests.
const LISTEN: &str = "listen";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Setting {
    /// Where the servers are, and where files may be left.
    folder: PathBuf,
    jwks: PathBuf,
    token: String,
    /// Which servers take part; the floor always does.
    servers: Vec<&'static str>,
    rounds: usize,
    /// Divides the numbers of requests.
    divisor: usize,
}

fn main() -> Result<()> {
    let (jwks, token) = issuer::issue()?;
    let folder = env::current_exe()?.parent().ok_or("is in a folder")?.to_owned();
    let jwks_file = folder.join("compare-jwks.json");
    fs::write(&jwks_file, jwks)?;
    let mut setting = Setting { jwks: jwks_file, folder, token, servers: Vec::new(), rounds: 9, divisor: 1 };

    let (mut wanted, mut with_builds) = (Vec::new(), false);
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => (setting.rounds, setting.divisor) = (3, 10),
            "--rounds" => setting.rounds = arguments.next().ok_or("--rounds N")?.parse()?,
            "--builds" => with_builds = true,
            name => match SERVERS.iter().find(|server| **server == name) {
                Some(server) => setting.servers.push(server),
                None if name == LISTEN || Work::all().iter().any(|work| work.name == name) => {
                    wanted.push(name.to_owned());
                }
                None => return Err(format!("{name} is neither a row nor a server").into()),
            },
        }
    }
    let is_whole = wanted.is_empty() && setting.servers.is_empty() && setting.divisor == 1;
    setting.servers.retain(|server| *server != SERVERS[0]);
    if setting.servers.is_empty() {
        setting.servers.extend(&SERVERS[1..]);
    }
    setting.servers.insert(0, SERVERS[0]);
    // The floor repeats what these two answer.
    for name in SERVERS.iter().filter(|name| setting.servers.contains(name) || name.starts_with("layers")) {
        builds::build(name)?;
    }

    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);

    let mut rows = Vec::new();
    for work in Work::all().into_iter().filter(|work| is_wanted(work.name)) {
        let row = Row::new(&work, measure(&work, &setting)?);
        println!("{}", report::text(&row, &setting.servers));
        rows.push(row);
    }
    let listen = if is_wanted(LISTEN) { listening(&setting)? } else { Vec::new() };
    for (name, bytes) in
        setting.servers.iter().zip(&listen).filter_map(|(name, bytes)| Some((name, (*bytes)?)))
    {
        println!("{name:<12} {:>8.1} KiB per idle stream", bytes / 1024.0);
    }
    let builds = builds(&setting, with_builds)?;

    if is_whole {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let rest = Rest { listen: &listen, builds: &builds };
        fs::write(here.join("results.md"), report::markdown(&rows, &rest, &how(&setting)))?;
        fs::write(here.join("results.svg"), report::svg(&rows))?;
    }
    Ok(())
}

/// What must be known to judge the numbers.
fn how(setting: &Setting) -> String {
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor =
        processor.lines().find_map(|line| line.strip_prefix("model name\t: ")).unwrap_or("unknown processor");
    format!(
        "Processor time of the server process per request, user space and kernel, and as a multiple of the floor's: medians of \
         {} interleaved rounds on {processor}, each server on one thread of one processor, h2load with 32 connections on \
         another. The floor reads the request and answers with the same bytes as mcp-layers. rmcp is served without sessions \
         and with JSON answers; all speak revision 2026-07-28 and get the same requests, of which only the protected stack looks at \
         the token. For `subscriptions/listen` rmcp is told to accept what is asked for, and tower-mcp to hold more than 256 \
         streams. Rerun: `benches/compare/run`.\n",
        setting.rounds
    )
}

/// Nanoseconds of processor time per request: for each server, one number per round.
fn measure(work: &Work, setting: &Setting) -> Result<Vec<Vec<f64>>> {
    let (headers, body) = (work.headers(&setting.token), work.body());
    let body_file = setting.folder.join("compare-body.json");
    fs::write(&body_file, &body)?;

    let tools = work.tools.to_string();
    let answer_file = setting.folder.join("compare-answer.json");
    let source = start(if work.cached { "layers-full" } else { "layers-bare" }, &[&tools], setting)?;
    fs::write(&answer_file, http::post(source.port, &headers, &body)?)?;
    drop(source);

    let mut servers = Vec::new();
    for &name in &setting.servers {
        let argument = if name == "floor" { answer_file.to_str().ok_or("a path in UTF-8")? } else { &tools };
        let server = start(name, &[argument], setting)?;
        let answer = http::post(server.port, &headers, &body)?;
        work.check(&answer).map_err(|error| format!("{name}: {error}"))?;
        servers.push((name, server, answer.len()));
    }

    let requests = (work.requests / setting.divisor).max(320);
    let run = |(name, server, bytes): &(&str, Server, usize), requests: usize| -> Result<f64> {
        let before = server.cpu_time()?;
        let data = load::run(server.port, &headers, &body_file, requests)
            .map_err(|error| format!("{name}: {error}"))?;
        let spent = server.cpu_time()? - before;
        if data != (bytes * requests) as u64 {
            return Err(format!("{name}: {data} bytes came, and not {}", bytes * requests).into());
        }
        Ok(spent as f64 / requests as f64)
    };
    for server in &servers {
        run(server, requests.div_ceil(10).max(320))?;
    }
    let mut costs = vec![Vec::new(); servers.len()];
    for round in 0..setting.rounds {
        for at in (0..servers.len()).map(|at| (at + round) % servers.len()) {
            costs[at].push(run(&servers[at], requests)?);
        }
    }
    for (name, server, _) in &servers {
        work.check(&http::post(server.port, &headers, &body)?).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(costs)
}

/// Bytes of memory per idle stream; none for a server that does not keep so many.
fn listening(setting: &Setting) -> Result<Vec<Option<f64>>> {
    let event = setting.folder.join("compare-event.txt");
    fs::write(&event, listen::FIRST_EVENT)?;
    let mut growths = Vec::new();
    for &name in &setting.servers {
        let arguments =
            if name == "floor" { [event.to_str().ok_or("a path in UTF-8")?, "open"] } else { ["1", ""] };
        let server = start(name, &arguments, setting)?;
        growths
            .push(listen::growth(&server, &setting.token).map_err(|error| eprintln!("{name}: {error}")).ok());
    }
    Ok(growths)
}

/// What building takes: measured if that is wanted, else as it was measured last.
fn builds(setting: &Setting, measure: bool) -> Result<Vec<Build>> {
    let file = setting.folder.join("compare-builds.txt");
    if !measure {
        return Ok(fs::read_to_string(file)
            .map(|text| text.lines().filter_map(Build::read).collect())
            .unwrap_or_default());
    }
    let (mut builds, mut text) = (Vec::new(), String::new());
    for name in SERVERS {
        let build = builds::measure(name, &setting.folder.join("compare-build"))?;
        println!("{name:<12} {:>4} crates, {:.1} s", build.crates, build.time.as_secs_f64());
        text += &build.line();
        builds.push(build);
    }
    fs::write(file, text)?;
    Ok(builds)
}

fn start(name: &str, arguments: &[&str], setting: &Setting) -> Result<Server> {
    let program: &Path = &setting.folder.join(format!("compare-{name}"));
    Ok(Server::start(program, arguments, &setting.jwks).map_err(|error| format!("{name}: {error}"))?)
}

pub(crate) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let half = numbers.len() / 2;
    if numbers.len() % 2 == 1 { numbers[half] } else { f64::midpoint(numbers[half - 1], numbers[half]) }
}
