#!/usr/bin/env python3
"""A bare MCP server, revision 2026-07-28: it answers what it is asked and checks nothing.

    tests/conformance/bare.py [--listen ADDRESS:PORT]

It has nothing of this crate, and none of the checks that the crate adds. It reads no `Mcp-*` header, no `Origin` and no
`Host`; it asks every client for everything, whatever the client has declared; its results say nothing of caches. The
conformance suite fails it where `tests/conformance/lift` says, and must pass once a gateway stands in front of it.

It needs Python 3 and nothing else, and prints `listening on http://ADDRESS:PORT/mcp` once it does.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

VERSION = "2026-07-28"
ELICITATION = {
    "method": "elicitation/create",
    "params": {
        "mode": "form",
        "message": "Elicitation input",
        "requestedSchema": {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]},
    },
}
SAMPLING = {
    "method": "sampling/createMessage",
    "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Sample request"}}],
        "maxTokens": 50,
    },
}


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def text(words):
    return {"content": [{"type": "text", "text": words}]}


def ask_for_everything(params):
    """Does not look at what the client has declared."""
    answers = params.get("inputResponses")
    if not answers:
        requests = {"elicit_input": ELICITATION, "sample_input": SAMPLING}
        return {"resultType": "input_required", "inputRequests": requests, "requestState": "round 1"}
    return text("received " + " ".join(sorted(answers)))


def schema(**properties):
    return {"type": "object", "properties": properties}


# name -> (description, schema, function of the parameters)
TOOLS = {
    "test_simple_text": ("Answers with a text", schema(), lambda _: text("This is a simple text response for testing.")),
    "sql": (
        "Answers with its arguments",
        schema(region={"type": "string", "x-mcp-header": "Region"}, query={"type": "string"}),
        lambda params: text(json.dumps(params.get("arguments"))),
    ),
    "test_input_required_result_capabilities": ("Asks the client for input", schema(), ask_for_everything),
}
RESOURCE = {"uri": "test://static-text", "mimeType": "text/plain"}


def discover(_):
    return {
        "supportedVersions": [VERSION],
        "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "bare", "version": "1.0.0"}},
    }


def list_tools(_):
    return {
        "tools": [
            {"name": name, "description": description, "inputSchema": schema}
            for name, (description, schema, _) in TOOLS.items()
        ]
    }


def call_tool(params):
    if params.get("name") not in TOOLS:
        raise Refused(-32602, "there is no such tool")
    return TOOLS[params["name"]][2](params)


def get_prompt(params):
    if params.get("name") != "test_simple_prompt":
        raise Refused(-32602, "there is no such prompt")
    words = {"type": "text", "text": "This is a simple prompt for testing."}
    return {"messages": [{"role": "user", "content": words}]}


def read_resource(params):
    if params.get("uri") != RESOURCE["uri"]:
        raise Refused(-32602, "there is no such resource")
    return {"contents": [{**RESOURCE, "text": "This is the content of the static text resource."}]}


METHODS = {
    "server/discover": discover,
    "tools/list": list_tools,
    "tools/call": call_tool,
    "prompts/list": lambda _: {"prompts": [{"name": "test_simple_prompt", "description": "A prompt"}]},
    "prompts/get": get_prompt,
    "resources/list": lambda _: {"resources": [{**RESOURCE, "name": "static-text", "description": "A text"}]},
    "resources/templates/list": lambda _: {"resourceTemplates": []},
    "resources/read": read_resource,
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in message:
            return self.answer(202, None)
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            method = METHODS.get(message["method"])
            if method is None:
                raise Refused(-32601, "method not found")
            result = method(message.get("params", {}))
            answer["result"] = {"resultType": "complete", **result}
            self.answer(200, answer)
        except Refused as refused:
            answer["error"] = {"code": refused.code, "message": str(refused)}
            self.answer(404 if refused.code == -32601 else 400, answer)

    def answer(self, status, message):
        body = b"" if message is None else json.dumps(message).encode()
        self.send_response(status)
        if body:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    match sys.argv[1:]:
        case []:
            address, port = "127.0.0.1", "3001"
        case ["--listen", listen]:
            address, _, port = listen.rpartition(":")
        case _:
            sys.exit(f"usage: {sys.argv[0]} [--listen ADDRESS:PORT]")
    server = ThreadingHTTPServer((address, int(port)), Handler)
    server.daemon_threads = True
    print(f"listening on http://{address}:{server.server_port}/mcp", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
