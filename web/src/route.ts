// The address says what is shown: #/jobs?phases=running. A copied address shows the same.
import { useEffect, useState } from 'preact/hooks';

export interface Route { parts: string[]; values: Record<string, string> }

function read(): Route {
  const [path = '', search = ''] = location.hash.replace(/^#\/?/, '').split('?');
  return {
    parts: path.split('/').filter((part) => part !== '').map(decodeURIComponent),
    values: Object.fromEntries(new URLSearchParams(search)),
  };
}

export function useRoute(): Route {
  const [route, setRoute] = useState(read);
  useEffect(() => {
    const changed = () => setRoute(read());
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  return route;
}

// Changes values of the address; '' removes one. Typing does not fill the history.
export function setValues(values: Record<string, string>): void {
  const route = read();
  const search = new URLSearchParams({ ...route.values, ...values });
  for (const [name, value] of [...search]) if (value === '') search.delete(name);
  const text = search.toString();
  location.replace(`#/${route.parts.map(encodeURIComponent).join('/')}${text ? `?${text}` : ''}`);
}
