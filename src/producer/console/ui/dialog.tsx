import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { asApiError, type ApiError } from '../api.ts';
import { Problem } from './states.tsx';
import { askBeforeLeaving, useUnsaved } from './unsaved.ts';

export interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  readonly wide?: boolean;
  /** Closing it would lose what was typed: it asks before. */
  readonly unsaved?: boolean;
}

/**
 * A modal dialog, shown as long as it is rendered. The focus goes to its first field, and in the end back to where it was; Escape and a
 * click beside it close it.
 */
export function Dialog({ title, onClose, children, wide = false, unsaved = false }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  const close = () => (unsaved ? askBeforeLeaving(onClose) : onClose());
  useUnsaved(unsaved);
  useEffect(() => {
    const before = document.activeElement;
    element.current?.showModal();
    const field = element.current?.querySelector<HTMLElement>('input, select, textarea');
    field?.focus();
    if (field instanceof HTMLInputElement) field.select();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={element}
      class={wide ? 'dialog wide' : 'dialog'}
      aria-labelledby={heading}
      onCancel={(event) => {
        // A field for files cancels as well, and its event bubbles.
        if (event.target !== element.current) return;
        event.preventDefault();
        close();
      }}
      // Browsers close a dialog on a second Escape without asking.
      onClose={() => {
        if (unsaved) element.current?.showModal();
        close();
      }}
      onMouseDown={(event) => event.target === element.current && close()}
    >
      <div class="dialog-body">
        <header class="row between">
          <h2 id={heading}>{title}</h2>
          <button type="button" class="quiet" aria-label="Close" onClick={close}>
            ✕
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

export interface ConfirmProps {
  readonly title: string;
  readonly children: ComponentChildren;
  /** What the button says: the act, not "OK". */
  readonly act: string;
  readonly danger?: boolean;
  /** The dialog closes when it resolves, and shows why when it rejects. */
  readonly onConfirm: () => Promise<void>;
  readonly onClose: () => void;
}

/** Asks before something that cannot be taken back. */
export function Confirm({ title, children, act, danger = false, onConfirm, onClose }: ConfirmProps) {
  const { busy, error, run } = useAct(async () => {
    await onConfirm();
    onClose();
  });
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      {error && <Problem error={error} />}
      <footer class="row end">
        <button type="button" onClick={onClose}>
          Back
        </button>
        <button type="button" class={danger ? 'danger' : 'primary'} disabled={busy} onClick={() => void run()}>
          {busy ? 'Working…' : act}
        </button>
      </footer>
    </Dialog>
  );
}

/** State of something that a button does: never twice at once, and its failure is kept to be shown. */
export function useAct<A extends readonly unknown[]>(
  work: (...args: A) => Promise<void>,
): {
  readonly busy: boolean;
  readonly error: ApiError | undefined;
  readonly run: (...args: A) => Promise<void>;
} {
  const [state, setState] = useState<{ busy: boolean; error?: ApiError }>({ busy: false });
  const running = useRef(false);
  const run = async (...args: A) => {
    if (running.current) return;
    running.current = true;
    setState({ busy: true });
    try {
      await work(...args);
      setState({ busy: false });
    } catch (error) {
      setState({ busy: false, error: asApiError(error) });
    } finally {
      running.current = false;
    }
  };
  return { busy: state.busy, error: state.error, run };
}
