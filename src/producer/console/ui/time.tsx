import { signal } from '@preact/signals';
import { useLayoutEffect } from 'preact/hooks';

const dayMs = 86_400_000;
/** Made once: lists format some hundred times with each screen that scrolls by. */
const month = new Intl.DateTimeFormat('en', { month: 'short' });
const inFull = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const pad = (value: number) => String(value).padStart(2, '0');

/** `14:03:22` of today, `22 Nov 14:03` of this year, else with the year. In the time zone of the browser. */
export function formatTime(at: string | number | Date, now = new Date()): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return '—';
  const clock = `${pad(date.getHours())}:${pad(date.getMinutes())}`;
  if (date.toDateString() === now.toDateString()) return `${clock}:${pad(date.getSeconds())}`;
  const day = `${date.getDate()} ${month.format(date)}`;
  return date.getFullYear() === now.getFullYear() ? `${day} ${clock}` : `${day} ${date.getFullYear()}`;
}

/** A moment; its title has it in full. */
export function Time({ at }: { at: string | number | undefined }) {
  if (at === undefined) return <span class="soft">—</span>;
  const date = new Date(at);
  return (
    <time class="number" dateTime={date.toISOString()} title={`${inFull.format(date)} · ${date.toISOString()}`}>
      {formatTime(date)}
    </time>
  );
}

/** The same to the millisecond, for what comes close together. */
export function Moment({ at }: { at: string }) {
  const date = new Date(at);
  const clock = [date.getHours(), date.getMinutes(), date.getSeconds()].map(pad).join(':');
  return (
    <time class="number" dateTime={at} title={`${inFull.format(date)} · ${at}`}>
      {clock}.{String(date.getMilliseconds()).padStart(3, '0')}
    </time>
  );
}

/** `340 ms`, `4.2 s`, `2 m 05 s`, `3 h 20 m`, `2 d 4 h`. */
export function formatDuration(ms: number): string {
  if (ms < 0) return '0 ms';
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} m ${pad(Math.floor((ms % 60_000) / 1_000))} s`;
  if (ms < dayMs) return `${Math.floor(minutes / 60)} h ${pad(minutes % 60)} m`;
  return `${Math.floor(ms / dayMs)} d ${Math.floor((ms % dayMs) / 3_600_000)} h`;
}

export function Duration({ ms }: { ms: number | undefined }) {
  return ms === undefined ? <span class="soft">—</span> : <span class="number">{formatDuration(ms)}</span>;
}

const now = signal(Date.now());
let watchers = 0;
let timer: ReturnType<typeof setInterval> | undefined;

function startClock(): void {
  tick();
  timer = setInterval(tick, 1_000);
  document.addEventListener('visibilitychange', tick);
}

function stopClock(): void {
  clearInterval(timer);
  document.removeEventListener('visibilitychange', tick);
}

function tick(): void {
  if (!document.hidden) now.value = Date.now();
}

/** How long ago, counting: one clock for the whole page, and only while something shows it. */
export function Since({ at }: { at: string | number }) {
  // Before the first paint: while nothing shows it, the clock stands still.
  useLayoutEffect(() => {
    watchers += 1;
    if (watchers === 1) startClock();
    return () => {
      watchers -= 1;
      if (watchers === 0) stopClock();
    };
  }, []);
  const ms = Math.max(0, now.value - new Date(at).getTime());
  return <span class="number">{formatDuration(ms < 1_000 ? 0 : Math.floor(ms / 1_000) * 1_000)}</span>;
}
