import { lstatSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { RunError } from '../../../shared/base/errors.ts';

/** A file that was there before. */
export interface LeftAlone {
  readonly path: string;
  /** What its owner may want to do about it. */
  readonly note?: string | undefined;
}

/** What is said of a link. */
export const isLinkNote = 'is a link, and nothing is written through one';

/** Puts files into a folder, never over one that is there, and never through a link, which may lead out of the folder. */
export class Scaffold {
  /** Paths in the folder. */
  readonly created: string[] = [];
  readonly left: LeftAlone[] = [];
  /** The folder. */
  readonly target: string;
  readonly #templates: string;

  constructor(templates: string, target: string) {
    this.#templates = templates;
    this.target = target;
  }

  /** A copy of a template; `noteOn` says what is to be done about a file that is there, given both texts. */
  add(template: string, path: string, noteOn?: (text: string, present: string) => string | undefined): void {
    const text = readFileSync(join(this.#templates, template), 'utf8');
    const link = this.linkAt(dirname(path));
    if (link !== undefined) this.leave(path, `${link} ${isLinkNote}`);
    else if (!this.write(path, text)) this.leave(path, noteOn?.(text, this.read(path)));
  }

  /** Answers whether the file is new. One that is there stays as it is. */
  write(path: string, text: string): boolean {
    const file = join(this.target, path);
    try {
      mkdirSync(dirname(file), { recursive: true });
      // Fails where there is anything, also when that has come only now.
      writeFileSync(file, text, { flag: 'wx' });
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException;
      if (code !== 'EEXIST') throw new RunError('invalid_config', `cannot write ${file} (${code})`, { cause });
      return false;
    }
    this.created.push(path);
    return true;
  }

  leave(path: string, note?: string): void {
    this.left.push({ path, note });
  }

  /** The first part of a path in the folder that is a link. */
  linkAt(path: string): string | undefined {
    const parts = path.split('/');
    const paths = parts.map((_, index) => parts.slice(0, index + 1).join('/'));
    return paths.find((one) => lstatSync(join(this.target, one), { throwIfNoEntry: false })?.isSymbolicLink());
  }

  /** Empty for what is no text file. */
  read(path: string): string {
    try {
      return readFileSync(join(this.target, path), 'utf8');
    } catch {
      return '';
    }
  }
}
