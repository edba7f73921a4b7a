import { useEffect, useState } from 'preact/hooks';
import { ApiError, change, get, whenLoggedOut, type Session } from './api';
import { forget, onStatus, start, watch } from './live';
import { useRoute } from './route';
import { ClusterPage } from './pages/cluster';
import { JobPage } from './pages/job';
import { JobsPage } from './pages/jobs';
import { Login } from './pages/login';
import { Overview } from './pages/overview';
import { PoliciesPage } from './pages/policies';
import { SubmitPage } from './pages/submit';
import { TenantsPage } from './pages/tenants';

const pages: [string, string][] = [
  ['', 'Overview'], ['jobs', 'Jobs'], ['cluster', 'Cluster'], ['tenants', 'Tenants'],
  ['policies', 'Policies'], ['submit', 'Submit'],
];

function isDark(): boolean {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}

function ThemeButton() {
  const [dark, setDark] = useState(isDark());
  const toggle = () => {
    const theme = dark ? 'light' : 'dark';
    document.documentElement.dataset.theme = theme;
    localStorage.setItem('theme', theme);
    setDark(!dark);
    dispatchEvent(new Event('themechange'));
  };
  return <button type="button" class="quiet" onClick={toggle}>{dark ? 'Light' : 'Dark'}</button>;
}

function Status() {
  const [connected, setConnected] = useState(false);
  useEffect(() => onStatus(setConnected), []);
  return (
    <span class={`live ${connected ? 'on' : 'off'}`} role="status">{connected ? 'live' : 'reconnecting'}</span>
  );
}

function Page({ parts, values, session }:
{ parts: string[]; values: Record<string, string>; session: Session }) {
  switch (parts[0] ?? '') {
    case '': return <Overview values={values} />;
    case 'jobs':
      return parts[1] ? <JobPage key={parts[1]} id={parts[1]} /> : <JobsPage values={values} session={session} />;
    case 'cluster': return <ClusterPage values={values} />;
    case 'tenants': return <TenantsPage session={session} />;
    case 'policies': return <PoliciesPage session={session} />;
    case 'submit': return <SubmitPage session={session} />;
    default: return <p>There is no such page. <a href="#/">Overview</a></p>;
  }
}

export function App() {
  const [session, setSession] = useState<Session | null | undefined>(undefined);
  const [problem, setProblem] = useState('');
  const route = useRoute();
  const here = route.parts[0] ?? '';

  useEffect(() => {
    whenLoggedOut(() => {
      forget();
      setSession(null);
    });
    const ask = () => get<Session>('/api/v1/session').then(setSession).catch((error: unknown) => {
      if (error instanceof ApiError && error.status === 401) return;
      setProblem('The daemon cannot be reached. Trying again.');
      setTimeout(ask, 2000);
    });
    void ask();
  }, []);
  useEffect(() => {
    if (!session) return undefined;
    start();
    return forget;
  }, [session]);
  useEffect(() => {
    watch(here === 'jobs' ? route.parts[1] ?? '' : '');
    const title = pages.find(([path]) => path === here)?.[1] ?? 'Rubato';
    document.title = `${route.parts[1] ?? title} · Rubato`;
  }, [here, route.parts[1], session]);

  if (session === undefined) return <main class="login"><p role="status">{problem || 'Loading…'}</p></main>;
  if (session === null) return <Login done={setSession} />;
  const logOut = () => {
    void change('DELETE', '/api/v1/session').finally(() => {
      forget();
      setSession(null);
    });
  };
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        document.getElementById('main')?.focus();
      }}>Skip to the content</a>
      <header class="top">
        <a class="brand" href="#/">Rubato</a>
        <nav aria-label="Pages">
          {pages.map(([path, title]) => (
            <a key={path} href={`#/${path}`} aria-current={path === here ? 'page' : undefined}>{title}</a>
          ))}
        </nav>
        <div class="who">
          <Status />
          <span class="name">{session.name}</span>
          <ThemeButton />
          <button type="button" class="quiet" onClick={logOut}>Log out</button>
        </div>
      </header>
      <main id="main" tabIndex={-1}><Page parts={route.parts} values={route.values} session={session} /></main>
    </>
  );
}
