//! Drives the servers and writes the table and the chart: `benches/compare/run` says how.

mod http;
mod issuer;
mod load;
mod server;
mod work;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use server::Server;
use work::Work;

const SERVERS: [&str; 5] = ["floor", "layers-bare", "layers-full", "rmcp", "tower-mcp"];

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Setting {
    /// Where the servers are, and where files may be left.
    folder: PathBuf,
    jwks: PathBuf,
    token: String,
    rounds: usize,
    /// Divides the numbers of requests.
    divisor: usize,
}

fn main() -> Result<()> {
    let (jwks, token) = issuer::issue()?;
    let folder = env::current_exe()?.parent().ok_or("is in a folder")?.to_owned();
    let mut setting = Setting { jwks: folder.join("compare-jwks.json"), folder, token, rounds: 9, divisor: 1 };
    fs::write(&setting.jwks, jwks)?;

    let mut wanted = Vec::new();
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => (setting.rounds, setting.divisor) = (3, 10),
            "--rounds" => setting.rounds = arguments.next().ok_or("--rounds N")?.parse()?,
            name => wanted.push(name.to_owned()),
        }
    }
    for work in Work::all() {
        if wanted.is_empty() || wanted.iter().any(|name| name == work.name) {
            let costs = measure(&work, &setting)?;
            print(&work, &costs);
        }
    }
    Ok(())
}

/// Nanoseconds of processor time per request: for each server, one number per round.
type Costs = Vec<Vec<f64>>;

fn measure(work: &Work, setting: &Setting) -> Result<Costs> {
    let (headers, body) = (work.headers(&setting.token), work.body());
    let body_file = setting.folder.join("compare-body.json");
    fs::write(&body_file, &body)?;

    let source = if work.cached { "layers-full" } else { "layers-bare" };
    let answer_file = setting.folder.join("compare-answer.json");
    {
        let source = start(source, &work.tools.to_string(), setting)?;
        fs::write(&answer_file, http::post(source.port, &headers, &body)?)?;
    }

    let mut servers = Vec::new();
    for name in SERVERS {
        let tools = work.tools.to_string();
        let argument = if name == "floor" { answer_file.to_str().ok_or("a path in UTF-8")? } else { &tools };
        let server = start(name, argument, setting)?;
        let answer = http::post(server.port, &headers, &body)?;
        work.check(&answer).map_err(|error| format!("{name}: {error}"))?;
        servers.push((name, server, answer.len()));
    }

    let requests = (work.requests / setting.divisor).max(320);
    let run = |(name, server, bytes): &(&str, Server, usize), requests: usize| -> Result<f64> {
        let before = server.cpu_time()?;
        let data = load::run(server.port, &headers, &body_file, requests)?;
        let spent = server.cpu_time()? - before;
        if data != (bytes * requests) as u64 {
            eprintln!("{name}: {data} bytes came, {} were expected", bytes * requests);
        }
        Ok(spent as f64 / requests as f64)
    };
    for server in &servers {
        run(server, requests.div_ceil(10).max(320))?;
    }
    let mut costs = vec![Vec::new(); servers.len()];
    for round in 0..setting.rounds {
        // Each round begins with another server: none always follows the same one.
        for at in (0..servers.len()).map(|at| (at + round) % servers.len()) {
            costs[at].push(run(&servers[at], requests)?);
        }
    }
    for (name, server, _) in &servers {
        work.check(&http::post(server.port, &headers, &body)?).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(costs)
}

fn start(name: &str, argument: &str, setting: &Setting) -> Result<Server> {
    let program: &Path = &setting.folder.join(format!("compare-{name}"));
    Ok(Server::start(program, argument, &setting.jwks).map_err(|error| format!("{name}: {error}"))?)
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let half = numbers.len() / 2;
    if numbers.len() % 2 == 1 { numbers[half] } else { f64::midpoint(numbers[half - 1], numbers[half]) }
}

fn print(work: &Work, costs: &Costs) {
    println!("{}", work.name);
    for (name, own) in SERVERS.iter().zip(costs) {
        let ratios: Vec<_> = own.iter().zip(&costs[0]).map(|(own, floor)| own / floor).collect();
        let (low, high) = ratios.iter().fold((f64::MAX, 0_f64), |(low, high), ratio| (low.min(*ratio), high.max(*ratio)));
        println!(
            "  {name:<12} {:>8.2} µs  {:>6.2} x  ({low:.2} to {high:.2})",
            median(own.clone()) / 1000.0,
            median(ratios)
        );
    }
}
