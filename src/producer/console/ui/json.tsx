import { useState } from 'preact/hooks';
import { CopyButton } from './copy.tsx';

const firstItems = 100;
const longText = 400;

/** A value as a tree that opens and closes; everything in it reaches the page as text. */
export function Json({ value, open = 2, copy = true }: { value: unknown; open?: number; copy?: boolean }) {
  return (
    <div class="json">
      {copy && <CopyButton text={() => JSON.stringify(value, null, 2)} label="Copy JSON" />}
      <Node value={value} depth={open} />
    </div>
  );
}

function Node({ name, value, depth }: { name?: string; value: unknown; depth: number }) {
  const label = name === undefined ? null : <span class="json-name">{name}: </span>;
  if (typeof value !== 'object' || value === null)
    return (
      <div class="json-leaf">
        {label}
        <Leaf value={value} />
      </div>
    );
  const entries: readonly (readonly [string, unknown])[] = Object.entries(value);
  const [before, after] = Array.isArray(value) ? ['[', ']'] : ['{', '}'];
  if (entries.length === 0)
    return (
      <div class="json-leaf">
        {label}
        {before}
        {after}
      </div>
    );
  return <Branch label={label} sign={`${before} ${entries.length} ${after}`} entries={entries} depth={depth} />;
}

function Branch({
  label,
  sign,
  entries,
  depth,
}: {
  label: preact.ComponentChildren;
  sign: string;
  entries: readonly (readonly [string, unknown])[];
  depth: number;
}) {
  const [open, setOpen] = useState(depth > 0);
  const [limit, setLimit] = useState(firstItems);
  return (
    <details class="json-branch" open={open} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        {label}
        <span class="soft">{sign}</span>
      </summary>
      {open &&
        entries.slice(0, limit).map(([key, each]) => <Node key={key} name={key} value={each} depth={depth - 1} />)}
      {open && entries.length > limit && (
        <button type="button" class="quiet" onClick={() => setLimit(limit + firstItems)}>
          {entries.length - limit} more
        </button>
      )}
    </details>
  );
}

function Leaf({ value }: { value: unknown }) {
  const [whole, setWhole] = useState(false);
  if (typeof value !== 'string') return <span class={`json-${typeof value}`}>{String(value)}</span>;
  if (value.length <= longText || whole) return <span class="json-string">{value}</span>;
  return (
    <>
      <span class="json-string">{value.slice(0, longText)}…</span>{' '}
      <button type="button" class="quiet" onClick={() => setWhole(true)}>
        all {value.length.toLocaleString('en-US')} characters
      </button>
    </>
  );
}
