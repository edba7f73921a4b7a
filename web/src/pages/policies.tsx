import { useEffect, useState } from 'preact/hooks';
import { change, get, type Cluster, type Forecast, type Policy, type Session } from '../api';
import { Futures } from '../futures';
import { useLoaded, words } from '../hooks';
import { listen } from '../live';
import { Card, Problem } from '../parts';

export function PoliciesPage({ session }: { session: Session }) {
  const policies = useLoaded(() => get<{ active: string; policies: Policy[] }>('/api/v1/policies'), []);
  const cluster = useLoaded(() => get<Cluster>('/api/v1/cluster'), []);
  const [name, setName] = useState('');
  const [settings, setSettings] = useState<Record<string, string>>({});
  const [problem, setProblem] = useState('');
  const [futures, setFutures] = useState<[Forecast, Forecast] | null>(null);
  const [asking, setAsking] = useState(false);
  const active = policies.value?.active ?? '';
  const shown = policies.value?.policies.find((policy) => policy.name === (name || active));
  useEffect(() => listen({
    event: (event) => {
      if (event.type !== 'policy') return;
      policies.reload();
      cluster.reload();
    },
  }), []);
  useEffect(() => {
    setSettings(shown && shown.name === active ? { ...(cluster.value?.policy_settings ?? {}) } : {});
  }, [shown?.name, cluster.value]);

  const given = Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== ''));
  const ask = async () => {
    if (!shown) return;
    setAsking(true);
    try {
      const [now, other] = await Promise.all([
        change<Forecast>('POST', '/api/v1/forecast', { name: active, settings: cluster.value?.policy_settings ?? {} }),
        change<Forecast>('POST', '/api/v1/forecast', { name: shown.name, settings: given }),
      ]);
      setFutures(now && other ? [now, other] : null);
      setProblem('');
    } catch (error) {
      setProblem(words(error));
    } finally {
      setAsking(false);
    }
  };
  const use = async (event: Event) => {
    event.preventDefault();
    if (!shown) return;
    try {
      await change('PUT', '/api/v1/policy', { name: shown.name, settings: given });
      setProblem('');
      policies.reload();
      cluster.reload();
    } catch (error) {
      setProblem(words(error));
    }
  };
  return (
    <div class="page" data-loaded={policies.value !== null && cluster.value !== null}>
      <h1>Policies <small>{active ? `${active} decides` : ''}</small></h1>
      <Problem text={policies.error} />
      {futures ? <Card title="Two futures"><Futures now={futures[0]} other={futures[1]} /></Card> : null}
      <div class="two">
        <Card title="Policies">
          <ul class="policies">
            {policies.value?.policies.map((policy) => (
              <li key={policy.name}>
                <button type="button" aria-pressed={policy.name === shown?.name} onClick={() => setName(policy.name)}>
                  <b>{policy.name}</b>{policy.name === active ? <span class="phase phase-running">active</span> : null}
                  <span>{policy.summary}</span>
                </button>
              </li>
            ))}
          </ul>
        </Card>
        {shown ? (
          <Card title={shown.name}>
            <p>{shown.summary}</p>
            {shown.source ? <p class="hint">{shown.source}</p> : null}
            <form onSubmit={(event) => { void use(event); }}>
              {shown.params.length === 0 ? <p class="hint">It has no parameters.</p> : shown.params.map((param) => (
                <label key={param.name} class="param"><b>{param.name}</b>
                  <input value={settings[param.name] ?? ''} placeholder={param.default} autocomplete="off"
                    onInput={(event) => setSettings({ ...settings, [param.name]: event.currentTarget.value })} />
                  <small>{param.help} ({param.allowed})</small>
                </label>
              ))}
              <div class="actions">
                <button type="button" disabled={asking} onClick={() => { void ask(); }}>What if?</button>
                {session.admin ? <button type="submit" class="main">{shown.name === active ? 'Apply' : `Use ${shown.name}`}</button>
                  : <span class="hint">Only an administrator can change the policy.</span>}
              </div>
              <Problem text={problem} />
            </form>
          </Card>
        ) : null}
      </div>
    </div>
  );
}
