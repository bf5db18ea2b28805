import { z } from 'zod';
import { errorCode, type ErrorInfo } from '../../shared/base/errors.ts';

/** An error as OpenAI's API shows it, with our code. */
export const wireError = z.object({
  error: z.object({
    message: z.string(),
    type: z.string().describe('The kind of error in the words of OpenAI, by its status.'),
    param: z.string().nullable().describe('The field of the request that is wrong.'),
    code: errorCode,
    run_id: z.string().optional().describe('The run that the error is about.'),
    details: z.unknown().optional(),
    request_id: z.string().optional(),
  }),
});
export type WireError = Readonly<z.infer<typeof wireError>>;

/** The words that OpenAI's API has for errors, by status. */
const types: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  429: 'rate_limit_error',
};

/** An error in OpenAI's shape. `named` gives the path by which the caller of this route knows a field of ours. */
export function wireErrorOf(
  { code, message, details, correlationId }: ErrorInfo,
  status: number,
  named: (path: string) => string = (path) => path,
): WireError {
  const path = firstPathOf(details);
  return {
    error: {
      message,
      type: types[status] ?? (status >= 500 ? 'server_error' : 'invalid_request_error'),
      param: path === undefined ? null : named(path),
      code,
      run_id: runIdOf(details),
      details,
      request_id: correlationId,
    },
  };
}

const problems = z.array(z.object({ path: z.string().min(1) })).min(1);

function firstPathOf(details: unknown): string | undefined {
  return problems.safeParse(details).data?.[0]?.path;
}

const aboutRun = z.object({ runId: z.string() });

function runIdOf(details: unknown): string | undefined {
  return aboutRun.safeParse(details).data?.runId;
}
