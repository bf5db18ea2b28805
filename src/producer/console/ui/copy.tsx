import { notify } from './notice.tsx';

/** Puts text into the clipboard and says so. */
export function CopyButton({ text, label = 'Copy' }: { text: string | (() => string); label?: string }) {
  const copy = async () => {
    await navigator.clipboard.writeText(typeof text === 'string' ? text : text());
    notify(`Copied: ${label.replace(/^Copy (as )?/, '') || 'text'}`);
  };
  return (
    <button
      type="button"
      class="quiet"
      onClick={() => void copy().catch(() => notify('The browser did not let this page write to the clipboard.'))}
    >
      {label}
    </button>
  );
}
