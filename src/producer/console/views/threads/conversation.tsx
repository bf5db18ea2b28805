import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { RunEvent } from '../../../../shared/contract/event.ts';
import type { ThreadItem, ThreadView as Thread } from '../../../../shared/contract/thread/thread-items.ts';
import { api, withQuery, type ApiError } from '../../api.ts';
import { useEvents } from '../../follow.ts';
import { useQuery } from '../../query.ts';
import { useAct } from '../../ui/dialog.tsx';
import { Loading, Problem } from '../../ui/states.tsx';
import { Composer } from './composer.tsx';
import { FailedHere, isBroken, Said, StoppedHere } from './items.tsx';
import { withNewest, withOlder, type Known, type MessagesPage } from './known.ts';
import { afterEvents, liveOf, type Live } from './live.ts';
import type { Sent } from './send.ts';

const pageSize = 100;
const idleMs = 5_000;

/** What was said, what is being said, and a field to say something. */
export function Conversation({ thread, onSent }: { thread: Thread; onSent: () => Promise<void> }) {
  const { threadId, lockOwner } = thread;
  const [sent, setSent] = useState<{ runId: string; text: string; attached: boolean }>();
  const messages = useMessages(threadId);
  const following = lockOwner ?? (sent?.attached === false ? sent.runId : undefined);
  const live = useLive(following, () => void Promise.all([messages.reload(), onSent()]));
  const isSaid =
    sent !== undefined &&
    messages.items.some((item) => item.kind === 'message' && item.runId === sent.runId && item.text === sent.text);
  const onMessage = (answer: Sent, text: string) => {
    setSent({ runId: answer.runId, text, attached: answer.attached });
    void onSent();
  };
  const said = new Set(messages.items.flatMap(saidByAgent));
  const end = useRef<HTMLDivElement>(null);
  useStayAtEnd(end, [messages.items.length, live?.text, sent]);
  if (messages.loading) return <Loading what="Reading what was said" />;
  return (
    <div class="conversation">
      {messages.error && <Problem error={messages.error} retry={messages.reload} />}
      {messages.older !== undefined && (
        <button type="button" onClick={() => void messages.loadOlder()}>
          Show what was said before
        </button>
      )}
      <ol class="said" aria-label="What was said">
        {messages.items.map((item, at) => (
          <Said key={`${item.seq ?? 'live'} ${at} ${item.kind}`} item={item} isSaid={(text) => said.has(text.trim())} />
        ))}
        {sent && !isSaid && (
          <li class="message from-user pending">
            <p class="who">You, {sent.attached ? 'to the running answer' : 'on its way'}</p>
            <p class="text">{sent.text}</p>
          </li>
        )}
      </ol>
      {live && (
        <Answering live={live} isListed={messages.items.some((item) => item.runId === live.runId && isBroken(item))} />
      )}
      <Composer thread={thread} answering={live && !live.end ? live.runId : undefined} onSent={onMessage} />
      <div ref={end} />
    </div>
  );
}

function saidByAgent(item: ThreadItem): readonly string[] {
  const isAgents = item.kind === 'assistant_text' || (item.kind === 'message' && item.role === 'assistant');
  return isAgents ? [item.text.trim()] : [];
}

/** `isListed`: that it was stopped, or failed, is among what was said by now, with what there is of its text. */
function Answering({ live, isListed }: { live: Live; isListed: boolean }) {
  const { text, thinking, calls, waits, end, isStale, runId } = live;
  const about = [...new Set(calls.values())].join(', ');
  const link = <a href={`/runs/${encodeURIComponent(runId)}`}>the run</a>;
  if (end) {
    if (end.status === 'completed' || isListed) return null;
    if (end.status === 'cancelled')
      return (
        <section class="message from-assistant" aria-label="The answer as far as it came">
          {end.partial && <p class="text">{end.partial}</p>}
          <StoppedHere />
        </section>
      );
    return <FailedHere code={end.problem?.code} message={end.problem?.message ?? ''} />;
  }
  return (
    <section class="answering" aria-label="The answer as it comes">
      {thinking !== '' && text === '' && <p class="soft text">{thinking}</p>}
      {text !== '' && !isStale && <p class="text">{text}</p>}
      <p class="soft" role="status">
        {waits ? `Waits: ${waits.replaceAll('_', ' ')}` : about ? `Calls ${about}` : 'Answers'}… {link}
      </p>
    </section>
  );
}

interface Messages {
  readonly items: readonly ThreadItem[];
  readonly error: ApiError | undefined;
  readonly loading: boolean;
  readonly reload: () => Promise<void>;
  /** Where the older ones begin; undefined: there are none. */
  readonly older: number | undefined;
  readonly loadOlder: () => Promise<void>;
}

function useMessages(threadId: string): Messages {
  const path = withQuery(`/v1/threads/${encodeURIComponent(threadId)}/messages`, { order: 'desc', limit: pageSize });
  const newest = useQuery<MessagesPage>(path, idleMs);
  const [known, setKnown] = useState<Known>();
  useEffect(() => setKnown(undefined), [threadId]);
  useEffect(() => {
    const { data } = newest;
    if (data) setKnown((now) => withNewest(now, data));
  }, [newest.data]);
  const before = known?.older;
  const older = useAct(async () => {
    const page = await api<MessagesPage>(withQuery(path, { before }));
    setKnown((now) => (now && now.older === before ? withOlder(now, page) : now));
  });
  return {
    items: known?.items ?? [],
    error: newest.error ?? older.error,
    loading: newest.loading && known === undefined,
    reload: newest.reload,
    older: before,
    loadOlder: older.run,
  };
}

/** Follows the run that answers. `onNews`: the thread has more than before. */
function useLive(runId: string | undefined, onNews: () => void): Live | undefined {
  const [live, setLive] = useState<Live>();
  const followed = useRef<string | undefined>(runId);
  // A run that has ended is followed to its last event, though the thread is idle by then.
  if (runId !== undefined) followed.current = runId;
  const current = followed.current;
  useEffect(() => setLive(current === undefined ? undefined : liveOf(current)), [current]);
  useEvents(current, (events: readonly RunEvent[]) =>
    setLive((now) => afterEvents(now && now.runId === current ? now : liveOf(current ?? ''), events)),
  );
  const news = useRef(onNews);
  news.current = onNews;
  const steps = live?.steps ?? 0;
  const hasEnded = live?.end !== undefined;
  useEffect(() => {
    if (steps > 0 || hasEnded) news.current();
  }, [steps, hasEnded]);
  return live;
}

const nearEndPx = 160;

/** Keeps the end in sight while something comes, unless its reader has scrolled up. */
function useStayAtEnd(end: { readonly current: HTMLElement | null }, news: readonly unknown[]): void {
  const wasAtEnd = useRef(true);
  useEffect(() => {
    const view = document.getElementById('view');
    if (!view) return undefined;
    const onScroll = () => (wasAtEnd.current = view.scrollHeight - view.scrollTop - view.clientHeight < nearEndPx);
    view.addEventListener('scroll', onScroll, { passive: true });
    return () => view.removeEventListener('scroll', onScroll);
  }, []);
  useLayoutEffect(() => {
    if (wasAtEnd.current) end.current?.scrollIntoView({ block: 'end' });
  }, [...news]);
}
