import type { ComponentChildren } from 'preact';
import type { ApiError } from '../api.ts';

/** Nothing to show, and what to do about it. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="state">
      <p class="state-title">{title}</p>
      {children}
    </div>
  );
}

/** Nothing was found as far as was looked. */
export function Further({ what, loadMore }: { what: string; loadMore: () => void }) {
  return (
    <Empty title={`None of the newest ${what} fits these filters.`}>
      <button type="button" onClick={loadMore}>
        Look at older ones
      </button>
    </Empty>
  );
}

/** Something is being fetched. Quick answers never show it: it fades in after a moment. */
export function Loading({ what = 'Loading' }: { what?: string }) {
  return (
    <p class="state loading" role="status">
      {what}…
    </p>
  );
}

const advice: Readonly<Record<string, string>> = {
  unreachable: 'Start the producer, or check the connection.',
  forbidden: 'Log in with a key that has this scope.',
  queue_unavailable: 'Redis does not answer; look at `millrace doctor`.',
  not_found:
    'Check the address. What never was, was deleted or is past its time cannot be shown, nor what is another tenant’s.',
  run_not_found: 'Check the id: no run of this tenant has or had it.',
  gone: 'Its time in the archive is over: see ARCHIVE_TTL_S.',
};

/** Why something failed, with its code, what to do, other ways out, and a way to try again where that can help. */
export function Problem({
  error,
  retry,
  children,
}: {
  error: ApiError;
  retry?: () => unknown;
  children?: ComponentChildren;
}) {
  const hint = advice[error.code];
  const mayPass = error.retryable || error.status >= 500;
  return (
    <div class="problem" role="alert">
      <p>
        <code>{error.code}</code> {error.message}
      </p>
      {hint && <p class="soft">{hint}</p>}
      {children}
      {retry && mayPass && (
        <button type="button" onClick={() => void retry()}>
          Try again
        </button>
      )}
    </div>
  );
}
