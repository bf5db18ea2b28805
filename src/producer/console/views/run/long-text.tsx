import { useState } from 'preact/hooks';
import { CopyButton } from '../../ui/copy.tsx';
import { formatCount } from '../../ui/money.tsx';
import { beginningOf, mostChars, prettyOf } from './record/shown-text.ts';

/** Shorter texts are marked and copied by hand. */
const worthCopying = 60;
/** A line without a break takes several of the screen. */
const charsOfALine = 90;

/** A text of any length: its beginning, and all of it for who asks. Never markup. */
export function LongText({ text, label, lines }: { text: string; label: string; lines?: number }) {
  const [whole, setWhole] = useState(false);
  const pretty = prettyOf(text);
  const shown = whole
    ? beginningOf(pretty, mostChars, Number.POSITIVE_INFINITY)
    : beginningOf(pretty, lines && lines * charsOfALine, lines);
  const isBeyond = whole && shown.left > 0;
  const isProse = !/^\s*[[{]/.test(text);
  return (
    <div class="long-text">
      <pre class={isProse ? 'prose' : undefined} tabIndex={0} aria-label={label}>
        {shown.text}
        {shown.left > 0 && '…'}
      </pre>
      <div class="row">
        {(shown.left > 0 || whole) && !isBeyond && (
          <button type="button" class="quiet" aria-expanded={whole} onClick={() => setWhole(!whole)}>
            {whole ? 'Show less' : `Show all (${formatCount(text.length)} characters)`}
          </button>
        )}
        {isBeyond && <span class="soft">{formatCount(shown.left)} more characters: copy, or export the run.</span>}
        {text.length >= worthCopying && <CopyButton text={text} label={`Copy ${label}`} />}
      </div>
    </div>
  );
}
