import { useEffect, useMemo, useState } from 'preact/hooks';
import { change, get, jobOf, query, type Job, type Outlook, type Point, type RubatoEvent, type Why } from '../api';
import { Bits } from '../bits';
import { Chart, type Mark } from '../chart';
import { count, duration, number, time } from '../format';
import { useLoaded, useNow, useSoon, words } from '../hooks';
import { listen } from '../live';
import { Bar, Card, Phase, Problem, Tile } from '../parts';
import { Logs } from '../logs';
import { LeftTile, Next } from '../outlook';
import { eventWords, reasonWords, resizeOf, type Resize } from '../words';

const mostEvents = 2000;
const mostPoints = 4000;

const inPercent = (share: number | undefined) => share === undefined ? null : 100 * share;

interface Span { at: number; devices: number; reason: string }

// What the job was granted, and why, over time.
function spansOf(events: RubatoEvent[]): Span[] {
  return events.filter((event) => event.type === 'granted').map((event) => ({
    at: event.at, devices: Number(event.body.devices ?? 0), reason: String(event.body.reason ?? ''),
  }));
}

// Devices granted and workers training, as steps on one time axis.
function devicesOver(events: RubatoEvent[], until: number): { at: number[]; values: (number | null)[][] } {
  const at: number[] = [];
  const granted: (number | null)[] = [];
  const held: (number | null)[] = [];
  let now: [number | null, number | null] = [null, null];
  for (const event of events) {
    if (event.type === 'submitted') now = [0, 0];
    else if (event.type === 'granted') now = [Number(event.body.devices ?? 0), now[1]];
    else if (event.type === 'held') now = [now[0], Number(event.body.devices ?? 0)];
    else if (['finished', 'failed', 'cancelled', 'paused'].includes(event.type)) now = [0, now[1]];
    else continue;
    at.push(event.at);
    granted.push(now[0]);
    held.push(now[1]);
  }
  if (at.length > 0 && until > (at[at.length - 1] ?? 0)) {
    at.push(until);
    granted.push(now[0]);
    held.push(now[1]);
  }
  return { at, values: [granted, held] };
}

function ReasonStrip({ spans, from, to }: { spans: Span[]; from: number; to: number }) {
  if (spans.length === 0 || to <= from) return null;
  const parts = spans.map((span, i) => ({ ...span, end: spans[i + 1]?.at ?? to })).filter((part) => part.end > part.at);
  return (
    <ol class="strip" aria-label="Reasons over time">
      {parts.map((part, i) => (
        <li key={i} class={`reason ${part.devices === 0 ? 'waits' : part.reason}`}
          style={{ flexGrow: String(Math.max(0.004, (part.end - part.at) / (to - from))) }}
          title={`${time(part.at)}: ${count(part.devices, 'device')}, ${reasonWords(part.reason)}`}>
          <span class="hidden">{time(part.at)}: {count(part.devices, 'device')}, {reasonWords(part.reason)}</span>
        </li>
      ))}
    </ol>
  );
}

function Actions({ job, done }: { job: Job; done: () => void }) {
  const [problem, setProblem] = useState('');
  const act = async (name: string) => {
    if (name === 'cancel' && !confirm(`Cancel ${job.id}? It ends without a result.`)) return;
    try {
      await change('POST', `/api/v1/jobs/${job.id}/${name}`);
      setProblem('');
      done();
    } catch (error) {
      setProblem(words(error));
    }
  };
  if (job.ended_at > 0) return null;
  return (
    <div class="actions">
      {job.phase === 'paused'
        ? <button type="button" onClick={() => { void act('resume'); }}>Resume</button>
        : <button type="button" onClick={() => { void act('pause'); }}>Pause</button>}
      <button type="button" class="danger" onClick={() => { void act('cancel'); }}>Cancel</button>
      <Problem text={problem} />
    </div>
  );
}

function Charts({ job, events, points, now }: { job: Job; events: RubatoEvent[]; points: Point[]; now: number }) {
  const until = job.ended_at || now;
  const from = job.submitted_at;
  const to = Math.max(until, from + 5);
  const devices = useMemo(() => devicesOver(events, until), [events, until]);
  const resizes = useMemo(() => events.map(resizeOf).filter((resize): resize is Resize => resize !== null), [events]);
  const marks = useMemo((): Mark[] => resizes.map((resize) => ({
    at: resize.at, colour: resize.cause === 'failure' ? '--bad' : '--mark',
  })), [resizes]);
  const at = useMemo(() => points.map((point) => point.at), [points]);
  const positive = (value: number) => value > 0 ? value : null;
  const speed = useMemo(() => [points.map((point) => positive(point.samples_per_s))], [points]);
  const loss = useMemo(() => [points.map((point) => point.step > 0 ? point.loss : null)], [points]);
  const use = useMemo(() => [points.map((point) => inPercent(point.utilisation)), points.map((point) => inPercent(point.memory))], [points]);
  const hasUse = use.some((list) => list.some((value) => value !== null));
  const names = useMemo(() => [...new Set(points.flatMap((point) => Object.keys(point.metrics)))].sort().slice(0, 12), [points]);
  const shared = { group: `job-${job.id}`, from, to, marks };
  return (
    <>
      <Card title="Devices over time">
        <Chart {...shared} title="Devices granted and held; dashed lines are changes of the workers" height={190}
          at={devices.at} values={devices.values}
          lines={[{ label: 'granted', colour: '--line-1', fill: true, stepped: true }, { label: 'held', colour: '--line-2', stepped: true }]} />
        <ReasonStrip spans={spansOf(events)} from={from} to={to} />
        {resizes.length > 0 ? (
          <details open={resizes.length <= 8}>
            <summary>{count(resizes.length, 'change')} of workers</summary>
            <div class="wide" tabIndex={0} role="region" aria-label="Changes of workers">
              <table class="resizes">
                <thead><tr><th>Time</th><th>Cause</th><th class="n">Workers</th><th class="n">Stall of survivors</th></tr></thead>
                <tbody>
                  {[...resizes].reverse().slice(0, 100).map((resize, i) => (
                    <tr key={i}>
                      <td>{time(resize.at)}</td><td>{resize.cause}</td><td class="n">{resize.workers}</td>
                      <td class="n">{resize.stall_ms === null ? '–' : `${number(resize.stall_ms)} ms`}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          </details>
        ) : null}
      </Card>
      {points.length > 0 ? (
        <Card title="Training">
          <Chart {...shared} title="Throughput" unit="samples/s" at={at} values={speed} height={150}
            lines={[{ label: 'throughput', colour: '--line-3' }]} />
          <Chart {...shared} title="Loss" at={at} values={loss} height={150} fromZero={false}
            lines={[{ label: 'loss', colour: '--line-4' }]} />
          {hasUse ? (
            <Chart {...shared} title="Its devices as their drivers tell: share of time in which they compute, and of memory in use" unit="%" at={at} values={use} height={150}
              lines={[{ label: 'computing', colour: '--line-2' }, { label: 'memory', colour: '--line-5' }]} />
          ) : null}
          {names.map((name) => (
            <Chart key={name} {...shared} title={name} at={at} height={130} fromZero={false}
              values={[points.map((point) => typeof point.metrics[name] === 'number' ? Number(point.metrics[name]) : null)]}
              lines={[{ label: name, colour: '--line-5' }]} />
          ))}
        </Card>
      ) : null}
    </>
  );
}

export function JobPage({ id }: { id: string }) {
  const path = `/api/v1/jobs/${encodeURIComponent(id)}`;
  const [events, setEvents] = useState<RubatoEvent[]>([]);
  const [points, setPoints] = useState<Point[]>([]);
  const [live, setLive] = useState<Point | null>(null);
  const job = useLoaded(() => get<Job>(path), [id]);
  const why = useLoaded(() => get<Why>(`${path}/why`), [id]);
  const past = useLoaded(() => get<{ events: RubatoEvent[] }>(`${path}/events${query({ newest_first: true, limit: mostEvents })}`), [id]);
  const stored = useLoaded(() => get<{ points: Point[] }>(`${path}/series`), [id]);
  const outlook = useLoaded(() => get<Outlook>(`${path}/outlook`), [id]);
  const again = useSoon(() => { job.reload(); why.reload(); }, 150);
  // The daemon looks ahead every few seconds at most, and its answer changes slowly.
  const lookAgain = useSoon(outlook.reload, 5000);
  const found = job.value;
  const clock = useNow(2);

  useEffect(() => {
    if (!past.value) return;
    const stored_events = [...past.value.events].reverse();
    const newest = stored_events[stored_events.length - 1]?.seq ?? 0;
    setEvents((known) => [...stored_events, ...known.filter((event) => event.seq > newest)]);
  }, [past.value]);
  useEffect(() => {
    if (!stored.value) return;
    const all = stored.value.points;
    const newest = all[all.length - 1]?.at ?? 0;
    setPoints((known) => [...all, ...known.filter((point) => point.at > newest)]);
  }, [stored.value]);
  useEffect(() => listen({
    event: (event) => {
      if (!found || jobOf(event) !== found.number) return;
      setEvents((known) => known.some((other) => other.seq === event.seq) ? known : [...known, event].slice(-2 * mostEvents));
      again();
    },
    sample: lookAgain,
    point: (point) => {
      setLive(point);
      setPoints((known) => [...known, point].slice(-mostPoints));
    },
  }), [found?.number]);

  if (job.error) return <div class="page"><h1>{id}</h1><Problem text={job.error} /></div>;
  if (!found) return <p role="status">Loading…</p>;
  const { progress } = found;
  const running = found.ended_at === 0;
  const step = running && live ? Math.max(live.step, progress.step ?? 0) : progress.step;
  const share = progress.total_steps ? (step ?? 0) / progress.total_steps : 0;
  return (
    <div class="page" data-loaded={past.value !== null && stored.value !== null}>
      <h1>{found.name} <small>{found.id}</small> <Phase phase={found.phase} stalled={found.stalled_since > 0} /></h1>
      <p class="why">{why.value ? why.value.text : ''}{why.value?.remedy ? <><br /><em>{why.value.remedy}</em></> : null}</p>
      {running ? <Next outlook={outlook.value} /> : null}
      {found.message ? <Problem text={found.message} /> : null}
      {Object.entries(found.errors).map(([kind, error]) => <Problem key={kind} text={`${kind}: ${error.message}`} />)}
      <dl class="tiles">
        <Tile name="Devices" value={String(running ? found.granted : 0)} hint={`of ${found.min_devices === found.max_devices ? found.max_devices : `${found.min_devices}–${found.max_devices}`}`} />
        <Tile name="Step" value={step === undefined ? '–' : String(step)} hint={progress.total_steps ? `of ${progress.total_steps}` : ''} />
        {progress.loss !== undefined ? <Tile name="Loss" value={number(running && live ? live.loss : progress.loss)} /> : null}
        {running && progress.start_in_s !== undefined ? <Tile name="Starts in about" value={duration(progress.start_in_s)} /> : null}
        {running ? <LeftTile outlook={outlook.value} now={clock} />
          : <Tile name="Took" value={duration(found.ended_at - found.submitted_at)} />}
        <Tile name="Resizes" value={String(found.resizes)} hint={found.restarts ? `${count(found.restarts, 'restart')}` : ''} />
        <Tile name="Device time" value={duration(found.device_s)} />
        <Tile name="Tenant" value={found.tenant} />
      </dl>
      {share > 0 ? <Bar share={share} label={`Progress: ${Math.floor(share * 100)} %`} /> : null}
      <Bits job={found} events={events} />
      <Actions job={found} done={again} />
      <Charts job={found} events={events} points={points} now={clock} />
      <Card title="Logs"><Logs id={found.id} ended={!running} /></Card>
      <div class="two">
        <Card title="Events">
          <ol class="decisions scroll" tabIndex={0} aria-label="Events">
            {[...events].reverse().slice(0, 300).map((event) => (
              <li key={event.seq}><time>{time(event.at)}</time><span><b>{event.type}</b> {eventWords(event)}</span></li>
            ))}
          </ol>
        </Card>
        <Card title="Description">
          {Object.keys(found.labels).length ? <p>{Object.entries(found.labels).map(([name, value]) => <span class="label" key={name}>{name}={value}</span>)}</p> : null}
          <pre class="scroll" tabIndex={0}>{JSON.stringify(found.document, null, 2)}</pre>
        </Card>
      </div>
    </div>
  );
}
