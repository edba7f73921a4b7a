import { useEffect, useRef, useState } from 'preact/hooks';
import { get, jobOf, query, type JobSummary, type Session } from '../api';
import { count, duration, time } from '../format';
import { useSoon, words } from '../hooks';
import { listen } from '../live';
import { Bar, Phase, Problem, Rows } from '../parts';
import { setValues } from '../route';
import { reasonWords } from '../words';

const phases = ['queued', 'running', 'paused', 'finished', 'failed', 'cancelled'];
const pageSize = 500;
const mostRefreshed = 20; // jobs that are asked for one by one; more: the list is loaded again

interface Page { jobs: JobSummary[]; next: number | null }

function address(values: Record<string, string>, before: number): string {
  return `/api/v1/jobs${query({
    newest_first: true, limit: pageSize, before: before || undefined, phases: values.phases, name: values.name,
    tenant: values.tenant, labels: values.labels, user: values.user,
  })}`;
}

function Filters({ values, session }: { values: Record<string, string>; session: Session }) {
  const chosen = new Set((values.phases ?? '').split(',').filter(Boolean));
  const toggle = (phase: string) => {
    if (!chosen.delete(phase)) chosen.add(phase);
    setValues({ phases: [...chosen].join(',') });
  };
  const field = (name: string, label: string, hint: string) => (
    <label>{label}
      <input name={name} value={values[name] ?? ''} placeholder={hint} autocomplete="off"
        onChange={(event) => setValues({ [name]: event.currentTarget.value.trim() })} />
    </label>
  );
  return (
    <form class="filters" role="search" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
      <div class="choice" role="group" aria-label="States">
        {phases.map((phase) => (
          <button type="button" key={phase} aria-pressed={chosen.has(phase)} onClick={() => toggle(phase)}>{phase}</button>
        ))}
      </div>
      {field('name', 'Name', 'sweep-*')}
      {session.admin ? field('tenant', 'Tenant', '') : null}
      {field('labels', 'Labels', 'team=vision,run=7')}
    </form>
  );
}

function Row({ job }: { job: JobSummary }) {
  const { step, total_steps: total } = job.progress;
  const ended = job.ended_at > 0;
  return (
    <>
      <span role="cell"><a href={`#/jobs/${job.id}`}>{job.id}</a></span>
      <span role="cell"><a href={`#/jobs/${job.id}`}>{job.name}</a></span>
      <span role="cell" class="opt">{job.tenant}</span>
      <span role="cell"><Phase phase={job.phase} stalled={job.stalled_since > 0} /></span>
      <span role="cell" class="n">{ended ? '–' : job.granted}<small>/{job.min_devices === job.max_devices ? job.max_devices : `${job.min_devices}–${job.max_devices}`}</small></span>
      <span role="cell" class="opt">{total ? <Bar share={(step ?? 0) / total} label={`${Math.floor(100 * (step ?? 0) / total)} %`} /> : ''}</span>
      <span role="cell" class="n opt">{ended ? duration(job.ended_at - job.submitted_at) : duration(job.progress.eta_s)}</span>
      <span role="cell" class="opt">{time(job.submitted_at)}</span>
      <span role="cell" class="opt">{ended ? job.message : reasonWords(job.reason)}</span>
    </>
  );
}

const columns: [string, string][] = [['ID', ''], ['Name', ''], ['Tenant', 'opt'], ['State', ''], ['Devices', 'n'], ['Progress', 'opt'],
  ['Left / took', 'n opt'], ['Submitted', 'opt'], ['Why', 'opt']];

function Head() {
  return <>{columns.map(([title, style]) => <span key={title} role="columnheader" class={style}>{title}</span>)}</>;
}

export function JobsPage({ values, session }: { values: Record<string, string>; session: Session }) {
  const [jobs, setJobs] = useState<JobSummary[] | null>(null);
  const [problem, setProblem] = useState('');
  const next = useRef<number | null>(null);
  const loading = useRef(false);
  const turn = useRef(0);
  const dirty = useRef(new Set<number>());
  const shown = useRef(new Set<number>());
  const key = JSON.stringify(values);
  shown.current = new Set(jobs?.map((job) => job.number));

  const load = async (before: number) => {
    if (before > 0 && loading.current) return;
    loading.current = true;
    const own = before > 0 ? turn.current : ++turn.current;
    try {
      const page = await get<Page>(address(values, before));
      if (own !== turn.current) return;
      next.current = page.next;
      setJobs((known) => before > 0 ? [...(known ?? []), ...page.jobs] : page.jobs);
      setProblem('');
    } catch (error) {
      setProblem(words(error));
    } finally {
      loading.current = false;
    }
  };
  // The newest jobs again; those further down stay, so that nobody loses their place.
  const mergeNewest = async () => {
    const page = await get<Page>(address(values, 0));
    const fresh = new Set(page.jobs.map((job) => job.number));
    const oldest = page.jobs[page.jobs.length - 1]?.number ?? 0;
    setJobs((known) => [...page.jobs, ...(known ?? []).filter((job) => !fresh.has(job.number) && job.number < oldest)]);
  };
  const refresh = useSoon(() => {
    const wanted = [...dirty.current];
    dirty.current.clear();
    if (wanted.length > mostRefreshed || wanted.some((job) => !shown.current.has(job))) {
      if ((jobs?.length ?? 0) > pageSize) mergeNewest().catch((error: unknown) => setProblem(words(error)));
      else void load(0);
      return;
    }
    void Promise.all(wanted.map((job) => get<JobSummary>(`/api/v1/jobs/j${job}`).catch(() => null))).then((fresh) => {
      const by = new Map(fresh.flatMap((job) => job ? [[job.number, job] as const] : []));
      const fits = (job: JobSummary) => !values.phases || values.phases.split(',').includes(job.phase);
      setJobs((known) => (known ?? []).map((job) => by.get(job.number) ?? job).filter(fits));
    });
  }, 500);

  useEffect(() => { void load(0); }, [key]);
  useEffect(() => listen({
    event: (event) => {
      const job = jobOf(event);
      if (job === 0 || event.type === 'learned') return;
      dirty.current.add(job);
      refresh();
    },
  }), []);

  return (
    <div class="page fill" data-loaded={jobs !== null}>
      <h1>Jobs <small>{jobs ? `${count(jobs.length, 'job')}${next.current ? ' so far' : ''}` : ''}</small></h1>
      <Filters values={values} session={session} />
      <Problem text={problem} />
      {jobs === null ? <p role="status">Loading…</p> : jobs.length === 0 ? <p class="hint">No job is like that.</p> : (
        <div class="jobs">
          <Rows items={jobs} height={36} label="Jobs" head={<Head />} render={(job) => <Row job={job} />}
            atEnd={() => { if (next.current) void load(next.current); }} />
        </div>
      )}
    </div>
  );
}
