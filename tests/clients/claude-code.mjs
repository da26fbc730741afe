// The real Claude Code, with a scripted model in place of Anthropic's. What counts is what the model is sent.
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import {
  DEVLOOP, VERSION, WORK, assert, cases, check, finish, granted, includes, isGone, isOnDisk, names, project, serve, todo,
} from './checks.mjs';
import { callId, startModel } from './stub-model.mjs';

const [program, upstream] = process.argv.slice(2);
const home = path.join(WORK, 'home');
fs.mkdirSync(home);
// Nothing of the caller's own set-up may reach the client, least of all a real key.
const environment = {
  PATH: process.env.PATH,
  HOME: home,
  LANG: 'C.UTF-8',
  TERM: 'dumb',
  ANTHROPIC_API_KEY: 'no-key',
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
  DISABLE_AUTOUPDATER: '1',
};

// Runs one conversation: `turns` are the model's answers. Gives what the model was sent and what the client printed.
async function converse(name, agent, key, turns, ...more) {
  const directory = project(name);
  const model = await startModel(turns, () => todo(directory, key));
  const config = path.join(WORK, `${name}.mcp.json`);
  const server = { command: DEVLOOP, args: serve(agent, directory, ...more) };
  fs.writeFileSync(config, JSON.stringify({ mcpServers: { devloop: server } }));
  const client = spawn(
    program,
    [
      '-p', 'Plan the work.', '--mcp-config', config, '--strict-mcp-config', '--allowedTools', 'mcp__devloop__*',
      '--output-format', 'stream-json', '--verbose',
    ],
    {
      cwd: directory,
      env: { ...environment, ANTHROPIC_BASE_URL: model.url },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: 60_000,
      killSignal: 'SIGKILL',
    },
  );
  let stdout = '';
  let stderr = '';
  client.stdout.on('data', (data) => (stdout += data));
  client.stderr.on('data', (data) => (stderr += data));
  const status = await new Promise((resolve, reject) => {
    client.once('error', reject);
    client.once('close', (code, signal) => resolve(code ?? signal));
  });
  model.close();
  fs.writeFileSync(path.join(WORK, `${name}.stdout`), stdout);
  fs.writeFileSync(path.join(WORK, `${name}.stderr`), stderr);
  fs.writeFileSync(path.join(WORK, `${name}.requests.json`), JSON.stringify(model.requests, null, 2));

  const events = stdout.split('\n').filter(Boolean).map((line) => JSON.parse(line));
  const last = model.requests.at(-1)?.body;
  const results = (last?.messages ?? []).flatMap(({ role, content }) =>
    role === 'user' && Array.isArray(content) ? content.filter(({ type }) => type === 'tool_result') : [],
  );
  return {
    directory,
    status,
    stderr,
    init: events.find(({ type, subtype }) => type === 'system' && subtype === 'init'),
    end: events.find(({ type }) => type === 'result'),
    tools: (last?.tools ?? []).filter((tool) => tool.name.startsWith('mcp__')),
    // The file as it was when the model was asked for its n-th answer, so after the call of the one before.
    fileAt: (number) => model.requests.find((request) => request.number === number)?.observed,
    result(number) {
      const result = results.find((one) => one.tool_use_id === callId(number, 0));
      assert.ok(result, `the model was never sent a result of call ${number}; stderr: ${stderr}`);
      const text = Array.isArray(result.content) ? result.content.map((one) => one.text).join('') : result.content;
      return { text, isError: result.is_error === true };
    },
  };
}

await check(`it is version ${VERSION}`, () => {
  const output = execFileSync(program, ['--version'], { env: environment, encoding: 'utf8' });
  assert.equal(output.split(' ')[0], VERSION);
});

const { valid, invalid } = cases;
const tool = `mcp__devloop__${cases.tool}`;
const asText = [
  { id: 'step-001', description: 'Read the answer' },
  { id: 'step-002', description: 'Write the chapter', depends_on: ['step-001'] },
];
const pathOf = (key) => `agent-state/${key}-todo.json`;

const pm = await converse('pm', 'pm', 'pm', [
  [{ tool, input: { items: valid.items } }],
  [{ tool, input: { items: JSON.stringify(asText) } }],
  ...invalid.map((one) => [{ tool, input: one.arguments }]),
  [{ text: 'The plan stands.' }],
]);

await check('the conversation ends well', () => {
  assert.equal(pm.status, 0, pm.stderr);
  includes(pm.end, { subtype: 'success', is_error: false, result: 'The plan stands.', permission_denials: [] });
});
await check('the server is connected', () => {
  const servers = pm.init?.mcp_servers.map(({ name, status }) => ({ name, status }));
  assert.deepEqual(servers, [{ name: 'devloop', status: 'connected' }]);
});
await check('the model is given exactly the tools of pm', () => {
  const given = pm.tools.map(({ name }) => name).sort();
  assert.deepEqual(given, granted('pm').map(({ name }) => `mcp__devloop__${name}`).sort());
});
await check('with the descriptions and schemas that the repository has for pm', () => {
  for (const { name, description, input_schema } of granted('pm')) {
    const given = pm.tools.find((one) => one.name === `mcp__devloop__${name}`);
    includes(given, { description, input_schema });
  }
});
await check(`${cases.tool} is at hand without a search for it`, () => {
  assert.ok(!pm.tools.find(({ name }) => name === tool)?.defer_loading);
});
await check(`the model reads the result of ${valid.what}`, () => {
  const { text, isError } = pm.result(0);
  assert.ok(!isError, text);
  const { ready, current } = valid;
  includes(JSON.parse(text), { ok: true, total: valid.items.length, path: pathOf('pm'), ready, current });
});
await check('and the file holds that list', () => isOnDisk(pm.fileAt(1), 'pm', valid.items, valid.current));
await check('items sent as a JSON string are taken as the list they are', () => {
  const { text, isError } = pm.result(1);
  assert.ok(!isError, text);
  includes(JSON.parse(text), { ok: true, total: 2, path: pathOf('pm'), ready: ['step-001'] });
  isOnDisk(pm.fileAt(2), 'pm', asText, 'step-001');
});
await check('and the model learns what that list replaced', () => {
  includes(JSON.parse(pm.result(1).text), { replaced: { total: 4, done: 0, open: valid.items.map(({ id }) => id) } });
});
for (const [index, one] of invalid.entries()) {
  await check(`${one.what} is an error that names it, and changes nothing`, () => {
    const { text, isError } = pm.result(2 + index);
    assert.ok(isError, `not marked as an error: ${text}`);
    names(text, one.names);
    assert.deepEqual(pm.fileAt(3 + index), pm.fileAt(2));
  });
}
await check('no server is left behind', () => isGone(pm.directory));

const coder = await converse(
  'coder', 'devloop-coder', 'coder.web',
  [[{ tool, input: { items: valid.items } }], [{ text: 'The unit is planned.' }]],
  '--unit', 'web',
);
await check('devloop-coder of unit web is given exactly the tools of coder', () => {
  const given = coder.tools.map(({ name }) => name).sort();
  assert.deepEqual(given, granted('coder').map(({ name }) => `mcp__devloop__${name}`).sort());
});
await check('devloop-coder of unit web writes a list of its own', () => {
  const { text, isError } = coder.result(0);
  assert.ok(!isError, text);
  includes(JSON.parse(text), { ok: true, path: pathOf('coder.web') });
  isOnDisk(todo(coder.directory, 'coder.web'), 'coder', valid.items, valid.current);
  assert.equal(todo(coder.directory, 'coder'), null);
});

// Upstream servers, killed and all: what a model sees of them.
if (upstream) {
  const files = path.join(WORK, 'files');
  fs.mkdirSync(files);
  fs.writeFileSync(path.join(files, 'a.txt'), 'eins zwei drei\n');
  const start = (name, ...args) => ({
    command: process.execPath,
    args: [path.join(upstream, 'node_modules/@modelcontextprotocol', name, 'dist/index.js'), ...args],
  });
  const config = path.join(WORK, 'upstream.json');
  const mcpServers = { everything: start('server-everything'), files: start('server-filesystem', files) };
  fs.writeFileSync(config, JSON.stringify({ mcpServers }));
  const read = 'mcp__devloop__files__read_text_file';
  const sum = 'mcp__devloop__everything__get-sum';
  const merged = await converse(
    'merged', 'pm', 'pm',
    [
      [{ tool: 'ToolSearch', input: { query: `select:${read},${sum}` } }],
      [{ tool: read, input: { path: path.join(files, 'a.txt') } }],
      [{ tool: sum, input: { a: 2, b: 3 } }],
      [{ tool: 'mcp__devloop__files__write_file', input: { path: path.join(files, 'b.txt'), content: 'no' } }],
      [{ text: 'Both answered.' }],
    ],
    '--mcp-config', config, '--allow', 'everything__*', '--allow', 'files__read_*',
  );
  await check('a conversation with two upstream servers ends well', () => {
    assert.equal(merged.status, 0, merged.stderr);
    includes(merged.end, { subtype: 'success', is_error: false, result: 'Both answered.' });
  });
  await check('the model reads what the one server says', () => {
    const { text, isError } = merged.result(1);
    assert.ok(!isError, text);
    names(text, ['eins zwei drei']);
  });
  await check('and what the other one says', () => {
    const { text, isError } = merged.result(2);
    assert.ok(!isError, text);
    names(text, ['5']);
  });
  await check('a tool that no rule allows is refused where nobody can be asked', () => {
    const { text, isError } = merged.result(3);
    assert.ok(isError, text);
    assert.ok(!fs.existsSync(path.join(files, 'b.txt')));
  });
  await check('no server is left behind, upstream ones included', async () => {
    await isGone(merged.directory);
    const left = () =>
      execFileSync('ps', ['-A', '-ww', '-o', 'args='], { encoding: 'utf8' })
        .split('\n')
        // Only the command, so that this script, which is given the place as well, is not meant.
        .filter((line) => line.includes(`${upstream}/node_modules/`));
    for (let tries = 0; left().length > 0 && tries < 50; tries += 1) {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    assert.deepEqual(left(), []);
  });
} else {
  console.log('  SKIPPED the conversation with upstream servers: npm could not install them');
}

finish();
