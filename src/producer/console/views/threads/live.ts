import type { RunEvent } from '../../../../shared/contract/event.ts';

/** What a run shows while it answers, beside what the thread has already. */
export interface Live {
  readonly runId: string;
  /** Of the step that is written now. */
  readonly text: string;
  readonly thinking: string;
  /** Calls that run now, by their id. */
  readonly calls: ReadonlyMap<string, string>;
  /** What it waits for; undefined: it works. */
  readonly waits: string | undefined;
  /** Counts the steps that are complete: the thread has them, so it is to be read again. */
  readonly steps: number;
  /** The step is complete: its text is in the thread, or soon. */
  readonly isStale: boolean;
  readonly end: End | undefined;
}

interface End {
  readonly status: 'completed' | 'failed' | 'cancelled';
  readonly problem: { readonly code: string; readonly message: string } | undefined;
  /** What was shown of an answer that did not become complete. */
  readonly partial: string | undefined;
}

export function liveOf(runId: string): Live {
  return {
    runId,
    text: '',
    thinking: '',
    calls: new Map(),
    waits: undefined,
    steps: 0,
    isStale: false,
    end: undefined,
  };
}

export function afterEvents(live: Live, events: readonly RunEvent[]): Live {
  return events.reduce(afterEvent, live);
}

const begun = { text: '', thinking: '', isStale: false } as const;

function afterEvent(live: Live, event: RunEvent): Live {
  switch (event.type) {
    case 'step.start':
    case 'step.reset':
      return { ...live, ...begun, waits: undefined };
    case 'text.delta':
      return { ...live, text: live.text + event.delta };
    case 'reasoning.delta':
      return { ...live, thinking: live.thinking + event.delta };
    case 'tool.execute.start':
      return { ...live, calls: new Map([...live.calls, [event.toolCallId, event.toolName]]) };
    case 'tool.execute.end':
    case 'tool.execute.error':
      return { ...live, calls: new Map([...live.calls].filter(([id]) => id !== event.toolCallId)) };
    case 'step.end':
      return { ...live, steps: live.steps + 1, isStale: true };
    case 'run.suspended':
      return { ...live, waits: event.reason, calls: new Map() };
    case 'run.resumed':
    case 'run.started':
      return { ...live, waits: undefined };
    case 'run.completed':
      return ended(live, { status: 'completed', problem: undefined, partial: undefined });
    case 'run.cancelled':
      return ended(live, { status: 'cancelled', problem: undefined, partial: event.partial });
    case 'run.failed': {
      const { error, partial } = event;
      return ended(live, { status: 'failed', problem: error, partial });
    }
    default:
      return live;
  }
}

function ended(live: Live, end: End): Live {
  return { ...live, calls: new Map(), waits: undefined, isStale: true, end };
}
