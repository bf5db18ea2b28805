import { useEffect, useRef, useState } from 'preact/hooks';
import type { BatchView as Batch } from '../../../../shared/contract/batch.ts';
import { asApiError, withQuery, type ApiError } from '../../api.ts';
import { countOf } from '../../ui/count-of.ts';
import { formatCount } from '../../ui/money.tsx';
import { Loading, Problem } from '../../ui/states.tsx';
import { failuresOf, isRefused, type Failure, type Failures } from './failures.ts';

/** What is known of the lines that failed. */
export interface ReadFailures {
  readonly failures?: Failures;
  readonly error?: ApiError;
}

export function useFailures(batch: Batch | undefined): ReadFailures {
  const failed = batch?.request_counts.failed ?? 0;
  const known = useSeldom(failed, rereadMs);
  const [state, setState] = useState<ReadFailures>({});
  useEffect(() => {
    if (!batch || failed === 0) return setState({});
    const leave = new AbortController();
    failuresOf(batch, leave.signal).then(
      (failures) => !leave.signal.aborted && setState({ failures }),
      (error: unknown) => !leave.signal.aborted && setState({ error: asApiError(error) }),
    );
    return () => leave.abort();
  }, [batch?.id, batch?.status, failed > 0, known]);
  return state;
}

/** Why lines failed: by the code of the error and its causes, and line by line. */
export function Failed({ batch, failures, error }: ReadFailures & { batch: Batch }) {
  if (batch.request_counts.failed === 0) return null;
  return (
    <section class="card stack-small" aria-label="Errors">
      <div class="row between">
        <h2>Errors</h2>
        {failures?.lines.some(({ runId }) => runId !== undefined) && (
          <a href={withQuery('/runs', { batch: batch.name, status: 'failed' })}>All failed runs</a>
        )}
      </div>
      {error && <Problem error={error} />}
      {!failures && !error && <Loading what="Reading what failed" />}
      {failures && <RefusedLines {...failures} />}
      {failures && <Groups {...failures} batch={batch} />}
    </section>
  );
}

function RefusedLines({ lines }: Failures) {
  const refused = lines.filter(isRefused).length;
  if (refused === 0) return null;
  const [which, did] = refused === 1 ? ['One line', 'it fails'] : [`${formatCount(refused)} lines`, 'they fail'];
  return (
    <p>
      {which} never became {refused === 1 ? 'a run' : 'runs'}: as long as the file and the settings are the same, {did}{' '}
      again. Mend them, and start the batch again.
    </p>
  );
}

/** Of a batch of which many lines fail they are megabytes. */
const rereadMs = 10_000;

/** The value as it was not longer than that ago. */
function useSeldom<T>(value: T, everyMs: number): T {
  const latest = useRef(value);
  latest.current = value;
  const [shown, setShown] = useState(value);
  useEffect(() => {
    const timer = setInterval(() => setShown(latest.current), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return shown;
}

const shownLines = 100;

function Groups({ groups, lines, partial, batch }: Failures & { batch: Batch }) {
  return (
    <>
      <div class="scrolls">
        <table class="simple">
          <thead>
            <tr>
              <th scope="col">Code</th>
              <th scope="col" class="end">
                Lines
              </th>
              <th scope="col">For instance</th>
              <th scope="col">Where</th>
            </tr>
          </thead>
          {groups.map((failure) => (
            <Group key={failure.code} {...{ failure, batch }} />
          ))}
        </table>
      </div>
      <details class="stack-small">
        <summary>{lines.length === 1 ? 'The line' : 'Line by line'}</summary>
        <FailedLines lines={lines} />
      </details>
      {(partial || lines.length > shownLines) && (
        <p class="soft">There are more than are shown here: the download has all of them.</p>
      )}
    </>
  );
}

/** One code: a row for each of its causes. */
function Group({ failure: { code, count, runId, causes, further }, batch }: { failure: Failure; batch: Batch }) {
  const name = <code>{code}</code>;
  return (
    <tbody>
      {causes.map((cause, at) => (
        <tr key={cause.message}>
          {at === 0 && (
            <td rowSpan={causes.length + Math.min(1, further.causes)}>
              {runId ? (
                <a href={withQuery('/runs', { batch: batch.name, status: 'failed', errorCode: code })}>{name}</a>
              ) : (
                name
              )}
              {causes.length > 1 && <div class="soft number">{countOf(count, 'line')}</div>}
            </td>
          )}
          <td class="end number">{formatCount(cause.count)}</td>
          <td>{cause.message}</td>
          <td>
            {cause.runId ? (
              <a href={`/runs/${encodeURIComponent(cause.runId)}`}>a run</a>
            ) : (
              <span class="soft">no run</span>
            )}
          </td>
        </tr>
      ))}
      {further.causes > 0 && (
        <tr>
          <td class="end number">{formatCount(further.lines)}</td>
          <td class="soft" colSpan={2}>
            for {countOf(further.causes, 'other cause')}
          </td>
        </tr>
      )}
    </tbody>
  );
}

function FailedLines({ lines }: Pick<Failures, 'lines'>) {
  return (
    <div class="scrolls" tabIndex={0} role="region" aria-label="Failed lines, scrolls">
      <table class="simple">
        <thead>
          <tr>
            <th scope="col">Line</th>
            <th scope="col">Error</th>
            <th scope="col">Run</th>
          </tr>
        </thead>
        <tbody>
          {lines.slice(0, shownLines).map(({ line, name, code, message, runId }, at) => (
            <tr key={at}>
              <td>
                {line} {name}
              </td>
              <td>
                <code>{code}</code> {message}
              </td>
              <td>
                {runId ? <a href={`/runs/${encodeURIComponent(runId)}`}>its run</a> : <span class="soft">none</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
