import { maxErrorChars } from './limits.ts';

/** What a script threw, in texts that the script chose. */
export interface Thrown {
  readonly name: string;
  readonly message: string;
  readonly stack: string;
}

/** Reads it from JSON text that the script had its hands on. */
export function thrownIn(json: string): Thrown {
  const told = parsed(json);
  const field = (name: string) => {
    const value: unknown = told === null || typeof told !== 'object' ? undefined : Reflect.get(told, name);
    return typeof value === 'string' ? value : '';
  };
  return { name: field('name'), message: field('message'), stack: field('stack') };
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

/** An error of a script in one line, with the place in its source. */
export function explain({ name, message, stack }: Thrown): string {
  const what = name === '' || name === 'Error' ? message : `${name}: ${message}`;
  return `${what.slice(0, maxErrorChars).toWellFormed() || 'the script threw nothing'}${positionIn(stack)}`;
}

/** Where in the script a stack begins, as ` (line 3, column 5)`. Empty when it does not touch the script. */
function positionIn(stack: string): string {
  const [, line, column] = /script\.js:(\d{1,7})(?::(\d{1,7}))?/.exec(stack.slice(0, maxErrorChars)) ?? [];
  // The first line is the one that makes a function of the script.
  return line === undefined || line === '1' ? '' : ` (line ${Number(line) - 1}${column ? `, column ${column}` : ''})`;
}
