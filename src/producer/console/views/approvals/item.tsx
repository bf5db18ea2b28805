import { useState } from 'preact/hooks';
import type { ApprovalView } from '../../../../shared/contract/inbox/approvals.ts';
import { ArgumentsForm, DraftChanges } from '../../forms/arguments-form.tsx';
import { draftOf, isTouched, type Draft } from '../../forms/draft.ts';
import { Json } from '../../ui/json.tsx';
import { Money } from '../../ui/money.tsx';
import { Since, Time } from '../../ui/time.tsx';
import { useUnsaved } from '../../ui/unsaved.ts';
import { may } from '../../session.ts';
import { Actions } from './actions.tsx';
import { Asked } from './asked.tsx';
import { Decided } from './decided.tsx';
import { accountOf, askedIn, hindrance, kindName, linesBetween, neededIn, ruleName, spread } from './words.ts';

/** One thing that waits, with everything that a person needs to decide about it; or what became of it. */
export function Item({ item, waits }: { item: ApprovalView; waits: boolean }) {
  return (
    <article class="item card" aria-label={askedIn(item)}>
      <header class="stack-small">
        <div class="row between">
          <h2>{askedIn(item)}</h2>
          <span class={`tag kind-${item.kind}`}>{kindName(item.kind)}</span>
        </div>
        {item.reason && <p class={item.kind === 'user_input' ? 'question' : ''}>{item.reason}</p>}
      </header>
      {!waits && <Decided runId={item.runId} toolCallId={item.toolCallId ?? ''} args={item.args} />}
      <Asked item={item} />
      <Facts {...{ item, waits }} />
      <Flow item={item} />
      <ToolChange item={item} />
      {waits && <Waiting item={item} />}
    </article>
  );
}

function Waiting({ item }: { item: ApprovalView }) {
  const [draft, setDraft] = useState<Draft>(() => draftOf(item.args ?? {}, item.argsSchema));
  useUnsaved(isTouched(draft));
  const cannot = hindrance(item, may);
  const hasArguments = item.args !== undefined && item.kind !== 'budget' && item.kind !== 'user_input';
  return (
    <>
      {hasArguments &&
        (item.kind === 'approval' ? (
          <>
            <ArgumentsForm draft={draft} onDraft={setDraft} disabled={!may('approve')} />
            <DraftChanges draft={draft} />
          </>
        ) : (
          <section aria-label="Arguments">
            <h3>Arguments</h3>
            <Json value={item.args} />
          </section>
        ))}
      <Votes item={item} />
      {cannot && <p class="cannot">{cannot}</p>}
      <Actions {...{ item, draft }} onRefused={(refused) => setDraft((now) => ({ ...now, refused }))} />
    </>
  );
}

function Facts({ item, waits }: { item: ApprovalView; waits: boolean }) {
  const { runId, agent, thread, batch, requestedAt, expiresAt, classification, metadata, kind } = item;
  return (
    <dl class="facts">
      <dt>Agent</dt>
      <dd>
        <a href={`/agents/${encodeURIComponent(agent)}`}>{agent}</a>
      </dd>
      <dt>Run</dt>
      <dd>
        <a href={`/runs/${encodeURIComponent(runId)}`}>{runId}</a>
      </dd>
      {thread && (
        <>
          <dt>Thread</dt>
          <dd>
            <a href={`/threads/${encodeURIComponent(thread)}`}>{thread}</a>
          </dd>
        </>
      )}
      {batch && (
        <>
          <dt>Batch</dt>
          <dd>{batch}</dd>
        </>
      )}
      <dt>{waits ? 'Waits' : 'Asked'}</dt>
      <dd>
        {waits && (
          <>
            <Since at={requestedAt} />, since{' '}
          </>
        )}
        <Time at={requestedAt} />
      </dd>
      {waits && expiresAt && (
        <>
          <dt>Expires</dt>
          <dd>
            <Time at={expiresAt} /> <span class="soft">— then it counts as denied</span>
          </dd>
        </>
      )}
      {kind === 'budget' && (
        <>
          <dt>Account</dt>
          <dd>
            {accountOf(item).scope} <code>{accountOf(item).name}</code>
          </dd>
          <dt>Next step needs</dt>
          <dd>
            <Money microcents={neededIn(item)} />
          </dd>
        </>
      )}
      {classification && (
        <>
          <dt>The tool is</dt>
          <dd>
            trust <strong>{classification.trust}</strong>, effect <strong>{classification.sideEffectClass}</strong>,
            sensitivity <strong>{classification.sensitivity}</strong>
            {classification.sandboxPolicy && `, sandbox ${classification.sandboxPolicy}`}
          </dd>
        </>
      )}
      {Object.entries(metadata ?? {}).map(([name, value]) => (
        <>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </>
      ))}
    </dl>
  );
}

function Flow({ item: { flow = [] } }: { item: ApprovalView }) {
  if (flow.length === 0) return null;
  return (
    <section class="warning" aria-label="Data flow">
      <h3>Why the data-flow policy asks</h3>
      <table class="simple">
        <thead>
          <tr>
            <th scope="col">Argument</th>
            <th scope="col">Why</th>
            <th scope="col">Value</th>
            <th scope="col">From</th>
          </tr>
        </thead>
        <tbody>
          {flow.map(({ rule, argument, value, source }, at) => (
            <tr key={at}>
              <td>{argument ?? 'the whole call'}</td>
              <td>{ruleName(rule)}</td>
              <td class="mono">{value ?? '—'}</td>
              <td>{source ? `${source.name} (${source.trust})` : 'not known'}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function ToolChange({ item: { toolChange } }: { item: ApprovalView }) {
  if (!toolChange) return null;
  const { server, tool, parts, before, after } = toolChange;
  return (
    <section class="warning stack-small" aria-label="Changed tool">
      <h3>
        The server {server} has changed {tool}: {parts.join(', ')}
      </h3>
      <p>
        {before
          ? 'Granting the call accepts the change.'
          : 'The tool was not there before. Granting the call accepts it.'}
      </p>
      <Difference name="Description" before={before?.description ?? ''} after={after.description} />
      <Difference name="Arguments" before={spread(before?.inputSchema ?? '')} after={spread(after.inputSchema)} />
    </section>
  );
}

function Difference({ name, before, after }: { name: string; before: string; after: string }) {
  const lines = linesBetween(before, after);
  const isSame = lines.every(({ sign }) => sign === ' ');
  return (
    <details open={!isSame}>
      <summary>
        {name}: {isSame ? 'the same' : 'before (−) and after (+)'}
      </summary>
      <pre class="difference">
        {lines.map(({ sign, text }, at) => (
          <span key={at} class={sign === '+' ? 'came' : sign === '-' ? 'went' : ''}>
            {`${sign === '-' ? '−' : sign} ${text}\n`}
          </span>
        ))}
      </pre>
    </details>
  );
}

function Votes({ item: { approvers = 1, votes } }: { item: ApprovalView }) {
  if (approvers < 2) return null;
  return (
    <section aria-label="Votes">
      <h3>
        {votes.filter(({ granted }) => granted).length} of {approvers} people have granted it
      </h3>
      {votes.length === 0 ? (
        <p class="soft">Different people have to grant the same arguments. One denial decides.</p>
      ) : (
        <ul class="plain">
          {votes.map(({ by = 'no name', granted, answered, edited, reason, at }) => (
            <li key={`${by} ${at}`}>
              <span class={granted || answered ? 'tone-good' : 'tone-bad'}>
                {answered ? '✓ answered' : granted ? '✓ granted' : '✕ denied'}
              </span>{' '}
              by {by}
              {edited && ', with other arguments'} <Time at={at} />
              {reason && <span class="soft"> “{reason}”</span>}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
