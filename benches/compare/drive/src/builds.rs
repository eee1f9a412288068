//! What it takes to build each server from nothing.

use std::collections::HashSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io};

use serde_json::Value;

/// How many crates were compiled for a server, besides its own, and how long it took.
#[derive(Clone, Copy)]
pub(crate) struct Build {
    pub(crate) crates: usize,
    pub(crate) time: Duration,
}

impl Build {
    /// As [`read`](Self::read) reads it.
    pub(crate) fn line(self) -> String {
        format!("{} {}\n", self.crates, self.time.as_secs_f64())
    }

    pub(crate) fn read(line: &str) -> Option<Self> {
        let (crates, seconds) = line.split_once(' ')?;
        let time = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
        Some(Self { crates: crates.parse().ok()?, time })
    }
}

/// Builds a server to run it. One at a time: built together, each would get the features that any of them asks of the crates
/// that they share.
pub(crate) fn build(name: &str) -> Result<(), String> {
    let status = cargo(name).arg("--quiet").status().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("{name} does not build")) }
}

fn cargo(name: &str) -> Command {
    let mut command = Command::new("cargo");
    command
        .args(["build", "--release", "--locked", "--package", &format!("compare-{name}")])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    command
}

/// Builds a server into an empty folder, as a release, with two jobs and without the network.
pub(crate) fn measure(name: &str, folder: &Path) -> Result<Build, String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.to_string()),
        _ => {}
    }
    let start = Instant::now();
    let output = cargo(name)
        .args(["--offline", "--jobs", "2", "--message-format", "json", "--target-dir"])
        .arg(folder)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| error.to_string())?;
    let time = start.elapsed();
    if !output.status.success() {
        return Err(format!("{name} does not build"));
    }
    fs::remove_dir_all(folder).map_err(|error| error.to_string())?;
    let crates: HashSet<String> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact")
        .filter_map(|message| Some(message["package_id"].as_str()?.to_owned()))
        .filter(|id| !id.contains("/benches/compare/"))
        .collect();
    Ok(Build { crates: crates.len(), time })
}
