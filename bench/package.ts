import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { installInto, pack, root, run } from '../test/deploy/packed.ts';
import { printTable } from './measure.ts';

// What the npm package weighs: packs this checkout, installs it into empty folders, with and without what only servers
// and workers need, and imports each entry point in processes of its own. `--rounds N` says how many (9).

const roundsAt = process.argv.indexOf('--rounds');
const rounds = roundsAt > 0 ? Number(process.argv[roundsAt + 1]) : 9;

const scratch = mkdtempSync(join(tmpdir(), 'millrace-weigh-'));
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));

const tarball = pack(root, scratch);
const installs = [
  { name: 'npm install millrace', folder: join(scratch, 'all'), args: [] },
  { name: '… --omit=optional', folder: join(scratch, 'light'), args: ['--omit=optional'] },
];
for (const { folder, args } of installs) installInto(folder, tarball, args);

const megabytes = (bytes: number) => (bytes / 1e6).toFixed(1);
console.log(`tarball: ${megabytes(statSync(tarball).size)} MB\n`);
printTable([
  ['installation', 'packages', 'MB'],
  ...installs.map(({ name, folder }) => {
    const packages = Object.keys(JSON.parse(run(folder, 'npm', ['query', '*']).stdout) as object).length;
    return [name, String(packages), megabytes(sizeOf(join(folder, 'node_modules')))];
  }),
]);
console.log();
printTable([
  ['import, in the first installation', 'ms', 'modules', 'MB in memory'],
  ...['millrace', 'millrace/worker', 'millrace/testing'].map((entry) => [entry, ...imported(entry)]),
  ['(nothing)', ...imported('node:process')],
]);

function sizeOf(folder: string): number {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files.reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}

/** The best of the rounds: what else the machine does only makes it longer. */
function imported(entry: string): string[] {
  const measured = Array.from({ length: rounds }, () => {
    const [ms = 0, bytes = 0] = evaluate(`
      const began = performance.now();
      await import('${entry}');
      process.stdout.write(\`\${performance.now() - began} \${process.memoryUsage.rss()}\`, () => process.exit());`);
    return { ms, bytes };
  });
  const [modules = 0] = evaluate(`
    import { registerHooks } from 'node:module';
    let count = 0;
    registerHooks({ load: (url, context, next) => (url.startsWith('file:') && count++, next(url, context)) });
    await import('${entry}');
    process.stdout.write(String(count), () => process.exit());`);
  const best = (of: (each: { ms: number; bytes: number }) => number) => Math.min(...measured.map(of));
  return [best(({ ms }) => ms).toFixed(0), String(modules), megabytes(best(({ bytes }) => bytes))];
}

function evaluate(program: string): number[] {
  const { stdout } = run(join(scratch, 'all'), process.execPath, ['--input-type=module', '--eval', program]);
  return stdout.split(' ').map(Number);
}
