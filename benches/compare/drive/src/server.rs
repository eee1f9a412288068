//! Servers as processes: starting them, and what the kernel says that they use.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::{fs, io};

/// A running server, which ends with this.
pub(crate) struct Server {
    process: Child,
    pub(crate) port: u16,
}

impl Server {
    /// Starts a program on the first processor and waits until it listens.
    pub(crate) fn start(program: &Path, arguments: &[&str], jwks: &Path) -> io::Result<Self> {
        let mut process = pinned(0, program)
            .args(arguments)
            .env("JWKS", jwks)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        if let Some(stdout) = &mut process.stdout {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let port =
            line.trim().parse().map_err(|_| io::Error::other(format!("{} says no port", program.display())));
        // Made first, so that the process ends even if there is no port.
        let mut server = Self { process, port: 0 };
        server.port = port?;
        Ok(server)
    }

    /// For how many nanoseconds all threads of the process have run, in user space and in the kernel.
    pub(crate) fn cpu_time(&self) -> io::Result<u64> {
        let mut sum = 0;
        for thread in fs::read_dir(format!("/proc/{}/task", self.process.id()))? {
            let text = fs::read_to_string(thread?.path().join("schedstat"))?;
            let time = text.split_whitespace().next().and_then(|time| time.parse::<u64>().ok());
            sum += time.ok_or_else(|| io::Error::other("the kernel does not count (CONFIG_SCHED_INFO)"))?;
        }
        Ok(sum)
    }

    /// How many bytes of memory the process has.
    pub(crate) fn memory(&self) -> io::Result<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kilobytes.map(|kilobytes| kilobytes * 1024).ok_or_else(|| io::Error::other("no VmRSS"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has nothing to lose.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// A program that stays on one processor, so that servers and load do not take each other's.
pub(crate) fn pinned(processor: usize, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.arg("-c").arg(processor.to_string()).arg(program);
    command
}
