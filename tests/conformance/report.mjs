// Prints one line per scenario and judges the run by the baseline of expected failures.
//
//   node report.mjs NODE_MODULES BASELINE RESULTS RUN...
//
// Every RUN is a folder in RESULTS; where two hold the same scenario, the later one counts. A warning is a
// failure here, as it is where the suite applies a baseline. Beyond the suite, the scenarios it does not score
// are judged as well, and a baseline entry that no longer matches anything is an error.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';

const [modules, baselineFile, results, ...runs] = process.argv.slice(2);
const { parse } = createRequire(resolve(modules, 'anything'))('yaml');

// scenario => true (all of it may fail) or a Set of the ids of the checks that may fail
const baseline = new Map();
for (const entry of parse(readFileSync(baselineFile, 'utf8'))?.server ?? []) {
  const [scenario, check] = entry.split(':');
  if (!check) baseline.set(scenario, true);
  else baseline.set(scenario, (baseline.get(scenario) ?? new Set()).add(check));
}

// scenario => its checks, or null if it ended without a result
const scenarios = new Map();
for (const run of runs) {
  const folder = join(results, run);
  if (!existsSync(folder)) continue;
  for (const name of readdirSync(folder).sort((a, b) => time(a).localeCompare(time(b)))) {
    const file = join(folder, name, 'checks.json');
    const scenario = name.replace(/^server-/, '').replace(/-\d{4}-\d\d-\d\dT[-\d]+Z$/, '');
    scenarios.set(scenario, existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : null);
  }
}

function time(name) {
  return name.match(/\d{4}-\d\d-\d\dT[-\d]+Z$/)?.[0] ?? name;
}

const failing = (check) => check.status === 'FAILURE' || check.status === 'WARNING';
const count = (checks, status) => checks.filter((check) => check.status === status).length;
const width = Math.max(...[...scenarios.keys()].map((name) => name.length), 0);
const tally = { ok: 0, FAIL: 0, expected: 0, skipped: 0 };
const complaints = [];

for (const [scenario, checks] of scenarios) {
  const allowed = baseline.get(scenario);
  const failures = checks?.filter(failing) ?? [];
  const unexpected = failures.filter((check) => allowed !== true && !allowed?.has(check.id));
  const verdict =
    !checks || unexpected.length ? 'FAIL'
    : failures.length ? 'expected'
    : count(checks, 'SUCCESS') ? 'ok'
    : 'skipped';
  tally[verdict] += 1;

  const passed = count(checks ?? [], 'SUCCESS');
  console.log(`${verdict.padEnd(9)} ${scenario.padEnd(width)}  ${passed} passed, ${failures.length} failed`);
  if (!checks) console.log('          the scenario ended without a result');
  for (const { id, status, errorMessage, description } of unexpected) {
    const why = (errorMessage ?? description).split('\n')[0].slice(0, 400);
    console.log(`          ${id}${status === 'WARNING' ? ' (warning)' : ''}: ${why}`);
  }

  if (allowed === true && checks && !failures.length) complaints.push(`${scenario} passes now, remove the entry`);
  for (const id of allowed instanceof Set && checks ? allowed : []) {
    const same = checks.filter((check) => check.id === id && check.status !== 'INFO');
    if (!same.length) complaints.push(`${scenario}:${id} names a check that the suite did not make`);
    else if (!same.some(failing)) complaints.push(`${scenario}:${id} passes now, remove the entry`);
  }
}
for (const scenario of baseline.keys()) {
  if (!scenarios.has(scenario)) complaints.push(`${scenario} names a scenario that did not run`);
}
for (const run of runs.filter((run) => !existsSync(join(results, run)))) {
  complaints.push(`no results from the run '${run}'`);
}

for (const complaint of complaints) console.log(`${baselineFile}: ${complaint}`);
if (tally.expected) console.log(`${tally.expected} fail as ${baselineFile} says`);
const failed = tally.FAIL + complaints.length;
console.log(`${tally.ok} passed, ${failed} failed`);
process.exit(failed || !tally.ok ? 1 : 0);
