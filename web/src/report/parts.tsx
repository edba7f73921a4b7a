// Small parts of the report's pages.
import type { ComponentChildren } from 'preact';
import type { Axis } from '../chart';
import type { Run } from './data';
import { logTicks, tick, timeTicks } from './ticks';

const colours = 16;
export const colourOf = (policy: number): string => `--p${policy % colours}`;
// From the ninth policy on, lines are dashed.
export const dashOf = (policy: number): number[] | undefined =>
  policy < 8 ? undefined : [[6, 3], [2, 3], [9, 3, 2, 3]][Math.floor(policy / 8) % 3];

export function PolicyName({ run }: { run: Run }) {
  return <><span class="swatch" style={{ background: `var(${colourOf(run.policy)})` }} />{run.name}</>;
}

export const elapsed: Axis = { label: 'time', ticks: timeTicks, words: (t) => tick(Math.round(t)) };
export const lengths: Axis = { label: 'within', logarithmic: true, ticks: logTicks, words: (t) => tick(t < 10 ? t : Math.round(t)) };

export const percent = (share: number | null | undefined): string => share === null || share === undefined ? '–' : `${Number((100 * share).toFixed(1))}%`;
export const whole = (n: number | null | undefined): string => n === null || n === undefined ? '–' : Math.round(n).toLocaleString('en-US');
export const short = (n: number): string => n >= 100 || Number.isInteger(n) ? whole(n) : n.toFixed(1);
export const times = (n: number | null): string => n === null || !Number.isFinite(n) ? '–' : `${n.toFixed(2)}x`;
export const peak = (values: number[]): number => values.reduce((a, b) => Math.max(a, b), 0);

// The address of a page with the same choices: #/jobs?group=1.
export function address(path: string, values: Record<string, string>): string {
  const kept = new URLSearchParams(values).toString();
  return `#/${path}${kept ? `?${kept}` : ''}`;
}

export function Scroll({ label, children }: { label: string; children: ComponentChildren }) {
  return <div class="wide" tabIndex={0} role="region" aria-label={label}>{children}</div>;
}

// The numbers behind a figure.
export function AsTable({ label, heads, rows }: { label: string; heads: string[]; rows: { run: Run; cells: string[] }[] }) {
  return (
    <details>
      <summary>Show as a table</summary>
      <Scroll label={label}>
        <table>
          <thead><tr><th>Policy</th>{heads.map((head) => <th key={head} class="n">{head}</th>)}</tr></thead>
          <tbody>
            {rows.map(({ run, cells }) => (
              <tr key={run.policy}><td><PolicyName run={run} /></td>{cells.map((cell, i) => <td key={i} class="n">{cell}</td>)}</tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </details>
  );
}
