import { useState } from 'preact/hooks';
import type { RunView } from '../../../../shared/contract/run.ts';
import { api, asApiError } from '../../api.ts';
import { may } from '../../session.ts';
import { Confirm } from '../../ui/dialog.tsx';
import { notify } from '../../ui/notice.tsx';

type Act = 'cancel' | 'redrive';

export interface BulkProps {
  /** Those that are ticked. */
  readonly selected: readonly RunView[];
  /** What the list shows, as a filter for requests that are about all of it. */
  readonly filter: Readonly<Record<string, unknown>>;
  /** How many the filter fits, by status, as far as that is known. */
  readonly counts: Readonly<Partial<Record<string, number>>>;
  readonly onDone: () => void;
}

const atOnce = 6;
const openStatuses = ['queued', 'running', 'suspended'];

/** What is done to many runs: those that are ticked, or all that the filter fits. Asks before. */
export function Bulk({ selected, filter, counts, onDone }: BulkProps) {
  const [asked, ask] = useState<{ readonly act: Act; readonly all: boolean }>();
  if (!may('write')) return null;
  const open = selected.filter(({ endedAt }) => endedAt === undefined);
  const failed = selected.filter(({ status }) => status === 'failed');
  const openCount = openStatuses.reduce((sum, status) => sum + (counts[status] ?? 0), 0);
  const failedCount = counts['failed'] ?? 0;
  // All runs of a tenant are never meant by a slip.
  const isFiltered = Object.keys(filter).length > 0;
  return (
    <div class="row" role="group" aria-label="Many runs at once">
      {selected.length > 0 ? (
        <>
          <span>{selected.length} selected</span>
          <ActButton
            label={`Cancel ${open.length}`}
            count={open.length}
            onClick={() => ask({ act: 'cancel', all: false })}
          />
          <ActButton
            label={`Redrive ${failed.length}`}
            count={failed.length}
            onClick={() => ask({ act: 'redrive', all: false })}
          />
        </>
      ) : (
        isFiltered && (
          <>
            <ActButton label="Cancel all open" count={openCount} onClick={() => ask({ act: 'cancel', all: true })} />
            <ActButton
              label="Redrive all failed"
              count={failedCount}
              onClick={() => ask({ act: 'redrive', all: true })}
            />
          </>
        )
      )}
      {asked && (
        <Ask
          act={asked.act}
          count={
            asked.all
              ? asked.act === 'cancel'
                ? openCount
                : failedCount
              : (asked.act === 'cancel' ? open : failed).length
          }
          perform={async () =>
            asked.all
              ? await allThatFit(asked.act, filter)
              : await each(asked.act, asked.act === 'cancel' ? open : failed)
          }
          onClose={() => ask(undefined)}
          onDone={onDone}
        />
      )}
    </div>
  );
}

function ActButton({ label, count, onClick }: { label: string; count: number; onClick: () => void }) {
  return (
    <button type="button" disabled={count === 0} onClick={onClick}>
      {label}
    </button>
  );
}

const words = {
  cancel: {
    title: 'Cancel runs',
    verb: 'Cancel',
    done: 'cancelled',
    what: 'Runs that work are asked to stop; their answers so far are kept.',
  },
  redrive: {
    title: 'Redrive failed runs',
    verb: 'Redrive',
    done: 'queued again',
    what: 'Each continues from its journal: calls that were made are not made again.',
  },
} as const;

function Ask({
  act,
  count,
  perform,
  onClose,
  onDone,
}: {
  act: Act;
  count: number;
  perform: () => Promise<number>;
  onClose: () => void;
  onDone: () => void;
}) {
  const { title, verb, done, what } = words[act];
  const runs = `${count.toLocaleString('en-US')} ${count === 1 ? 'run' : 'runs'}`;
  return (
    <Confirm
      title={title}
      act={`${verb} ${runs}`}
      danger={act === 'cancel'}
      onClose={onClose}
      onConfirm={async () => {
        notify(`${(await perform()).toLocaleString('en-US')} ${done}`);
        onDone();
      }}
    >
      <p>
        {verb} {runs}? {what}
      </p>
    </Confirm>
  );
}

/** Answers how many it was done to. Runs that have ended by then stay as they are; it throws any other failure after the rest. */
async function each(act: Act, runs: readonly RunView[]): Promise<number> {
  const left = [...runs];
  let done = 0;
  let failure: unknown;
  const work = async () => {
    for (let run = left.pop(); run; run = left.pop()) {
      try {
        await api(`/v1/runs/${run.runId}/${act}`, { method: 'POST', body: {} });
        done += 1;
      } catch (error) {
        if (asApiError(error).status !== 409) failure ??= error;
      }
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  if (failure !== undefined) throw failure;
  return done;
}

/** The requests about a filter do so much at a time: asked again until they have seen all. */
async function allThatFit(act: Act, filter: Readonly<Record<string, unknown>>): Promise<number> {
  const { status, ...rest } = filter;
  if (act === 'redrive') {
    let done = 0;
    for (;;) {
      const answer = await api<{ done: number; more: boolean }>('/v1/runs/redrive', {
        method: 'POST',
        body: { ...rest, limit: 1_000 },
      });
      done += answer.done;
      if (!answer.more || answer.done === 0) return done;
    }
  }
  const named = { ...rest, ...(status !== undefined && { status }) };
  const asked = Object.keys(named).length === 0 ? { all: true } : named;
  let done = 0;
  let cursor: string | undefined;
  do {
    const body = { ...asked, ...(cursor !== undefined && { cursor }) };
    const answer = await api<{ done: number; cursor?: string }>('/v1/runs/cancel', { method: 'POST', body });
    done += answer.done;
    cursor = answer.cursor;
  } while (cursor !== undefined);
  return done;
}
