/** The public door of `millrace/testing`: what tests of agents need. It runs with any test runner. */
import '../shared/base/node-version.ts';

export { FakeClock, type FakeClockOptions } from './fake-clock.ts';
export { scriptedModel, type ScriptedModel, type ScriptedModelOptions } from './scripted-model.ts';
export {
  always,
  byAgent,
  byModel,
  calls,
  callsTool,
  fails,
  hangs,
  inOrder,
  saysJson,
  type Answer,
  type FailureOptions,
  type Script,
} from './scripts.ts';
export type { ModelScript, ScriptedAnswer } from '../worker/llm/backends/scripted.ts';
export { recordedModel, type RecordedModel, type RecordedModelOptions } from './recorded-model.ts';
export { testAgent, type TestAgent, type TestAgentOptions, type TestPerson, type TestRun } from './test-agent.ts';
export { agentFrom, type FolderAgent } from './folder-agent.ts';
export { assertNoDepartures, replayExport, type Replay, type ReplayOptions } from './replay/replay.ts';
export type { Departure, DepartureKind } from './replay/departures.ts';
export type { TestCall } from './test-calls.ts';
export type { StandIn } from './stand-ins.ts';
export {
  assertAllAnswered,
  assertCalled,
  assertCalls,
  assertCompleted,
  assertCost,
  assertEvents,
  assertFailed,
  assertNotCalled,
  assertOutput,
  assertSteps,
  assertText,
  assertWaits,
  type CallsOptions,
  type ExpectedArgs,
  type ExpectedCall,
  type ExpectedCost,
} from './assertions.ts';
export type { Clock } from '../shared/base/clock.ts';
