import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { format } from 'oxfmt';
import { agentsPage } from './docs/agents-page.ts';
import { cliPage } from './docs/cli-page.ts';
import { configurationPage } from './docs/configuration-page.ts';
import { errorsPage } from './docs/errors-page.ts';
import { eventsPage } from './docs/events-page.ts';
import { httpPage } from './docs/http-page.ts';

const root = join(import.meta.dirname, '..');

/** The reference pages by path from the root, made from the schemas that the code itself uses. */
export async function referencePages(): Promise<ReadonlyMap<string, string>> {
  const sources = {
    'docs/reference/agents.md': agentsPage(),
    'docs/reference/cli.md': cliPage(),
    'docs/reference/configuration.md': configurationPage(),
    'docs/reference/errors.md': errorsPage(),
    'docs/reference/events.md': eventsPage(),
    'docs/reference/http.md': await httpPage(),
  };
  const pages = new Map<string, string>();
  for (const [path, source] of Object.entries(sources)) {
    const { code } = await format(path, source, { printWidth: 120, proseWrap: 'preserve' });
    pages.set(path, code);
  }
  return pages;
}

if (import.meta.main) {
  mkdirSync(join(root, 'docs/reference'), { recursive: true });
  for (const [path, page] of await referencePages()) {
    writeFileSync(join(root, path), page);
    console.log(path);
  }
}
