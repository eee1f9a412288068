//! One request at a time, for looking at an answer before and after load.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};

/// Sends a request on a connection of its own and gives the body of the answer, which must have status 200.
pub(crate) fn post(port: u16, headers: &[(&str, String)], body: &str) -> Result<String, String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(|error| error.to_string())?;
    let response = exchange(&mut stream, port, headers, body).map_err(|error| error.to_string())?;
    let (head, body) = response.split_once("\r\n\r\n").ok_or("no head")?;
    if !head.starts_with("HTTP/1.1 200 ") {
        return Err(format!("not 200: {response}"));
    }
    let head = head.to_ascii_lowercase();
    Ok(if head.contains("transfer-encoding: chunked") { join(body)? } else { body.to_owned() })
}

fn exchange(
    stream: &mut TcpStream,
    port: u16,
    headers: &[(&str, String)],
    body: &str,
) -> std::io::Result<String> {
    stream.write_all(head(port, headers, body, "close").as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

/// The head of a request for `body`.
pub(crate) fn head(port: u16, headers: &[(&str, String)], body: &str, connection: &str) -> String {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!(
        "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: {connection}\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    )
}

/// Puts chunks together.
fn join(mut chunks: &str) -> Result<String, String> {
    let mut body = String::new();
    loop {
        let (size, rest) = chunks.split_once("\r\n").ok_or("no chunk")?;
        let size = usize::from_str_radix(size, 16).map_err(|error| error.to_string())?;
        if size == 0 {
            return Ok(body);
        }
        body.push_str(rest.get(..size).ok_or("a chunk is cut")?);
        chunks = rest.get(size + 2..).ok_or("a chunk is cut")?;
    }
}
