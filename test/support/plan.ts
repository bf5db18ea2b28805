/** One call of a tool that the model asks for. */
export interface PlannedCall {
  readonly name: string;
  readonly args?: Record<string, unknown>;
  /** The model's own. Default: `call_` and its position. */
  readonly id?: string;
}

/**
 * What goes wrong with one attempt at an answer. `hang`: no byte, and the connection stays open. `stall`: the same after
 * some pieces. `cut`: the connection is reset. `eof`: it ends cleanly without a finish reason. `garbage`: a chunk that
 * is not JSON. `error`: an error in the middle of the stream. `page`: a web page with status 200. `half-call`: the
 * answer ends within the arguments of its tool call, with `length` as its reason, or none at all.
 */
export type Fault =
  | { readonly kind: 'status'; readonly status: number; readonly retryAfterS?: number; readonly code?: string }
  | { readonly kind: 'hang' | 'page' | 'filtered' }
  | { readonly kind: 'stall' | 'cut' | 'eof' | 'garbage' | 'error'; readonly afterPieces: number }
  | { readonly kind: 'half-call'; readonly finish: 'length' | 'none' };

/** One answer of the model: a text, tool calls, or both. */
export interface PlannedStep {
  /** `%call` in it is the number of the call at the server, so that no two answers are alike. */
  readonly text?: string;
  readonly calls?: readonly PlannedCall[];
  /** Pieces that the text is streamed in. Default: one for every word. */
  readonly pieces?: number;
  /** Milliseconds between two pieces. Default 0. */
  readonly paceMs?: number;
  /** The server waits for this gate once `afterPieces` pieces are out; 0 is before the first byte. */
  readonly hold?: { readonly gate: string; readonly afterPieces: number };
  /** What happens to the first, second, … attempt at this answer; attempts after these succeed. */
  readonly faults?: readonly Fault[];
}

/** What the model will say, step by step. A test writes it into the run's input, so that model servers need no state. */
export type Plan = readonly PlannedStep[];

/** The input of a run that makes every model server of these tests follow the plan. */
export function planInput(...plan: PlannedStep[]): string {
  return JSON.stringify(plan);
}

interface WireMessage {
  readonly role: string;
  readonly content?: unknown;
}

/** What a model says to a message that the system wrote, which is no plan. Undefined for one that is. */
export type Unplanned = (said: string) => PlannedStep | undefined;

/** The answer that is due, and its number from 1: the plan is the last user message, the position is the number of answers that followed it. */
export function nextOf(
  messages: readonly WireMessage[],
  unplanned: Unplanned = () => undefined,
): { readonly step: PlannedStep; readonly number: number } {
  const isUser = ({ role }: WireMessage) => role === 'user';
  const last = messages.findLast(isUser);
  // What a run says to its model behind the plan, such as a nudge of the loop guard, changes nothing about the plan.
  const isPlan = (message: WireMessage) => isUser(message) && String(message.content).startsWith('[');
  const at = unplanned(String(last?.content)) ? messages.findLastIndex(isUser) : messages.findLastIndex(isPlan);
  const said = String(messages[at]?.content);
  const answered = messages.slice(at).filter((message) => message.role === 'assistant').length;
  const step = unplanned(said) ?? (JSON.parse(said) as Plan)[answered] ?? { text: 'The plan is over.' };
  return { step, number: answered + 1 };
}

/** The pieces in which a step's text goes out. Joined they are the text. */
export function piecesOf({ text = '', pieces }: PlannedStep): readonly string[] {
  if (text === '') return [];
  if (pieces === undefined) return text.split(/(?<= )/);
  const size = Math.ceil(text.length / pieces);
  return Array.from({ length: Math.ceil(text.length / size) }, (_, i) => text.slice(i * size, (i + 1) * size));
}

/** Tokens that every answer of these tests costs, so that sums over a run can be checked exactly. */
export const tokensPerCall = { input: 100, output: 20 } as const;
