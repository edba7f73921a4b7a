// Charts over time. Those with the same `group` share a cursor. Colours come from the style sheet.
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { floorIndex, number } from './format';

export interface Line {
  label: string; colour: string; fill?: boolean; stepped?: boolean; dash?: number[];
  solid?: boolean; // the area counts, not the line
  edge?: boolean; // of a band: neither drawn nor named
}
export interface Mark { at: number; colour: string }
export interface Band { high: number; low: number; colour: string } // between two lines
// An axis that is not of dates. Its curves are steps: at the cursor holds the step before it, and charts of a group say the same place.
export interface Axis {
  label: string; logarithmic?: boolean; ticks: (low: number, high: number, pixels: number) => number[]; words: (value: number) => string;
}

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
  top?: number; // of the values, where several charts have the same scale
  axis?: Axis;
  bands?: Band[];
  format?: (value: number) => string;
  valueTicks?: Axis['ticks'];
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

function acrossAxis(own: Axis | undefined, style: uPlot.Axis): uPlot.Axis {
  if (!own) return { ...style, space: 90, values: tickForms };
  return {
    ...style, values: (_, ticks) => ticks.map(own.words), filter: (_, ticks) => ticks,
    splits: (plot, _, low, high) => own.ticks(low, high, plot.bbox.width / devicePixelRatio),
  };
}

function upAxis({ valueTicks, format }: Props, style: uPlot.Axis): uPlot.Axis {
  const own: uPlot.Axis = { ...style, size: 56, values: (_, ticks) => ticks.map(format ?? number) };
  // Half the room: a line of text needs less height than width.
  return valueTicks ? { ...own, splits: (plot, _, low, high) => valueTicks(low, high, 2 * plot.bbox.height / devicePixelRatio) } : own;
}

function options(props: Props, width: number, marks: { current: Mark[] }): uPlot.Options {
  const words = props.format ?? number;
  const own = props.axis;
  const axis: uPlot.Axis = {
    stroke: themeColour('--muted'), grid: { stroke: themeColour('--grid'), width: 1 },
    ticks: { stroke: themeColour('--grid'), width: 1 }, font: '12px system-ui, sans-serif',
  };
  return {
    width, height: props.height ?? 180,
    cursor: {
      sync: { key: props.group }, drag: { x: false, y: false }, points: { size: 6 },
      ...(own ? { dataIdx: (plot: uPlot, _: number, __: number, x: number) => Math.max(0, floorIndex(plot.data[0], x)) } : {}),
    },
    scales: {
      x: { time: !own, distr: own?.logarithmic ? 3 : 1, range: (_, low, high) => [low ?? 0, high ?? 1] },
      y: { range: (_, low, high) => {
        const bottom = props.fromZero === false ? (low ?? 0) : Math.min(0, low ?? 0);
        const top = props.top ?? high ?? 1;
        return [bottom, top > bottom ? top + (top - bottom) * 0.08 : bottom + 1];
      } },
    },
    legend: { live: true },
    axes: [acrossAxis(own, axis), upAxis(props, axis)],
    bands: props.bands?.map(({ high, low, colour }) => ({ series: [high + 1, low + 1], fill: `${themeColour(colour)}30` })),
    series: [
      own ? { label: own.label, value: (plot) => (plot.cursor.left ?? -1) < 0 ? '–' : own.words(plot.posToVal(plot.cursor.left ?? 0, 'x')) }
        : { label: 'time', value: '{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}' },
      ...props.lines.map((line): uPlot.Series => ({
        label: line.label, class: line.edge ? 'edge' : undefined, stroke: line.edge ? 'transparent' : themeColour(line.colour),
        width: line.solid ? 0.5 : 1.75, dash: line.dash,
        fill: line.fill ? `${themeColour(line.colour)}${line.solid ? '70' : '28'}` : undefined, points: { show: false },
        paths: line.stepped ? uPlot.paths.stepped?.({ align: 1 }) : undefined,
        value: (_, value) => value === null ? '–' : `${words(value)}${props.unit ? ` ${props.unit}` : ''}`,
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

// The arrow keys move the cursor as a pointer does, so that the charts of its group follow.
function moveCursor(plot: uPlot, key: string): boolean {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
  if (step === undefined) return false;
  const box = plot.over.getBoundingClientRect();
  const left = (plot.cursor.left ?? -1) < 0 ? box.width / 2 : (plot.cursor.left ?? 0);
  const to = Math.max(0, Math.min(box.width, left + step * box.width / 100));
  plot.over.dispatchEvent(new MouseEvent('mousemove', { clientX: box.left + to, clientY: box.top + box.height / 2 }));
  return true;
}

export function Chart(props: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const marks = useRef<Mark[]>([]);
  const theme = useTheme();
  marks.current = props.marks ?? [];
  const shape = JSON.stringify([props.lines, props.group, props.height, props.unit, props.top, props.bands]);

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

  const newest = props.lines.flatMap((line, i) => {
    const values = props.values[i] ?? [];
    const value = [...values].reverse().find((v) => v !== null);
    return line.edge ? [] : [`${line.label}: ${value === undefined ? 'no value' : (props.format ?? number)(value ?? NaN)}`];
  });
  return (
    <figure class="chart">
      <figcaption>{props.title}</figcaption>
      <div ref={box} role="img" tabIndex={0} aria-label={`${props.title}. ${props.axis ? 'Last' : 'Now'}: ${newest.join(', ')}`}
        onKeyDown={(event) => { if (plot.current && moveCursor(plot.current, event.key)) event.preventDefault(); }} />
    </figure>
  );
}
