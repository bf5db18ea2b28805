const microcentsPerDollar = 1e8;
// A formatter takes far longer to make than to use, and a list has hundreds of numbers in sight.
const plain = new Intl.NumberFormat('en-US');
const inCents = new Intl.NumberFormat('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const short = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 });

/** `$12.34`, `$0.0042`, `$0`: two digits from a dollar on, below it as many as say something. */
export function formatMoney(microcents: number): string {
  const dollars = microcents / microcentsPerDollar;
  const size = Math.abs(dollars);
  if (size === 0) return '$0';
  const sign = dollars < 0 ? '−' : '';
  if (size >= 1) return `${sign}$${inCents.format(size)}`;
  if (size < 1e-6) return `${sign}<$0.000001`;
  return `${sign}$${size.toFixed(size >= 0.01 ? 4 : 6)}`;
}

/** An amount in microcents (1e-8 USD). `undefined` means that no price is known. */
export function Money({ microcents }: { microcents: number | undefined }) {
  if (microcents === undefined) return <span class="soft">no price</span>;
  return (
    <span class="number" title={`${plain.format(microcents)} microcents`}>
      {formatMoney(microcents)}
    </span>
  );
}

/** `1,234`, and from a million on `1.2M`. */
export function formatCount(count: number): string {
  return (count < 1e6 ? plain : short).format(count);
}
