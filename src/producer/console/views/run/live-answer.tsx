import { useEffect, useRef } from 'preact/hooks';
import type { Following } from '../../follow.ts';
import { formatCount } from '../../ui/money.tsx';
import type { LiveText } from './record/live-text.ts';

/** So near to the end of the text the reader is taken to follow it. */
const nearEndPx = 48;

/** What the model writes, as it writes it. */
export function LiveAnswer({ live, following }: { live: LiveText; following: Following }) {
  const box = useRef<HTMLPreElement>(null);
  const follows = useRef(true);
  useEffect(() => {
    if (box.current && follows.current) box.current.scrollTop = box.current.scrollHeight;
  }, [live.text]);
  const { stepNumber, model, text, reasoning, cut } = live;
  return (
    <section class="card stack-small live" aria-label="What the model writes now">
      <h2>Answer</h2>
      <p class="soft">
        {stepNumber > 0 ? `Step ${stepNumber} · ${model}` : 'No step has begun.'}
        {following.state === 'connecting' && ' · connecting'}
        {following.state === 'failed' && ` · the events do not come: ${following.error.message}`}
        {text === '' && reasoning !== '' && ' · it thinks'}
      </p>
      {(text !== '' || reasoning !== '') && (
        <pre
          ref={box}
          class={text === '' ? 'soft' : undefined}
          tabIndex={0}
          aria-label="Text so far"
          onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
            follows.current = scrollHeight - scrollTop - clientHeight < nearEndPx;
          }}
        >
          {cut > 0 && `… ${formatCount(cut)} characters before this\n`}
          {text === '' ? reasoning : text}
        </pre>
      )}
    </section>
  );
}
