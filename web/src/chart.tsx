// Charts over time. Those with the same `group` share a cursor. Colours come from the style sheet.
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { number } from './format';

export interface Line { label: string; colour: string; fill?: boolean; stepped?: boolean; dash?: number[] }
export interface Mark { at: number; colour: string }

interface Props {
  title: string;
  unit?: string;
  at: number[];
  lines: Line[];
  values: (number | null)[][];
  group: string;
  from: number;
  to: number;
  height?: number;
  marks?: Mark[];
  fromZero?: boolean;
}

export function themeColour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim() || '#888';
}

// A number that changes when the theme does: charts are drawn again.
export function useTheme(): number {
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const changed = () => setTurn((n) => n + 1);
    const media = matchMedia('(prefers-color-scheme: dark)');
    media.addEventListener('change', changed);
    addEventListener('themechange', changed);
    return () => {
      media.removeEventListener('change', changed);
      removeEventListener('themechange', changed);
    };
  }, []);
  return turn;
}

// Times of a day have 24 hours; a new day also says its date.
const tickForms: uPlot.Axis.Values = [
  [86_400, '{YYYY}-{MM}-{DD}', null, null, null, null, null, null, 1],
  [60, '{HH}:{mm}', '\n{YYYY}-{MM}-{DD}', null, '\n{YYYY}-{MM}-{DD}', null, null, null, 1],
  [1, '{HH}:{mm}:{ss}', '\n{YYYY}-{MM}-{DD}', null, '\n{YYYY}-{MM}-{DD}', null, null, null, 1],
  [0.001, '{HH}:{mm}:{ss}.{fff}', null, null, null, null, null, null, 1],
];

function options(props: Props, width: number, marks: { current: Mark[] }): uPlot.Options {
  const axis: uPlot.Axis = {
    stroke: themeColour('--muted'), grid: { stroke: themeColour('--grid'), width: 1 },
    ticks: { stroke: themeColour('--grid'), width: 1 }, font: '12px system-ui, sans-serif',
  };
  return {
    width, height: props.height ?? 180,
    cursor: { sync: { key: props.group }, drag: { x: false, y: false }, points: { size: 6 } },
    scales: {
      x: { time: true, range: (_, low, high) => [low ?? 0, high ?? 1] },
      y: { range: (_, low, high) => {
        const bottom = props.fromZero === false ? (low ?? 0) : Math.min(0, low ?? 0);
        const top = high ?? 1;
        return [bottom, top > bottom ? top + (top - bottom) * 0.08 : bottom + 1];
      } },
    },
    legend: { live: true },
    axes: [{ ...axis, space: 90, values: tickForms }, { ...axis, size: 56, values: (_, ticks) => ticks.map((tick) => number(tick)) }],
    series: [
      { label: 'time', value: '{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}' },
      ...props.lines.map((line): uPlot.Series => ({
        label: line.label, stroke: themeColour(line.colour), width: 1.75, dash: line.dash,
        fill: line.fill ? `${themeColour(line.colour)}28` : undefined, points: { show: false },
        paths: line.stepped ? uPlot.paths.stepped?.({ align: 1 }) : undefined,
        value: (_, value) => value === null ? '–' : `${number(value)}${props.unit ? ` ${props.unit}` : ''}`,
        spanGaps: false,
      })),
    ],
    hooks: {
      draw: [(plot) => {
        for (const mark of marks.current) {
          const x = Math.round(plot.valToPos(mark.at, 'x', true));
          if (x < plot.bbox.left || x > plot.bbox.left + plot.bbox.width) continue;
          plot.ctx.save();
          plot.ctx.strokeStyle = themeColour(mark.colour);
          plot.ctx.lineWidth = devicePixelRatio;
          plot.ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
          plot.ctx.beginPath();
          plot.ctx.moveTo(x, plot.bbox.top);
          plot.ctx.lineTo(x, plot.bbox.top + plot.bbox.height);
          plot.ctx.stroke();
          plot.ctx.restore();
        }
      }],
    },
  };
}

export function Chart(props: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const marks = useRef<Mark[]>([]);
  const theme = useTheme();
  marks.current = props.marks ?? [];
  const shape = JSON.stringify([props.lines, props.group, props.height, props.unit]);

  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const made = new uPlot(options(props, Math.max(200, element.clientWidth), marks),
      [props.at, ...props.values] as uPlot.AlignedData, element);
    plot.current = made;
    made.setScale('x', { min: props.from, max: props.to });
    const resized = new ResizeObserver(() => {
      const width = Math.max(200, element.clientWidth);
      if (width !== made.width) made.setSize({ width, height: made.height });
    });
    resized.observe(element);
    return () => {
      resized.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, theme]);

  useEffect(() => {
    plot.current?.batch(() => {
      plot.current?.setData([props.at, ...props.values] as uPlot.AlignedData, false);
      plot.current?.setScale('x', { min: props.from, max: props.to });
    });
  }, [props.at, props.values, props.from, props.to, props.marks]);

  const newest = props.lines.map((line, i) => {
    const values = props.values[i] ?? [];
    const value = [...values].reverse().find((v) => v !== null);
    return `${line.label}: ${value === undefined ? 'no value' : number(value)}`;
  });
  return (
    <figure class="chart">
      <figcaption>{props.title}</figcaption>
      <div ref={box} role="img" aria-label={`${props.title}. Now: ${newest.join(', ')}`} />
    </figure>
  );
}
