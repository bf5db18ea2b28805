import { signal } from '@preact/signals';

const shownMs = 5_000;
const notice = signal<{ readonly text: string; readonly id: number } | undefined>(undefined);
let count = 0;

/** Says in the corner, for some seconds, that something was done. Screen readers read it. */
export function notify(text: string): void {
  count += 1;
  const id = count;
  notice.value = { text, id };
  setTimeout(() => {
    if (notice.value?.id === id) notice.value = undefined;
  }, shownMs);
}

/** Stands once, in the shell. */
export function Notice() {
  return (
    <div class="notice" role="status" aria-live="polite">
      {notice.value && <p>{notice.value.text}</p>}
    </div>
  );
}
