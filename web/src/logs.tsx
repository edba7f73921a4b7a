// A job's output, as it is written, with a search that goes on with it.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { failure, query } from './api';
import { count } from './format';
import { words } from './hooks';
import { Problem } from './parts';

const tail = 2000; // lines of each worker, to begin with
const mostLines = 20_000;
const mostShown = 2000;
const longest = 2000; // characters of a line that are shown

function Line({ line, search }: { line: string; search: string }) {
  const text = line.length > longest ? `${line.slice(0, longest)}…` : line;
  if (search === '') return <>{text}{'\n'}</>;
  const at = text.toLowerCase().indexOf(search);
  if (at < 0) return <>{text}{'\n'}</>;
  return <>{text.slice(0, at)}<mark>{text.slice(at, at + search.length)}</mark>{text.slice(at + search.length)}{'\n'}</>;
}

export function Logs({ id, ended }: { id: string; ended: boolean }) {
  const [lines, setLines] = useState<string[]>([]);
  const [search, setSearch] = useState('');
  const [follow, setFollow] = useState(true);
  const [problem, setProblem] = useState('');
  const box = useRef<HTMLPreElement>(null);

  useEffect(() => {
    const abort = new AbortController();
    const read = async () => {
      const response = await fetch(`/api/v1/jobs/${id}/logs${query({ follow: !ended, tail })}`,
        { signal: abort.signal, credentials: 'same-origin' });
      if (!response.ok || !response.body) throw await failure(response);
      setLines([]);
      setProblem('');
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '';
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const parts = (rest + value).split('\n');
        rest = parts.pop() ?? '';
        if (parts.length > 0) setLines((known) => [...known, ...parts].slice(-mostLines));
      }
      if (rest !== '') setLines((known) => [...known, rest]);
    };
    let timer = 0;
    const attempt = () => {
      read().catch((error: unknown) => {
        if (abort.signal.aborted) return;
        setProblem(words(error));
        if (!ended) timer = window.setTimeout(attempt, 2000);
      });
    };
    attempt();
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [id, ended]);

  const wanted = search.trim().toLowerCase();
  const shown = useMemo(() => {
    const fitting = wanted === '' ? lines : lines.filter((line) => line.toLowerCase().includes(wanted));
    return { lines: fitting.slice(-mostShown), all: fitting.length };
  }, [lines, wanted]);
  useEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [shown, follow]);

  return (
    <>
      <div class="filters">
        <label>Search
          <input type="search" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
        </label>
        <label class="check"><input type="checkbox" checked={follow}
          onChange={(event) => setFollow(event.currentTarget.checked)} /> Follow</label>
        <span class="hint" role="status">{wanted === '' ? count(lines.length, 'line') : `${shown.all} of ${count(lines.length, 'line')}`}</span>
      </div>
      <Problem text={problem} />
      <pre class="logs" ref={box} tabIndex={0} aria-label="Output of the workers">
        {shown.lines.map((line, i) => <Line key={i} line={line} search={wanted} />)}
      </pre>
    </>
  );
}
