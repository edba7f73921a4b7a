import { useEffect } from 'preact/hooks';
import { get, type Cluster, type Devices, type Session, type Tenant } from '../api';
import { count, duration, number } from '../format';
import { useLoaded, useSoon } from '../hooks';
import { listen } from '../live';
import { Card, Problem } from '../parts';

interface Usage { rows: { key: string; jobs: number; held_s: number; trained_s: number }[] }

function sentence(tenant: Tenant, share: number | null, held: number): string {
  const quota = tenant.quota ? ` It may not hold more than ${count(tenant.quota, 'device')}.` : '';
  if (share === null) return `Its weight is ${number(tenant.weight)}; it holds ${count(held, 'device')}.${quota}`;
  const fair = `Its weight of ${number(tenant.weight)} is a share of ${number(share)} devices while everybody wants some`;
  if (held > share + 0.5) return `${fair}; it holds ${held}, of which ${number(held - share)} are borrowed from others who do not use theirs.${quota}`;
  if (held < share - 0.5) return `${fair}; it holds ${held} and lends ${number(share - held)}.${quota}`;
  return `${fair}; it holds ${held}.${quota}`;
}

export function TenantsPage({ session }: { session: Session }) {
  const tenants = useLoaded(() => get<{ tenants: Tenant[] }>('/api/v1/tenants'), []);
  const cluster = useLoaded(() => get<Cluster>('/api/v1/cluster'), []);
  const devices = useLoaded(() => get<Devices>('/api/v1/devices'), []);
  const usage = useLoaded(() => get<Usage>('/api/v1/usage?by=tenant'), []);
  const again = useSoon(() => { devices.reload(); cluster.reload(); tenants.reload(); }, 500);
  useEffect(() => listen({
    event: (event) => { if (['held', 'tenant', 'tenant_removed', 'nodes'].includes(event.type)) again(); },
  }), []);

  const held = new Map<string, number>();
  for (const span of devices.value?.held ?? []) {
    const name = span.tenant ?? '';
    held.set(name, (held.get(name) ?? 0) + span.nodes.reduce((sum, place) => sum + place.devices, 0));
  }
  const known = tenants.value?.tenants ?? [];
  const names = new Set(known.map((tenant) => tenant.name));
  const others = [...held.keys()].filter((name) => name !== '' && !names.has(name))
    .map((name): Tenant => ({ name, weight: 1, quota: 0, max_queued: 0 }));
  const all = [...known, ...others];
  const weights = all.reduce((sum, tenant) => sum + tenant.weight, 0);
  const usable = cluster.value ? cluster.value.devices - cluster.value.reserved : null;
  const used = new Map((usage.value?.rows ?? []).map((row) => [row.key, row]));
  return (
    <div class="page" data-loaded={tenants.value !== null && devices.value !== null}>
      <h1>Tenants</h1>
      <Problem text={tenants.error || devices.error || usage.error} />
      <Card title="Shares and use">
        {all.length === 0 ? <p class="hint">There are no tenants. An administrator makes one: rubato tenants set NAME</p> : (
          <div class="wide" tabIndex={0} role="region" aria-label="Tenants">
            <table>
              <thead><tr><th>Tenant</th><th class="n">Weight</th><th class="n">Share</th><th class="n">Quota</th><th class="n">Holds</th>
                <th class="n">Borrowed</th><th class="n">Lent</th><th class="n">Used this month</th><th>Why</th></tr></thead>
              <tbody>
                {all.map((tenant) => {
                  const has = held.get(tenant.name) ?? 0;
                  // A tenant sees only itself, so it cannot know its share.
                  const share = session.admin && usable !== null && weights > 0 ? usable * tenant.weight / weights : null;
                  const row = used.get(tenant.name);
                  return (
                    <tr key={tenant.name}>
                      <td><a href={`#/jobs?tenant=${encodeURIComponent(tenant.name)}`}>{tenant.name}</a></td>
                      <td class="n">{number(tenant.weight)}</td>
                      <td class="n">{share === null ? '–' : number(share)}</td>
                      <td class="n">{tenant.quota || '–'}</td>
                      <td class="n">{has}</td>
                      <td class="n">{share === null ? '–' : number(Math.max(0, has - share))}</td>
                      <td class="n">{share === null ? '–' : number(Math.max(0, share - has))}</td>
                      <td class="n">{row ? <>{duration(row.held_s)}{row.held_s > 0 ? <small> {Math.round(100 * row.trained_s / row.held_s)} % trained</small> : null}</> : '–'}</td>
                      <td class="sentence">{sentence(tenant, share, has)}</td>
                    </tr>
                  );
                })}
              </tbody>
            </table>
          </div>
        )}
      </Card>
    </div>
  );
}
