import type { ComponentChildren } from 'preact';
import { useId, useRef } from 'preact/hooks';
import { Steady } from './steady.tsx';
import { askBeforeLeaving } from './unsaved.ts';
import { useUrlState } from './url-state.ts';

export interface Tab {
  readonly id: string;
  readonly label: string;
  readonly content: () => ComponentChildren;
}

/** Tabs whose choice is in the URL, as `?tab=`. Arrow keys, Home and End move between them. */
export function Tabs({ tabs, label, name = 'tab' }: { tabs: readonly Tab[]; label: string; name?: string }) {
  const [{ [name]: chosen }, setUrl] = useUrlState();
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const index = Math.max(
    0,
    tabs.findIndex((tab) => tab.id === chosen),
  );
  const current = tabs[index];
  const choose = (to: number) => {
    const tab = tabs.at(to % tabs.length);
    if (!tab) return;
    askBeforeLeaving(() => {
      setUrl({ [name]: tab.id === tabs[0]?.id ? undefined : tab.id });
      list.current?.querySelectorAll<HTMLElement>('[role=tab]')[tabs.indexOf(tab)]?.focus();
    });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const to = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(to);
  };
  return (
    <div class="tabs">
      <div class="tab-list" role="tablist" aria-label={label} ref={list} onKeyDown={onKeyDown}>
        {tabs.map((tab, at) => (
          <button
            key={tab.id}
            type="button"
            role="tab"
            id={`${id}-${tab.id}`}
            aria-selected={at === index}
            aria-controls={`${id}-panel`}
            tabIndex={at === index ? 0 : -1}
            onClick={() => choose(at)}
          >
            <Steady text={tab.label} />
          </button>
        ))}
      </div>
      <div class="tab-panel" role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${current?.id}`}>
        {current?.content()}
      </div>
    </div>
  );
}
