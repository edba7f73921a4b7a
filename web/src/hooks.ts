import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from './api';

export interface Loaded<T> { value: T | null; error: string; reload: () => void }

// Loads again whenever `keys` change, and when told to. An older answer never replaces a newer one.
export function useLoaded<T>(load: () => Promise<T>, keys: unknown[]): Loaded<T> {
  const [value, setValue] = useState<T | null>(null);
  const [error, setError] = useState('');
  const turn = useRef(0);
  const alive = useRef(true);
  useEffect(() => () => { alive.current = false; }, []);
  const reload = useCallback(() => {
    const own = ++turn.current;
    load().then((got) => {
      if (!alive.current || own !== turn.current) return;
      setValue(got);
      setError('');
    }).catch((problem: unknown) => {
      if (!alive.current || own !== turn.current) return;
      setError(words(problem));
    });
  }, keys);
  useEffect(reload, keys);
  return { value, error, reload };
}

export function words(problem: unknown): string {
  if (problem instanceof ApiError) return problem.message;
  return problem instanceof Error ? problem.message : String(problem);
}

// Calls at most once in `ms`, a moment after the first request.
export function useSoon(call: () => void, ms: number): () => void {
  const timer = useRef(0);
  const newest = useRef(call);
  newest.current = call;
  useEffect(() => () => clearTimeout(timer.current), []);
  return useCallback(() => {
    if (timer.current !== 0) return;
    timer.current = window.setTimeout(() => {
      timer.current = 0;
      newest.current();
    }, ms);
  }, [ms]);
}

// The time now, in seconds, renewed every `every_s`.
export function useNow(every_s: number): number {
  const [now, setNow] = useState(Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), every_s * 1000);
    return () => clearInterval(timer);
  }, [every_s]);
  return now;
}
