import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';

/** Forms on the page with something in them that leaving would lose. */
const unsaved = new Set<object>();
/** What is to be done once its reader agrees that this is lost. */
export const asked = signal<(() => void) | undefined>(undefined);

/** While `isUnsaved`, the page asks before it is left: by its own links and keys, by Back, by a reload and by closing it. */
export function useUnsaved(isUnsaved: boolean): void {
  useEffect(() => {
    if (!isUnsaved) return undefined;
    const form = {};
    unsaved.add(form);
    window.addEventListener('beforeunload', ask);
    return () => {
      unsaved.delete(form);
      window.removeEventListener('beforeunload', ask);
    };
  }, [isUnsaved]);
}

/** The browser has a question of its own. */
function ask(event: BeforeUnloadEvent): void {
  if (unsaved.size > 0) event.preventDefault();
}

export function isSomethingUnsaved(): boolean {
  return unsaved.size > 0;
}

/** Does it, after a question where something would be lost. */
export function askBeforeLeaving(go: () => void): void {
  if (unsaved.size === 0) go();
  else asked.value = go;
}

export function stay(): void {
  asked.value = undefined;
}

export function leaveAllTheSame(): void {
  const go = asked.value;
  stay();
  unsaved.clear();
  go?.();
}
