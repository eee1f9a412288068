"""An MCP server made with the Python SDK, for tests/peers/run. It offers what server.mjs offers.

    python server.py PORT
"""

import socket
import sys

import mcp_types as types
import uvicorn
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

bus = InMemorySubscriptionBus()


def text(words):
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)])


def tool(name, description, properties, **more):
    schema = {"type": "object", "properties": properties, **more}
    return types.Tool(name=name, description=description, input_schema=schema)


async def list_tools(_context, _params):
    region = {"type": "string", "x-mcp-header": "Region"}
    return types.ListToolsResult(
        tools=[
            tool("sql", "Says what it would ask", {"region": region, "query": {"type": "string"}}, required=["region"]),
            tool("count", "Counts to two", {}),
            tool("ask", "Asks for a name", {}),
            tool("change", "Says that the tools have changed", {}),
        ]
    )


async def call_tool(context, params):
    arguments = params.arguments or {}
    match params.name:
        case "sql":
            return text(f"{arguments.get('query', 'nothing')} in {arguments['region']}")
        case "count":
            for progress in (1, 2):
                await context.session.report_progress(progress, 2)
            return text("two")
        case "ask":
            answer = (params.input_responses or {}).get("name")
            if answer is not None:
                return text(f"hello {answer.content['name']}, as {params.request_state}")
            schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
            ask = types.ElicitRequest(
                params=types.ElicitRequestFormParams(mode="form", message="Who?", requested_schema=schema)
            )
            return types.InputRequiredResult(input_requests={"name": ask}, request_state="the server’s own")
        case "change":
            await bus.publish(ToolsListChanged())
            return text("changed")


async def list_resources(_context, _params):
    return types.ListResourcesResult(resources=[types.Resource(name="note", uri="test://note", mime_type="text/plain")])


async def read_resource(_context, _params):
    note = types.TextResourceContents(uri="test://note", mime_type="text/plain", text="a note")
    return types.ReadResourceResult(contents=[note])


server = Server(
    "peer",
    version="1.0.0",
    # What the server says of caches, and nothing of resources.
    cache_hints={"tools/list": CacheHint(ttl_ms=60_000, scope="private")},
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_read_resource=read_resource,
    on_subscriptions_listen=ListenHandler(bus),
)

listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
config = uvicorn.Config(server.streamable_http_app(), log_level="warning", timeout_graceful_shutdown=1)
uvicorn.Server(config).run(sockets=[listener])
