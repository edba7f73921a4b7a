// All jobs, with their completion times under each policy side by side; and one job.
import { useMemo } from 'preact/hooks';
import { Chart } from '../chart';
import { count } from '../format';
import { Card, Rows } from '../parts';
import { setValues } from '../route';
import { devicesOf, together, type Group, type Jobs, type Run } from './data';
import { PolicyName, Scroll, address, colourOf, dashOf, elapsed, times, whole } from './parts';
import { duration } from './ticks';

type Values = Record<string, string>;
interface JobRow { name: string; at: (number | null)[] } // index of the job in each run; null: it is not in it

const took = (jobs: Jobs, i: number): number | null => {
  const finish = jobs.finish[i];
  return finish === null || finish === undefined ? null : finish - (jobs.submit[i] ?? 0);
};
function outcome(run: Run, i: number | null | undefined): string {
  if (i === null || i === undefined) return '–';
  const length = took(run.jobs, i);
  return length !== null ? duration(length) : run.jobs.dropped[i] ? 'turned away' : 'unfinished';
}
const lengthIn = (row: JobRow, runs: Run[], k: number): number | null => {
  const run = runs[k];
  const i = row.at[k];
  return run && i !== null && i !== undefined ? took(run.jobs, i) : null;
};
// The last shown policy's time relative to the first's.
const ratioOf = (row: JobRow, runs: Run[]): number | null => {
  const [first, last] = [lengthIn(row, runs, 0), lengthIn(row, runs, runs.length - 1)];
  return first && last !== null ? last / first : null;
};
const first = <T,>(row: JobRow, runs: Run[], pick: (jobs: Jobs, i: number) => T): T | undefined => {
  const k = row.at.findIndex((i) => i !== null);
  const run = runs[k];
  return run ? pick(run.jobs, row.at[k] ?? 0) : undefined;
};

function rowsOf(runs: Run[]): JobRow[] {
  const rows = new Map<string, JobRow>();
  runs.forEach((run, k) => run.jobs.name.forEach((name, i) => {
    if (name === '') return; // not submitted when the simulation ended
    const row = rows.get(name) ?? { name, at: runs.map(() => null) };
    row.at[k] = i;
    rows.set(name, row);
  }));
  return [...rows.values()];
}

function matches(name: string, wanted: string): boolean {
  if (wanted === '') return true;
  const parts = wanted.toLowerCase().split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(wanted.includes('*') ? `^${parts.join('.*')}$` : parts.join('')).test(name.toLowerCase());
}

export function JobsPage({ group, shown, values }: { group: Group; shown: Run[]; values: Values }) {
  const key = shown.map(({ policy }) => policy).join();
  const all = useMemo(() => rowsOf(shown), [group, key]);
  const wanted = values.name ?? '';
  const sort = values.order ?? '';
  const rows = useMemo(() => {
    const kept = all.filter(({ name }) => matches(name, wanted));
    const by = sort.replace('-', '');
    if (by === '') return kept;
    const value = (row: JobRow) => by === 'ratio' ? ratioOf(row, shown)
      : lengthIn(row, shown, shown.findIndex(({ policy }) => String(policy) === by));
    const sign = sort.startsWith('-') ? -1 : 1;
    const known = kept.flatMap((row) => { const own = value(row); return own === null ? [] : [{ row, own }]; });
    const rest = kept.filter((row) => value(row) === null);
    return [...known.sort((a, b) => sign * (a.own - b.own)).map(({ row }) => row), ...rest];
  }, [all, key, wanted, sort]);
  const total = Math.max(0, ...shown.map(({ summary }) => summary.jobs));
  const head = (id: string, label: string) => (
    <span key={id} role="columnheader" class="n" aria-sort={sort === id ? 'ascending' : sort === `-${id}` ? 'descending' : 'none'}>
      <button type="button" class="sort" title={label} onClick={() => setValues({ order: sort === `-${id}` ? id : `-${id}` })}>{label}</button>
    </span>
  );
  return (
    <div class="page fill">
      <h1>Jobs <small>{count(rows.length, 'job')}</small></h1>
      <form class="filters" role="search" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
        <label>Name<input name="name" value={wanted} placeholder="sweep-*" autocomplete="off"
          onInput={(event) => setValues({ name: event.currentTarget.value.trim() })} /></label>
      </form>
      <p class="hint">Completion times.{shown.length > 1 ? ` The ratio is that of ${shown[shown.length - 1]?.name ?? ''} to ${shown[0]?.name ?? ''}.` : ''}
        {all.length < total ? ` This page has the first ${whole(all.length)} of ${whole(total)} jobs; jobs.csv has all.` : ''}</p>
      <div class="jobs job-times" style={{ '--policies': shown.length }}>
        <Rows items={rows} height={36} label="Jobs"
          head={<>
            <span role="columnheader">Name</span><span role="columnheader" class="opt">Tenant</span>
            <span role="columnheader" class="opt">Application</span><span role="columnheader" class="n opt">Asked for</span>
            <span role="columnheader" class="n opt">Submitted</span>
            {shown.map((run) => head(String(run.policy), run.name))}{head('ratio', 'Ratio')}
          </>}
          render={(row) => <>
            <span role="cell"><a href={address(`jobs/${encodeURIComponent(row.name)}`, values)}>{row.name}</a></span>
            <span role="cell" class="opt">{first(row, shown, (jobs, i) => jobs.tenant[i])}</span>
            <span role="cell" class="opt">{first(row, shown, (jobs, i) => jobs.application[i])}</span>
            <span role="cell" class="n opt">{first(row, shown, (jobs, i) => jobs.requested[i])}</span>
            <span role="cell" class="n opt">{duration((first(row, shown, (jobs, i) => jobs.submit[i]) ?? 0) - group.start)}</span>
            {shown.map((run, k) => <span key={run.policy} role="cell" class="n">{outcome(run, row.at[k])}</span>)}
            <span role="cell" class="n">{times(ratioOf(row, shown))}</span>
          </>} />
      </div>
    </div>
  );
}

export function JobPage({ group, shown, name, values }: { group: Group; shown: Run[]; name: string; values: Values }) {
  const row = rowsOf(shown).find((one) => one.name === name);
  const there = shown.flatMap((run, k) => { const i = row?.at[k]; return i === null || i === undefined ? [] : [{ run, i }]; });
  const curves = there.flatMap(({ run, i }) => run.devices ? [{ run, ...devicesOf(run.devices, i), end: run.devices.until }] : []);
  const joined = together(curves.map(({ t, devices, end }) => ({ t: [group.start, ...t], values: [0, ...devices], end })));
  const since = (time: number | null | undefined) => time === null || time === undefined ? '–' : duration(time - group.start);
  return (
    <div class="page">
      <p><a href={address('jobs', values)}>All jobs</a></p>
      <h1>{name}</h1>
      {there.length === 0 ? <p class="problem" role="alert">No shown policy has a job of this name.</p> : null}
      <Card title="Devices over time">
        {curves.length === 0 ? <p class="hint">No devices were recorded.</p> : (
          <Chart title="Devices of this job" group="report" axis={elapsed} at={joined.t.map((t) => t - group.start)} values={joined.values}
            lines={curves.map(({ run }) => ({ label: run.name, colour: colourOf(run.policy), dash: dashOf(run.policy), stepped: true }))}
            from={0} to={group.end - group.start} height={240} />
        )}
      </Card>
      <Card title="Under each policy">
        <Scroll label="This job under each policy">
          <table>
            <thead><tr><th>Policy</th>{['Submitted', 'Started', 'Finished', 'Took', 'Without devices', 'Resizes', 'Device time', 'Lost to resizing', 'Fairness ρ']
              .map((head) => <th key={head} class="n">{head}</th>)}</tr></thead>
            <tbody>
              {there.map(({ run, i }) => (
                <tr key={run.policy}>
                  <td><PolicyName run={run} /></td>
                  <td class="n">{since(run.jobs.submit[i])}</td><td class="n">{since(run.jobs.start[i])}</td><td class="n">{since(run.jobs.finish[i])}</td>
                  <td class="n">{outcome(run, i)}</td><td class="n">{duration(run.jobs.queue_s[i])}</td><td class="n">{whole(run.jobs.resizes[i])}</td>
                  <td class="n">{duration(run.jobs.device_s[i])}</td><td class="n">{duration(run.jobs.lost_device_s[i])}</td>
                  <td class="n">{took(run.jobs, i) === null ? '–' : run.jobs.fairness[i]}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      </Card>
    </div>
  );
}
