/** A link as a Markdown file writes it. */
export interface Link {
  readonly target: string;
  readonly line: number;
}

/** Links to files and headings of this project: what a browser would open on another machine is left out. */
export function localLinks(markdown: string): Link[] {
  return links(markdown).filter(({ target }) => !leadsOutside.test(target));
}

/** The links that {@link localLinks} leaves out. */
export function outsideLinks(markdown: string): Link[] {
  return links(markdown).filter(({ target }) => leadsOutside.test(target));
}

const leadsOutside = /^[a-z][a-z0-9+.-]*:/i;

function links(markdown: string): Link[] {
  return proseLines(markdown).flatMap(({ text, line }) =>
    [...text.matchAll(/\]\(([^)\s]+)(?:\s+"[^"]*")?\)/g)].map(([, target = '']) => ({ target, line })),
  );
}

/** The anchors that GitHub makes of the headings. */
export function anchors(markdown: string): ReadonlySet<string> {
  const seen = new Map<string, number>();
  const found = new Set<string>();
  for (const heading of headings(markdown)) {
    const slug = heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replaceAll(' ', '-');
    const before = seen.get(slug) ?? 0;
    seen.set(slug, before + 1);
    found.add(before === 0 ? slug : `${slug}-${before}`);
  }
  return found;
}

/** Texts of all headings, or of those with so many `#`. */
export function headings(markdown: string, level?: number): string[] {
  return proseLines(markdown).flatMap(({ text }) => {
    const [, marks = '', title = ''] = /^(#{1,6}) +(.*?) *$/.exec(text) ?? [];
    return marks && (level === undefined || marks.length === level) ? [title] : [];
  });
}

/** The first cells of every table below a heading of this text, without backticks; of the whole page when undefined. */
export function firstCells(markdown: string, heading?: string): string[] {
  const lines = markdown.split('\n');
  const start = heading === undefined ? 0 : lines.findIndex((line) => line.replace(/^#+ /, '') === heading) + 1;
  const length = heading === undefined ? -1 : lines.slice(start).findIndex((line) => line.startsWith('## '));
  const section = lines.slice(start, length === -1 ? undefined : start + length);
  return section.flatMap((line) => /^\| `([^`]+)`/.exec(line)?.[1] ?? []);
}

function proseLines(markdown: string): { text: string; line: number }[] {
  let inCode = false;
  return markdown.split('\n').flatMap((text, index) => {
    const isFence = /^\s*```/.test(text);
    if (isFence) inCode = !inCode;
    return inCode || isFence ? [] : [{ text: text.startsWith('#') ? text : withoutCode(text), line: index + 1 }];
  });
}

/** Spans in their order, so that none begins where another ends. What a link is called stays: it may be code. */
function withoutCode(text: string): string {
  return text.replace(/`[^`]*`(\]?)/g, (span, bracket: string) => (bracket ? span : ''));
}

/** The blocks of code in a language, in their order. */
export function codeBlocks(markdown: string, language: string): string[] {
  return [...markdown.matchAll(/^```(\w*)\n(.*?)^```$/gms)].flatMap(([, found, code = '']) =>
    found === language ? [code] : [],
  );
}
