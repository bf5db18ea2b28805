import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

export interface PartProps {
  readonly anchor: string;
  readonly head: ComponentChildren;
  readonly children: ComponentChildren;
  /** Until the reader opens or closes it. */
  readonly isOpen: boolean;
  /** The reader was sent here: it opens, comes into sight and has the focus. */
  readonly isTarget: boolean;
  /** The reader was sent to something in it: it opens, although the reader may have closed it. */
  readonly holdsTarget?: boolean;
  readonly tone?: 'bad';
}

/** A part of the page that opens and closes. What is closed is not drawn. */
export function Part({ anchor, head, children, isOpen, isTarget, holdsTarget = false, tone }: PartProps) {
  const [chosen, setChosen] = useState<boolean>();
  const element = useRef<HTMLDetailsElement>(null);
  const open = chosen ?? isOpen;
  useEffect(() => {
    if (isTarget || holdsTarget) setChosen(true);
  }, [isTarget, holdsTarget]);
  useEffect(() => {
    if (!isTarget) return;
    element.current?.scrollIntoView({ block: 'start' });
    element.current?.querySelector('summary')?.focus({ preventScroll: true });
  }, [isTarget]);
  return (
    <details
      ref={element}
      id={anchor}
      class={tone ? `part part-${tone}` : 'part'}
      open={open}
      onToggle={({ currentTarget }) => {
        if (currentTarget.open !== open) setChosen(currentTarget.open);
      }}
    >
      <summary>
        <span class="part-head">{head}</span>
      </summary>
      {open && <div class="part-body">{children}</div>}
    </details>
  );
}
