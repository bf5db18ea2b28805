import { z } from 'zod';

const unitMs: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 7 * 86_400_000,
};

/** A time so long ago, like `90s`, `30m`, `2h`, `3d`, `1w`, in milliseconds since the epoch; undefined for anything else. */
export function ago(text: string, nowMs: number): number | undefined {
  const [, amount, unit = ''] = /^(\d{1,9})([smhdw])$/.exec(text) ?? [];
  const ms = amount === undefined ? undefined : nowMs - Number(amount) * (unitMs[unit] ?? 0);
  return ms !== undefined && ms >= 0 ? ms : undefined;
}

const zoned = z.iso.datetime({ offset: true });

/** A time with its zone, or one so long ago; read as milliseconds since the epoch. */
export const pastTime = z
  .string()
  .max(40)
  .transform((text, context): number => {
    const ms = ago(text, Date.now()) ?? (zoned.safeParse(text).success ? Date.parse(text) : undefined);
    if (ms !== undefined) return ms;
    context.addIssue('must be a time like 2026-11-21T09:00:00Z, or like 7d for 7 days ago');
    return z.NEVER;
  });
