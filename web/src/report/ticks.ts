// Times and lengths of time in words, as the command line writes them, and the ticks of their axes.

const pad = (n: number) => String(n).padStart(2, '0');

// "3.2s", "45m12s", "2h05m", "3d04h".
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return '–';
  if (seconds <= 0) return '0s';
  if (seconds < 9.95) return `${seconds.toFixed(1)}s`;
  // Rounded before the unit is chosen: 59.7 s are "1m00s".
  const s = Math.round(seconds);
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m${pad(s % 60)}s`;
  const m = Math.round(seconds / 60);
  if (m < 1440) return `${Math.floor(m / 60)}h${pad(m % 60)}m`;
  const h = Math.round(seconds / 3600);
  return `${Math.floor(h / 24)}d${pad(h % 24)}h`;
}

// Omits parts that are zero: "1d12h", "30m".
export function tick(seconds: number): string {
  if (seconds === 0) return '0';
  if (seconds < 1) return `${Number(seconds.toPrecision(2))}s`;
  let text = '';
  let left = seconds;
  for (const [unit, length] of [['d', 86_400], ['h', 3600], ['m', 60], ['s', 1]] as const) {
    const n = Math.floor(left / length + 1e-9);
    if (n) text += `${n}${unit}`;
    left -= n * length;
  }
  return text;
}

const steps = [1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 432_000,
  864_000, 1_728_000, 4_320_000, 8_640_000, 31_536_000];

export function timeTicks(low: number, high: number, pixels: number): number[] {
  const wanted = Math.max(2, pixels / 75);
  const step = steps.find((s) => (high - low) / s <= wanted) ?? 31_536_000 * Math.ceil((high - low) / 31_536_000 / 8);
  const ticks: number[] = [];
  for (let t = Math.ceil(low / step) * step; t <= high; t += step) ticks.push(t);
  return ticks;
}

const minute = 60;
const hour = 3600;
const day = 86_400;
const coarse = [0.001, 0.01, 0.1, 1, 10, minute, 10 * minute, hour, 10 * hour, day, 10 * day, 100 * day, 1000 * day];
const middle = [...coarse, 3, 30, 3 * minute, 30 * minute, 3 * hour, 3 * day, 30 * day, 300 * day];
const fine = [...middle, 2, 5, 20, 45, 2 * minute, 5 * minute, 20 * minute, 2 * hour, 5 * hour, 15 * hour, 2 * day, 5 * day, 20 * day];

// The densest set of ticks whose words do not overlap.
export function logTicks(low: number, high: number, pixels: number): number[] {
  const place = (t: number) => pixels * Math.log(t / low) / Math.log(high / low);
  for (const set of [fine, middle, coarse]) {
    const inside = set.filter((t) => t >= low && t <= high).sort((a, b) => a - b);
    if (inside.every((t, i) => i === 0 || place(t) - place(inside[i - 1] ?? low) >= 42)) return inside;
  }
  return [];
}
