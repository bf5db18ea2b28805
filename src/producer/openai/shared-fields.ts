import { z } from 'zod';
import { outputSchema } from '../../shared/contract/node.ts';
import { maxMetadataChars, maxMetadataKeys } from '../../shared/contract/plain/metadata.ts';

/** The agent, as its caller names it. */
export const modelName = z.string().min(1).max(200);

/** A limit of tokens. */
export const tokens = z.int().min(1).max(1_000_000);

export const metadata = z
  .record(z.string().min(1).max(maxMetadataChars), z.string('must be text').max(maxMetadataChars))
  .refine((keys) => Object.keys(keys).length <= maxMetadataKeys, `at most ${maxMetadataKeys} keys`);

/** JSON Schema of the answer. `strict` changes nothing: what comes back is JSON in either case. */
export const namedFormat = z.strictObject({
  name: z.string().min(1).max(64),
  description: z.string().max(4_096).nullish(),
  schema: outputSchema,
  strict: z.boolean().nullish(),
});

export const noTools = 'an agent has its own tools, and no caller can answer its calls';
