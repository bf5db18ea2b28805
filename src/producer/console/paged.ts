import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { ApiError } from './api.ts';
import { Poll } from './poll.ts';

/** It may be short, even empty, and still have another behind it: no cursor means the end. */
export interface Page<Item> {
  readonly items: readonly Item[];
  readonly cursor: string | undefined;
}

/** Pages without anything that are read in search of something. */
const mostEmptyPages = 20;

/** So many pages from the beginning, and some more while nothing was found. An item that moves meanwhile is in the list once. */
export async function readPages<Item>(
  { read, keyOf }: Pick<PagedSource<Item>, 'read' | 'keyOf'>,
  most: number,
  leave: AbortSignal,
): Promise<Page<Item>> {
  const items = new Map<string, Item>();
  let cursor: string | undefined;
  for (let pages = 0; pages < most || (items.size === 0 && pages < mostEmptyPages); pages++) {
    const page = await read(cursor, leave);
    for (const item of page.items) if (!items.has(keyOf(item))) items.set(keyOf(item), item);
    ({ cursor } = page);
    if (cursor === undefined) break;
  }
  return { items: [...items.values()], cursor };
}

export interface PagedSource<Item> {
  /** Another list has another name. */
  readonly name: string;
  readonly read: (cursor: string | undefined, leave: AbortSignal) => Promise<Page<Item>>;
  readonly keyOf: (item: Item) => string;
}

export interface PagedList<Item> {
  /** Undefined: nothing is known yet. */
  readonly items: readonly Item[] | undefined;
  readonly error: ApiError | undefined;
  /** There are others behind these. */
  readonly more: boolean;
  readonly loadMore: () => void;
  readonly reload: () => void;
}

/**
 * A list of which as many pages are kept fresh as the reader has asked for. All are read again each time: what comes, goes and moves
 * in between leaves neither a gap nor anything twice.
 */
export function usePaged<Item>(source: PagedSource<Item>, everyMs: number): PagedList<Item> {
  const { name } = source;
  const [state, setState] = useState<Shown<Item>>({ name });
  const list = useRef<FreshPages<Item>>(undefined);
  useEffect(() => {
    const leave = new AbortController();
    const show = (next: Omit<Shown<Item>, 'name'>) =>
      setState((now) => ({ name, page: now.name === name ? now.page : undefined, ...next }));
    list.current = new FreshPages(source, everyMs, show, leave.signal);
    list.current.reload();
    return () => leave.abort();
  }, [name, everyMs]);
  const { page, error } = state.name === name ? state : { page: undefined, error: undefined };
  return {
    items: page?.items,
    error,
    more: page?.cursor !== undefined,
    loadMore: useCallback(() => list.current?.loadMore(), []),
    reload: useCallback(() => list.current?.reload(), []),
  };
}

interface Shown<Item> {
  readonly name: string;
  readonly page?: Page<Item> | undefined;
  readonly error?: ApiError | undefined;
}

class FreshPages<Item> {
  readonly #poll: Poll;
  /** That are wanted, and that are shown. */
  #pages = 1;
  #shown = 0;

  constructor(
    source: PagedSource<Item>,
    everyMs: number,
    show: (next: { page?: Page<Item>; error: ApiError | undefined }) => void,
    leave: AbortSignal,
  ) {
    const work = async () => {
      const wanted = this.#pages;
      const page = await readPages(source, wanted, leave);
      if (leave.aborted) return;
      this.#shown = page.cursor === undefined ? 0 : wanted;
      show({ page, error: undefined });
    };
    this.#poll = new Poll({ work, onError: (error) => show({ error }), everyMs, leave });
  }

  reload(): void {
    void this.#poll.now();
  }

  /** One page more, once the last one that was asked for is there. */
  loadMore(): void {
    if (this.#shown !== this.#pages) return;
    this.#pages += 1;
    this.reload();
  }
}
