/** The door of `millrace/client`, and of `millrace` in a browser or an edge function: the client over HTTP, without Node and Redis. */
import './symbols.ts';

export { Millrace } from './millrace.ts';
export type { RemoteOptions } from './options.ts';
export { MillraceClient } from '../facade.ts';
export { RunHandle, type ApproveCalls, type DenyCalls } from '../run-handle.ts';
export { ChatTurn, type ChatLinesOptions } from '../chat/chat-turn.ts';
export type { ChatLine } from '../chat/chat-line.ts';
export type { ChatOptions, ChatTurnRequest } from '../chat/open-turn.ts';
export { errorTable, RunError, type ErrorCode } from '../../../shared/base/run-error.ts';
export type { ErrorInfo } from '../../../shared/base/errors.ts';
export {
  isTerminal,
  isTerminalStatus,
  type RunStatus,
  type TerminalEventType,
} from '../../../shared/contract/plain/ends.ts';
export { formatUsd, microcentsPerUsd } from '../../../shared/contract/plain/amounts.ts';
export type { EventOf, EventType, PendingView, RunEvent, RunResultBody } from '../../../shared/contract/event.ts';
export type { RunOutcomeView, RunRequestInput, RunView } from '../../../shared/contract/run.ts';
export { dialectNames, projectEvents, type DialectName, type EventProfile } from '../../../shared/dialects/project.ts';
export type { DialectEvent } from '../../../shared/dialects/dialect.ts';
