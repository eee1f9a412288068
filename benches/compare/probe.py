#!/usr/bin/env python3
"""Asks each server of the comparison what it should refuse, and prints what it answers as a Markdown table.

    benches/compare/run --quick call   # builds the servers
    cargo build --example everything
    benches/compare/probe.py

What is right is in the specification, revision 2026-07-28 (`basic/transports/streamable-http` and `basic/index`): the first
column of the table names the fault, the second the answer that is due. mcp-layers is the example `everything`.
"""

import http.client
import json
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
RELEASE = ROOT / "target/compare/release"
VERSION = "2026-07-28"

# Each with a tool that it has, and arguments for it.
SERVERS = {
    "mcp-layers": ([TARGET / "debug/examples/everything", "--listen", "127.0.0.1:0"], "echo", {"text": "a"}),
    "rmcp 3.11": ([RELEASE / "compare-rmcp", "1"], "add", {"a": 1, "b": 2}),
    "tower-mcp 0.25": ([RELEASE / "compare-tower-mcp", "1"], "add", {"a": 1, "b": 2}),
}


def call(tool, arguments):
    """A call in which nothing is wrong: header lines and body."""
    headers = [
        ("Host", "localhost"),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", VERSION),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", tool),
    ]
    meta = {
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "probe", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    return headers, {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}


def header(name, *values):
    def change(headers, body):
        kept = [(other, value) for other, value in headers if other.lower() != name.lower()]
        return kept + [(name, value) for value in values], body

    return change


def edit(change):
    def changed(headers, body):
        change(body)
        return headers, body

    return changed


def version(text):
    def change(headers, body):
        body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = text
        return header("MCP-Protocol-Version", text)(headers, body)

    return change


def unknown_tool(headers, body):
    body["params"]["name"] = "none"
    return header("Mcp-Name", "none")(headers, body)


def unknown_method(headers, body):
    body["method"] = "tools/dance"
    return header("Mcp-Method", "tools/dance")(headers, body)


def named_twice(headers, body):
    text = json.dumps(body)
    return headers, text.replace('"method": "tools/call"', '"method": "tools/list", "method": "tools/call"')


PROBES = [
    ("nothing", "200", lambda headers, body: (headers, body)),
    ("a foreign `Origin`", "403", header("Origin", "https://evil.example")),
    ("a foreign `Host`", "403", header("Host", "evil.example")),
    ("`Content-Type: application/jsonx`", "415", header("Content-Type", "application/jsonx")),
    ("no `MCP-Protocol-Version`", "400 -32020", header("MCP-Protocol-Version")),
    ("`MCP-Protocol-Version` twice", "400 -32020", header("MCP-Protocol-Version", VERSION, "2025-11-25")),
    ("no `Mcp-Method`", "400 -32020", header("Mcp-Method")),
    ("another tool in `Mcp-Name`", "400 -32020", header("Mcp-Name", "other")),
    ("`Mcp-Name` twice", "400 -32020", lambda h, b: (h + [("Mcp-Name", "other")], b)),
    ("a revision that does not exist", "400 -32022", version("2099-01-01")),
    ("no `_meta`", "400 -32602", edit(lambda body: body["params"].pop("_meta"))),
    ("no client capabilities", "400 -32602",
     edit(lambda body: body["params"]["_meta"].pop("io.modelcontextprotocol/clientCapabilities"))),
    ("an unknown method", "404 -32601", unknown_method),
    ("an unknown tool", "-32602", unknown_tool),
    ("arguments that are no object", "-32602", edit(lambda body: body["params"].update(arguments=[1]))),
    ("a member named twice", "400 -32600", named_twice),
    ("an id of null", "400 -32600", edit(lambda body: body.update(id=None))),
    ("a batch", "400 -32600", lambda headers, body: (headers, [body])),
    ("no JSON", "400 -32700", lambda headers, body: (headers, "{")),
]


def ask(port, headers, body):
    """The status, and the code if the answer is an error, or `isError` if the result says so."""
    text = body if isinstance(body, str) else json.dumps(body)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.putrequest("POST", "/mcp", skip_host=True, skip_accept_encoding=True)
    for name, value in headers:
        connection.putheader(name, value)
    connection.putheader("Content-Length", str(len(text)))
    connection.endheaders(text.encode())
    response = connection.getresponse()
    found = str(response.status)
    answer = response.read().decode(errors="replace")
    connection.close()
    data = re.search(r"^data: *({.*})", answer, re.MULTILINE)
    try:
        answer = json.loads(data.group(1) if data else answer)
    except ValueError:
        return found
    if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
        code = answer["error"].get("code")
        return found if str(code) == found else f"{found} {code}"
    if isinstance(answer, dict) and (answer.get("result") or {}).get("isError"):
        return f"{found} isError"
    return found


def main():
    columns = {}
    for name, (command, tool, arguments) in SERVERS.items():
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True)
        try:
            port = int(re.search(r"(\d+)(/mcp)?\s*$", process.stdout.readline()).group(1))
            columns[name] = [ask(port, *change(*call(tool, arguments))) for _, _, change in PROBES]
        finally:
            process.kill()
            process.wait()
    print("| what is wrong | due | " + " | ".join(columns) + " |")
    print("|---|---|" + "---|" * len(columns))
    for at, (fault, due, _) in enumerate(PROBES):
        answers = [column[at] if column[at].endswith(due) else f"**{column[at]}**" for column in columns.values()]
        print(f"| {fault} | {due} | " + " | ".join(answers) + " |")


if __name__ == "__main__":
    main()
