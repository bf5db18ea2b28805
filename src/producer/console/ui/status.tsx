import type { RunStatus } from '../../../shared/contract/run.ts';
import type { BatchStatus } from '../../../shared/contract/batch.ts';

type Tone = 'good' | 'bad' | 'busy' | 'wait' | 'quiet';
type Known = RunStatus | BatchStatus;

/** The sign in front says the same as the colour: not everybody sees colours. */
const looks: Readonly<Record<string, readonly [tone: Tone, sign: string]>> = {
  queued: ['quiet', '○'],
  running: ['busy', '◐'],
  suspended: ['wait', '‖'],
  completed: ['good', '✓'],
  failed: ['bad', '✕'],
  cancelled: ['quiet', '⊘'],
} satisfies Partial<Record<Known, readonly [Tone, string]>>;

const signs: Readonly<Record<Tone, string>> = { good: '✓', bad: '✕', busy: '◐', wait: '‖', quiet: '○' };

/** A status as sign, colour and word. `tone` is for states that are not those of a run. */
export function Status({ status, tone, label }: { status: string; tone?: Tone; label?: string }) {
  const [knownTone, knownSign] = looks[status] ?? ['quiet', signs.quiet];
  const look = tone ?? knownTone;
  return (
    <span class={`status tone-${look}`}>
      <span aria-hidden="true" class="status-sign">
        {tone ? signs[tone] : knownSign}
      </span>
      {label ?? status.replaceAll('_', ' ')}
    </span>
  );
}
