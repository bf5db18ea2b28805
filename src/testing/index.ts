/** The public door of `millrace/testing`: what tests of agents need. It runs with any test runner. */
export { FakeClock, type FakeClockOptions } from './fake-clock.ts';
export type { Clock } from '../shared/base/clock.ts';
