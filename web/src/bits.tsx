// Whether a job's result is the one of an undisturbed run, and how that is checked.
import { useEffect, useState } from 'preact/hooks';
import { change, get, jobOf, query, type Job, type JobSummary, type RubatoEvent } from './api';
import { useLoaded, words } from './hooks';
import { listen } from './live';
import { Problem } from './parts';

const hashOf = (job: Job) => typeof job.result.state_sha256 === 'string' ? job.result.state_sha256 : '';

// The same job alone on one device. Its label says what it verifies.
async function startUndisturbed(job: Job, logical: number): Promise<void> {
  const { after: _after, array: _array, time_limit: _limit, devices: _devices, labels: _labels, ...rest } = job.document;
  await change('POST', '/api/v1/jobs', {
    ...rest, name: `${job.name}-undisturbed`, devices: '1', labels: { verifies: job.id },
    ...(logical > 0 ? { logical_workers: logical } : {}),
  });
}

function Verification({ job, hash }: { job: Job; hash: string }) {
  const [problem, setProblem] = useState('');
  const runs = useLoaded(async () => {
    const list = await get<{ jobs: JobSummary[] }>(`/api/v1/jobs${query({ newest_first: true, limit: 1, labels: `verifies=${job.id}` })}`);
    const newest = list.jobs[0];
    return newest ? await get<Job>(`/api/v1/jobs/${newest.id}`) : null;
  }, [job.id]);
  const run = runs.value;
  useEffect(() => listen({
    event: (event) => { if (run && jobOf(event) === run.number && event.type !== 'learned') runs.reload(); },
  }), [run?.number]);
  const start = () => {
    startUndisturbed(job, Number(job.result.logical_workers ?? 0)).then(() => {
      setProblem('');
      runs.reload();
    }).catch((error: unknown) => setProblem(words(error)));
  };
  if (runs.error) return <Problem text={runs.error} />;
  if (!run) {
    return (
      <div class="actions">
        <button type="button" onClick={start}>Verify</button>
        <span class="hint">runs the same job once more, alone on one device, and compares the hashes</span>
        <Problem text={problem} />
      </div>
    );
  }
  const link = <a href={`#/jobs/${run.id}`}>{run.id}</a>;
  if (run.ended_at === 0) return <p>{link} repeats it undisturbed: {run.phase}.</p>;
  if (run.phase !== 'finished') return <p>{link} repeated it and {run.phase}.</p>;
  return hashOf(run) === hash ? <p><strong>Verified: the undisturbed run {link} has the same hash.</strong></p>
    : <p class="problem">The undisturbed run {link} has another hash: <code class="hash">{hashOf(run)}</code></p>;
}

export function Bits({ job, events }: { job: Job; events: RubatoEvent[] }) {
  const audits = events.filter((event) => event.type === 'view' && event.body.type === 'audit');
  const bad = audits.find((event) => String(event.body.message ?? '') !== '');
  const last = audits[audits.length - 1];
  const hash = hashOf(job);
  if (!last && !hash) return null;
  const text = bad ? `Bits differ at step ${Number(bad.body.step)}`
    : last ? `Same bits: audited at step ${Number(last.body.step)}` : 'Same bits';
  return (
    <div class={`bits ${bad ? 'bad' : ''}`}>
      <strong>{text}</strong>
      {bad ? <p>{String(bad.body.message)}</p> : null}
      {hash ? <p>Final parameters: <code class="hash">{hash}</code></p> : null}
      {hash && job.labels.verifies === undefined && job.result.mode !== 'adaptive' ? <Verification job={job} hash={hash} /> : null}
    </div>
  );
}
