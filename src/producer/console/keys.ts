import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';

export interface Shortcut {
  /** What it does, for the list that `?` shows. */
  readonly what: string;
  readonly run: () => void;
}

type Bindings = Readonly<Record<string, Shortcut>>;

const bound: { current: Bindings }[] = [];
/** Changes with every set of shortcuts that comes or goes. */
const version = signal(0);

/** All shortcuts that work now, the latest meaning of each key. */
export function shortcuts(): ReadonlyMap<string, Shortcut> {
  void version.value;
  return new Map(bound.flatMap(({ current }) => Object.entries(current)));
}

/** Keys that work while this component is on the page, outside of fields and dialogs. The latest binding of a key wins. */
export function useKeys(bindings: Bindings): void {
  const own = useRef(bindings);
  own.current = bindings;
  useEffect(() => {
    bound.push(own);
    version.value += 1;
    return () => {
      bound.splice(bound.indexOf(own), 1);
      version.value += 1;
    };
  }, []);
}

const typing = 'input, textarea, select, [contenteditable]:not([contenteditable="false"])';
/** What Enter is for already. */
const pressed = 'a[href], button, summary';

/** Listens once, for the whole page. */
export function listenForKeys(): void {
  window.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    // A dialog has the page for itself, wherever the focus is.
    if (document.querySelector('dialog[open]')) return;
    if (event.target instanceof Element && event.target.closest(typing)) return;
    if (event.key === 'Enter' && event.target instanceof Element && event.target.closest(pressed)) return;
    const shortcut = shortcuts().get(event.key);
    if (!shortcut) return;
    event.preventDefault();
    shortcut.run();
  });
}
