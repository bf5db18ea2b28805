import type { z } from 'zod';
import type { check } from '../../../shared/contract/report/fleet.ts';

/** One line of `doctor`. */
export interface Check extends Readonly<Omit<z.infer<typeof check>, 'advice'>> {
  readonly advice?: string | undefined;
}

function checkOf(level: Check['level']): (name: string, text: string, advice?: string) => Check {
  return (name, text, advice) => ({ name, level, text, advice });
}

export const ok = checkOf('ok');
export const warn = checkOf('warn');
export const fail = checkOf('fail');
