import { RunError } from '../../../shared/base/errors.ts';

/** What a typed line asks for. */
export type Command =
  | { readonly kind: 'send'; readonly text: string }
  | { readonly kind: 'approve' | 'cancel' | 'new' | 'help' | 'nothing' }
  | { readonly kind: 'quit' }
  | { readonly kind: 'deny'; readonly reason: string }
  | { readonly kind: 'title'; readonly text: string };

const commands = [
  ['/approve', 'let the calls run that wait for it, or let the run go over its budget for one step'],
  ['/deny REASON', 'refuse them; the model gets the reason'],
  ['/cancel', 'stop the answer under way'],
  ['/title TEXT', 'give the thread a title'],
  ['/new', 'begin a new thread'],
  ['/quit', 'leave; what is under way goes on'],
  ['/help', 'show this'],
  ['//TEXT', 'send a text that begins with a slash'],
] as const;

/** A line for each command. */
export const helpLines: readonly string[] = commands.map(([form, effect]) => `${form.padEnd(15)}${effect}`);

/** Reads a typed line. Throws `validation` for a command that there is not, or one without what it needs. */
export function commandOf(line: string): Command {
  const text = line.trim();
  if (text === '') return { kind: 'nothing' };
  if (text.startsWith('//')) return { kind: 'send', text: text.slice(1) };
  if (!text.startsWith('/')) return { kind: 'send', text: line };
  const [, name = '', rest = ''] = /^\/(\S*)\s*(.*)$/s.exec(text) ?? [];
  switch (name) {
    case 'approve':
    case 'cancel':
    case 'new':
    case 'quit':
    case 'help':
      return bare(name, rest);
    case 'deny':
      return { kind: 'deny', reason: rest };
    case 'title':
      if (rest === '') throw new RunError('validation', '/title needs a text');
      return { kind: 'title', text: rest };
    default:
      throw new RunError('validation', `there is no command /${name}; /help lists them, //${name} sends it`);
  }
}

function bare<K extends Exclude<Command['kind'], 'send' | 'deny' | 'title'>>(kind: K, rest: string): { kind: K } {
  if (rest !== '') throw new RunError('validation', `/${kind} takes nothing after it`);
  return { kind };
}
