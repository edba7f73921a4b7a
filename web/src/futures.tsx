// Two forecasts side by side, on one time axis.
import type { Forecast } from './api';
import { count, duration } from './format';

type Future = Forecast['jobs'][number];

// Where a job's bar begins and how long it is, in percent of the axis.
function place(job: Future | undefined, length: number): { left: string; width: string } | null {
  if (!job || job.start_in_s === null || length <= 0) return null;
  const end = job.finish_in_s ?? length;
  return {
    left: `${100 * Math.min(1, job.start_in_s / length)}%`,
    width: `${100 * Math.max(0.004, Math.min(1, end / length) - job.start_in_s / length)}%`,
  };
}

const mean = (values: number[]) => values.length === 0 ? null : values.reduce((a, b) => a + b, 0) / values.length;

export function Futures({ now, other }: { now: Forecast; other: Forecast }) {
  const ends = [...now.jobs, ...other.jobs].flatMap((job) => job.finish_in_s === null ? [] : [job.finish_in_s]);
  const horizon = Math.min(...[now.horizon_s, other.horizon_s].map((one) => one ?? Infinity));
  const length = Math.max(...ends, Number.isFinite(horizon) ? horizon : 0, 1);
  const others = new Map(other.jobs.map((job) => [job.job, job]));
  const jobs = now.jobs.slice(0, 200);
  const summary = (forecast: Forecast) => {
    const finished = forecast.jobs.flatMap((job) => job.finish_in_s === null ? [] : [job.finish_in_s]);
    return `${forecast.policy}: ${count(finished.length, 'job')} end, on average in ${duration(mean(finished))}, the last in ${duration(Math.max(...finished, 0))}; ${count(forecast.resizes, 'resize')}${forecast.horizon_s === null ? '' : `; it looked ${duration(forecast.horizon_s)} ahead`}`;
  };
  if (jobs.length === 0) return <p class="hint">No job is active: there is nothing to predict.</p>;
  return (
    <div class="futures">
      <p><span class="swatch now" />{summary(now)}<br /><span class="swatch other" />{summary(other)}</p>
      <div class="wide" tabIndex={0} role="region" aria-label="Two futures">
        <table>
          <thead><tr><th>Job</th><th class="axis">From now to {duration(length)}</th><th class="n">{now.policy}</th><th class="n">{other.policy}</th></tr></thead>
          <tbody>
            {jobs.map((job) => {
              const then = others.get(job.job);
              const first = place(job, length);
              const second = place(then, length);
              return (
                <tr key={job.job}>
                  <td><a href={`#/jobs/${job.job}`}>{job.name}</a>{job.guessed ? <small> length unknown</small> : null}</td>
                  <td class="axis"><div class="lanes">
                    {first ? <span class="lane now" style={first} /> : null}
                    {second ? <span class="lane other" style={second} /> : null}
                  </div></td>
                  <td class="n">{job.finish_in_s === null ? 'later' : duration(job.finish_in_s)}</td>
                  <td class="n">{!then || then.finish_in_s === null ? 'later' : duration(then.finish_in_s)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      <p class="hint">Simulated from the live state: nothing else is submitted, and speeds stay as measured.</p>
    </div>
  );
}
