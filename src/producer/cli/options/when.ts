import { InvalidArgumentError } from 'commander';
import { z } from 'zod';
import { ago } from '../../../shared/base/past-time.ts';

const dayMs = 86_400_000;
/** No later time has four digits in its year. */
const lastMs = Date.parse('9999-12-31T23:59:59.999Z');

/** For the help of options that take one. */
export const dayForms = 'YYYY-MM-DD, today, yesterday, or 3d, 2w ago';
export const timeForms = '90s, 30m, 2h, 3d, 1w ago, today, yesterday, YYYY-MM-DD, or a time like 2026-11-21T09:00';

/** A day in UTC as `YYYY-MM-DD`. */
export function day(text: string, nowMs = Date.now()): string {
  const start = startOfDay(text, nowMs) ?? startOfDayAgo(text, nowMs);
  if (start === undefined) throw new InvalidArgumentError(`Not a day: ${dayForms}. Days are UTC.`);
  return new Date(start).toISOString().slice(0, 10);
}

/** The ISO time at which something begins; a day begins at 00:00 UTC. */
export function since(text: string): string {
  return timeOf(text, 0);
}

/** The ISO time at which something ends; a day ends with its last millisecond, in UTC. */
export function until(text: string): string {
  return timeOf(text, dayMs);
}

function timeOf(text: string, intoDayMs: number, nowMs = Date.now()): string {
  const start = startOfDay(text, nowMs);
  const ms = start === undefined ? (ago(text, nowMs) ?? instant(text)) : Math.min(start + intoDayMs, lastMs);
  if (ms === undefined) throw new InvalidArgumentError(`Not a time: ${timeForms}. Without a zone it is UTC.`);
  return new Date(ms).toISOString();
}

function startOfDay(text: string, nowMs: number): number | undefined {
  const today = nowMs - (nowMs % dayMs);
  if (text === 'today') return today;
  if (text === 'yesterday') return today - dayMs;
  return z.iso.date().safeParse(text).success ? Date.parse(`${text}T00:00:00Z`) : undefined;
}

function startOfDayAgo(text: string, nowMs: number): number | undefined {
  const ms = /[dw]$/.test(text) ? ago(text, nowMs) : undefined;
  return ms === undefined ? undefined : ms - (ms % dayMs);
}

function instant(text: string): number | undefined {
  const isZoned = z.iso.datetime({ offset: true }).safeParse(text).success;
  const isLocal = z.iso.datetime({ local: true }).safeParse(text).success;
  if (!isZoned && !isLocal) return undefined;
  return Date.parse(isZoned ? text : `${text}Z`);
}
