import '../styles/charts.css';

/** What is in use of a whole as a bar; the numbers stand beside it. `held` comes after `used`. */
export function Share({ used, held = 0, whole }: { used: number; held?: number; whole: number }) {
  const part = (amount: number) => (whole <= 0 ? 0 : Math.min(100, (amount / whole) * 100));
  const first = part(used);
  const isFull = whole > 0 && used + held >= whole;
  return (
    <svg class="share" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">
      <rect width={first} height="1" class={isFull ? 'over' : ''} />
      <rect x={first} width={Math.min(100 - first, part(held))} height="1" class="held" />
    </svg>
  );
}
