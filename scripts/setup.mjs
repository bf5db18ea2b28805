// Brings a fresh clone to the point where `npm start`, `npm run demo` and `npm test` can run: the npm dependencies (the
// pinned Node among them), a Redis and the built console. Says nothing when there is nothing to do. Runs before any
// dependency exists, so it uses none, and under any Node from 20 on. With `dependencies`, `redis` or `console` it sees to
// that one, with `tests` also to a browser for the slow lane; `redis FOLDER` is how an installed package unpacks a Redis into the project
// that uses it.
import { fileURLToPath } from 'node:url';
import { ensureChromium } from './setup/chromium.mjs';
import { ensureConsole } from './setup/console.mjs';
import { ensureDependencies } from './setup/dependencies.mjs';
import { ensureRedis } from './setup/redis.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const say = (text) => process.stderr.write(`[setup] ${text}\n`);

try {
  if (Number(process.versions.node.split('.')[0]) < 20) {
    throw new Error(`Node 20 or later is needed to set up, and this is ${process.versions.node}: https://nodejs.org`);
  }
  const [what, home = root] = process.argv.slice(2);
  const wants = (part) => what === undefined || what === 'tests' || what === part;
  if (wants('dependencies') || what === 'console') ensureDependencies(root, process.env, say);
  if (wants('redis')) ensureRedis(home, process.env, say);
  if (wants('console')) ensureConsole(root, say);
  if (what === 'tests') ensureChromium(process.env, say);
} catch (error) {
  say(error.message);
  process.exit(1);
}
