import type { BatchView as Batch } from '../../../../shared/contract/batch.ts';
import { formatCount } from '../../ui/money.tsx';
import { sharesOf } from './words.ts';

/** How far a batch is: what is answered and what failed. Open lines may take any time: they are no progress yet. */
export function Progress({ batch, large = false }: { batch: Batch; large?: boolean }) {
  const { total, completed, failed } = batch.request_counts;
  const shares = sharesOf(batch);
  const done = completed + failed;
  const text = `${formatCount(done)} of ${formatCount(total)}`;
  return (
    <span class={large ? 'progress large' : 'progress'}>
      <span
        class="progress-bar"
        role="progressbar"
        aria-label={`Lines that are done, ${failed} of them failed`}
        aria-valuemin={0}
        aria-valuemax={total}
        aria-valuenow={done}
        aria-valuetext={text}
      >
        <span class="part-good" style={{ width: `${shares.completed}%` }} />
        <span class="part-bad" style={{ width: `${shares.failed}%` }} />
      </span>
      <span class="number">{text}</span>
    </span>
  );
}
