import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { chartTool } from '../../scripts/helm.ts';
import { cloneInto, run } from './packed.ts';

const helm = await chartTool('helm', process.env);
const withoutHelm = 'missing' in helm ? helm.missing : undefined;
if (process.env['CI'] && withoutHelm) throw new Error(`nothing may be left out on CI: ${withoutHelm}`);

const scratch = mkdtempSync(join(tmpdir(), 'millrace-release-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const clone = join(scratch, 'clone');
cloneInto(clone);
const git = (...args: string[]) => {
  const { code, stdout, stderr } = run(clone, 'git', args);
  if (code !== 0) throw new Error(stderr);
  return stdout.trim();
};
git('init', '--quiet', '--initial-branch', 'main');
git('config', 'user.name', 'Release');
git('config', 'user.email', 'release@example.com');
writeFileSync(join(clone, '.git/info/exclude'), 'node_modules\n');
git('add', '.');
git('commit', '--quiet', '--message', 'Everything');

const path = 'path' in helm ? { PATH: [dirname(helm.path), process.env['PATH']].join(delimiter) } : {};
const release = (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  run(clone, 'node', ['scripts/release.ts', ...args], { ...path, ...env });
const registries = { RELEASE_IMAGE: 'registry.example/millrace', RELEASE_CHARTS: 'oci://registry.example/charts' };
const textOf = (file: string) => readFileSync(join(clone, file), 'utf8');
const made = (file: string) => join(clone, '.cache/release/7.8.9', file);

// Each version that is made is built and packed.
describe.skipIf(withoutHelm)(
  `a release${withoutHelm ? ` (left out: ${withoutHelm})` : ''}`,
  { timeout: 300_000 },
  () => {
    test('a version whose package does not build leaves the checkout as it was', () => {
      writeFileSync(join(clone, 'src/broken.ts'), 'export const port: number = "none";\n');
      git('add', '.');
      git('commit', '--quiet', '--message', 'Break the build');
      const { code, stderr } = release(['make', '7.8.9']);
      expect(stderr).toContain('npm pack failed');
      expect(code).toBe(1);
      expect(git('status', '--porcelain')).toBe('');
      expect(git('tag')).toBe('');
      git('reset', '--quiet', '--hard', 'HEAD~1');
    });

    test('a version is refused that is lower, is no version, or stands on changes that are not committed', () => {
      expect(release(['make', '0.0.9']).stderr).toContain('0.0.9 is lower than');
      expect(release(['make', 'next']).stderr).toContain('next is not a version like 1.2.0');
      expect(release(['make', '7.8.9', '--date', 'today']).stderr).toContain('today is not a date');
      expect(release(['make']).stderr).toContain('usage: release.ts make VERSION');
      writeFileSync(join(clone, 'notes.txt'), 'of mine');
      expect(release(['make', '7.8.9']).stderr).toContain('commit or put away first:\n?? notes.txt');
      rmSync(join(clone, 'notes.txt'));
      git('switch', '--quiet', '--create', 'side');
      expect(release(['make', '7.8.9']).stderr).toContain('made on main, and this is side');
      git('switch', '--quiet', 'main');
      expect(release(['upload', '--dry-run'], registries).stderr).toContain(
        'first: what is uploaded is what is tagged',
      );
    });

    test('a version is a commit with every file that names it, and a tag with what the changelog says', () => {
      const { code, stdout } = release(['make', '7.8.9', '--date', '2026-12-01']);
      expect(stdout).toContain('git push --atomic origin main v7.8.9');
      expect(code).toBe(0);
      expect(git('log', '-1', '--format=%s')).toBe('Release 7.8.9');
      expect(git('status', '--porcelain')).toBe('');
      const changed = git('show', '--name-only', '--format=', 'HEAD').split('\n').sort();
      expect(changed).toEqual(['CHANGELOG.md', 'helm/millrace/Chart.yaml', 'package-lock.json', 'package.json']);
      expect(git('cat-file', '-t', 'v7.8.9')).toBe('tag');
      const notes = git('tag', '--list', '--format=%(contents)', 'v7.8.9');
      expect(notes).toMatch(/^### /);
      expect(textOf('CHANGELOG.md').replace(/\s+/g, ' ')).toContain(
        `## [7.8.9] - 2026-12-01 ${notes.replace(/\s+/g, ' ')}`,
      );
      expect(release(['make', '7.8.9']).stderr).toContain('there is a tag v7.8.9 already');
    });

    test('the package and the chart have the version of the tag', () => {
      const { stdout: packed } = run(scratch, 'tar', ['-xzOf', made('millrace-7.8.9.tgz'), 'package/package.json']);
      expect(JSON.parse(packed)).toMatchObject({ name: 'millrace', version: '7.8.9' });
      const { stdout: files } = run(scratch, 'tar', ['-tzf', made('millrace-7.8.9.tgz')]);
      expect(files).toContain('package/dist/producer/index.d.ts\n');
      const { stdout: chart } = run(scratch, 'tar', ['-xzOf', made('chart/millrace-7.8.9.tgz'), 'millrace/Chart.yaml']);
      expect(chart).toMatch(/^version: 7\.8\.9$/m);
      expect(chart).toMatch(/^appVersion: "?7\.8\.9"?$/m);
    });

    test('a dry run packs what is tagged and says what it would upload, with provenance', () => {
      rmSync(made(''), { recursive: true });
      const { code, stdout } = release(['upload', '--dry-run'], registries);
      const revision = git('rev-parse', 'HEAD');
      expect(stdout.split('\n').filter((line) => /^(npm|docker|helm) /.test(line))).toEqual([
        `npm publish ${made('millrace-7.8.9.tgz')} --provenance --access public --tag latest`,
        `docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=7.8.9 --build-arg REVISION=${revision} --provenance=mode=max --sbom=true --tag registry.example/millrace:7.8.9 --tag registry.example/millrace:latest --push .`,
        `helm push ${made('chart/millrace-7.8.9.tgz')} oci://registry.example/charts`,
      ]);
      expect(code).toBe(0);
      expect(existsSync(made('millrace-7.8.9.tgz'))).toBe(true);
    });

    test('what is missing for an upload is found before anything is packed', () => {
      rmSync(made(''), { recursive: true });
      const { code, stderr } = release(['upload'], { RELEASE_IMAGE: '', RELEASE_CHARTS: '' });
      expect(stderr).toContain('RELEASE_IMAGE is not set: the name of the image');
      expect(code).toBe(1);
      expect(existsSync(made(''))).toBe(false);
      expect(release(['upload', 'brew']).stderr).toContain('usage:');
    });
  },
);
