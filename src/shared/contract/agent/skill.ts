import { z } from 'zod';

export const skillName = z
  .string()
  .max(64)
  .regex(/^[a-z0-9]+(-[a-z0-9]+)*$/, 'must be 1 to 64 of a-z 0-9 and single dashes between them');

/** `lookup_order read_file`, as a text or as a list. Some systems write patterns of arguments behind a name. */
const toolNames = z.union([
  z.string().transform((names) => names.match(/[^\s,(]+(\([^)]*\))?/g) ?? []),
  z.array(z.string().min(1)),
]);

/**
 * What the head of a `SKILL.md` says, in the published form of agent skills. Fields that are not known are left alone:
 * skills are written for other systems, too. `trust` is ours: how far what the skill says is followed.
 */
export const skillManifest = z
  .object({
    name: skillName,
    description: z.string().trim().min(1).max(1_024),
    license: z.string().optional(),
    compatibility: z.string().max(500).optional(),
    metadata: z.record(z.string(), z.unknown()).optional(),
    'allowed-tools': toolNames.optional(),
    trust: z.enum(['trusted', 'untrusted']).default('trusted'),
  })
  .transform(({ name, description, trust, 'allowed-tools': allowedTools = [] }) => {
    return { name, description, trust, allowedTools };
  });
export type SkillManifest = z.output<typeof skillManifest>;

/** A skill that agents may name. */
export interface Skill extends SkillManifest {
  /** Where its files are. */
  readonly folder: string;
}
