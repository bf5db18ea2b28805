import { errorTable, toolErrorHints } from '../../src/shared/base/errors.ts';
import { code, table } from './json-schema.ts';

const intro = `# Errors

One table for HTTP answers, run records and events. Branch on \`code\`, never on \`message\`. An error has the form

\`\`\`json
{ "error": { "code": "queue_full", "message": "…", "retryable": true, "details": {} } }
\`\`\`

over HTTP, and the inner object stands in \`run.failed\` and in the run itself. \`retryable\` says whether the same request
or run may be tried again unchanged and succeed.`;

const runs = `## Errors that end a run

They appear in \`run.failed\` and in the run record, and with this status where a caller waits for the result.`;

const admission = `## Errors that a caller gets

They answer a request and never appear in the log of a run.`;

const tools = `## Errors of tool calls

A failed tool call is told to the model with a kind and a hint, and as \`tool.execute.error\` to subscribers. It ends the
run only when the agent's \`toolFailure\` says so.`;

/** The error table as the code uses it. */
export function errorsPage(): string {
  return [
    intro,
    runs,
    codes((scope) => scope !== 'admission'),
    admission,
    codes((scope) => scope !== 'run'),
    tools,
    table(
      ['kind', 'hint'],
      Object.entries(toolErrorHints).map(([kind, hint]) => [code(kind), code(hint)]),
    ),
  ].join('\n\n');
}

function codes(include: (scope: string) => boolean): string {
  const rows = Object.entries(errorTable)
    .filter(([, { scope }]) => include(scope))
    .map(([name, { http, retryable, when }]) => [code(name), String(http), retryable ? 'yes' : 'no', when]);
  return table(['code', 'HTTP', 'retryable', 'when'], rows);
}
