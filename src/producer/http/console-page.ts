import { createHash } from 'node:crypto';
import { consoleScript } from './console-script.ts';

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
