import { createHash } from 'node:crypto';

/**
 * The script of the console. It runs in the browser: no build step, no library, and everything that came from a model or
 * a user reaches the page as text, never as markup.
 */
export const consoleScript = String.raw`
'use strict';
const maxLogLines = 500;
const refreshMs = 5000;
const byId = (id) => document.getElementById(id);
let shown = { runId: '', stop: null };

const key = byId('key');
key.value = sessionStorage.getItem('millrace-key') || '';
key.addEventListener('change', () => {
  sessionStorage.setItem('millrace-key', key.value);
  loadAgents();
  loadRuns();
});

function headers(more) {
  return key.value ? Object.assign({ authorization: 'Bearer ' + key.value }, more) : more || {};
}

async function api(path, options) {
  const response = await fetch(path, options);
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error.code + ': ' + answer.error.message);
  return answer;
}

async function attempt(work) {
  try {
    await work();
    byId('problem').textContent = '';
  } catch (error) {
    byId('problem').textContent = error.message;
  }
}

const dollars = (microcents) => '$' + (microcents / 1e8).toFixed(6);

function loadAgents() {
  return attempt(async () => {
    const { agents } = await api('/v1/agents', { headers: headers() });
    byId('agent').replaceChildren(...agents.map((agent) => new Option(agent.name || agent.id, agent.id)));
  });
}

function cell(content, className) {
  const td = document.createElement('td');
  td.append(content);
  if (className) td.className = className;
  return td;
}

function rowFor(run) {
  const open = document.createElement('button');
  open.textContent = run.runId;
  open.addEventListener('click', () => follow(run.runId));
  const tr = document.createElement('tr');
  const cost = cell(dollars(run.costMicrocents), 'number');
  tr.append(cell(open), cell(run.agent), cell(run.status), cost, cell(new Date(run.createdAt).toLocaleTimeString()));
  return tr;
}

function loadRuns() {
  return attempt(async () => {
    const { runs } = await api('/v1/runs?limit=25', { headers: headers() });
    byId('runs').replaceChildren(...runs.map(rowFor));
  });
}

byId('refresh').addEventListener('click', loadRuns);

byId('start').addEventListener('submit', (event) => {
  event.preventDefault();
  attempt(async () => {
    const body = JSON.stringify({ agent: byId('agent').value, input: byId('input').value });
    const post = { method: 'POST', headers: headers({ 'content-type': 'application/json' }), body };
    const run = await api('/v1/runs', post);
    follow(run.runId);
    await loadRuns();
  });
});

byId('cancel').addEventListener('click', () => {
  attempt(() => api('/v1/runs/' + shown.runId + '/cancel', { method: 'POST', headers: headers() }));
});

byId('approve').addEventListener('click', () => {
  const body = JSON.stringify({ budget: 'approve' });
  const post = { method: 'POST', headers: headers({ 'content-type': 'application/json' }), body };
  attempt(() => api('/v1/runs/' + shown.runId + '/decisions', post));
});

async function follow(runId) {
  if (shown.stop) shown.stop.abort();
  const stop = new AbortController();
  shown = { runId, stop };
  byId('run').textContent = runId;
  byId('text').textContent = '';
  byId('log').textContent = '';
  byId('state').textContent = '';
  byId('cancel').disabled = false;
  byId('approve').hidden = true;
  await attempt(() => followFrom(runId, 0, stop.signal));
}

/** Resumes after the last number it has seen, until the terminal event. */
async function followFrom(runId, after, signal) {
  for (;;) {
    const path = '/v1/runs/' + runId + '/events?after=' + after;
    const accept = headers({ accept: 'application/x-ndjson' });
    const response = await fetch(path, { headers: accept, signal }).catch(() => null);
    if (signal.aborted) return;
    if (response && !response.ok) {
      const { error } = await response.json();
      if (error.code === 'execution_not_found') return showRecord(runId, signal);
      if (error.code === 'replay_truncated') {
        after = error.details.firstSequence - 1;
        continue;
      }
      if (!error.retryable) throw new Error(error.code + ': ' + error.message);
    } else if (response) {
      const end = await readEvents(response.body, after, signal);
      if (end.done || signal.aborted) return;
      after = end.after;
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

async function readEvents(stream, after, signal) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return { done: false, after };
      const lines = (rest + value).split('\n');
      rest = lines.pop();
      for (const line of lines) {
        if (!line) continue;
        const event = JSON.parse(line);
        if (!event.type) return { done: false, after };
        after = event.sequenceNumber;
        if (!signal.aborted) show(event);
        if (['run.completed', 'run.failed', 'run.cancelled'].includes(event.type)) return { done: true, after };
      }
    }
  } catch {
    return { done: false, after };
  }
}

function show(event) {
  const text = byId('text');
  if (event.type === 'text.delta') text.append(event.delta);
  else addLine(event);
  if (event.type === 'step.reset') text.textContent = '';
  if (event.type === 'run.completed') text.textContent = event.result.text;
  if (event.type.startsWith('run.')) byId('approve').hidden = !waitsForMoney(event);
  if (event.type === 'run.failed') text.append('\n' + event.error.code + ': ' + event.error.message);
  if (['run.completed', 'run.failed', 'run.cancelled'].includes(event.type)) {
    byId('state').textContent = (event.status || event.type.slice(4)) + ', ' + dollars(event.costMicrocents);
    byId('cancel').disabled = true;
    loadRuns();
  } else if (waitsForMoney(event)) {
    byId('state').textContent = 'waits for money of ' + event.pending.map((item) => item.id).join(', ');
  } else if (event.type.startsWith('run.')) byId('state').textContent = event.type.slice(4);
}

/** The events of a run go soon after its end, its record a day later. */
async function showRecord(runId, signal) {
  const run = await api('/v1/runs/' + runId, { headers: headers(), signal });
  if (signal.aborted) return;
  const text = byId('text');
  text.textContent = run.result ? run.result.text : '';
  if (run.error) text.append('\n' + run.error.code + ': ' + run.error.message);
  byId('state').textContent = run.status + ', ' + dollars(run.costMicrocents);
  byId('log').textContent = 'Its events are no longer kept.\n';
  byId('cancel').disabled = true;
}

function waitsForMoney(event) {
  return event.type === 'run.suspended' && event.pending.some((item) => item.kind === 'budget');
}

function addLine(event) {
  const log = byId('log');
  const detail = event.toolName || event.model || '';
  log.append(event.sequenceNumber + '  ' + event.type + (detail ? '  ' + detail : '') + '\n');
  while (log.childNodes.length > maxLogLines) log.firstChild.remove();
  log.scrollTop = log.scrollHeight;
}

loadAgents();
loadRuns();
setInterval(() => { if (!document.hidden) loadRuns(); }, refreshMs);
`;

const style = `
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 20%, transparent); --soft: color-mix(in srgb, currentColor 60%, transparent); }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1rem; font: 15px/1.45 system-ui, sans-serif; }
header { display: flex; flex-wrap: wrap; align-items: baseline; gap: .5rem 1.5rem; }
h1 { font-size: 1.3rem; margin: 0; } h2 { font-size: 1rem; margin: 0 0 .6rem; }
main { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); margin-top: 1rem; }
section { border: 1px solid var(--line); border-radius: .5rem; padding: 1rem; min-width: 0; }
label { display: block; margin: .4rem 0; } label span { display: block; font-size: .85rem; color: var(--soft); }
input, textarea, select, button { font: inherit; padding: .35rem .5rem; border: 1px solid var(--line); border-radius: .3rem; background: transparent; color: inherit; }
textarea, label input, label select { width: 100%; } textarea { min-height: 5rem; resize: vertical; }
button { cursor: pointer; } button:disabled { cursor: default; opacity: .5; }
table { width: 100%; border-collapse: collapse; font-size: .9rem; } th, td { text-align: left; padding: .25rem .5rem .25rem 0; border-bottom: 1px solid var(--line); }
td.number, th.number { text-align: right; padding-right: 0; } td button { border: 0; padding: 0; text-decoration: underline; font-family: ui-monospace, monospace; font-size: .8rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; } #text { min-height: 3rem; max-height: 20rem; overflow: auto; }
#log { max-height: 16rem; overflow: auto; font: .8rem/1.5 ui-monospace, monospace; border-top: 1px solid var(--line); margin-top: .8rem; padding-top: .5rem; }
#problem { color: #c62828; margin: .5rem 0 0; min-height: 1.2em; } .row { display: flex; gap: .5rem; align-items: center; justify-content: space-between; }
`;

const body = `
<header>
  <h1>Millrace</h1>
  <a href="/openapi.json">API</a> <a href="/metrics">Metrics</a>
  <label id="key-label">API key <input id="key" type="password" autocomplete="off" placeholder="not needed on this machine"></label>
</header>
<p id="problem" role="alert"></p>
<main>
  <section>
    <h2>Start a run</h2>
    <form id="start">
      <label><span>Agent</span><select id="agent" required></select></label>
      <label><span>Input</span><textarea id="input" required></textarea></label>
      <button>Start</button>
    </form>
  </section>
  <section>
    <div class="row"><h2>Run <code id="run">none selected</code></h2><span><button id="approve" hidden>Let it pass its cap</button> <button id="cancel" disabled>Cancel</button></span></div>
    <p id="state"></p>
    <pre id="text" aria-live="polite"></pre>
    <pre id="log"></pre>
  </section>
  <section>
    <div class="row"><h2>Recent runs</h2><button id="refresh">Refresh</button></div>
    <table>
      <thead><tr><th>Run</th><th>Agent</th><th>Status</th><th class="number">Cost</th><th>Started</th></tr></thead>
      <tbody id="runs"></tbody>
    </table>
  </section>
</main>
`;

/** The console: one page that needs nothing else and talks only to the server it came from. */
export const consoleHtml = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Millrace</title><link rel="icon" href="data:,"><style>${style}</style></head>
<body>${body}<script>${consoleScript}</script></body>
</html>
`;

const hashOf = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/** Allows this script and this style by their hashes, requests to this server, and nothing more. */
export const consolePolicy = [
  "default-src 'none'",
  `script-src ${hashOf(consoleScript)}`,
  `style-src ${hashOf(style)}`,
  "connect-src 'self'",
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');
