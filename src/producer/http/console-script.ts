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
