// The daemon's API, as far as the dashboard uses it (docs/api.md).

export interface Session { admin: boolean; tenant: string; name: string }
export interface NodeDevices { node: string; device_type: string; devices: number }
export interface Progress {
  step?: number; total_steps?: number; epoch?: number; epochs?: number; loss?: number;
  step_s?: number; workers?: number; eta_s?: number; eta_devices?: number; start_in_s?: number;
  metrics?: Record<string, number | string>;
}
export interface JobSummary {
  number: number; id: string; name: string; tenant: string; phase: string;
  submitted_at: number; started_at: number; ended_at: number;
  granted: number; held: number; min_devices: number; max_devices: number;
  nodes: NodeDevices[]; reason: string; message: string; scale: number; resizes: number;
  restarts: number; device_s: number; stalled_since: number; progress: Progress;
  labels: Record<string, string>;
}
export interface Job extends JobSummary {
  document: Record<string, unknown>;
  result: Record<string, unknown>;
  errors: Record<string, { place: string; message: string; count: number }>;
  facts: Record<string, number>;
}
export interface Why {
  job: string; phase: string; code: string; text: string; remedy: string;
  blockers: { job?: string; name?: string; devices?: number }[];
}
// Seconds after `at`; null: unknown.
export interface Outlook {
  at: number; end_in_s: number | null; earliest_s: number | null; latest_s: number | null; text: string;
  change: { in_s: number | null; earliest_s: number | null; latest_s: number | null; from: number; to: number; after: string[]; gains: string[] } | null;
}
export interface RubatoEvent {
  seq: number; at: number; type: string; job: number | string | null; tenant?: string;
  body: Record<string, unknown>; by?: string; from?: string;
}
export interface Sample extends Use {
  at: number; devices: number; reserved: number; allocated: number; held: number;
  training: number; queued: number; running: number; waited_median: number; waited_p90: number;
}
// What drivers tell of the devices, 0 to 1; missing or null: nobody tells it.
export interface Use { utilisation?: number; memory?: number }
export type Series = { step: number } & { [name in keyof Omit<Sample, keyof Use>]: number[] } & { [name in keyof Use]?: (number | null)[] };
export interface Point extends Use {
  at: number; step: number; held: number; step_s: number; samples_per_s: number; loss: number;
  metrics: Record<string, number | string>;
}
export interface Held {
  nodes: NodeDevices[]; job?: string; name?: string; tenant?: string; since?: number; until?: number;
}
export interface Reservation { number: number; devices: number; from: number; until: number }
export interface Devices {
  at: number; nodes: (NodeDevices & { reserved: number })[]; held: Held[]; reservations: Reservation[];
  use: { node: string; index: number; job?: string; utilisation?: number; memory_used?: number; memory?: number }[];
}
export interface Tenant { name: string; weight: number; quota: number; max_queued: number; user?: string }
export interface Policy {
  name: string; summary: string; source?: string;
  params: { name: string; default: string; allowed: string; help: string }[];
}
export interface Cluster {
  device_type: string; devices: number; reserved: number; allocated: number; held: number;
  training: number; free: number; queued: number; policy: string; supply: string;
  policy_settings: Record<string, string>;
}
export interface Plan {
  placed: boolean; devices: number; start_in_s: number | null; eta_s: number | null; reason: string;
  text?: string; horizon_s: number | null; guessed: boolean;
  changes: { job: string; from: number; to: number; reason: string }[];
  others: { changed: number; devices: number };
}

export interface Forecast {
  policy: string; resizes: number; horizon_s: number | null;
  jobs: { job: string; name: string; phase: string; start_in_s: number | null; finish_in_s: number | null; guessed: boolean }[];
}

export class ApiError extends Error {
  constructor(readonly status: number, readonly code: string, message: string, readonly path = '') {
    super(message);
  }
}

// Called when the session has ended.
let onLoggedOut: () => void = () => {};
export function whenLoggedOut(call: () => void): void { onLoggedOut = call; }

export async function failure(response: Response): Promise<ApiError> {
  let error = { code: 'unknown', message: `the daemon answered ${response.status}`, path: '' };
  try {
    error = { ...error, ...(await response.json() as { error: typeof error }).error };
  } catch { /* not one of our answers */ }
  if (response.status === 401) onLoggedOut();
  return new ApiError(response.status, error.code, error.message, error.path);
}

async function send(method: string, path: string, body?: string, type?: string): Promise<Response> {
  const response = await fetch(path, {
    method, body, credentials: 'same-origin', headers: type ? { 'Content-Type': type } : {},
  });
  if (!response.ok) throw await failure(response);
  return response;
}

export async function get<T>(path: string): Promise<T> {
  return await (await send('GET', path)).json() as T;
}
export async function change<T>(method: string, path: string, body?: unknown): Promise<T | null> {
  const response = await send(method, path, body === undefined ? undefined : JSON.stringify(body),
    body === undefined ? undefined : 'application/json');
  return response.status === 204 ? null : await response.json() as T;
}
export async function postYaml<T>(path: string, text: string): Promise<T> {
  return await (await send('POST', path, text, 'application/yaml')).json() as T;
}

export function query(values: Record<string, string | number | boolean | undefined>): string {
  const parts = Object.entries(values).filter(([, value]) => value !== undefined && value !== '')
    .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`);
  return parts.length === 0 ? '' : `?${parts.join('&')}`;
}

// The number of the job that an event is about; 0: of none.
export function jobOf(event: RubatoEvent): number {
  if (typeof event.job === 'number') return event.job;
  return typeof event.job === 'string' ? Number(event.job.replace(/^j/, '')) || 0 : 0;
}
