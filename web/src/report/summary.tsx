// What came out, in numbers: a headline, the table of all policies, bars, and all workloads at a glance.
import { Card } from '../parts';
import { setValues } from '../route';
import type { Group, Run, Summary } from './data';
import { PolicyName, Scroll, colourOf, percent, peak, short, times, whole } from './parts';
import { duration } from './ticks';

interface Column {
  group: string; head: string; value: (run: Run, group: Group) => number | null; words: (value: number | null, run: Run) => string;
  best?: boolean; // the least is the best
}

const ifFinished = (run: Run, value: number): number | null => run.summary.jobs_finished ? value : null;
const field = (key: keyof Summary) => (run: Run) => Number(run.summary[key]);
const finished = (key: keyof Summary) => (run: Run) => ifFinished(run, Number(run.summary[key]));
const jctRatio = (run: Run, group: Group): number | null => {
  const first = group.runs[0];
  return first?.summary.jobs_finished ? ifFinished(run, run.summary.mean_jct_s / first.summary.mean_jct_s) : null;
};
const fairness = (n: number | null) => n === null ? '–' : n < 99.995 ? n.toFixed(2) : whole(n);

function milliseconds(ms: number | null): string {
  if (ms === null) return '–';
  if (ms < 0.0995) return `${(ms * 1000).toFixed(0)}us`;
  if (ms < 99.95) return `${ms.toFixed(ms < 0.995 ? 2 : 1)}ms`;
  return ms < 999.5 ? `${ms.toFixed(0)}ms` : duration(ms / 1000);
}

const columns: Column[] = [
  { group: '', head: 'Jobs', value: field('jobs_finished'),
    words: (n, run) => n === run.summary.jobs ? whole(n) : `${whole(n)} of ${whole(run.summary.jobs)}` },
  { group: 'Completion time', head: 'mean', value: finished('mean_jct_s'), words: duration, best: true },
  { group: 'Completion time', head: 'ratio', value: jctRatio, words: times },
  { group: 'Completion time', head: '50 %', value: finished('p50_jct_s'), words: duration, best: true },
  { group: 'Completion time', head: '90 %', value: finished('p90_jct_s'), words: duration, best: true },
  { group: 'Completion time', head: '99 %', value: finished('p99_jct_s'), words: duration, best: true },
  { group: 'Queueing', head: 'mean', value: field('mean_queue_s'), words: duration, best: true },
  { group: 'Queueing', head: '99 %', value: field('p99_queue_s'), words: duration, best: true },
  { group: '', head: 'Makespan', value: finished('makespan_s'), words: duration, best: true },
  { group: 'Devices', head: 'allocated', value: field('allocated_ratio'), words: percent },
  { group: 'Devices', head: 'useful', value: field('useful_ratio'), words: percent },
  { group: 'Resizing', head: 'count', value: field('resizes'), words: whole },
  { group: 'Resizing', head: 'device h lost', value: (run) => run.summary.resize_lost_device_s / 3600, words: (n) => short(n ?? 0) },
  { group: 'Fairness ρ', head: 'mean', value: finished('mean_fairness'), words: fairness, best: true },
  { group: 'Fairness ρ', head: 'worst', value: finished('worst_fairness'), words: fairness, best: true },
  { group: '', head: 'Decision', value: field('decision_ms_mean'), words: milliseconds },
];

function headline(group: Group): string {
  const { best, runs } = group;
  if (!best) return 'No job finished.';
  const mean = duration(best.summary.mean_jct_s);
  const ratio = best === runs[0] ? null : jctRatio(best, group);
  const first = runs.length === 1 ? `Mean job completion time: ${mean}.`
    : `Lowest mean job completion time: ${best.name}, ${mean}${ratio === null ? '' : ` (${times(ratio)} of ${runs[0]?.name ?? ''})`}.`;
  const left = runs.filter(({ summary }) => summary.jobs_finished < summary.jobs).map(({ name, summary }) =>
    ` ${name} left ${whole(summary.jobs - summary.jobs_finished)} of ${whole(summary.jobs)} jobs unfinished` +
    `${summary.jobs_dropped ? ` (${whole(summary.jobs_dropped)} turned away)` : ''}; its completion times count finished jobs only.`);
  return first + left.join('');
}

function Heads({ sorted, descending }: { sorted: number; descending: boolean }) {
  const groups: { name: string; span: number }[] = [];
  columns.forEach(({ group }) => {
    const last = groups[groups.length - 1];
    if (last && group && last.name === group) last.span += 1;
    else groups.push({ name: group, span: 1 });
  });
  return (
    <thead>
      <tr>
        <td />
        {groups.map(({ name, span }, i) => name ? <th key={i} scope="colgroup" colSpan={span} class="over">{name}</th> : <td key={i} />)}
      </tr>
      <tr>
        <th scope="col">Policy</th>
        {columns.map(({ head }, i) => (
          <th key={i} scope="col" class="n" aria-sort={sorted !== i ? undefined : descending ? 'descending' : 'ascending'}>
            <button type="button" class="sort" title="Sort by this column"
              onClick={() => setValues({ sort: sorted === i && !descending ? `-${i}` : String(i) })}>{head}</button>
          </th>
        ))}
      </tr>
    </thead>
  );
}

export function SummaryCard({ group, shown, sort }: { group: Group; shown: Run[]; sort: string }) {
  const descending = sort.startsWith('-');
  const sorted = sort === '' ? -1 : Math.abs(Number(sort));
  const by = columns[sorted];
  const rows = [...group.runs];
  if (by) {
    const key = (run: Run) => by.value(run, group) ?? Infinity;
    rows.sort((a, b) => (descending ? -1 : 1) * (key(a) - key(b) || 0));
  }
  const isBest = (column: Column, run: Run) => {
    const all = group.runs.flatMap((other) => column.value(other, group) ?? []);
    const least = Math.min(...all);
    return column.best && column.value(run, group) === least && all.some((value) => value > least);
  };
  return (
    <Card title={group.title ? `Summary of ${group.title}` : 'Summary'}>
      <p>{headline(group)}</p>
      <Scroll label="Summary">
        <table class="summary">
          <Heads sorted={sorted} descending={descending} />
          <tbody>
            {rows.map((run) => (
              <tr key={run.policy} class={shown.includes(run) ? '' : 'off'}>
                <td><PolicyName run={run} /></td>
                {columns.map((column, i) => (
                  <td key={i} class={`n ${isBest(column, run) ? 'best' : ''}`}>{column.words(column.value(run, group), run)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </Card>
  );
}

function Bars({ title, runs, value }: { title: string; runs: Run[]; value: (run: Run) => number | null }) {
  const most = peak(runs.map((run) => value(run) ?? 0)) || 1;
  return (
    <div>
      <h3>{title}</h3>
      <ul class="bars-list">
        {runs.map((run) => (
          <li key={run.policy}>
            <span class="bar-name">{run.name}</span>
            <span class="bar-track"><span class="bar-fill" style={{ width: `${100 * (value(run) ?? 0) / most}%`, background: `var(${colourOf(run.policy)})` }} /></span>
            <span class="n">{duration(value(run))}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

export function BarsCard({ shown }: { shown: Run[] }) {
  return (
    <Card title="Completion and queueing times">
      <div class="bars">
        <Bars title="Mean completion time" runs={shown} value={finished('mean_jct_s')} />
        <Bars title="99 % of completion times" runs={shown} value={finished('p99_jct_s')} />
        <Bars title="Mean queueing time" runs={shown} value={field('mean_queue_s')} />
      </div>
    </Card>
  );
}

export function WorkloadsCard({ groups, policies }: { groups: Group[]; policies: string[] }) {
  if (groups.length < 2) return null;
  return (
    <Card title="All workloads">
      <p class="hint">Mean job completion time, and its ratio to the first policy. Choose a workload to see its runs below.</p>
      <Scroll label="All workloads">
        <table>
          <thead><tr><th>Workload</th>{policies.map((name) => <th key={name} class="n">{name}</th>)}</tr></thead>
          <tbody>
            {groups.map((group, index) => (
              <tr key={index}>
                <td><button type="button" class="quiet" onClick={() => setValues({ group: String(index), sort: '' })}>{group.title}</button></td>
                {policies.map((name, policy) => {
                  const run = group.runs.find((one) => one.policy === policy);
                  if (!run?.summary.jobs_finished) return <td key={name} class="n">–</td>;
                  const best = group.runs.length > 1 && run === group.best;
                  return <td key={name} class={`n ${best ? 'best' : ''}`}>{duration(run.summary.mean_jct_s)} <small>{times(jctRatio(run, group))}</small></td>;
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </Card>
  );
}
