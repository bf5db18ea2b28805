import { defined } from '../shared/base/collections.ts';
import { RunError } from '../shared/base/errors.ts';
import { Redactor } from '../shared/base/redact.ts';
import { cancelledCall, LlmError } from '../worker/llm/errors.ts';
import {
  allInputKinds,
  wrapProvider,
  type LlmAnswer,
  type LlmPart,
  type LlmProvider,
  type LlmRequest,
} from '../worker/llm/provider.ts';
import { firstDifference, type Difference } from './difference.ts';
import {
  comparable,
  partsWithoutSecrets,
  readRecording,
  withoutSecrets,
  writeRecording,
  type Exchange,
  type RecordedAnswer,
  type RecordedError,
  type Recording,
} from './recording.ts';

/** Where a {@link recordedModel} keeps its conversation, and whom it asks while there is none. */
export interface RecordedModelOptions {
  /** A JSON file, to be kept with the tests. Folders are made. */
  readonly file: string;
  /** Asked as long as there is no file. Without it, a missing file is an error. */
  readonly from?: LlmProvider;
  /** Values that must not be in the file, beside the credentials of `from` and all that looks like one. */
  readonly secrets?: readonly string[];
  /** Makes a text of a request the same in every run, before it is recorded and compared: for dates and the like. */
  readonly normalise?: (text: string) => string;
}

/** A model that repeats a conversation. It is an `LlmProvider`: whatever takes one takes it. */
export interface RecordedModel extends LlmProvider {
  /** `true`: there was no file, so `from` is asked and its answers are written down. */
  readonly isRecording: boolean;
  /** What it was asked, in order. */
  readonly requests: readonly LlmRequest[];
  /** How many recorded answers no request got. 0 while it records. See `assertAllAnswered`. */
  readonly left: number;
}

/**
 * Makes a model that answers from a file, offline and at once. While there is no file it asks `from` and writes the file, answer
 * by answer; to record again, delete the file. An answer is given to a request that is equal to the recorded one; any other
 * request fails with kind `bad_request`, and the message shows the first difference. Errors of the provider are recorded too,
 * cancelled calls are not. Throws `validation` for a file that is missing without `from`, or cannot be used.
 *
 * @example
 * const from = process.env.OPENAI_API_KEY
 *   ? createOpenAICompatibleBackend({ baseUrl: 'https://api.openai.com/v1', model: 'gpt-5.2-mini', apiKey: process.env.OPENAI_API_KEY })
 *   : undefined;
 * const model = recordedModel({ file: 'test/recordings/shipped-order.json', from });
 */
export function recordedModel({
  file,
  from,
  secrets = [],
  normalise = (text) => text,
}: RecordedModelOptions): RecordedModel {
  const known = readRecording(file);
  const redactor = new Redactor(secrets);
  const requests: LlmRequest[] = [];
  const toComparable = (request: LlmRequest) => {
    requests.push(request);
    return comparable(request, redactor, normalise);
  };
  if (known) {
    const replay = new Replay(file, known);
    return {
      ...replayer(known, (request, onPart, signal) => replay.answer(toComparable(request), onPart, signal)),
      isRecording: false,
      requests,
      get left() {
        return replay.left;
      },
    };
  }
  if (!from) throw new RunError('validation', `there is no recording ${file}: give \`from\` the provider to record`);
  const recorder = new Recorder(file, from, redactor);
  return {
    ...wrapProvider(from, async (request, onPart, signal) => {
      redactor.learn(from.secrets?.() ?? []);
      return await recorder.ask(request, () => toComparable(request), onPart, signal);
    }),
    isRecording: true,
    requests,
    left: 0,
  };
}

/** The provider that a recording was made of, as far as its callers can see. */
function replayer({ provider, contextWindows }: Recording, generate: LlmProvider['generate']): LlmProvider {
  const { streaming, responseFormat, fileUrls, ...capabilities } = provider.capabilities;
  return {
    id: provider.id,
    capabilities: { ...capabilities, ...defined({ streaming, responseFormat, fileUrls }) },
    inputOf: () => allInputKinds,
    ...defined({ acceptsSensitivity: provider.acceptsSensitivity }),
    contextWindowOf: (model) => (Object.hasOwn(contextWindows, model) ? contextWindows[model] : undefined),
    generate,
  };
}

class Recorder {
  readonly #file: string;
  readonly #from: LlmProvider;
  readonly #redactor: Redactor;
  readonly #content: Recording;

  constructor(file: string, from: LlmProvider, redactor: Redactor) {
    this.#file = file;
    this.#from = from;
    this.#redactor = redactor;
    const { id, capabilities, acceptsSensitivity } = from;
    const provider = {
      id,
      capabilities,
      ...defined({ acceptsSensitivity: acceptsSensitivity && [...acceptsSensitivity] }),
    };
    this.#content = { v: 1, provider, contextWindows: {}, exchanges: [] };
  }

  async ask(
    request: LlmRequest,
    comparableRequest: () => Record<string, unknown>,
    onPart: (part: LlmPart) => void,
    signal: AbortSignal,
  ): Promise<LlmAnswer> {
    const parts: LlmPart[] = [];
    const taken = (part: LlmPart) => {
      parts.push(part);
      onPart(part);
    };
    try {
      const answer = await this.#from.generate(request, taken, signal);
      this.#add(request.model, comparableRequest(), parts, { answer: keptAnswer(answer) });
      return answer;
    } catch (error) {
      if (error instanceof LlmError && error.kind !== 'cancelled')
        this.#add(request.model, comparableRequest(), parts, { error: keptError(error) });
      throw error;
    }
  }

  #add(
    model: string,
    request: Record<string, unknown>,
    parts: readonly LlmPart[],
    end: { readonly answer: RecordedAnswer } | { readonly error: RecordedError },
  ): void {
    const clean = withoutSecrets(end, this.#redactor) as typeof end;
    this.#content.exchanges.push({ request, parts: partsWithoutSecrets(parts, this.#redactor), ...clean });
    const window = this.#from.contextWindowOf?.(model);
    if (window !== undefined) this.#content.contextWindows[model] = window;
    writeRecording(this.#file, this.#content);
  }
}

function keptAnswer({ message, finishReason, incompleteToolCalls, usage }: LlmAnswer): RecordedAnswer {
  return {
    message: structuredClone(message),
    finishReason,
    incompleteToolCalls: [...incompleteToolCalls],
    ...defined({ usage }),
  };
}

function keptError({ kind, message, retryable, status, code, retryAfterMs, usage }: LlmError): RecordedError {
  return { kind, message, retryable, ...defined({ status, code, retryAfterMs, usage }) };
}

class Replay {
  readonly #file: string;
  readonly #providerId: string;
  readonly #exchanges: readonly Exchange[];
  /** Those that no request got yet. Parallel runs ask in any order. */
  readonly #waiting: Set<number>;

  constructor(file: string, { provider, exchanges }: Recording) {
    this.#file = file;
    this.#providerId = provider.id;
    this.#exchanges = exchanges;
    this.#waiting = new Set(exchanges.keys());
  }

  get left(): number {
    return this.#waiting.size;
  }

  async answer(
    request: Record<string, unknown>,
    onPart: (part: LlmPart) => void,
    signal: AbortSignal,
  ): Promise<LlmAnswer> {
    const exchange = this.#take(request);
    for (const part of exchange.parts) {
      if (signal.aborted) throw cancelledCall(this.#providerId, signal);
      onPart(part);
    }
    if ('answer' in exchange) {
      const { usage, ...answer } = structuredClone(exchange.answer);
      return { ...answer, ...defined({ usage }) };
    }
    const { kind, message, ...options } = exchange.error;
    throw new LlmError(kind, this.#providerId, message, options);
  }

  #take(request: Record<string, unknown>): Exchange {
    let first: { readonly number: number; readonly difference: Difference } | undefined;
    for (const index of this.#waiting) {
      const exchange = this.#exchanges[index] as Exchange;
      const difference = firstDifference(exchange.request, request);
      if (difference === undefined) {
        this.#waiting.delete(index);
        return exchange;
      }
      first ??= { number: index + 1, difference };
    }
    throw new LlmError('bad_request', this.#providerId, `${this.#reason(first)}\nDelete the file to record it again.`);
  }

  #reason(first: { readonly number: number; readonly difference: Difference } | undefined): string {
    const count = this.#exchanges.length;
    if (!first)
      return `The recording ${this.#file} has ${count === 1 ? 'one answer' : `${count} answers`}, and the model is asked once more.`;
    const { path, expected, actual } = first.difference;
    return [
      `Request ${first.number} of the recording ${this.#file} is another one, first at ${path || 'its whole'}:`,
      `  recorded: ${expected}`,
      `  asked:    ${actual}`,
    ].join('\n');
  }
}
