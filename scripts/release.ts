// Makes a version, and uploads it: docs/releasing.md.
//   node scripts/release.ts make 1.2.0
//   node scripts/release.ts upload [npm] [image] [chart] [--dry-run]
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { makeRelease } from './release/make.ts';
import { uploadRelease, uploads, type Upload } from './release/upload.ts';

const usage =
  'usage: release.ts make VERSION [--date YYYY-MM-DD] | release.ts upload [npm] [image] [chart] [--dry-run]';
const root = fileURLToPath(new URL('..', import.meta.url));
const say = (text: string) => console.log(text);

try {
  const options = { date: { type: 'string' }, 'dry-run': { type: 'boolean', default: false } } as const;
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  const [what, ...names] = positionals;
  const [version] = names;
  if (what === 'make' && version && names.length === 1 && !values['dry-run']) {
    const date = values.date ?? new Date().toISOString().slice(0, 10);
    if (!/^\d{4}-\d{2}-\d{2}$/.test(date)) throw new Error(`${date} is not a date like 2026-12-01`);
    await makeRelease(root, version, date, say);
    say(
      `\nv${version} is made. Look at it with: git show v${version}\nThen: git push --atomic origin main v${version}`,
    );
  } else if (what === 'upload' && names.every(isUpload) && values.date === undefined) {
    const parts = uploads.filter((part) => names.length === 0 || names.includes(part));
    await uploadRelease(root, { parts, dryRun: values['dry-run'], env: process.env, say });
  } else throw new Error(usage);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

function isUpload(name: string): name is Upload {
  return uploads.some((part) => part === name);
}
