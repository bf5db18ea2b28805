import { useLocation } from 'preact-iso/router';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { RunSteps } from '../../../../shared/contract/archive/run-steps.ts';
import type { RunEvent } from '../../../../shared/contract/event.ts';
import { api, asApiError } from '../../api.ts';
import { useKeys } from '../../keys.ts';
import { formatMoney } from '../../ui/money.tsx';
import { notify } from '../../ui/notice.tsx';
import { formatDuration } from '../../ui/time.tsx';
import { foldedAxis, plainAxis, type Axis } from './record/axis.ts';
import { parentsIn, visibleRows, waterfallOf, type Row, type Tone } from './record/waterfall.ts';

/** Rows that are drawn before anybody asks for more. */
const firstRows = 300;

export interface TimelineProps {
  readonly steps: RunSteps;
  readonly events: readonly RunEvent[];
  readonly nowMs: number;
  /** Leads to the place on the page that shows all of it. */
  readonly onGo: (anchor: string) => void;
}

/** When everything was: a line for each thing that happened, and the time from left to right. */
export function Timeline({ steps, events, nowMs, onGo }: TimelineProps) {
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const [limit, setLimit] = useState(firstRows);
  const [current, setCurrent] = useState<string>();
  const { opened, open } = useChildren();
  const { route } = useLocation();
  const attemptEvents = useMemo(() => events.filter(({ type }) => type === 'llm.call'), [events]);
  const waterfall = useMemo(
    () => waterfallOf({ steps, events: attemptEvents, nowMs, opened }),
    [steps, attemptEvents, nowMs, opened],
  );
  const [isFolded, setFolded] = useState(true);
  const folded = useMemo(() => foldedAxis(waterfall), [waterfall]);
  const axis = useMemo(() => (isFolded ? folded : plainAxis(waterfall)), [isFolded, folded, waterfall]);
  const parents = useMemo(() => parentsIn(waterfall.rows), [waterfall]);
  const rows = useMemo(() => visibleRows(waterfall.rows, closed), [waterfall, closed]);
  const drawn = rows.slice(0, limit);

  const toggle = (row: Row) => {
    if (row.runId !== undefined && !opened.has(row.runId)) {
      void open(row.runId);
      return;
    }
    const next = new Set(closed);
    if (!next.delete(row.id)) next.add(row.id);
    setClosed(next);
  };
  const go = (row: Row) => {
    if (row.anchor !== undefined) onGo(row.anchor);
    else if (row.runId !== undefined) route(`/runs/${encodeURIComponent(row.runId)}`);
  };
  const at = drawn.findIndex(({ id }) => id === current);
  const move = (by: number) => setCurrent(drawn[Math.min(drawn.length - 1, Math.max(0, at + by))]?.id);
  const currentRow = drawn[at];
  const onRow = useRef({ go, toggle });
  onRow.current = { go, toggle };
  useKeys({
    j: { what: 'Next line of the timeline', run: () => move(1) },
    k: { what: 'Line before', run: () => move(-1) },
    o: { what: 'Open or close what belongs to the line', run: () => currentRow && toggle(currentRow) },
  });
  useEffect(() => {
    const line = current === undefined ? null : document.getElementById(`row-${current}`);
    line?.scrollIntoView({ block: 'nearest' });
    // What Enter does is then the button's.
    (line?.querySelector<HTMLElement>('button.line-label') ?? line)?.focus({ preventScroll: true });
  }, [current]);

  return (
    <div class="timeline">
      {folded.folds.length > 0 && (
        <p class="soft">
          {isFolded ? 'Pauses without work are drawn short. ' : 'Pauses are drawn as long as they were. '}
          <button type="button" class="quiet" aria-pressed={isFolded} onClick={() => setFolded(!isFolded)}>
            Fold pauses
          </button>
        </p>
      )}
      <Scale axis={axis} fromMs={waterfall.fromMs} />
      <ol aria-label="Timeline">
        {drawn.map((row) => (
          <Line
            key={row.id}
            {...{ row, axis, onRow }}
            isCurrent={row.id === current}
            isParent={parents.has(row.id) || (row.runId !== undefined && !opened.has(row.runId))}
            isClosed={closed.has(row.id) || (row.runId !== undefined && !opened.has(row.runId))}
          />
        ))}
      </ol>
      {rows.length > limit && (
        <button type="button" onClick={() => setLimit(limit + firstRows)}>
          Show {Math.min(firstRows, rows.length - limit)} more of {rows.length - limit} lines
        </button>
      )}
    </div>
  );
}

/** Steps of the runs that work for this one, fetched when they are opened. */
function useChildren() {
  const [opened, setOpened] = useState<ReadonlyMap<string, RunSteps>>(new Map());
  const open = async (runId: string) => {
    try {
      const steps = await api<RunSteps>(`/v1/runs/${encodeURIComponent(runId)}/steps`);
      setOpened((before) => new Map(before).set(runId, steps));
    } catch (error) {
      notify(`The steps of this run cannot be read: ${asApiError(error).message}`);
    }
  };
  return { opened, open };
}

function Scale({ axis, fromMs }: { axis: Axis; fromMs: number }) {
  const ticks = [0, 0.25, 0.5, 0.75, 1];
  return (
    <div class="timeline-scale" aria-hidden="true">
      <span class="timeline-ticks">
        {ticks.map((tick) => (
          <span key={tick} style={{ '--at': tick }}>
            {tick === 0 ? '0' : formatDuration(axis.timeAt(tick) - fromMs)}
          </span>
        ))}
        {axis.folds.map((fold) => (
          <span
            key={fold.fromMs}
            class="timeline-fold"
            style={{ '--from': axis.at(fold.fromMs), '--size': axis.at(fold.toMs) - axis.at(fold.fromMs) }}
          />
        ))}
      </span>
    </div>
  );
}

interface LineProps {
  readonly row: Row;
  readonly axis: Axis;
  readonly isCurrent: boolean;
  readonly isParent: boolean;
  readonly isClosed: boolean;
  /** What leads to the row, and opens or closes it, as of the last drawing. */
  readonly onRow: { readonly current: { go(row: Row): void; toggle(row: Row): void } };
}

/** Says what the colour says. */
const signs: Readonly<Record<Tone, string>> = { open: '◐', good: '✓', bad: '✕', wait: '‖', plain: '·' };
const toneNames: Readonly<Record<Tone, string>> = {
  open: 'goes on',
  good: 'went well',
  bad: 'failed',
  wait: 'waited',
  plain: '',
};

/** Of a thousand lines only those are drawn again that look otherwise. */
function Line(props: LineProps) {
  const { row, axis, isCurrent, isParent, isClosed } = props;
  return useMemo(() => <DrawnLine {...props} />, [row, axis, isCurrent, isParent, isClosed]);
}

function DrawnLine({ row, axis, isCurrent, isParent, isClosed, onRow }: LineProps) {
  const { kind, tone, label, note, depth, fromMs, toMs, costMicrocents } = row;
  const duration = formatDuration(toMs - fromMs);
  const leads = row.anchor !== undefined || row.runId !== undefined;
  const name = [label, note, toneNames[tone], duration].filter(Boolean).join(', ');
  return (
    <li
      id={`row-${row.id}`}
      class={`line line-${kind} line-tone-${tone}`}
      aria-current={isCurrent ? 'true' : undefined}
      tabIndex={-1}
      style={{ '--depth': Math.min(depth, 8) }}
    >
      <span class="line-name">
        {isParent ? (
          <button
            type="button"
            class="line-toggle"
            aria-expanded={!isClosed}
            aria-label={`${isClosed ? 'Open' : 'Close'} ${label}`}
            onClick={() => onRow.current.toggle(row)}
          >
            {isClosed ? '▸' : '▾'}
          </button>
        ) : (
          <span class="line-toggle" />
        )}
        <span class="line-sign" aria-hidden="true">
          {signs[tone]}
        </span>
        {leads ? (
          <button type="button" class="line-label" aria-label={name} title={name} onClick={() => onRow.current.go(row)}>
            {label}
          </button>
        ) : (
          <span class="line-label" title={name}>
            {label}
          </span>
        )}
        {note && <span class="line-note">{note}</span>}
      </span>
      <span class="line-bar-box" aria-hidden="true">
        <span class="line-bar" style={{ '--from': axis.at(fromMs), '--size': axis.at(toMs) - axis.at(fromMs) }} />
      </span>
      <span class="line-number number">{kind === 'answer' ? '' : duration}</span>
      <span class="line-number number soft wide-only">{costMicrocents > 0 ? formatMoney(costMicrocents) : ''}</span>
    </li>
  );
}
