import { RunError } from '../../../shared/base/errors.ts';
import { type LlmAnswer, type LlmPart, type LlmProvider, type LlmRequest, wrapProvider } from '../provider.ts';
import { cancelledCall } from '../errors.ts';
import { pieces } from '../openai/wire-values.ts';

/**
 * What a middleware is for, from the outside in. Retries are outermost, so that everything within sees each attempt, and
 * redaction is innermost, so that nothing that is added on the way goes out unseen by it.
 */
const kindsFromOutside = ['retry', 'limit', 'cache', 'observe', 'transform', 'redact'] as const;
export type MiddlewareKind = (typeof kindsFromOutside)[number];

/** The rest of the way to the provider. */
export type NextCall = LlmProvider['generate'];

/** Something between the runner and a provider. Keeps the promises of `LlmProvider.generate`. */
export interface Middleware {
  readonly name: string;
  readonly kind: MiddlewareKind;
  /**
   * Called for each attempt; calls `next` to go on. Parts that it shows were shown: a call that fails after them is not
   * made again.
   */
  generate(
    request: LlmRequest,
    onPart: (part: LlmPart) => void,
    signal: AbortSignal,
    next: NextCall,
  ): Promise<LlmAnswer>;
}

/**
 * The provider behind these middlewares, the first one outermost. Throws `middleware_order_violation`, listing every
 * mistake, unless they stand in the order retry, limit, cache, observe, transform, redact; several of one kind may stand
 * side by side.
 *
 * @example
 * const logged = withMiddleware(provider, [{
 *   name: 'log',
 *   kind: 'observe',
 *   async generate(request, onPart, signal, next) {
 *     const answer = await next(request, onPart, signal);
 *     console.log(request.model, answer.usage);
 *     return answer;
 *   },
 * }]);
 */
export function withMiddleware(provider: LlmProvider, middlewares: readonly Middleware[]): LlmProvider {
  assertMiddlewareOrder(middlewares);
  let wrapped = inChunks(provider);
  for (const middleware of middlewares.toReversed()) {
    const inner = wrapped;
    wrapped = wrapProvider(inner, (request, onPart, signal) =>
      middleware.generate(request, onPart, signal, (...call) => inner.generate(...call)),
    );
  }
  return wrapped;
}

/** Throws `middleware_order_violation` as {@link withMiddleware} does. */
export function assertMiddlewareOrder(middlewares: readonly Middleware[]): void {
  const problems: string[] = [];
  for (const { name, kind } of middlewares) {
    if (!kindsFromOutside.includes(kind)) problems.push(`${name} is of kind ${kind}, which is none`);
  }
  for (const [index, inner] of middlewares.entries()) {
    const outer = middlewares[index - 1];
    if (outer && kindsFromOutside.indexOf(outer.kind) > kindsFromOutside.indexOf(inner.kind)) {
      problems.push(`${inner.name} (${inner.kind}) must stand before ${outer.name} (${outer.kind})`);
    }
  }
  if (problems.length === 0) return;
  const text = `the middlewares are in an unsafe order, which is ${kindsFromOutside.join(', ')} from the outside in`;
  throw new RunError('middleware_order_violation', `${text}:\n  ${problems.join('\n  ')}`, { details: problems });
}

/**
 * A provider that does not stream, whose parts are emitted once its answer is whole, so that subscribers see the same shape as
 * ever. A provider that streams comes back as it is.
 */
export function inChunks(provider: LlmProvider): LlmProvider {
  if (provider.capabilities.streaming !== false) return provider;
  return wrapProvider(provider, async (request, onPart, signal) => {
    const answer = await provider.generate(request, () => {}, signal);
    for (const part of partsOf(answer)) {
      if (signal.aborted) break;
      onPart(part);
    }
    if (signal.aborted) throw cancelledCall(provider.id, signal, answer.usage);
    return answer;
  });
}

function* partsOf({ message }: LlmAnswer): Generator<LlmPart> {
  for (const part of message.parts) {
    if (part.type === 'tool_call') {
      yield { type: 'tool_call_start', id: part.id, name: part.name };
      yield { type: 'tool_call_delta', id: part.id, delta: part.args };
    } else {
      for (const delta of pieces(part.text)) yield { type: part.type, delta };
    }
  }
}
