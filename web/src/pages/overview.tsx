import { useEffect, useState } from 'preact/hooks';
import { get, jobOf, query, type Cluster, type JobSummary, type RubatoEvent, type Sample, type Series } from '../api';
import { Chart } from '../chart';
import { count, duration, time } from '../format';
import { useLoaded, useSoon } from '../hooks';
import { listen } from '../live';
import { useNames } from '../names';
import { Bar, Card, Choice, Phase, Problem, Tile } from '../parts';
import { setValues } from '../route';
import { eventWords } from '../words';

const decisions = 'granted,policy,paused,resumed,scaled,finished,failed,cancelled,stalled,node_lost,node_back,drained,reserved,released,warning';
const ranges: [string, string][] = [['3600', '1 hour'], ['86400', '1 day'], ['604800', '7 days'], ['2592000', '30 days']];
const columns = ['devices', 'allocated', 'held', 'training', 'queued', 'waited_median', 'waited_p90', 'reserved', 'running'] as const;
const useColumns = ['utilisation', 'memory'] as const;

// Appends the cluster's newest values, at most one row for each period.
function withSample(series: Series, sample: Sample): Series {
  const last = series.at[series.at.length - 1] ?? 0;
  const from = sample.at - last >= series.step ? series.at.length : series.at.length - 1;
  const at = Math.floor(sample.at / series.step) * series.step;
  const next: Series = { ...series, at: [...series.at.slice(0, Math.max(0, from)), at] };
  for (const name of columns) next[name] = [...series[name].slice(0, Math.max(0, from)), sample[name]];
  for (const name of useColumns) {
    const known = series[name];
    const value = sample[name];
    if (known === undefined && value === undefined) continue;
    next[name] = [...(known ?? series.at.map(() => null)).slice(0, Math.max(0, from)), value ?? null];
  }
  return next;
}

// Where the daemon did not run, lines have gaps.
function withGaps(series: Series, names: readonly (keyof Sample)[], now: number): { at: number[]; values: (number | null)[][] } {
  const at: number[] = [];
  const values: (number | null)[][] = names.map(() => []);
  series.at.forEach((moment, i) => {
    const before = series.at[i - 1];
    if (before !== undefined && moment - before > 3 * series.step) {
      at.push(before + series.step);
      values.forEach((list) => list.push(null));
    }
    at.push(moment);
    names.forEach((name, k) => values[k]?.push(series[name]?.[i] ?? null));
  });
  // The last values hold until now.
  if (now > (at[at.length - 1] ?? now)) {
    at.push(now);
    values.forEach((list) => list.push(list[list.length - 1] ?? null));
  }
  return { at, values };
}

function inPercent({ at, values }: { at: number[]; values: (number | null)[][] }) {
  return { at, values: values.map((list) => list.map((share) => share === null ? null : 100 * share)) };
}

export function Decisions({ events }: { events: RubatoEvent[] }) {
  const names = useNames(events.map(jobOf));
  if (events.length === 0) return <p class="hint">Nothing was decided yet.</p>;
  return (
    <ol class="decisions">
      {events.map((event) => {
        const job = jobOf(event);
        return (
          <li key={event.seq}>
            <time>{time(event.at)}</time>
            <span>
              {job ? <a href={`#/jobs/j${job}`}>{names.get(job) ?? `j${job}`}</a> : null} {eventWords(event)}
            </span>
          </li>
        );
      })}
    </ol>
  );
}

export function Overview({ values }: { values: Record<string, string> }) {
  const range = Number(values.range) || 3600;
  const [series, setSeries] = useState<Series | null>(null);
  const [sample, setSample] = useState<Sample | null>(null);
  const [events, setEvents] = useState<RubatoEvent[]>([]);
  const [now, setNow] = useState(Date.now() / 1000);
  const cluster = useLoaded(() => get<Cluster>('/api/v1/cluster'), []);
  const jobs = useLoaded(() => get<{ jobs: JobSummary[] }>('/api/v1/jobs?active=true&phases=running&limit=100&newest_first=true'), []);
  const stored = useLoaded(() => {
    const to = Math.ceil(Date.now() / 1000);
    return get<Series>(`/api/v1/series${query({ from: to - range, to })}`);
  }, [range]);
  const latest = useLoaded(() => get<{ events: RubatoEvent[] }>(`/api/v1/events${query({ newest_first: true, limit: 30, types: decisions })}`), []);
  const reloadJobs = useSoon(() => { jobs.reload(); cluster.reload(); }, 500);

  useEffect(() => setSeries(stored.value), [stored.value]);
  useEffect(() => { if (latest.value) setEvents(latest.value.events); }, [latest.value]);
  useEffect(() => listen({
    sample: (news) => {
      setSample(news);
      setNow(news.at);
      setSeries((known) => known ? withSample(known, news) : known);
    },
    event: (event) => {
      reloadJobs();
      if (decisions.split(',').includes(event.type)) {
        setEvents((known) => [event, ...known.filter((other) => other.seq !== event.seq)].slice(0, 30));
      }
    },
  }), []);

  const last = (name: keyof Sample): number | null => sample?.[name] ?? series?.[name]?.at(-1) ?? null;
  const devices = series ? withGaps(series, ['devices', 'allocated', 'training', 'reserved'], now) : null;
  const queue = series ? withGaps(series, ['queued', 'running'], now) : null;
  const waits = series && series.waited_p90.some((wait) => wait > 0) ? withGaps(series, ['waited_median', 'waited_p90'], now) : null;
  const use = series && (series.utilisation || series.memory) ? inPercent(withGaps(series, useColumns, now)) : null;
  const free = cluster.value ? Math.max(0, cluster.value.devices - (last('reserved') ?? 0) - (last('held') ?? 0)) : null;
  // Of a young daemon, the chart shows what there is.
  const from = Math.max(now - range, Math.min(series?.at[0] ?? 0, now - 15));
  const loaded = series !== null && cluster.value !== null && jobs.value !== null && latest.value !== null;
  return (
    <div class="page" data-loaded={loaded}>
      <h1>Overview</h1>
      <Problem text={stored.error || cluster.error || jobs.error || latest.error} />
      <dl class="tiles">
        <Tile name="Devices" value={cluster.value ? String(cluster.value.devices) : '–'} hint={cluster.value?.device_type} />
        <Tile name="Free now" value={free === null ? '–' : String(free)} hint={last('reserved') ? `${last('reserved')} reserved` : ''} />
        <Tile name="Training" value={String(last('training') ?? '–')} hint={`of ${last('allocated') ?? '–'} allocated`} />
        <Tile name="Running" value={String(last('running') ?? '–')} hint="jobs" />
        <Tile name="Waiting" value={String(last('queued') ?? '–')} hint="jobs" />
        <Tile name="Wait so far" value={last('queued') ? duration(last('waited_median')) : '–'}
          hint={last('queued') ? `median; 90 %: ${duration(last('waited_p90'))}` : 'nobody waits'} />
        <Tile name="Policy" value={cluster.value?.policy ?? '–'} />
      </dl>
      <Card title="Devices and queue" extra={
        <Choice name="Period" values={ranges} chosen={String(range)} choose={(value) => setValues({ range: value })} />}>
        {devices && queue ? (
          <>
            <Chart title="Devices: allocated (granted to jobs) and training (doing steps)" group="overview"
              at={devices.at} values={devices.values} from={from} to={now} height={220}
              lines={[{ label: 'all', colour: '--muted', dash: [4, 4], stepped: true },
                { label: 'allocated', colour: '--line-1', fill: true, stepped: true },
                { label: 'training', colour: '--line-2', fill: true, stepped: true },
                { label: 'reserved', colour: '--line-4', stepped: true }]} />
            {use ? (
              <Chart title="Devices as their drivers tell: share of time in which they compute, and of memory in use" unit="%" group="overview"
                at={use.at} values={use.values} from={from} to={now} height={140}
                lines={[{ label: 'computing', colour: '--line-2' }, { label: 'memory', colour: '--line-5' }]} />
            ) : null}
            <Chart title="Jobs" group="overview" at={queue.at} values={queue.values} from={from} to={now} height={140}
              lines={[{ label: 'waiting', colour: '--line-3', stepped: true }, { label: 'running', colour: '--line-1', stepped: true }]} />
            {waits ? (
              <Chart title="How long the jobs that wait have been waiting" unit="s" group="overview" at={waits.at} values={waits.values}
                from={from} to={now} height={130}
                lines={[{ label: 'median', colour: '--line-3' }, { label: '90 %', colour: '--line-4' }]} />
            ) : null}
          </>
        ) : <p role="status">Loading…</p>}
      </Card>
      <div class="two">
        <Card title="Running jobs" extra={<a href="#/jobs?phases=running">All</a>}>
          {(jobs.value?.jobs.length ?? 0) === 0 ? <p class="hint">No job runs.</p> : (
            <div class="wide" tabIndex={0} role="region" aria-label="Running jobs">
              <table>
                <thead><tr><th>Job</th><th>Tenant</th><th>State</th><th class="n">Devices</th><th>Progress</th><th class="n">Left</th></tr></thead>
                <tbody>
                  {jobs.value?.jobs.slice(0, 12).map((job) => (
                    <tr key={job.number}>
                      <td><a href={`#/jobs/${job.id}`}>{job.name}</a></td>
                      <td>{job.tenant}</td>
                      <td><Phase phase={job.phase} stalled={job.stalled_since > 0} /></td>
                      <td class="n">{job.granted}<small>/{job.min_devices === job.max_devices ? job.max_devices : `${job.min_devices}–${job.max_devices}`}</small></td>
                      <td>{job.progress.total_steps ? <Bar share={(job.progress.step ?? 0) / job.progress.total_steps}
                        label={`${Math.floor(100 * (job.progress.step ?? 0) / job.progress.total_steps)} %`} /> : '–'}</td>
                      <td class="n">{duration(job.progress.eta_s)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
              {(jobs.value?.jobs.length ?? 0) > 12 ? <p class="hint">and {count((jobs.value?.jobs.length ?? 0) - 12, 'other')}</p> : null}
            </div>
          )}
        </Card>
        <Card title="Latest decisions"><Decisions events={events.slice(0, 14)} /></Card>
      </div>
    </div>
  );
}
