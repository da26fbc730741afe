// The MCP Inspector's command line, in both eras of the protocol.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import {
  DEVLOOP, VERSION, WORK, assert, cases, check, finish, granted, includes, isGone, isOnDisk, names, project, serve, todo,
} from './checks.mjs';

const home = path.join(process.argv[2], 'node_modules/@modelcontextprotocol/inspector');
const manifest = JSON.parse(fs.readFileSync(path.join(home, 'package.json'), 'utf8'));
const launcher = path.join(home, manifest.bin['mcp-inspector']);

function inspect(directory, ...more) {
  const { status, stdout, stderr, error } = spawnSync(
    process.execPath,
    [launcher, '--cli', DEVLOOP, ...serve('pm', directory), '--format', 'json', ...more],
    // Its catalogue of servers lies in the home directory.
    { env: { PATH: process.env.PATH, HOME: WORK }, cwd: WORK, encoding: 'utf8', timeout: 60_000 },
  );
  if (error) throw error;
  return { status, stderr, result: stdout.trim() ? JSON.parse(stdout).result : null };
}

function call(directory, era, input) {
  return inspect(
    directory, '--protocol-era', era, '--method', 'tools/call', '--tool-name', cases.tool,
    '--tool-args-json', JSON.stringify(input),
  );
}

await check(`it is version ${VERSION}`, () => assert.equal(manifest.version, VERSION));

for (const era of ['legacy', 'modern']) {
  const directory = project(era);
  await check(`${era}: tools/list --strict finds nothing, not even a warning`, () => {
    const { status, stderr, result } = inspect(directory, '--protocol-era', era, '--method', 'tools/list', '--strict');
    assert.equal(status, 0, stderr);
    // Here a tool whose definition the Inspector cannot read is missing without a word.
    assert.deepEqual(result.tools.map(({ name }) => name).sort(), granted('pm').map(({ name }) => name).sort());
    assert.doesNotMatch(stderr, /warning|error/i);
  });
  await check(`${era}: every tool has a title, all four hints and schemas of objects`, () => {
    const { result } = inspect(directory, '--protocol-era', era, '--method', 'tools/list');
    for (const tool of result.tools) {
      assert.ok(tool.title, tool.name);
      for (const hint of ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint']) {
        assert.equal(typeof tool.annotations?.[hint], 'boolean', `${tool.name}: ${hint}`);
      }
      assert.equal(tool.inputSchema.type, 'object', tool.name);
      assert.equal(tool.outputSchema.type, 'object', tool.name);
    }
  });
  await check(`${era}: a call gives the same JSON as structure and as text, and writes the file`, () => {
    const { valid } = cases;
    const { status, stderr, result } = call(directory, era, { items: valid.items });
    assert.equal(status, 0, stderr);
    includes(result.structuredContent, { ok: true, total: valid.items.length, ready: valid.ready, current: valid.current });
    assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent);
    isOnDisk(todo(directory, 'pm'), 'pm', valid.items, valid.current);
  });
  for (const one of cases.invalid) {
    await check(`${era}: ${one.what} is a result with isError that names it`, () => {
      const { status, result } = call(directory, era, one.arguments);
      // Its exit status for a tool's own error.
      assert.equal(status, 5);
      assert.equal(result.isError, true);
      assert.ok(!('structuredContent' in result));
      names(result.content[0].text, one.names);
    });
  }
  await check(`${era}: no server is left behind`, () => isGone(directory));
}

await check('initialize names devloop and gives instructions', () => {
  const { status, stderr, result } = inspect(project('initialize'), '--method', 'initialize');
  assert.equal(status, 0, stderr);
  assert.equal(result.serverInfo.name, 'devloop');
  assert.equal(result.protocolVersion, '2025-11-25');
  assert.ok(result.instructions, 'there are no instructions');
});

finish();
