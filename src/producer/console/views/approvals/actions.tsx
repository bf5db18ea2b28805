import { useState } from 'preact/hooks';
import type { ApprovalView } from '../../../../shared/contract/inbox/approvals.ts';
import { ApiError } from '../../api.ts';
import { refusedFields, type Problems } from '../../forms/check-value.ts';
import { isTouched, problemsIn, type Draft } from '../../forms/draft.ts';
import { readNumber } from '../../forms/edit-value.ts';
import { may, session } from '../../session.ts';
import { useAct } from '../../ui/dialog.tsx';
import { SelectField, TextArea, TextField } from '../../ui/form.tsx';
import { newKey } from '../../ui/new-key.ts';
import { notify } from '../../ui/notice.tsx';
import { Problem } from '../../ui/states.tsx';
import { useUnsaved } from '../../ui/unsaved.ts';
import { decide, keepName, knownName, type Decided, type Verdict } from './decide.ts';
import { loadInbox } from './inbox.ts';
import { accountOf, argumentsLine } from './words.ts';

interface ActionsProps {
  readonly item: ApprovalView;
  readonly draft: Draft;
  readonly onRefused: (problems: Problems) => void;
}

/** What a person can do about an item. */
export function Actions({ item, draft, onRefused }: ActionsProps) {
  const [by, setBy] = useState(knownName);
  const now = session.value;
  const isNamed = now.state === 'in' && !now.keys;
  const needsName = isNamed && (item.approvers ?? 1) > 1 && by.trim() === '';
  const { busy, error, run } = useAct(async (verdict: Verdict) => {
    try {
      const decided = await decide(item, verdict, by);
      if (isNamed) keepName(by.trim());
      notify(outcome(item, verdict, decided));
    } catch (cause) {
      const found = cause instanceof ApiError ? refusedFields(cause.details) : undefined;
      if (found && found.size > 0) onRefused(found);
      // The form goes with the item: what is said in it would go, too.
      if (cause instanceof ApiError && outdated.has(cause.code))
        notify(`Your decision was not taken: ${cause.message}.`);
      throw cause;
    } finally {
      await loadInbox();
    }
  });
  const cannot = !may('approve') || busy || needsName;
  const form: KindProps = { item, draft, cannot, run: (verdict) => void run(verdict) };
  return (
    <section class="actions" aria-label="Decide">
      {isNamed && may('approve') && (
        <TextField
          label="Your name"
          value={by}
          onValue={setBy}
          hint="Who decides, for the record. With API keys the key says it."
          error={needsName ? 'several people have to agree: say who you are' : undefined}
        />
      )}
      {error && <Problem error={error} />}
      {item.kind === 'approval' && <ApprovalActions {...form} />}
      {item.kind === 'user_input' && <QuestionActions {...form} />}
      {item.kind === 'unknown_outcome' && <OutcomeActions {...form} />}
      {item.kind === 'budget' && <MoneyActions {...form} />}
    </section>
  );
}

const outdated: ReadonlySet<string> = new Set(['approval_not_pending', 'approval_expired', 'already_terminal']);

function outcome({ approvers = 1, toolCallId }: ApprovalView, verdict: Verdict, { pending, status }: Decided): string {
  if (verdict.kind === 'grant' && approvers > 1 && pending.some((each) => each.toolCallId === toolCallId))
    return 'Your vote counts. More people have to grant it.';
  const done = {
    grant: 'Granted',
    deny: 'Denied',
    answer: 'Answered',
    pass: 'Passed',
    reject: 'Rejected',
    topUp: 'Topped up',
  };
  const left = pending.length > 0 ? ` The run still waits for ${pending.length} more.` : '';
  return `${done[verdict.kind]}.${left || (status === 'queued' || status === 'running' ? ' The run goes on.' : '')}`;
}

interface KindProps {
  readonly item: ApprovalView;
  readonly draft: Draft;
  readonly cannot: boolean;
  readonly run: (verdict: Verdict) => void;
}

function Reason({
  reason,
  setReason,
  disabled,
}: {
  reason: string;
  setReason: (text: string) => void;
  disabled: boolean;
}) {
  return (
    <TextField
      label="Reason"
      value={reason}
      onValue={setReason}
      disabled={disabled}
      hint="Optional. Of a denial the model gets it as the result of its call."
    />
  );
}

function ApprovalActions({ item, draft, cannot, run }: KindProps) {
  const [reason, setReason] = useState('');
  const [answer, setAnswer] = useState('');
  useUnsaved(reason + answer !== '');
  const problems = problemsIn(draft);
  const isChanged = isTouched(draft);
  return (
    <>
      {item.mode === 'deferred' && (
        <Answer
          {...{ answer, setAnswer, cannot, run }}
          label="Its result"
          hint="Where you have carried it out yourself: the model reads this as the result of its call."
          act="Send the result"
        />
      )}
      <Reason {...{ reason, setReason }} disabled={cannot} />
      <div class="decide row">
        <p class="decide-args small-text">
          <code>{item.toolName}</code> <span class="mono">{argumentsLine(draft.value)}</span>
        </p>
        <button
          type="button"
          class="primary"
          disabled={cannot || problems.size > 0}
          onClick={() => run({ kind: 'grant', draft, reason })}
        >
          {isChanged ? 'Approve with my changes' : 'Approve'}
        </button>
        <button type="button" class="danger" disabled={cannot} onClick={() => run({ kind: 'deny', reason })}>
          Deny
        </button>
        {problems.size > 0 && (
          <span class="field-error" role="status">
            {hindranceIn(problems)}
          </span>
        )}
      </div>
    </>
  );
}

function hindranceIn(problems: Problems): string {
  const names = [...problems.keys()].filter((path) => path !== '');
  if (names.length === 0) return 'The arguments cannot be sent like this.';
  return `${names.length === 1 ? 'One argument' : `${names.length} arguments`} cannot be sent like this: ${names.join(', ')}.`;
}

function Answer({
  label,
  hint,
  act,
  answer,
  setAnswer,
  cannot,
  run,
}: Pick<KindProps, 'cannot' | 'run'> & {
  label: string;
  hint: string;
  act: string;
  answer: string;
  setAnswer: (text: string) => void;
}) {
  return (
    <>
      <TextArea label={label} hint={hint} value={answer} onValue={setAnswer} disabled={cannot} rows={3} />
      <div class="row">
        <button
          type="button"
          class="primary"
          disabled={cannot || answer.trim() === ''}
          onClick={() => run({ kind: 'answer', text: answer })}
        >
          {act}
        </button>
      </div>
    </>
  );
}

function QuestionActions({ item, cannot, run }: KindProps) {
  const [answer, setAnswer] = useState('');
  const [reason, setReason] = useState('');
  useUnsaved(reason + answer !== '');
  const choices = item.args?.['choices'];
  const texts = Array.isArray(choices) ? choices.filter((choice) => typeof choice === 'string') : [];
  return (
    <>
      {texts.length > 0 && (
        <SelectField
          label="Choices"
          value={texts.includes(answer) ? answer : ''}
          onValue={setAnswer}
          disabled={cannot}
          choices={[{ value: '', label: 'choose, or write below' }, ...texts]}
        />
      )}
      <Answer
        {...{ answer, setAnswer, cannot, run }}
        label="Answer"
        hint="The model reads it as it stands."
        act="Send the answer"
      />
      <details>
        <summary>Refuse to answer</summary>
        <div class="stack-small">
          <Reason {...{ reason, setReason }} disabled={cannot} />
          <button type="button" class="danger" disabled={cannot} onClick={() => run({ kind: 'deny', reason })}>
            Refuse
          </button>
        </div>
      </details>
    </>
  );
}

function OutcomeActions({ item, cannot, run }: KindProps) {
  const [answer, setAnswer] = useState('');
  const [reason, setReason] = useState('');
  useUnsaved(reason + answer !== '');
  return (
    <>
      <p>
        The worker was lost while it made this call. Look in the system that <code>{item.toolName}</code> acts on
        whether it took effect, and say so.
      </p>
      <Answer
        {...{ answer, setAnswer, cannot, run }}
        label="It took effect, with this result"
        hint="The model reads this as the result of its call."
        act="It happened"
      />
      <Reason {...{ reason, setReason }} disabled={cannot} />
      <div class="row">
        <button type="button" disabled={cannot} onClick={() => run({ kind: 'grant', draft: undefined, reason })}>
          It did not happen: make the call again
        </button>
        <button type="button" class="danger" disabled={cannot} onClick={() => run({ kind: 'deny', reason })}>
          Go on without it
        </button>
      </div>
    </>
  );
}

function MoneyActions({ item, cannot, run }: KindProps) {
  const [usd, setUsd] = useState('');
  const [reason, setReason] = useState('');
  useUnsaved(usd + reason !== '');
  // One for each sum: the same again after a lost answer adds it once.
  const [key, setKey] = useState(() => newKey());
  const account = accountOf(item);
  const isTenant = account.scope === 'tenant';
  const mayPay = !cannot && (!isTenant || may('admin'));
  const typed = readNumber(usd, false);
  const sum = typed.ok && typeof typed.value === 'number' && typed.value > 0 ? typed.value : undefined;
  return (
    <>
      <TextField
        label="Top up by, in USD"
        inputMode="decimal"
        value={usd}
        onValue={(text) => (setUsd(text), setKey(newKey()))}
        disabled={!mayPay}
        hint={`Added to the cap of ${account.scope === 'run' ? 'the run' : `${account.scope} ${account.name}`}. All that waits for this account goes on once it is enough.`}
        error={usd !== '' && sum === undefined ? 'must be a sum above 0' : undefined}
      />
      <div class="row">
        <button
          type="button"
          class="primary"
          disabled={!mayPay || sum === undefined}
          onClick={() => sum !== undefined && run({ kind: 'topUp', usd: sum, key })}
        >
          Top up
        </button>
        <button type="button" disabled={!mayPay} onClick={() => run({ kind: 'pass' })}>
          Let only the next step pass
        </button>
      </div>
      <details>
        <summary>End the run instead</summary>
        <div class="stack-small">
          <TextField
            label="Reason"
            value={reason}
            onValue={setReason}
            disabled={cannot}
            hint="Optional, for the record."
          />
          <div class="row">
            <button type="button" class="danger" disabled={cannot} onClick={() => run({ kind: 'reject', reason })}>
              End the run
            </button>
          </div>
        </div>
      </details>
    </>
  );
}
