/** The files of a checkout that name its version, by path, with their texts. */
export type VersionFiles = Readonly<Record<(typeof versionFiles)[number], string>>;

export const versionFiles = ['package.json', 'package-lock.json', 'helm/millrace/Chart.yaml', 'CHANGELOG.md'] as const;

const pattern = /^(\d+)\.(\d+)\.(\d+)(?:-rc\.(\d+))?$/;

/** `1.2.0` and `1.2.0-rc.1` are versions; a candidate comes before what it is a candidate for. Throws for other texts. */
export function compareVersions(one: string, other: string): number {
  const [a, b] = [partsOf(one), partsOf(other)];
  const at = a.findIndex((part, index) => part !== b[index]);
  return at === -1 ? 0 : (a[at] ?? 0) - (b[at] ?? 0);
}

export function isCandidate(version: string): boolean {
  return version.includes('-');
}

/** The version that a manifest names. */
export function versionOf(manifest: string): string {
  return (JSON.parse(manifest) as { version: string }).version;
}

/**
 * The same files with another version, and what is under Unreleased in the changelog as its section. Throws when there is
 * nothing under Unreleased, or a section of this version already.
 */
export function withVersion(files: VersionFiles, version: string, date: string): VersionFiles {
  return {
    'package.json': files['package.json'].replace(/^ {2}"version": ".*"/m, `  "version": "${version}"`),
    'package-lock.json': withLockedVersion(files['package-lock.json'], version),
    'helm/millrace/Chart.yaml': files['helm/millrace/Chart.yaml'].replace(
      /^(version|appVersion): .*$/gm,
      (_, field: string) => `${field}: ${version}`,
    ),
    'CHANGELOG.md': withSection(files['CHANGELOG.md'], version, date),
  };
}

/** What the changelog says of a version, without its heading. Throws when it has no section. */
export function notesOf(changelog: string, version: string): string {
  const lines = changelog.split('\n');
  const start = lines.findIndex((line) => line === `## [${version}]` || line.startsWith(`## [${version}] `));
  if (start === -1) throw new Error(`CHANGELOG.md has no section [${version}]`);
  const length = lines.slice(start + 1).findIndex((line) => line.startsWith('## ['));
  return lines
    .slice(start + 1, length === -1 ? undefined : start + 1 + length)
    .join('\n')
    .trim();
}

function withSection(changelog: string, version: string, date: string): string {
  if (!/^- /m.test(notesOf(changelog, 'Unreleased')))
    throw new Error('CHANGELOG.md has nothing under Unreleased: there is nothing to release');
  if (changelog.includes(`\n## [${version}]`)) throw new Error(`CHANGELOG.md has a section [${version}] already`);
  return changelog.replace('\n## [Unreleased]\n', `\n## [Unreleased]\n\n## [${version}] - ${date}\n`);
}

/** As npm writes it. */
function withLockedVersion(text: string, version: string): string {
  const lock = JSON.parse(text) as { version: string; packages: { '': { version: string } } };
  lock.version = version;
  lock.packages[''].version = version;
  return `${JSON.stringify(lock, null, 2)}\n`;
}

function partsOf(version: string): number[] {
  const [, ...parts] = pattern.exec(version) ?? [];
  if (parts.length === 0) throw new Error(`${version} is not a version like 1.2.0 or 1.2.0-rc.1`);
  return parts.map((part) => (part === undefined ? Infinity : Number(part)));
}
