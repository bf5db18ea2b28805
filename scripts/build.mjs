// Builds dist/ for the image and for npm: types and JavaScript by tsc, everything that is not TypeScript copied beside
// it, the console bundled, the package's manifest checked, and the public doors opened once.
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';

const root = fileURLToPath(new URL('..', import.meta.url));

rmSync(join(root, 'dist'), { recursive: true, force: true });
const { status } = spawnSync(join(root, 'node_modules/.bin/tsc'), ['-p', 'tsconfig.build.json'], {
  cwd: root,
  // stdout belongs to the command that builds: `npm pack` names its file there.
  stdio: ['ignore', 2, 2],
});
if (status !== 0) process.exit(status ?? 1);
const assets = readdirSync(join(root, 'src'), { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && !entry.name.endsWith('.ts'))
  .map((entry) => join(entry.parentPath, entry.name))
  .filter((file) => !file.startsWith(join(root, 'src/producer/console/')));
for (const asset of assets) {
  const copy = join(root, 'dist', asset.slice(join(root, 'src').length));
  mkdirSync(dirname(copy), { recursive: true });
  copyFileSync(asset, copy);
}
const bundled = spawnSync(process.execPath, ['scripts/console.mjs', 'build', 'dist/producer/console'], {
  cwd: root,
  stdio: ['ignore', 2, 2],
});
if (bundled.status !== 0) process.exit(bundled.status ?? 1);
const { messages, pkg } = await publint({ pkgDir: root, strict: true });
for (const message of messages) console.error(`package.json: ${formatMessage(message, pkg)}`);
if (messages.length > 0) process.exit(1);
for (const door of [
  'dist/producer/index.js',
  'dist/producer/client/remote/entry.js',
  'dist/worker/index.js',
  'dist/testing/index.js',
])
  await import(pathToFileURL(join(root, door)).href);
console.error(`dist/ is built (${assets.length} files beside the code)`);
// The doors may have timers; the build ends all the same.
process.exit(0);
