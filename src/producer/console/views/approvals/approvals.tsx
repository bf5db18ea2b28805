import { useEffect, useRef, useState } from 'preact/hooks';
import type { ApprovalView } from '../../../../shared/contract/inbox/approvals.ts';
import { useKeys } from '../../keys.ts';
import { SelectFilter, Filters } from '../../ui/filters.tsx';
import { formatMoney } from '../../ui/money.tsx';
import { Empty, Loading, Problem } from '../../ui/states.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { Since } from '../../ui/time.tsx';
import { askBeforeLeaving } from '../../ui/unsaved.ts';
import { useUrlState } from '../../ui/url-state.ts';
import { Decided } from './decided.tsx';
import { inbox, loadInbox, loadMore, nameOfItem, partsOfName, waitingText } from './inbox.ts';
import { History } from './history.tsx';
import { Item } from './item.tsx';
import { aboutItem, askedIn, kindName } from './words.ts';
import './approvals.css';

/** What waits for people, and what they decided. */
export function ApprovalsView() {
  return (
    <div class="approvals">
      <div class="view-head">
        <h1>Approvals</h1>
        <p class="soft">Runs stop here until a person decides. They need no worker meanwhile.</p>
      </div>
      <Tabs
        label="Approvals"
        tabs={[
          {
            id: 'inbox',
            label: waitingText() === '' ? 'Inbox' : `Inbox (${waitingText()})`,
            content: () => <InboxTab />,
          },
          { id: 'history', label: 'Decided', content: () => <History /> },
        ]}
      />
    </div>
  );
}

const kinds = (['approval', 'user_input', 'unknown_outcome', 'budget'] as const).map((value) => ({
  value,
  label: kindName(value),
}));

function InboxTab() {
  const [query, setUrl] = useUrlState();
  const { items, more, error } = inbox.value;
  const { kind, agent, item: chosen } = query;
  const shown = (items ?? []).filter((item) => (!kind || item.kind === kind) && (!agent || item.agent === agent));
  const current = useChosen(chosen, items ?? []);
  const choose = (item: ApprovalView) => {
    if (nameOfItem(item) !== chosen) askBeforeLeaving(() => setUrl({ item: nameOfItem(item) }));
  };
  useInboxKeys(shown, current, choose);
  if (!items) return error ? <Problem error={error} retry={loadInbox} /> : <Loading what="Reading what waits" />;
  return (
    <>
      <Filters names={['kind', 'agent']}>
        <SelectFilter name="kind" label="What" choices={kinds} />
        <SelectFilter name="agent" label="Agent" choices={[...new Set(items.map((each) => each.agent))].sort()} />
      </Filters>
      {error && <Problem error={error} retry={loadInbox} />}
      {shown.length === 0 && !chosen && <Nothing isFiltered={items.length > 0} more={more} />}
      {(shown.length > 0 || chosen) && (
        <div class="inbox">
          <ul class="inbox-list" aria-label="What waits">
            {shown.map((item) => (
              <InboxRow
                key={nameOfItem(item)}
                item={item}
                isCurrent={current !== undefined && nameOfItem(item) === nameOfItem(current)}
                onChoose={choose}
              />
            ))}
            {shown.length === 0 && (
              <li class="soft">Nothing else waits{items.length > 0 && ' that fits the filters'}.</li>
            )}
            {more && (
              <li>
                <button type="button" onClick={() => void loadMore()}>
                  Show newer ones
                </button>
              </li>
            )}
          </ul>
          {current ? (
            <Item
              key={nameOfItem(current)}
              item={current}
              waits={items.some((each) => nameOfItem(each) === nameOfItem(current))}
            />
          ) : chosen ? (
            <Past key={chosen} name={chosen} />
          ) : (
            <p class="soft inbox-hint">Choose what to look at. Keys: j and k move, and Tab goes into it.</p>
          )}
        </div>
      )}
    </>
  );
}

/** What an address names that waits no longer, or is not among what was read. */
function Past({ name }: { name: string }) {
  const { runId, toolCallId } = partsOfName(name);
  return (
    <article class="item card" aria-label="Decided">
      <h2>What was asked here</h2>
      <Decided {...{ runId, toolCallId }} />
    </article>
  );
}

/** What is open stays on the page when it waits no longer: its reader learns what became of it. */
function useChosen(name: string | undefined, items: readonly ApprovalView[]): ApprovalView | undefined {
  const [last, setLast] = useState<ApprovalView>();
  const found = items.find((item) => nameOfItem(item) === name);
  useEffect(() => {
    if (found) setLast(found);
  }, [found]);
  if (name === undefined) return undefined;
  return found ?? (last && nameOfItem(last) === name ? last : undefined);
}

function useInboxKeys(
  items: readonly ApprovalView[],
  current: ApprovalView | undefined,
  choose: (item: ApprovalView) => void,
): void {
  const move = (by: number) => {
    const at = current ? items.findIndex((item) => nameOfItem(item) === nameOfItem(current)) : -1;
    const to = items[Math.min(items.length - 1, Math.max(0, at + by))];
    if (to) choose(to);
  };
  useKeys({
    j: { what: 'Next of what waits', run: () => move(1) },
    k: { what: 'The one before', run: () => move(-1) },
  });
}

function InboxRow({
  item,
  isCurrent,
  onChoose,
}: {
  item: ApprovalView;
  isCurrent: boolean;
  onChoose: (item: ApprovalView) => void;
}) {
  const row = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (isCurrent) row.current?.scrollIntoView({ block: 'nearest' });
  }, [isCurrent]);
  return (
    <li>
      <button
        type="button"
        ref={row}
        class="inbox-row"
        aria-current={isCurrent ? 'true' : undefined}
        onClick={() => onChoose(item)}
      >
        <span class="row between">
          <strong class="clip">{askedIn(item)}</strong>
          <Since at={item.requestedAt} />
        </span>
        <span class="clip mono small-text">{aboutItem(item, formatMoney)}</span>
        {item.inputPreview && <span class="clip soft small-text">Asked: {item.inputPreview}</span>}
        <span class="row between soft">
          <span class="clip">{item.agent}</span>
          <span class={`tag kind-${item.kind}`}>{kindName(item.kind)}</span>
        </span>
      </button>
    </li>
  );
}

function Nothing({ isFiltered, more }: { isFiltered: boolean; more: boolean }) {
  if (isFiltered) return <Empty title="Nothing that waits fits the filters." />;
  return (
    <Empty title={more ? 'Nothing on this page.' : 'Nothing waits for you.'}>
      <p>
        A call of a tool waits here when the tool has <code>needsApproval</code>, when a policy or the data-flow policy
        asks, or when money is used up. This page looks again every few seconds.
      </p>
    </Empty>
  );
}
