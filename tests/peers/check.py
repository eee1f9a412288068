"""Asks the gateway in front of a peer everything that tests/peers/run wants to know, and compares whole answers.

    python3 check.py URL SDK

SDK is `typescript` or `python`: they differ in what they leave out. Needs Python 3 and nothing else.
"""

import http.client
import json
import sys
import time
import urllib.parse

URL = urllib.parse.urlsplit(sys.argv[1])
# The Python SDK writes out what is false.
DONE = {"python": {"isError": False}, "typescript": {}}[sys.argv[2]]
ABOUT = {"io.modelcontextprotocol/serverInfo": {"name": "peer", "version": "1.0.0"}}
CAN_BE_ASKED = {"elicitation": {"form": {}}}
ids = iter(range(1, 1000))


class Call:
    """One request: its status, its content type, and the messages of its answer as they come."""

    def __init__(self, method, params=None, headers=None, capabilities=CAN_BE_ASKED, meta=None):
        params = params or {}
        self.id = next(ids)
        about_request = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "check", "version": "1.0.0"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
            **(meta or {}),
        }
        message = {"jsonrpc": "2.0", "id": self.id, "method": method, "params": {**params, "_meta": about_request}}
        sent = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": method,
        }
        if "name" in params or "uri" in params:
            sent["Mcp-Name"] = params.get("name") or params.get("uri")
        sent.update(headers or {})
        self.connection = http.client.HTTPConnection(URL.hostname, URL.port, timeout=20)
        self.connection.request("POST", URL.path, json.dumps(message), sent)
        self.response = self.connection.getresponse()
        self.status = self.response.status
        self.type = self.response.headers.get_content_type()

    def messages(self):
        if self.type == "text/event-stream":
            for line in self.response:
                if line.startswith(b"data:"):
                    yield json.loads(line[5:])
        else:
            yield json.loads(self.response.read())
        self.connection.close()


def same(found, expected):
    if found != expected:
        sys.exit(f"expected {json.dumps(expected, indent=1)}\nfound {json.dumps(found, indent=1)}")


def ask(method, params=None, **more):
    """The status and the one message of an answer that is JSON."""
    call = Call(method, params, **more)
    same(call.type, "application/json")
    [answer] = call.messages()
    same((answer.pop("jsonrpc"), answer.pop("id")), ("2.0", call.id))
    return call.status, answer


def expect(result, method, params=None, **more):
    same(ask(method, params, **more), (200, {"result": {**result, "_meta": ABOUT}}))


def refused(status, code, message, method, params=None, data=None, **more):
    error = {"code": code, "message": message, **({"data": data} if data else {})}
    same(ask(method, params, **more), (status, {"error": error}))


def text(words):
    return {"resultType": "complete", "content": [{"type": "text", "text": words}], **DONE}


def tools():
    def tool(name, description, properties, **more):
        schema = {"type": "object", "properties": properties, **more}
        return {"name": name, "description": description, "inputSchema": schema}

    region = {"type": "string", "x-mcp-header": "Region"}
    return [
        tool("sql", "Says what it would ask", {"region": region, "query": {"type": "string"}}, required=["region"]),
        tool("count", "Counts to two", {}),
        tool("ask", "Asks for a name", {}),
        tool("change", "Says that the tools have changed", {}),
    ]


def list_tools():
    """Checks the list of tools. Returns its `ttlMs`."""
    status, answer = ask("tools/list")
    ttl = answer["result"].pop("ttlMs")
    result = {"resultType": "complete", "tools": tools(), "cacheScope": "private", "_meta": ABOUT}
    same((status, answer), (200, {"result": result}))
    return ttl


def unknown_tools_are_looked_up():
    # Nobody has listed anything yet.
    refused(
        400, -32602, "there is no tool `rm`; `tools/list` tells which there are", "tools/call", {"name": "rm"}
    )


def lists_come_from_the_cache():
    list_tools()
    time.sleep(0.02)
    remaining = list_tools()
    # What the peer says is always the same.
    same(0 < remaining < 60_000, True)


def calls_pass():
    arguments = {"region": "eu", "query": "everything"}
    expect(
        text("everything in eu"), "tools/call", {"name": "sql", "arguments": arguments}, headers={"Mcp-Param-Region": "eu"}
    )


def headers_are_checked():
    call = {"name": "sql", "arguments": {"region": "eu"}}
    what = "the header `Mcp-Param-Region` does not say what the argument `region` of the tool `sql` says: "
    missing = "the header is missing: the message has a value for it to mirror"
    refused(400, -32020, what + missing, "tools/call", call)
    differs = "the header differs from the message's value: send exactly the same text, case included"
    refused(400, -32020, what + differs, "tools/call", call, headers={"Mcp-Param-Region": "us"})
    name = "the header `Mcp-Name` says `other`, the message says `sql`: the two must be equal"
    refused(400, -32020, name, "tools/call", call, headers={"Mcp-Name": "other"})


def notifications_are_streamed():
    call = Call("tools/call", {"name": "count", "arguments": {}}, meta={"progressToken": "p"})
    same((call.status, call.type), (200, "text/event-stream"))
    progress = [
        {
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {"progressToken": "p", "progress": count, "total": 2},
        }
        for count in (1, 2)
    ]
    answer = {"jsonrpc": "2.0", "id": call.id, "result": {**text("two"), "_meta": ABOUT}}
    same(list(call.messages()), [*progress, answer])


def resources_are_read():
    contents = [{"uri": "test://note", "mimeType": "text/plain", "text": "a note"}]
    hints = {"ttlMs": 0, "cacheScope": "private"}
    expect({"resultType": "complete", "contents": contents, **hints}, "resources/read", {"uri": "test://note"})


def input_is_asked_for():
    call = {"name": "ask", "arguments": {}}
    status, answer = ask("tools/call", call)
    state = answer["result"].pop("requestState")
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    question = {"mode": "form", "message": "Who?", "requestedSchema": schema}
    requests = {"name": {"method": "elicitation/create", "params": question}}
    same(answer["result"], {"resultType": "input_required", "inputRequests": requests, "_meta": ABOUT})
    # The server's own is sealed.
    same(state.startswith("v1.") and "own" not in state, True)
    answers = {"inputResponses": {"name": {"action": "accept", "content": {"name": "Ada"}}}}
    expect(text("hello Ada, as the server’s own"), "tools/call", {**call, **answers, "requestState": state})
    refused(
        400,
        -32602,
        "invalid or expired `requestState`: send the request again without it, to start anew",
        "tools/call",
        {**call, **answers, "requestState": "the server’s own"},
        data={"reason": "invalid_request_state"},
    )
    # Some peers look at that themselves, in words of their own.
    status, answer = ask("tools/call", call, capabilities={})
    del answer["error"]["message"]
    needed = {"requiredCapabilities": {"elicitation": {"form": {}}}}
    same((status, answer), (400, {"error": {"code": -32021, "data": needed}}))


def changes_are_told():
    listen = Call("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    same((listen.status, listen.type), (200, "text/event-stream"))
    messages = listen.messages()
    subscription = {"io.modelcontextprotocol/subscriptionId": listen.id}

    def told(method, **params):
        same(next(messages), {"jsonrpc": "2.0", "method": method, "params": {**params, "_meta": subscription}})

    told("notifications/subscriptions/acknowledged", notifications={"toolsListChanged": True})
    time.sleep(0.02)
    same(list_tools() < 60_000, True)
    expect(text("changed"), "tools/call", {"name": "change", "arguments": {}})
    told("notifications/tools/list_changed")
    # The cache has heard it as well.
    same(list_tools(), 60_000)
    listen.connection.close()


def web_pages_stay_out():
    call = Call("tools/list", headers={"Origin": "http://evil.example.com"})
    same(call.status, 403)


for check in (
    unknown_tools_are_looked_up,
    lists_come_from_the_cache,
    calls_pass,
    headers_are_checked,
    notifications_are_streamed,
    resources_are_read,
    input_is_asked_for,
    changes_are_told,
    web_pages_stay_out,
):
    print(f"  {check.__name__.replace('_', ' ')}", flush=True)
    check()
print(f"{next(ids) - 1} requests")
