// Counts checks and holds what the scripts in JavaScript share. A check that throws has failed; the next one still runs.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

export const { CLIENT, VERSION, DEVLOOP, WORK } = process.env;
for (const [name, value] of Object.entries({ CLIENT, VERSION, DEVLOOP, WORK })) {
  if (!value) throw new Error(`${name} is not set: start this script through tests/clients/run`);
}

const here = import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname);
export const cases = JSON.parse(fs.readFileSync(path.join(here, 'cases.json'), 'utf8'));

let passed = 0;
let failed = 0;

export async function check(what, body) {
  try {
    await body();
    passed += 1;
    console.log(`  ok    ${what}`);
  } catch (error) {
    failed += 1;
    console.log(`  FAIL  ${what}`);
    console.log(String(error?.message ?? error).trimEnd().replace(/^/gm, '        '));
  }
}

// Ends the script. The run must end even when a client has left something open.
export function finish() {
  console.log(`${CLIENT} ${VERSION}: ${passed} passed, ${failed} failed`);
  process.exit(failed > 0 ? 1 : 0);
}

// Nothing here takes long; a client that waits for an answer that never comes must not hold the run up.
setTimeout(async () => {
  await check('it ends', () => assert.fail('no end after 180 s'));
  finish();
}, 180_000).unref();

// An empty project directory.
export function project(name) {
  const directory = path.join(WORK, name, 'data/companies/acme/projects/shop');
  fs.mkdirSync(directory, { recursive: true });
  return directory;
}

// The arguments of `devloop` that serve one agent.
export function serve(agent, directory, ...more) {
  return ['serve', '--agent', agent, '--project-dir', directory, ...more];
}

// Every agent has them, without a grant. What reaches upstream servers is served only where there are some.
const FOR_ALL = ['read_artifact', 'tool_search'];

// What an agent's model is given: by the repository's word, and what all have, by the program's.
export function granted(agent) {
  const file = path.join(here, `../../generated/agents/devloop-${agent}/tools.json`);
  const printed = execFileSync(DEVLOOP, ['tools', '--format', 'anthropic'], { encoding: 'utf8' });
  const forAll = JSON.parse(printed).tools.filter(({ name }) => FOR_ALL.includes(name));
  return [...JSON.parse(fs.readFileSync(file, 'utf8')).tools, ...forAll];
}

// The todo list on disk; null when there is none.
export function todo(directory, key) {
  const file = path.join(directory, `agent-state/${key}-todo.json`);
  return fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, 'utf8')) : null;
}

// Outputs are open: a field more breaks nobody, so only the expected ones are looked at.
export function includes(actual, expected) {
  const same = Object.fromEntries(Object.keys(expected).map((key) => [key, actual?.[key]]));
  assert.deepEqual(same, expected);
}

// That a file holds the items that were sent, none begun.
export function isOnDisk(file, agent, sent, current) {
  assert.ok(file, 'there is no file');
  includes(file, { agent, current, progress_pct: 0 });
  const items = file.items.map(({ id, description, depends_on = [], status }) => ({ id, description, depends_on, status }));
  const expected = sent.map(({ id, description, depends_on = [] }) => ({ id, description, depends_on, status: 'todo' }));
  assert.deepEqual(items, expected);
}

export function names(text, wanted) {
  for (const word of wanted) assert.ok(text.includes(word), `the text does not name ${word}: ${text}`);
}

// That no server of this project outlives its client.
export async function isGone(directory) {
  const left = () =>
    execFileSync('ps', ['-A', '-ww', '-o', 'args='], { encoding: 'utf8' })
      .split('\n')
      .filter((line) => line.includes(' serve ') && line.includes(directory));
  for (let tries = 0; left().length > 0 && tries < 50; tries += 1) {
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.deepEqual(left(), []);
}

export { assert };
