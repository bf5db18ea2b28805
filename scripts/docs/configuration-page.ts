import { z } from 'zod';
import { configSchema, scope } from '../../src/shared/contract/config.ts';
import { code, table, typeName, type JsonSchema } from './json-schema.ts';

const intro = `# Configuration

Environment variables only, read once at start. Every problem is reported at once and the process exits with 2. A
variable that is unset or empty has its default; unknown variables are ignored.`;

const keys = `## API keys

\`MILLRACE_API_KEYS\` is a file or a comma-separated list of entries \`sha256:tenant:scopes\`: the SHA-256 of a key in hex,
the tenant whose runs it sees, and its scopes joined by \`+\` (${scope.options.map(code).join(', ')}; \`*\` for
all, nothing for \`read+write\`). In a file, there is one entry a line and \`#\` starts a comment. To make a key and its entry:

\`\`\`sh
key=$(openssl rand -hex 24)
echo "$(printf %s "$key" | sha256sum | cut -d' ' -f1):default:*" >> api-keys.txt
\`\`\``;

/** Every variable with its default and meaning, as the schema has them. */
export function configurationPage(): string {
  const { properties = {} } = z.toJSONSchema(configSchema, { io: 'input' }) as JsonSchema;
  const rows = Object.entries(properties).map(([name, field]) => [
    code(name),
    field.default === undefined ? '–' : code(JSON.stringify(field.default).replaceAll('"', '')),
    field.pattern || field.format ? 'string' : typeName(field),
    field.description ?? '',
  ]);
  return [intro, table(['variable', 'default', 'type', 'meaning'], rows), keys].join('\n\n');
}
