/** The public door of `millrace/testing`: what tests of agents need. It runs with any test runner. */
import '../shared/base/node-version.ts';

export { FakeClock, type FakeClockOptions } from './fake-clock.ts';
export type { Clock } from '../shared/base/clock.ts';
