//! How much memory an idle `subscriptions/listen` stream takes.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::thread::sleep;
use std::time::Duration;

use serde_json::json;

use crate::http::head;
use crate::server::Server;

/// What a stream begins with: the floor repeats it.
pub(crate) const FIRST_EVENT: &str = concat!(
    "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{\"_meta\":",
    "{\"io.modelcontextprotocol/subscriptionId\":1},\"notifications\":{\"toolsListChanged\":true}}}\n\n"
);
/// As many as fit into the usual limit on open files.
const STREAMS: u32 = 900;

/// By how many bytes the server grows with each stream, each on a connection of its own.
pub(crate) fn growth(server: &Server, token: &str) -> Result<f64, String> {
    // What the first few need is there for all that follow.
    let first = open(server.port, token, 20)?;
    let before = memory(server)?;
    let streams = open(server.port, token, STREAMS)?;
    let after = memory(server)?;
    drop((first, streams));
    Ok(after.saturating_sub(before) as f64 / f64::from(STREAMS))
}

fn memory(server: &Server) -> Result<u64, String> {
    // What was just answered is put away.
    sleep(Duration::from_millis(300));
    server.memory().map_err(|error| error.to_string())
}

/// Opens streams and waits for the first event in each.
fn open(port: u16, token: &str, count: u32) -> Result<Vec<TcpStream>, String> {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {
        "notifications": {"toolsListChanged": true},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "compare", "version": "1.0.0"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }})
    .to_string();
    let headers = [
        ("content-type", "application/json".to_owned()),
        ("accept", "application/json, text/event-stream".to_owned()),
        ("mcp-protocol-version", "2026-07-28".to_owned()),
        ("mcp-method", "subscriptions/listen".to_owned()),
        ("authorization", format!("Bearer {token}")),
    ];
    let request = head(port, &headers, &body, "keep-alive") + &body;
    let listen = || -> std::io::Result<(TcpStream, String)> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(request.as_bytes())?;
        let (mut text, mut piece) = (String::new(), [0; 4096]);
        while !text.contains("acknowledged") {
            match stream.read(&mut piece) {
                Ok(length) if length > 0 => text.push_str(&String::from_utf8_lossy(&piece[..length])),
                // A refusal is followed by nothing, on a connection that stays.
                _ => break,
            }
        }
        Ok((stream, text))
    };
    (0..count)
        .map(|at| match listen() {
            Ok((stream, text)) if text.contains("acknowledged") => Ok(stream),
            Ok((_, text)) => Err(format!("stream {at} has no event but {text:?}")),
            Err(error) => Err(format!("stream {at}: {error}")),
        })
        .collect()
}
