// What a report shows: the documents that `rubato sim` recorded (src/sim/report_document.h; rubato has
// checked them), and which of their runs are compared.
import { floorIndex } from '../format';

export interface Summary {
  policy: string; workload: string; seed: number; jobs: number; jobs_finished: number; jobs_dropped: number;
  mean_jct_s: number; p50_jct_s: number; p90_jct_s: number; p99_jct_s: number; mean_queue_s: number; p99_queue_s: number;
  makespan_s: number; allocated_ratio: number; useful_ratio: number; resizes: number; resize_lost_device_s: number;
  mean_fairness: number; worst_fairness: number; serving_wait_max_s: number; decision_ms_mean: number;
}
// Each state holds from t[i] to t[i + 1], the last one until `end`.
export interface Timeline {
  end: number; t: number[]; usable: number[]; allocated: number[]; useful: number[]; running: number[]; waiting: number[];
  averaged_over_s?: number; allocated_low?: number[]; allocated_high?: number[]; waiting_low?: number[]; waiting_high?: number[];
}
export interface Waits { t: number[]; median: (number | null)[]; p90: (number | null)[] }
export interface Jobs {
  name: string[]; application: string[]; tenant: string[]; requested: number[]; submit: number[]; start: (number | null)[];
  finish: (number | null)[]; dropped: number[]; queue_s: number[]; device_s: number[]; lost_device_s: number[]; resizes: number[];
  fairness: number[];
}
// From t[i] on, job[i] holds nodes[i]: node, devices, node, devices... Complete until `until`.
export interface Changes {
  until: number; t: number[]; job: number[]; nodes: number[][];
  node_events: { t: number[]; node: number[]; down: number[] };
}
export interface Recorded {
  summary: Summary; timeline: Timeline | null; waits: Waits | null; cdf: { x: number[]; y: number[] }; jobs: Jobs; devices: Changes | null;
}
export interface ReportDocument {
  command: string; cluster: string; round: string; resize_cost_s: number; nodes: [string, number][]; runs: Recorded[];
}
export interface ReportData {
  index: {
    folders: string[]; policies: string[];
    groups: { title: string; best: number | null; runs: { policy: number; document: number; run: number }[] }[];
  };
  documents: ReportDocument[];
}

// A run among those that it is compared with.
export interface Run extends Recorded { policy: number; name: string; document: ReportDocument }
// `start` and `end` are the ends of the time axis that all its runs share.
export interface Group { title: string; best: Run | null; runs: Run[]; start: number; end: number }

export function groupsOf(data: ReportData): Group[] {
  return data.index.groups.map(({ title, best, runs: places }) => {
    const runs = places.flatMap(({ policy, document: at, run }): Run[] => {
      const document = data.documents[at];
      const recorded = document?.runs[run];
      return document && recorded ? [{ ...recorded, policy, name: data.index.policies[policy] ?? '', document }] : [];
    });
    const lines = runs.flatMap(({ timeline }) => timeline ? [timeline] : []);
    const start = Math.min(...lines.map(({ t }) => t[0] ?? 0));
    const end = Math.max(...lines.map((timeline) => timeline.end));
    return {
      title, best: best === null ? null : runs[best] ?? null, runs,
      start: lines.length ? start : 0, end: lines.length ? Math.max(end, start + 1) : 1,
    };
  });
}

export interface Holding { job: number; nodes: number[]; since: number; devices: number }

export const devicesIn = (nodes: number[]): number => nodes.reduce((sum, n, i) => i % 2 ? sum + n : sum, 0);

// Who holds which devices at this time, in order of the jobs.
export function heldAt(changes: Changes, time: number): Holding[] {
  const held = new Map<number, Holding>();
  const past = floorIndex(changes.t, time) + 1;
  for (let i = 0; i < past; ++i) {
    const job = changes.job[i] ?? 0;
    const nodes = changes.nodes[i] ?? [];
    if (nodes.length === 0) held.delete(job);
    else held.set(job, { job, nodes, since: changes.t[i] ?? 0, devices: devicesIn(nodes) });
  }
  return [...held.values()].sort((a, b) => a.job - b.job);
}

export function nodesDownAt({ node_events: events }: Changes, time: number): Set<number> {
  const down = new Set<number>();
  events.t.forEach((at, i) => {
    const node = events.node[i] ?? 0;
    if (at > time) return;
    if (events.down[i]) down.add(node);
    else down.delete(node);
  });
  return down;
}

// A job's devices over time, as steps.
export function devicesOf(changes: Changes, job: number): { t: number[]; devices: number[] } {
  const t: number[] = [];
  const devices: number[] = [];
  changes.job.forEach((other, i) => {
    if (other !== job) return;
    t.push(changes.t[i] ?? 0);
    devices.push(devicesIn(changes.nodes[i] ?? []));
  });
  return { t, devices };
}

// Step curves of several runs on the times of all of them. A curve is null before its first step and after `end`.
export function together(curves: { t: number[]; values: (number | null)[]; end: number }[]): { t: number[]; values: (number | null)[][] } {
  const times = [...new Set(curves.flatMap(({ t, end }) => [...t, end]))].sort((a, b) => a - b);
  return {
    t: times,
    values: curves.map(({ t, values, end }) => {
      let i = -1;
      return times.map((time) => {
        while (i + 1 < t.length && (t[i + 1] ?? Infinity) <= time) ++i;
        return i < 0 || time > end ? null : values[i] ?? null;
      });
    }),
  };
}
