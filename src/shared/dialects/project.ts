import { RunError } from '../base/run-error.ts';
import type { RunEvent } from '../contract/event.ts';
import { eventNames } from '../contract/plain/event-names.ts';
import { afk } from './afk.ts';
import { callbacks } from './callbacks.ts';
import { type Dialect, type DialectContext, type DialectEvent, type Projector, among } from './dialect.ts';
import { graphorin } from './graphorin.ts';
import { ndjsonChat } from './ndjson-chat.ts';
import { relavium } from './relavium.ts';
import { runtimeStream } from './runtime-stream.ts';

/** `remembers`: what it says about an event depends on earlier ones, so that it has to see a run from its beginning. */
const dialects = {
  relavium: { project: relavium, remembers: true },
  callbacks: { project: callbacks, remembers: true },
  'ndjson-chat': { project: ndjsonChat, remembers: true },
  'runtime-stream': { project: runtimeStream, remembers: true },
  graphorin: { project: graphorin, remembers: false },
  afk: { project: afk, remembers: true },
} as const satisfies Record<string, { readonly project: Dialect; readonly remembers: boolean }>;

/** The forms in which the events of a run are to be had, beside our own. */
export type DialectName = keyof typeof dialects;
export const dialectNames = Object.keys(dialects) as DialectName[];

/**
 * Where a log has to be read from so that what follows `after` is as if it had been read from the beginning. Throws
 * `validation` for a wrong name.
 */
export function readFrom(name: DialectName, after: number): number {
  return traitsOf(name).remembers ? 0 : after;
}

/** Callers in JavaScript may ask for anything. */
function traitsOf(name: DialectName): (typeof dialects)[DialectName] {
  if (Object.hasOwn(dialects, name)) return dialects[name];
  throw new RunError('validation', `there is no such dialect; there are ${dialectNames.join(', ')}`);
}

/**
 * Translates the events of one run, given in order and from where `readFrom` says, into a dialect. Answers nothing for events
 * up to number `after`, and for types of a newer version. Throws `validation` for a wrong name or number.
 */
export function createProjector(name: DialectName, context: DialectContext, after = 0): Projector {
  if (!Number.isSafeInteger(after) || after < 0) {
    throw new RunError('validation', 'after must be a whole number from 0');
  }
  const project = traitsOf(name).project(context);
  return (event) => {
    if (!Object.hasOwn(eventNames, event.type)) return [];
    const projected = project(event);
    return event.sequenceNumber > after ? projected : [];
  };
}

export interface ProjectOptions extends Partial<DialectContext> {
  /** Events up to this number are read and not shown. */
  readonly after?: number;
}

/**
 * The events of one run in a dialect, from an iteration over its own events that begins with the first one. Ends with it,
 * and ends it when it is left early.
 *
 * @example
 * for await (const event of projectEvents(agent.stream('Where is order 7?'), 'afk')) console.log(event.type);
 */
export function projectEvents(
  events: AsyncIterable<RunEvent>,
  dialect: DialectName,
  { tenant = 'default', after = 0 }: ProjectOptions = {},
): AsyncIterableIterator<DialectEvent> {
  return eachProjected(events, createProjector(dialect, { tenant }, after));
}

type Projection<T> = (event: RunEvent) => readonly T[];

/** What becomes of each event, one after the other. Ends with the iteration, and ends it when it is left early. */
export function eachProjected<T>(events: AsyncIterable<RunEvent>, project: Projection<T>): AsyncIterableIterator<T> {
  const source = events[Symbol.asyncIterator]();
  const projected: T[] = [];
  return {
    async next() {
      while (projected.length === 0) {
        const step = await source.next();
        if (step.done) break;
        projected.push(...project(step.value));
      }
      const value = projected.shift();
      return value === undefined ? { done: true, value } : { done: false, value };
    },
    async return() {
      projected.length = 0;
      await source.return?.();
      return { done: true, value: undefined };
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

/**
 * Who looks at a run. `interactive`: a person in a conversation, who sees nothing of a run in the background but what
 * its agent sends on purpose: files, notes and messages to the user.
 */
export const eventProfiles = ['full', 'interactive'] as const;
export type EventProfile = (typeof eventProfiles)[number];

const isSentOnPurpose = among(['capability.user_notified', 'capability.file_sent', 'capability.note_shared']);

/** Makes the check whether this profile shows an event. Throws `validation` for an unknown profile. */
export function shownIn(profile: EventProfile): (event: RunEvent) => boolean {
  if (!eventProfiles.includes(profile))
    throw new RunError('validation', `there is no such profile; there are ${eventProfiles.join(', ')}`);
  return (event) => profile === 'full' || !event.background || isSentOnPurpose(event);
}

/** Projects every event, and answers only for those that the profile shows. */
export function projectShown<T>(profile: EventProfile, project: Projection<T>): Projection<T> {
  const isShown = shownIn(profile);
  return (event) => {
    const projected = project(event);
    return isShown(event) ? projected : [];
  };
}
