import { sha256 } from '../../../shared/base/ids.ts';
import { canonicalJson, jsonText } from '../../../shared/base/json.ts';
import type { Redactor } from '../../../shared/base/redact.ts';
import { clip } from '../../../shared/base/text.ts';
import {
  maxPinnedDescriptionChars,
  maxPinnedSchemaChars,
  toolPart,
  type DescribedTool,
} from '../../../shared/contract/mcp-pins.ts';
import { withoutHidden } from '../../guards/folded-text.ts';
import type { ListedTool } from './list.ts';

const partDigestChars = 16;

/** All that a server says about a tool, by its digest, and what people compare of it. `now`: milliseconds since the epoch. */
export function describedTool(
  { name, given }: ListedTool,
  redactor: Pick<Redactor, 'text'>,
  now: number,
): DescribedTool {
  const said = toolPart.options.filter((part) => given[part] !== undefined);
  const whole = Object.fromEntries(said.map((part) => [part, given[part]]));
  const shown = (text: string, maxChars: number) =>
    clip(redactor.text(withoutHidden(clip(text, 2 * maxChars))), maxChars);
  const { description, title, inputSchema } = given;
  const words = [description, title].find((text) => typeof text === 'string');
  return {
    digest: sha256(canonicalJson({ ...whole, name })),
    parts: Object.fromEntries(said.map((part) => [part, sha256(canonicalJson(given[part])).slice(0, partDigestChars)])),
    description: shown(typeof words === 'string' ? words : '', maxPinnedDescriptionChars),
    inputSchema: shown(jsonText(inputSchema ?? null), maxPinnedSchemaChars),
    seenAt: new Date(now).toISOString(),
  };
}
