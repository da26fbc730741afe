// A bare echo server on the TypeScript SDK: a peer that measurements of the MCP face compare with.
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const server = new Server({ name: 'ts-echo', version: '1.0.0' }, { capabilities: { tools: {} } });

server.setRequestHandler(ListToolsRequestSchema, () => ({
  tools: [
    {
      name: 'echo',
      description: 'Answers with its arguments.',
      inputSchema: { type: 'object', properties: { text: { type: 'string' } } },
    },
  ],
}));

server.setRequestHandler(CallToolRequestSchema, (request) => {
  const result = { ok: true, echo: request.params.arguments };
  return { content: [{ type: 'text', text: JSON.stringify(result) }], structuredContent: result, isError: false };
});

await server.connect(new StdioServerTransport());
