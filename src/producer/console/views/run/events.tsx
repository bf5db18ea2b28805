import { useMemo } from 'preact/hooks';
import type { RunEvent } from '../../../../shared/contract/event.ts';
import { Filters, SelectFilter, TextFilter } from '../../ui/filters.tsx';
import { Json } from '../../ui/json.tsx';
import { formatCount } from '../../ui/money.tsx';
import { Empty } from '../../ui/states.tsx';
import { Table, type Column } from '../../ui/table.tsx';
import { Moment } from '../../ui/time.tsx';
import { useUrlState } from '../../ui/url-state.ts';
import { gistOf, matching, typesIn, type EventList } from './record/event-list.ts';

/** A gist is one line of a table. */
const gistChars = 300;

const columns: readonly Column<RunEvent>[] = [
  { id: 'number', label: 'No.', width: '4.5rem', cell: ({ sequenceNumber }) => formatCount(sequenceNumber) },
  { id: 'time', label: 'Time', width: '7rem', cell: ({ timestamp }) => <Moment at={timestamp} /> },
  { id: 'type', label: 'Type', width: 'minmax(9rem, 14rem)', cell: ({ type }) => <code>{type}</code> },
  {
    id: 'gist',
    label: 'What it says',
    width: 'minmax(10rem, 1fr)',
    wideOnly: true,
    cell: (event) => gistOf(event).slice(0, gistChars),
  },
];

/** The events of a run as they were written; one of them is opened by its number in the URL. */
export function Events({ log, isArchived }: { log: EventList; isArchived: boolean }) {
  const [{ type = '', find = '', event: chosen }, setUrl] = useUrlState();
  const types = useMemo(() => typesIn(log.events), [log.events]);
  const rows = useMemo(() => matching(log.events, type, find), [log.events, type, find]);
  const open =
    chosen === undefined ? undefined : log.events.find(({ sequenceNumber }) => String(sequenceNumber) === chosen);
  return (
    <div class="stack events">
      <Filters names={['type', 'find']}>
        <SelectFilter
          name="type"
          label="Type"
          choices={types.map(([value, count]) => ({ value, label: `${value} (${count})` }))}
        />
        <TextFilter name="find" label="Says" placeholder="any text" search />
        <p class="soft">
          {formatCount(rows.length)} of {formatCount(log.events.length)} events
          {log.dropped > 0 && `, the ${formatCount(log.dropped)} oldest are left out`}
          {isArchived ? '. Text deltas are not kept after the end.' : '. Text deltas are not listed.'}
        </p>
      </Filters>
      {open && (
        <section class="card stack-small" aria-label={`Event ${open.sequenceNumber}`}>
          <div class="row between">
            <h3>
              Event {open.sequenceNumber}: <code>{open.type}</code>
            </h3>
            <button type="button" class="quiet" onClick={() => setUrl({ event: undefined })}>
              Close
            </button>
          </div>
          <Json value={open} open={3} />
        </section>
      )}
      {rows.length === 0 ? (
        <Empty title={log.events.length === 0 ? 'No event has come yet.' : 'No event is like that.'} />
      ) : (
        <div class="events-table">
          <Table
            label="Events"
            {...{ columns, rows }}
            keyOf={({ sequenceNumber }) => String(sequenceNumber)}
            hrefOf={({ sequenceNumber }) => hrefOf(sequenceNumber)}
          />
        </div>
      )}
    </div>
  );
}

function hrefOf(sequenceNumber: number): string {
  const query = new URLSearchParams(location.search);
  query.set('event', String(sequenceNumber));
  return `${location.pathname}?${query}`;
}
