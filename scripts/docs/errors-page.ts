import { errorTable, toolErrorHints } from '../../src/shared/base/errors.ts';
import { reservedErrorCodes } from '../../src/shared/contract/reserved.ts';
import { code, table } from './json-schema.ts';

const intro = `# Errors

One table for HTTP answers, run records and events. Branch on \`code\`, never on \`message\`. An error has the form

\`\`\`json
{ "error": { "code": "queue_full", "message": "…", "retryable": true, "details": {} } }
\`\`\`

over HTTP, and the inner object is in \`run.failed\` and in the run itself. \`retryable\` says whether the same request
or run may be tried again unchanged and succeed.`;

const runs = `## Errors that end a run

They appear in \`run.failed\` and in the run record, and with this status where a caller waits for the result.`;

const admission = `## Errors that a caller gets

They answer a request and never appear in the log of a run.`;

const tools = `## Errors of tool calls

A failed tool call is reported to the model with a kind and a hint, and as \`tool.execute.error\` to subscribers. It ends the
run only when the agent's \`toolFailure\` says so.`;

const reserved = `## Reserved codes

Their meaning is fixed so that callers can be written against them. This version answers with none of them.`;

const isReserved = (name: string) => reservedErrorCodes.some((one) => one === name);

/** The error table as the code uses it. */
export function errorsPage(): string {
  return [
    intro,
    runs,
    codes((scope, name) => scope !== 'admission' && !isReserved(name)),
    admission,
    codes((scope, name) => scope !== 'run' && !isReserved(name)),
    reserved,
    codes((_, name) => isReserved(name)),
    tools,
    table(
      ['kind', 'hint'],
      Object.entries(toolErrorHints).map(([kind, hint]) => [code(kind), code(hint)]),
    ),
  ].join('\n\n');
}

function codes(include: (scope: string, name: string) => boolean): string {
  const rows = Object.entries(errorTable)
    .filter(([name, { scope }]) => include(scope, name))
    .map(([name, { http, retryable, when }]) => [code(name), String(http), retryable ? 'yes' : 'no', when]);
  return table(['code', 'HTTP', 'retryable', 'when'], rows);
}
