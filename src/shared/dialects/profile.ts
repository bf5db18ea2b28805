import { among } from './dialect.ts';
import { RunError } from '../base/errors.ts';
import type { RunEvent } from '../contract/event.ts';

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
export function projectShown<T>(
  profile: EventProfile,
  project: (event: RunEvent) => readonly T[],
): (event: RunEvent) => readonly T[] {
  const isShown = shownIn(profile);
  return (event) => {
    const projected = project(event);
    return isShown(event) ? projected : [];
  };
}
