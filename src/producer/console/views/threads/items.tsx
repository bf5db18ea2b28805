import type { ComponentChildren } from 'preact';
import type { RunView } from '../../../../shared/contract/run.ts';
import type { ThreadItem } from '../../../../shared/contract/thread/thread-items.ts';
import { useQuery } from '../../query.ts';
import { Json } from '../../ui/json.tsx';
import { Time } from '../../ui/time.tsx';
import { ThreadTooLong, useTooLong } from '../run/thread-too-long.tsx';

type MessageItem = Extract<ThreadItem, { kind: 'message' }>;

/** One thing that was said or done. `isSaid`: the agent has said this text elsewhere in the thread. */
export function Said({ item, isSaid }: { item: ThreadItem; isSaid: (text: string) => boolean }) {
  const live = item.live ? ' live' : '';
  switch (item.kind) {
    case 'message':
      if (isBroken(item)) return <Broken {...{ item, isSaid }} />;
      return (
        <li class={`message from-${item.role}${live}`}>
          <Who item={item} name={roles[item.role]} />
          <p class="text">{item.text}</p>
          {item.files && item.files.length > 0 && (
            <p class="soft">
              With {item.files.length === 1 ? 'a file' : `${item.files.length} files`}: bytes are kept with the run, not
              shown here.
            </p>
          )}
          <Labels item={item} />
        </li>
      );
    case 'assistant_text':
      return (
        <li class={`message from-assistant${live}`}>
          <Who item={item} name="Agent" />
          <p class="text">{item.text}</p>
        </li>
      );
    case 'tool_use':
      return (
        <li class={`call${live}`}>
          <details>
            <summary>
              Calls <code>{item.name}</code>
            </summary>
            <Json value={item.input} open={3} />
          </details>
        </li>
      );
    case 'tool_result':
      return (
        <li class={`call${live}`}>
          <details open={item.isError}>
            <summary>
              {item.isError ? <span class="tone-bad">✕ Error of</span> : <span class="tone-good">✓ Result of</span>}{' '}
              <code>{item.name}</code> <Labels item={item} />
            </summary>
            <Result content={item.content} />
          </details>
        </li>
      );
    default:
      throw new Error(`no such item: ${String(item satisfies never)}`);
  }
}

const failedText = /^\(error: ([^]*)\)$/;

/** What a thread has in place of an answer whose run was cancelled, or failed. */
export function isBroken(item: ThreadItem): boolean {
  if (item.kind !== 'message' || item.role !== 'assistant') return false;
  return item.text === '(stopped by user)' || failedText.test(item.text);
}

/** The run has as much of the answer as was shown. Where it has shown nothing, its last text is of an answer before. */
function Broken({ item, isSaid }: { item: MessageItem; isSaid: (text: string) => boolean }) {
  const { data } = useQuery<RunView>(`/v1/runs/${encodeURIComponent(item.runId)}`);
  const tooLong = useTooLong(data);
  const text = data?.unfinished?.text ?? '';
  const [, failure] = failedText.exec(item.text) ?? [];
  return (
    <li class="message from-assistant">
      <Who item={item} name="Agent" />
      {text !== '' && !isSaid(text) && <p class="text">{text}</p>}
      {failure === undefined ? (
        <StoppedHere />
      ) : (
        <FailedHere code={data?.error?.code} message={failure}>
          {tooLong && <ThreadTooLong what={tooLong} />}
        </FailedHere>
      )}
    </li>
  );
}

export function StoppedHere() {
  return (
    <p class="stopped">
      <span aria-hidden="true">⊘</span> Stopped before the answer was complete.
    </p>
  );
}

interface FailedProps {
  readonly code: string | undefined;
  readonly message: string;
  /** What to do about it. */
  readonly children?: ComponentChildren;
}

export function FailedHere({ code, message, children }: FailedProps) {
  return (
    <div class="problem">
      <p>
        <span aria-hidden="true">✕</span> The answer failed: {code && <code>{code}</code>} {message}
      </p>
      {children}
    </div>
  );
}

const roles = { user: 'User', assistant: 'Agent', system: 'In place of the user' } as const;

function Who({ item, name }: { item: ThreadItem; name: string }) {
  return (
    <p class="who">
      {name} <Time at={item.at} /> <a href={`/runs/${encodeURIComponent(item.runId)}`}>run</a>
    </p>
  );
}

function Labels({ item }: { item: Extract<ThreadItem, { kind: 'message' | 'tool_result' }> }) {
  const { sensitivity, sources = [] } = item;
  const trust = item.kind === 'tool_result' ? item.trust : undefined;
  const parts = [
    sensitivity && sensitivity !== 'public' ? sensitivity : undefined,
    trust && `trust: ${trust}`,
    sources.length > 0 ? `from ${sources.map(({ name }) => name).join(', ')}` : undefined,
  ].filter(Boolean);
  return parts.length > 0 ? <span class="soft">{parts.join(' · ')}</span> : null;
}

function Result({ content }: { content: string }) {
  const value = jsonIn(content);
  return value === undefined ? <pre>{content}</pre> : <Json value={value} open={3} />;
}

/** An object or a list, when the text is one. */
function jsonIn(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
