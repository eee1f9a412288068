//! The load generator: h2load, with HTTP/1.1.

use std::path::Path;

use crate::server::pinned;

/// Sends so many requests over 32 connections and gives how many bytes the bodies of all answers had. Any failure fails.
pub(crate) fn run(
    port: u16,
    headers: &[(&str, String)],
    body: &Path,
    requests: usize,
) -> Result<u64, String> {
    let mut command = pinned(1, Path::new("h2load"));
    command.args(["--h1", "-c", "32", "-t", "1", "-n", &requests.to_string(), "-d"]).arg(body);
    for (name, value) in headers {
        command.args(["-H", &format!("{name}: {value}")]);
    }
    let output = command
        .arg(format!("http://127.0.0.1:{port}/mcp"))
        .output()
        .map_err(|error| format!("h2load (Debian: nghttp2-client) does not start: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let all = [
        format!("{requests} done, {requests} succeeded, 0 failed, 0 errored, 0 timeout"),
        format!("status codes: {requests} 2xx, 0 3xx, 0 4xx, 0 5xx"),
    ];
    if !output.status.success() || !all.iter().all(|line| text.contains(line)) {
        return Err(format!("{text}\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    // traffic: 1.31MB (1376000) total, 652.34KB (668000) headers (space savings 0.00%), 691.41KB (708000) data
    let traffic = text.lines().find(|line| line.starts_with("traffic: "));
    let data = traffic.and_then(|line| line.rsplit_once(") data")?.0.rsplit_once('(')?.1.parse().ok());
    data.ok_or_else(|| text.into_owned())
}
