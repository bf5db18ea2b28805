import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

const names = ['chromium', 'chromium-browser', 'google-chrome'];

/**
 * Sees to the browser that the tests of the console drive. As root on Debian it is installed; anywhere else it says
 * how to get one, and the tests that need it are skipped. Never fails: everything but those tests works without.
 */
export function ensureChromium(env, say) {
  if (env.CHROMIUM_BIN && existsSync(env.CHROMIUM_BIN)) return;
  if (onPath(names, env)) return;
  if (process.getuid?.() === 0 && onPath(['apt-get'], env)) {
    say('no Chromium found for the tests of the console: installing it with apt-get, as root');
    if (installWithApt(env) && onPath(names, env)) return;
    say('that did not work');
  }
  say(
    'the tests of the console in a browser are skipped: there is no Chromium. Install one (apt-get install chromium, brew install chromium), or set CHROMIUM_BIN',
  );
}

function installWithApt(env) {
  for (const args of [['update'], ['install', '-y', '--no-install-recommends', 'chromium']]) {
    const { status } = spawnSync('apt-get', args, {
      env: { ...env, DEBIAN_FRONTEND: 'noninteractive' },
      // stdout belongs to the command that follows.
      stdio: ['ignore', 2, 2],
    });
    if (status !== 0) return false;
  }
  return true;
}

function onPath(programs, env) {
  const folders = (env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  return folders.some((folder) => programs.some((program) => existsSync(join(folder, program))));
}
