// Curves of all policies on one time axis: devices, queue, waits; and how long jobs took.
import { useMemo } from 'preact/hooks';
import { Chart, type Band, type Line } from '../chart';
import { floorIndex } from '../format';
import { Card, Choice } from '../parts';
import { setValues } from '../route';
import { together, type Group, type Run, type Timeline } from './data';
import { AsTable, colourOf, dashOf, elapsed, lengths, peak, percent, short, whole } from './parts';
import { duration, timeTicks } from './ticks';

type Curve = 'allocated' | 'useful' | 'usable' | 'waiting' | 'allocated_low' | 'allocated_high' | 'waiting_low' | 'waiting_high';
const lineOf = (run: Run, more: Partial<Line> = {}): Line =>
  ({ label: run.name, colour: colourOf(run.policy), dash: dashOf(run.policy), stepped: true, ...more });
// The last value holds until the end.
const upTo = (timeline: Timeline, name: Curve): number[] => {
  const values = timeline[name] ?? [];
  return [...values, values[values.length - 1] ?? 0];
};

function averagedNote(shown: Run[]): string {
  const widest = peak(shown.map(({ timeline }) => timeline?.averaged_over_s ?? 0));
  return widest === 0 ? '' : ` Each step is an average over ${duration(widest)}; the light band spans the lowest to the highest value within it.`;
}

function DevicesOfRun({ run, group, top }: { run: Run; group: Group; top: number }) {
  const { timeline } = run;
  const data = useMemo(() => {
    if (!timeline) return { at: [], values: [] };
    const names: Curve[] = ['usable', 'allocated', 'useful'];
    if (timeline.allocated_low) names.push('allocated_high', 'allocated_low');
    return { at: [...timeline.t, timeline.end].map((t) => t - group.start), values: names.map((name) => upTo(timeline, name)) };
  }, [timeline, group]);
  if (!timeline) return <p class="hint">{run.name} has no timeline.</p>;
  const colour = colourOf(run.policy);
  const edge: Line = { label: '', colour, stepped: true, edge: true };
  const bands: Band[] = timeline.allocated_low ? [{ high: 3, low: 4, colour }] : [];
  return (
    <Chart title={`${run.name}: allocated ${percent(run.summary.allocated_ratio)}, useful ${percent(run.summary.useful_ratio)}`}
      group="report" at={data.at} values={data.values} from={0} to={group.end - group.start} height={150} top={top} axis={elapsed}
      bands={bands} format={short}
      lines={[{ label: 'usable', colour: '--muted', dash: [4, 4], stepped: true }, { label: 'allocated', colour, fill: true, stepped: true },
        { label: 'useful', colour, fill: true, solid: true, stepped: true }, ...(bands.length ? [edge, edge] : [])]} />
  );
}

export function DevicesCard({ group, shown }: { group: Group; shown: Run[] }) {
  const top = peak(group.runs.flatMap(({ timeline }) => timeline ? [peak(timeline.usable), peak(timeline.allocated)] : []));
  return (
    <Card title="Devices over time">
      <p class="hint">Allocated devices are held by jobs; useful ones compute (they neither resize nor synchronise). Usable devices are neither
        down nor serving. All policies have the same axes.{averagedNote(shown)}</p>
      {shown.map((run) => <DevicesOfRun key={run.policy} run={run} group={group} top={top || 1} />)}
      <AsTable label="Devices" heads={['Allocated', 'Useful', 'Most allocated']} rows={shown.map((run) => ({
        run, cells: [percent(run.summary.allocated_ratio), percent(run.summary.useful_ratio),
          whole(peak(run.timeline?.allocated_high ?? run.timeline?.allocated ?? []))],
      }))} />
    </Card>
  );
}

export function QueueCard({ group, shown }: { group: Group; shown: Run[] }) {
  const runs = shown.filter(({ timeline }) => timeline);
  const key = runs.map(({ policy }) => policy).join();
  const { at, values, lines, bands } = useMemo(() => {
    const all = runs.flatMap(({ timeline }) => timeline ? [timeline] : []);
    const banded = runs.filter(({ timeline }) => timeline?.waiting_low);
    const edges = banded.flatMap(({ timeline }) => timeline ? [timeline.waiting_high ?? [], timeline.waiting_low ?? []].map((list) =>
      ({ t: timeline.t, values: list, end: timeline.end })) : []);
    const joined = together([...all.map(({ t, waiting, end }) => ({ t, values: waiting, end })), ...edges]);
    return {
      at: joined.t.map((t) => t - group.start), values: joined.values,
      lines: [...runs.map((run) => lineOf(run)), ...banded.flatMap((run) => [lineOf(run, { edge: true, label: '' }), lineOf(run, { edge: true, label: '' })])],
      bands: banded.map((run, i) => ({ high: runs.length + 2 * i, low: runs.length + 2 * i + 1, colour: colourOf(run.policy) })),
    };
  }, [group, key]);
  if (runs.length === 0) return null;
  return (
    <Card title="Queue over time">
      <p class="hint">Submitted jobs that hold no device.{averagedNote(shown)}</p>
      <Chart title="Jobs that wait" group="report" axis={elapsed} at={at} values={values} lines={lines} bands={bands}
        from={0} to={group.end - group.start} height={220} format={short} />
      <AsTable label="Queue" heads={['Most waiting', 'Mean queueing', '99 % of queueing']} rows={runs.map((run) => ({
        run, cells: [whole(peak(run.timeline?.waiting_high ?? run.timeline?.waiting ?? [])),
          duration(run.summary.mean_queue_s), duration(run.summary.p99_queue_s)],
      }))} />
    </Card>
  );
}

const percentiles: [string, string][] = [['median', 'Median'], ['p90', '90 %']];

export function WaitsCard({ group, shown, chosen }: { group: Group; shown: Run[]; chosen: string }) {
  const which = chosen === 'median' ? 'median' : 'p90';
  const runs = shown.filter(({ waits }) => waits);
  const key = `${which} ${runs.map(({ policy }) => policy).join()}`;
  const { at, values } = useMemo(() => {
    const joined = together(runs.flatMap(({ waits }) => waits ? [{ t: waits.t, values: waits[which], end: waits.t[waits.t.length - 1] ?? 0 }] : []));
    return { at: joined.t.map((t) => t - group.start), values: joined.values };
  }, [group, key]);
  if (runs.length === 0) return null;
  return (
    <Card title="Waits over time" extra={<Choice name="Percentile" values={percentiles} chosen={which} choose={(wait) => setValues({ wait })} />}>
      <p class="hint">How long the jobs that wait have been waiting, since their submission or since they lost their devices.
        {which === 'median' ? ' Half of them wait less.' : ' One in ten waits longer.'}</p>
      <Chart title={which === 'median' ? 'Median wait' : '90 % of waits'} group="report" axis={elapsed} at={at} values={values}
        lines={runs.map((run) => lineOf(run))} from={0} to={group.end - group.start} height={180} format={duration} valueTicks={timeTicks} />
      <AsTable label="Waits" heads={['Longest median', 'Longest 90 %']} rows={runs.map((run) => ({
        run, cells: [duration(peak((run.waits?.median ?? []).map((s) => s ?? 0))), duration(peak((run.waits?.p90 ?? []).map((s) => s ?? 0)))],
      }))} />
    </Card>
  );
}

const shares = [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99];

export function CdfCard({ shown }: { shown: Run[] }) {
  const runs = shown.filter(({ cdf }) => cdf.x.length > 0);
  const key = runs.map(({ policy }) => policy).join();
  const { at, values, low, high } = useMemo(() => {
    let least = Math.max(Math.min(...runs.map(({ cdf }) => cdf.x[0] ?? 1)), 1e-3);
    let most = Math.max(...runs.map(({ cdf }) => cdf.x[cdf.x.length - 1] ?? 1), least);
    if (most < least * 4) [least, most] = [least / 2, most * 2];
    const joined = together(runs.map(({ cdf }) => ({ t: [least, ...cdf.x.map((x) => Math.max(x, least))], values: [0, ...cdf.y], end: most })));
    return { at: joined.t, values: joined.values, low: least, high: most };
  }, [key]);
  if (runs.length === 0) return <Card title="Completion times"><p class="hint">No job finished.</p></Card>;
  return (
    <Card title="Completion times">
      <p class="hint">Share of all submitted jobs that completed within a time (logarithmic scale).</p>
      <Chart title="Share of jobs completed" group="lengths" axis={lengths} at={at} values={values} lines={runs.map((run) => lineOf(run))}
        from={low} to={high} height={260} top={1} format={percent} />
      <AsTable label="Completion times" heads={shares.map((share) => `${100 * share} % within`)} rows={runs.map((run) => ({
        run, cells: shares.map((share) => {
          const i = floorIndex(run.cdf.y, share - 1e-12) + 1;
          return duration(run.cdf.x[i]);
        }),
      }))} />
    </Card>
  );
}
