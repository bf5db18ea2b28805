/** An amount as a person types it: `5`, `0.50`, `$1,200`. Undefined for what is no number above 0. */
export function dollarsOf(text: string): number | undefined {
  const plain = text.trim().replace(/^\$/, '').replaceAll(',', '');
  if (!/^\d+(\.\d+)?$/.test(plain)) return undefined;
  const amount = Number(plain);
  return amount > 0 ? amount : undefined;
}
