import { userInfo } from 'node:os';

/** Who decides when nobody says otherwise: the user of this machine. */
export function thisPerson(): string {
  try {
    return userInfo().username || 'cli';
  } catch {
    // A container may run as a user that has no name.
    return 'cli';
  }
}
