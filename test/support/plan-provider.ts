import { assertNever } from '../../src/shared/base/errors.ts';
import { Gates } from './gates.ts';
import { nextOf, piecesOf, tokensPerCall, type Fault, type PlannedStep, type Unplanned } from './plan.ts';
import {
  body,
  data,
  delta,
  finish,
  reset,
  stall,
  startRawProvider,
  status,
  stream,
  type RawProvider,
  type RawRequest,
  type Reply,
} from './raw-provider.ts';

/** One model call as the server saw it. */
export interface SeenCall {
  readonly runId: string;
  /** Number of the answer within the run, from 1. */
  readonly step: number;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly messages: readonly { readonly role: string; readonly content?: unknown }[];
  /** Names of the tools in the request. */
  readonly tools: readonly string[];
  /** `finished`: the whole answer was sent. `closed`: the caller went away before. */
  readonly ended: 'open' | 'finished' | 'closed';
}

/**
 * A model server that says, or does wrong, what each run's plan holds. It stays outside of the system under test, so
 * what it counts is what was called.
 */
export class PlanProvider implements AsyncDisposable {
  readonly gates = new Gates();
  /** The runs after which a title was asked for. These calls are no part of a run, and not among `calls`. */
  readonly titled: string[] = [];
  blockTitles = false;
  unplanned: Unplanned = () => undefined;
  /** What the model writes for `%name`: texts that the run's input, and so its user, does not have. */
  readonly words = new Map<string, string>();
  /** Summaries that were asked for. */
  summaries = 0;
  readonly #calls: {
    runId: string;
    step: number;
    startedAt: number;
    messages: SeenCall['messages'];
    tools: SeenCall['tools'];
    ended: SeenCall['ended'];
  }[] = [];
  #server: RawProvider | undefined;

  static async start(): Promise<PlanProvider> {
    const provider = new PlanProvider();
    provider.#server = await startRawProvider((response, request) => provider.#answer(response, request));
    return provider;
  }

  /** For `OPENAI_BASE_URL`. */
  get baseUrl(): string {
    return this.#server?.url as string;
  }

  get calls(): readonly SeenCall[] {
    return this.#calls;
  }

  callsOf(runId: string, step?: number): readonly SeenCall[] {
    return this.#calls.filter((call) => call.runId === runId && (step === undefined || call.step === step));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.gates.openAll();
    await this.#server?.[Symbol.asyncDispose]();
  }

  async #answer(response: Parameters<Reply>[0], request: RawRequest): Promise<void> {
    const { messages, tools: definitions = [] } = request.body as Pick<SeenCall, 'messages'> & {
      readonly tools?: readonly { readonly function: { readonly name: string } }[];
    };
    const tools = definitions.map(({ function: { name } }) => name);
    const [task, about = '', , what] = String(request.headers['idempotency-key']).split(':');
    if (task === 'title') return await this.#entitled(about)(response, request);
    if (what === 'summary') return await this.#summed(response, request);
    const { step, number } = nextOf(messages, this.unplanned);
    const runId = String(request.headers['idempotency-key']).split(':')[0] as string;
    const fault = step.faults?.[this.callsOf(runId, number).length];
    const call = { runId, step: number, startedAt: Date.now(), messages, tools, ended: 'open' as SeenCall['ended'] };
    this.#calls.push(call);
    response.on('close', () => (call.ended = response.writableFinished ? 'finished' : 'closed'));
    const said =
      step.text === undefined
        ? step
        : { ...step, text: inWords(step.text.replace('%call', `${this.#calls.length}`), this.words) };
    await (fault ? spoiled(fault, step, String(request.headers.authorization)) : this.#reply(said))(response, request);
  }

  /** A title for the thread of this run. Waits at the gate `title` once {@link blockTitles} is set. */
  #entitled(runId: string): Reply {
    return async (response, request) => {
      this.titled.push(runId);
      if (this.blockTitles) await this.gates.passed('title');
      await this.#reply({ text: 'A thread about plans' })(response, request);
    };
  }

  /** A summary of a part of a conversation: not among `calls`, like a title. */
  async #summed(...asked: Parameters<Reply>): Promise<void> {
    this.summaries++;
    await this.#reply({ text: 'They talked about plans.' })(...asked);
  }

  /** The step as it is planned, piece by piece, waiting where the plan says so. */
  #reply({ hold, paceMs = 0, ...step }: PlannedStep): Reply {
    return async (response) => {
      if (hold?.afterPieces === 0) await this.gates.passed(hold.gate);
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const [index, piece] of piecesOf(step).entries()) {
        response.write(data(delta({ content: piece })));
        if (hold?.afterPieces === index + 1) await this.gates.passed(hold.gate);
        else if (paceMs > 0) await new Promise((resolve) => setTimeout(resolve, paceMs));
        if (response.destroyed) return;
      }
      response.end(`${callChunks(step, this.words)}${endChunks(step.calls ? 'tool_calls' : 'stop')}`);
    };
  }
}

function callChunks({ calls = [] }: PlannedStep, words: ReadonlyMap<string, string>): string {
  return calls
    .map(({ name, args = {}, id }, index) => callChunk(index, name, inWords(JSON.stringify(args), words), id))
    .join('');
}

function inWords(text: string, words: ReadonlyMap<string, string>): string {
  return [...words].reduce((written, [name, word]) => written.replaceAll(`%${name}`, word), text);
}

function callChunk(index: number, name: string, args: string, id = `call_${index}`): string {
  const call = { index, id, type: 'function', function: { name, arguments: args } };
  return data(delta({ tool_calls: [call] }));
}

function endChunks(reason: string): string {
  const { input, output } = tokensPerCall;
  const usage = { prompt_tokens: input, completion_tokens: output, total_tokens: input + output };
  return `${data(finish(reason))}${data({ ...(finish(reason) as object), choices: [], usage })}data: [DONE]\n\n`;
}

/** The answer that the fault describes. Refusals repeat the credentials, as careless servers do. */
function spoiled(fault: Fault, step: PlannedStep, authorization: string): Reply {
  const pieces = piecesOf(step).map((piece) => data(delta({ content: piece })));
  const shown = 'afterPieces' in fault ? pieces.slice(0, fault.afterPieces) : [];
  const error = { message: `refused: ${authorization}`, type: 'server_error' };
  switch (fault.kind) {
    case 'status': {
      const { retryAfterS, code } = fault;
      const headers: Record<string, string> = retryAfterS === undefined ? {} : { 'retry-after': String(retryAfterS) };
      return status(fault.status, { ...error, ...(code && { code }) }, headers);
    }
    case 'hang':
      return stall();
    case 'stall':
      return stall(...shown);
    case 'page':
      return body('text/html', '<html>Please log in to this network.</html>');
    case 'filtered':
      return stream(endChunks('content_filter'));
    case 'cut':
      return reset(...shown);
    case 'eof':
      return stream(...shown);
    case 'garbage':
      return stream(...shown, 'data: {"choices": [{"delta"\n\n', 'data: [DONE]\n\n');
    case 'error':
      return stream(...shown, data({ error }), 'data: [DONE]\n\n');
    case 'half-call': {
      const { name, args = {} } = step.calls?.[0] ?? { name: 'none' };
      const half = callChunk(0, name, JSON.stringify(args).slice(0, -3));
      return fault.finish === 'length' ? stream(half, endChunks('length')) : stream(half);
    }
    default:
      return assertNever(fault);
  }
}
