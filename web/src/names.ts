// Names of jobs that are only known by number, such as those of old events. Asked for once.
import { useEffect, useState } from 'preact/hooks';
import { get } from './api';

const most = 1000;
const known = new Map<number, string>();
const asked = new Set<number>();

export function noteName(job: number, name: string): void {
  if (known.size >= most) known.clear();
  known.set(job, name);
}

// What is known of these jobs; the rest follows.
export function useNames(jobs: number[]): Map<number, string> {
  const [, setTurn] = useState(0);
  const key = jobs.join();
  useEffect(() => {
    let alive = true;
    for (const job of jobs) {
      if (job === 0 || known.has(job) || asked.has(job)) continue;
      asked.add(job);
      get<{ name: string }>(`/api/v1/jobs/j${job}`)
        .then(({ name }) => noteName(job, name)).catch(() => noteName(job, `j${job}`))
        .finally(() => {
          asked.delete(job);
          if (alive) setTurn((n) => n + 1);
        });
    }
    return () => { alive = false; };
  }, [key]);
  return known;
}
