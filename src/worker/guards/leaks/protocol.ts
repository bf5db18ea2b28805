import { assertNever } from '../../../shared/base/errors.ts';
import { sha256 } from '../../../shared/base/ids.ts';
import type { LeakFinding, ProtocolMode } from '../../../shared/contract/agent/lateral-leak.ts';

/** Controls but tab, line feed and carriage return, and the delete character. */
// oxlint-disable-next-line no-control-regex
const controls = /[\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F]/g;
/** An empty line with the name of a field of an SSE frame behind it: where it is written as it is, a new frame begins. */
const frameBreaks = /(?:\r\n|\r|\n){2}(?=(?:event|data|id|retry):)/g;

/** What is refused in the mode `reject`. */
export const rejected = 'it has control characters, or what would begin a new frame of a stream';

export interface Guarded {
  readonly text: string;
  readonly leak?: LeakFinding;
}

/** A text without controls and frame breaks, and the finding where it had some. `reject`: the caller must refuse it. */
export function guardProtocol(text: string, mode: Exclude<ProtocolMode, 'off'>): Guarded {
  const hasBreak = text.search(frameBreaks) !== -1;
  if (!hasBreak && text.search(controls) === -1) return { text };
  const severity = hasBreak ? 'high' : 'low';
  const decision = decisionOf(mode);
  const about = { vector: 'protocol', severity, decision, contentSha256: sha256(text) } as const;
  return { text: neutralised(text, mode), leak: about };
}

/** The text without controls and frame breaks: escaped as `\u0007` and `\n`, or by a replacement character for each. */
export function neutralised(text: string, mode: Exclude<ProtocolMode, 'off'>): string {
  const shown = mode === 'replace' ? () => '\uFFFD' : escaped;
  return text.replaceAll(frameBreaks, (found) => Array.from(found, shown).join('')).replaceAll(controls, shown);
}

function escaped(character: string): string {
  if (character === '\n') return '\\n';
  if (character === '\r') return '\\r';
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

function decisionOf(mode: Exclude<ProtocolMode, 'off'>): LeakFinding['decision'] {
  switch (mode) {
    case 'escape':
      return 'escaped';
    case 'replace':
      return 'replaced';
    case 'reject':
      return 'rejected';
    default:
      return assertNever(mode);
  }
}

/** What may be the beginning of a frame break: it is kept back until more of the text is there. */
const open = /(?:\r\n|\r|\n){1,2}(?:e|ev|eve|even|event|d|da|dat|data|i|id|r|re|ret|retr|retry)?$/;
const maxOpenChars = 16;

/** The same for a text that comes in pieces: together they are what `neutralised` makes of the whole. */
export class NeutralisedPieces {
  readonly #mode: Exclude<ProtocolMode, 'off'>;
  #kept = '';

  constructor(mode: Exclude<ProtocolMode, 'off'>) {
    this.#mode = mode;
  }

  /** What can be shown of the text by now. */
  push(piece: string): string {
    const text = this.#kept + piece;
    const at = text.slice(-maxOpenChars).search(open);
    const from = at === -1 ? text.length : Math.max(0, text.length - maxOpenChars) + at;
    this.#kept = text.slice(from);
    return neutralised(text.slice(0, from), this.#mode);
  }

  /** The rest, when the text is complete. */
  end(): string {
    const rest = this.#kept;
    this.#kept = '';
    return neutralised(rest, this.#mode);
  }
}
