import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { expect, test } from 'vitest';
import { uploadCommands, uploads } from '../../scripts/release/upload.ts';
import { compareVersions, notesOf, versionFiles, withVersion, type VersionFiles } from '../../scripts/release/files.ts';

const root = join(import.meta.dirname, '../..');
const now = Object.fromEntries(
  versionFiles.map((path) => [path, readFileSync(join(root, path), 'utf8')]),
) as VersionFiles;
const released = (files: Partial<VersionFiles>, version = '7.8.9') =>
  withVersion({ ...now, ...files }, version, '2026-12-01');

test('a version is in every file that names it, and the rest of each file is as it was', () => {
  const files = released({});
  expect(JSON.parse(files['package.json'])).toEqual({
    ...(JSON.parse(now['package.json']) as object),
    version: '7.8.9',
  });
  const lock = JSON.parse(files['package-lock.json']) as { version: string; packages: { '': { version: string } } };
  expect([lock.version, lock.packages[''].version]).toEqual(['7.8.9', '7.8.9']);
  const chart: unknown = parse(files['helm/millrace/Chart.yaml']);
  expect(chart).toMatchObject({ name: 'millrace', version: '7.8.9', appVersion: '7.8.9' });
  const sameAgain = withVersion({ ...files, 'CHANGELOG.md': now['CHANGELOG.md'] }, '0.1.0', '2026-12-01');
  for (const path of versionFiles.filter((each) => each !== 'CHANGELOG.md')) expect(sameAgain[path]).toBe(now[path]);
});

test('what is under Unreleased becomes the section of the version, above the older ones', () => {
  const changelog = '# Changelog\n\n## [Unreleased]\n\n### Added\n\n- One.\n\n## [0.1.0] - 2026-01-01\n\n- Old.\n';
  const made = released({ 'CHANGELOG.md': changelog })['CHANGELOG.md'];
  expect(made).toBe(
    '# Changelog\n\n## [Unreleased]\n\n## [7.8.9] - 2026-12-01\n\n### Added\n\n- One.\n\n## [0.1.0] - 2026-01-01\n\n- Old.\n',
  );
  expect(notesOf(made, '7.8.9')).toBe('### Added\n\n- One.');
  expect(notesOf(made, '0.1.0')).toBe('- Old.');
  expect(notesOf(made, 'Unreleased')).toBe('');
  expect(() => notesOf(made, '7.8')).toThrow('no section [7.8]');
});

test('without a change there is no version, and none is made twice', () => {
  const nothing = '# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-01-01\n\n- Old.\n';
  expect(() => released({ 'CHANGELOG.md': nothing })).toThrow('nothing under Unreleased');
  const made = '# Changelog\n\n## [Unreleased]\n\n- New.\n\n## [7.8.9] - 2026-01-01\n\n- Old.\n';
  expect(() => released({ 'CHANGELOG.md': made })).toThrow('has a section [7.8.9] already');
});

test('the changelog of this checkout can become a version', () => {
  expect(notesOf(released({})['CHANGELOG.md'], '7.8.9')).toBe(notesOf(now['CHANGELOG.md'], 'Unreleased'));
});

test('versions are ordered by number, candidates before what they are candidates for', () => {
  const ordered = ['0.1.0', '0.2.0-rc.2', '0.2.0-rc.10', '0.2.0', '0.10.0', '1.0.0'];
  expect(ordered.toReversed().sort(compareVersions)).toEqual(ordered);
  expect(compareVersions('1.2.3', '1.2.3')).toBe(0);
  for (const text of ['v1.2.3', '1.2', '1.2.3-beta', ''])
    expect(() => compareVersions(text, '1.0.0')).toThrow('is not a version');
});

const release = { version: '1.2.0', revision: 'abc', npm: 'package.tgz', chart: 'chart.tgz' };
const registries = { RELEASE_IMAGE: 'registry.example/millrace', RELEASE_CHARTS: 'oci://registry.example/charts' };

test('package, image and chart are uploaded with where they come from', () => {
  expect(uploadCommands(uploads, release, registries).map((words) => words.join(' '))).toEqual([
    'npm publish package.tgz --provenance --access public --tag latest',
    'docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=1.2.0 --build-arg REVISION=abc --provenance=mode=max --sbom=true --tag registry.example/millrace:1.2.0 --tag registry.example/millrace:latest --push .',
    'helm push chart.tgz oci://registry.example/charts',
  ]);
});

test('a candidate does not become what people get without asking', () => {
  const text = uploadCommands(uploads, { ...release, version: '1.2.0-rc.1' }, registries)
    .flat()
    .join(' ');
  expect(text).toContain('--tag next');
  expect(text).toContain('--tag registry.example/millrace:1.2.0-rc.1');
  expect(text).not.toContain('latest');
});

test('nothing is uploaded to a place without a name', () => {
  expect(() => uploadCommands(['image'], release, {})).toThrow('RELEASE_IMAGE is not set');
  expect(() => uploadCommands(['chart'], release, {})).toThrow('RELEASE_CHARTS is not set');
});
