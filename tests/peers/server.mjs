// An MCP server made with the TypeScript SDK, for tests/peers/run. It offers what server.py offers.
//
//   node server.mjs PORT

import { createServer } from 'node:http';
import { acceptedContent, createMcpHandler, fromJsonSchema, inputRequired, McpServer } from '@modelcontextprotocol/server';
import { toNodeHandler } from '@modelcontextprotocol/node';

const text = (words) => ({ content: [{ type: 'text', text: words }] });
const schema = (properties, required) => fromJsonSchema({ type: 'object', properties, required });
// What the server says of caches, and nothing of resources.
const cacheHints = { 'tools/list': { ttlMs: 60_000, cacheScope: 'private' } };

function server() {
  const server = new McpServer({ name: 'peer', version: '1.0.0' }, { cacheHints });
  server.registerTool(
    'sql',
    {
      description: 'Says what it would ask',
      inputSchema: schema({ region: { type: 'string', 'x-mcp-header': 'Region' }, query: { type: 'string' } }, ['region']),
    },
    ({ region, query }) => text(`${query ?? 'nothing'} in ${region}`),
  );
  server.registerTool('count', { description: 'Counts to two', inputSchema: schema({}) }, async (_, context) => {
    const progressToken = context.mcpReq._meta?.progressToken;
    for (const progress of [1, 2]) {
      await context.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total: 2 } });
    }
    return text('two');
  });
  server.registerTool('ask', { description: 'Asks for a name', inputSchema: schema({}) }, (_, context) => {
    const answer = acceptedContent(context.mcpReq.inputResponses, 'name');
    const state = context.mcpReq.requestState();
    if (answer) return text(`hello ${answer.name}, as ${state}`);
    const requestedSchema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
    return inputRequired({
      inputRequests: { name: inputRequired.elicit({ mode: 'form', message: 'Who?', requestedSchema }) },
      requestState: 'the server’s own',
    });
  });
  server.registerTool('change', { description: 'Says that the tools have changed', inputSchema: schema({}) }, () => {
    handler.notify.toolsChanged();
    return text('changed');
  });
  server.registerResource('note', 'test://note', { mimeType: 'text/plain' }, () => ({
    contents: [{ uri: 'test://note', mimeType: 'text/plain', text: 'a note' }],
  }));
  return server;
}

const handler = createMcpHandler(server, { legacy: 'reject' });
const listener = createServer(toNodeHandler(handler));
listener.listen(Number(process.argv[2]), '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${listener.address().port}/mcp`);
});
