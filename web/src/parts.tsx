// Small parts that several pages use.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

export function Problem({ text }: { text: string }) {
  return text === '' ? null : <p class="problem" role="alert">{text}</p>;
}

export function Phase({ phase, stalled }: { phase: string; stalled?: boolean }) {
  return <span class={`phase phase-${stalled ? 'stalled' : phase}`}>{stalled ? 'stalled' : phase}</span>;
}

export function Card({ title, children, extra }:
{ title: string; children: ComponentChildren; extra?: ComponentChildren }) {
  return (
    <section class="card">
      <header><h2>{title}</h2>{extra}</header>
      {children}
    </section>
  );
}

export function Tile({ name, value, hint }: { name: string; value: string; hint?: string }) {
  return (
    <div class="tile">
      <dt>{name}</dt>
      <dd>{value}{hint ? <small>{hint}</small> : null}</dd>
    </div>
  );
}

export function Bar({ share, label }: { share: number; label: string }) {
  return (
    <progress class="bar" max={1} value={Math.max(0, Math.min(1, share))} aria-label={label}>{label}</progress>
  );
}

// A choice among few, as buttons of one group.
export function Choice({ name, values, chosen, choose }:
{ name: string; values: [string, string][]; chosen: string; choose: (value: string) => void }) {
  return (
    <div class="choice" role="group" aria-label={name}>
      {values.map(([value, label]) => (
        <button type="button" key={value} aria-pressed={value === chosen} onClick={() => choose(value)}>{label}</button>
      ))}
    </div>
  );
}

// A list of any length: only the rows that can be seen are in the page.
export function Rows<T>({ items, height, head, render, label, atEnd }: {
  items: T[]; height: number; label: string; head: ComponentChildren; render: (item: T, index: number) => ComponentChildren;
  atEnd?: () => void;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [tall, setTall] = useState(600);
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const resized = new ResizeObserver(() => setTall(element.clientHeight));
    resized.observe(element);
    return () => resized.disconnect();
  }, []);
  const first = Math.max(0, Math.floor(top / height) - 5);
  const past = Math.min(items.length, Math.ceil((top + tall) / height) + 5);
  useEffect(() => {
    if (atEnd && past >= items.length && items.length > 0) atEnd();
  }, [past, items.length]);
  return (
    <div class="rows" ref={box} tabIndex={0} role="table" aria-label={label} aria-rowcount={items.length}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}>
      <div role="rowgroup" class="rows-head"><div role="row" class="row head">{head}</div></div>
      <div role="rowgroup" class="rows-inner" style={{ height: `${items.length * height}px` }}>
        {items.slice(first, past).map((item, i) => (
          <div role="row" aria-rowindex={first + i + 1} class="row" key={first + i}
            style={{ top: `${(first + i) * height}px`, height: `${height}px` }}>
            {render(item, first + i)}
          </div>
        ))}
      </div>
    </div>
  );
}
