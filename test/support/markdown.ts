import GithubSlugger from 'github-slugger';
import type { Heading, Nodes, Root } from 'mdast';
import { fromMarkdown } from 'mdast-util-from-markdown';
import { gfmFromMarkdown } from 'mdast-util-gfm';
import { toString } from 'mdast-util-to-string';
import { gfm } from 'micromark-extension-gfm';
import { visit } from 'unist-util-visit';

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

/** Links, images and definitions of references, in their order. */
function links(markdown: string): Link[] {
  const found: Link[] = [];
  visit(parsed(markdown), (node) => {
    if (node.type === 'link' || node.type === 'image' || node.type === 'definition')
      found.push({ target: node.url, line: lineOf(node) });
  });
  return found;
}

/** The anchors that GitHub makes of the headings. */
export function anchors(markdown: string): ReadonlySet<string> {
  const slugs = new GithubSlugger();
  return new Set(headingsIn(parsed(markdown)).map((heading) => slugs.slug(toString(heading))));
}

/** Texts of all headings as they are written, or of those with so many `#`. */
export function headings(markdown: string, level?: number): string[] {
  return headingsIn(parsed(markdown))
    .filter(({ depth }) => level === undefined || depth === level)
    .map((heading) => textOf(heading, markdown));
}

/**
 * The first cells of every table in the section with a heading of this text, where they begin with code, without its
 * backticks; of the whole page when undefined.
 */
export function firstCells(markdown: string, heading?: string): string[] {
  const tree = parsed(markdown);
  const start = headingsIn(tree).find((each) => textOf(each, markdown) === heading);
  const end = headingsIn(tree).find((each) => start && each.depth <= 2 && lineOf(each) > lineOf(start));
  const cells: string[] = [];
  visit(tree, 'tableRow', (row) => {
    const isInside =
      heading === undefined || (start && lineOf(row) > lineOf(start) && !(end && lineOf(row) > lineOf(end)));
    const [first] = row.children[0]?.children ?? [];
    if (isInside && first?.type === 'inlineCode') cells.push(first.value);
  });
  return cells;
}

/** The rows of the first table behind the heading of this text, without its head: the source of each cell. */
export function tableRows(markdown: string, heading: string): string[][] {
  const tree = parsed(markdown);
  const start = tree.children.findIndex((node) => node.type === 'heading' && textOf(node, markdown) === heading);
  const table = tree.children.slice(start).find((node) => node.type === 'table');
  const [, ...rows] = start === -1 ? [] : (table?.children ?? []);
  return rows.map((row) =>
    row.children.map(({ children }) =>
      markdown.slice(children[0]?.position?.start.offset, children.at(-1)?.position?.end.offset),
    ),
  );
}

/** The blocks of code in a language, in their order. */
export function codeBlocks(markdown: string, language: string): string[] {
  const blocks: string[] = [];
  visit(parsed(markdown), 'code', ({ lang, value }) => {
    if ((lang ?? '') === language) blocks.push(`${value}\n`);
  });
  return blocks;
}

const trees = new Map<string, Root>();

function parsed(markdown: string): Root {
  const known = trees.get(markdown);
  if (known) return known;
  const tree = fromMarkdown(markdown, { extensions: [gfm()], mdastExtensions: [gfmFromMarkdown()] });
  trees.set(markdown, tree);
  return tree;
}

function headingsIn(tree: Root): Heading[] {
  return tree.children.filter((node) => node.type === 'heading');
}

/** The source of a heading without its marks. */
function textOf({ children }: Heading, markdown: string): string {
  return markdown.slice(children[0]?.position?.start.offset, children.at(-1)?.position?.end.offset);
}

function lineOf({ position }: Nodes): number {
  return position?.start.line ?? 0;
}
