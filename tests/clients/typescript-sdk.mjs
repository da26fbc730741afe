// The client of the TypeScript SDK, the one that most hosts are built on.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import {
  DEVLOOP, VERSION, assert, cases, check, finish, granted, includes, isGone, isOnDisk, names, project, serve, todo,
} from './checks.mjs';

const install = process.argv[2];
const require = createRequire(path.join(install, 'package.json'));
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');
const manifest = path.join(install, 'node_modules/@modelcontextprotocol/sdk/package.json');

const directory = project('pm');
const transport = new StdioClientTransport({ command: DEVLOOP, args: serve('pm', directory), stderr: 'pipe' });
const client = new Client({ name: 'devloop-tests', version: '1' });
// Lines on stdout that are no messages end up here.
const unread = [];
client.onerror = (error) => unread.push(String(error));

await check(`it is version ${VERSION}`, () => {
  assert.equal(JSON.parse(fs.readFileSync(manifest, 'utf8')).version, VERSION);
});
await check('it connects', () => client.connect(transport));
await check('it lists exactly the tools of pm, with the schemas that the repository has', async () => {
  const { tools } = await client.listTools();
  const listed = tools.map(({ name, description, inputSchema }) => ({ name, description, input_schema: inputSchema }));
  const byName = (left, right) => (left.name < right.name ? -1 : 1);
  assert.deepEqual(listed.sort(byName), granted('pm').sort(byName));
});
await check('a call gives the same JSON as structure and as text, and writes the file', async () => {
  const { valid } = cases;
  // The client holds the result against the tool's outputSchema.
  const result = await client.callTool({ name: cases.tool, arguments: { items: valid.items } });
  includes(result.structuredContent, { ok: true, total: valid.items.length, ready: valid.ready, current: valid.current });
  assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent);
  isOnDisk(todo(directory, 'pm'), 'pm', valid.items, valid.current);
});
for (const one of [...cases.invalid, ...cases.refused_by_schema]) {
  await check(`${one.what}: a result with isError that names it`, async () => {
    const result = await client.callTool({ name: cases.tool, arguments: one.arguments });
    assert.equal(result.isError, true);
    names(result.content[0].text, one.names);
  });
}
await check('an unknown tool is the error -32602 that names the nearest', async () => {
  const { name, nearest } = cases.unknown_tool;
  await assert.rejects(client.callTool({ name, arguments: {} }), (error) => {
    assert.equal(error.code, -32602);
    names(error.message, [name, nearest]);
    return true;
  });
});
await check('calls in flight together are each answered', async () => {
  const calls = Array.from({ length: 8 }, () =>
    client.callTool({ name: cases.tool, arguments: { items: cases.valid.items } }),
  );
  for (const result of await Promise.all(calls)) assert.ok(!result.isError, result.content[0].text);
});
await check('every line on stdout was a message', () => assert.deepEqual(unread, []));
await check('the server ends of its own accord when its input does', async () => {
  // The client closes the input, and sends signals when that is not enough.
  const server = transport._process;
  const ended = new Promise((resolve) => server.once('exit', (status, signal) => resolve({ status, signal })));
  await client.close();
  assert.deepEqual(await ended, { status: 0, signal: null });
  await isGone(directory);
});

finish();
