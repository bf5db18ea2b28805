import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { formatTime } from './time.tsx';
import '../styles/charts.css';

const heightPx = 160;

export interface ChartProps {
  readonly title: string;
  /** When each value was, in seconds since the epoch. */
  readonly times: readonly number[];
  readonly lines: readonly { readonly label: string; readonly values: readonly (number | null)[] }[];
  readonly format: (value: number) => string;
  /** Its values are whole numbers: the axis names no others. */
  readonly whole?: boolean;
}

/** Lines over time. It is drawn on a canvas, so its view gives the same as a table beside it. Follows the theme and its width. */
export function Chart({ title, times, lines, format, whole = false }: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const data: uPlot.AlignedData = [[...times], ...lines.map(({ values }) => [...values])];
  const latest = useRef(data);
  latest.current = data;
  const labels = lines.map(({ label }) => label).join('\n');
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const draw = () => {
      plot.current?.destroy();
      plot.current = new uPlot(
        optionsOf({ labels: labels.split('\n'), format, whole, width: element.clientWidth }),
        latest.current,
        element,
      );
    };
    draw();
    const leave = new AbortController();
    window.addEventListener('themechange', draw, { signal: leave.signal });
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw, { signal: leave.signal });
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: heightPx }));
    resized.observe(element);
    return () => {
      leave.abort();
      resized.disconnect();
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [labels]);
  useEffect(() => plot.current?.setData(data), [times, lines]);
  return (
    <div
      class="chart"
      ref={box}
      role="img"
      aria-label={`${title}, as lines over time; the table below has the values`}
    />
  );
}

interface Look extends Required<Pick<ChartProps, 'format' | 'whole'>> {
  readonly labels: readonly string[];
  readonly width: number;
}

function optionsOf({ labels, format, whole, width }: Look): uPlot.Options {
  const colour = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axis = { stroke: colour('--soft'), grid: { stroke: colour('--line'), width: 1 }, ticks: { show: false } };
  const shown = (_: uPlot, value: number | null) => (value === null ? '–' : format(value));
  return {
    width,
    height: heightPx,
    cursor: { y: false, drag: { x: false, y: false } },
    scales: { y: { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] } },
    axes: [
      { ...axis, values: (_, splits) => splits.map((at) => timeLabel(at, splits)) },
      { ...axis, size: roomFor, values: (_, splits) => splits.map(format), ...(whole && { incrs: wholeSteps }) },
    ],
    series: [
      { value: (_, at) => (at === null ? '–' : formatTime(at * 1_000)) },
      ...labels.map((label, i) => ({
        label,
        stroke: colour(`--series-${i + 1}`),
        width: 2,
        // Colour is not the only difference between lines.
        ...(i > 0 && { dash: [6, 3] }),
        spanGaps: false,
        points: { show: true, size: 4, filter: lonePoints },
        value: shown,
      })),
    ],
  };
}

const wholeSteps = Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat();
const digitPx = 8;
const besidePx = 16;

/** As much as the longest of the labels takes. */
function roomFor(_: uPlot, labels: readonly string[] | null): number {
  return Math.max(0, ...(labels ?? []).map(({ length }) => length)) * digitPx + besidePx;
}

/** A value between two that are not known is on no line: it is drawn as a point. */
function lonePoints({ data }: uPlot, line: number): number[] {
  const values = data[line] ?? [];
  const isKnown = (at: number) => typeof values[at] === 'number';
  return Array.from(values.keys()).filter((at) => isKnown(at) && !isKnown(at - 1) && !isKnown(at + 1));
}

const dayS = 86_400;

/** Days where the axis spans some, else hours and minutes. */
function timeLabel(atS: number, splits: readonly number[]): string {
  const date = new Date(atS * 1_000);
  const isDays = (splits.at(-1) ?? 0) - (splits[0] ?? 0) > 2 * dayS;
  if (isDays) return `${date.getDate()} ${date.toLocaleString('en', { month: 'short' })}`;
  return [date.getHours(), date.getMinutes()].map((part) => String(part).padStart(2, '0')).join(':');
}
