import { useState } from 'preact/hooks';
import { change, type Session } from '../api';
import { words } from '../hooks';
import { Problem } from '../parts';

export function Login({ done }: { done: (session: Session) => void }) {
  const [token, setToken] = useState('');
  const [problem, setProblem] = useState('');
  const submit = async (event: Event) => {
    event.preventDefault();
    try {
      const session = await change<Session>('POST', '/api/v1/session', { token: token.trim() });
      if (session) done(session);
    } catch (error) {
      setProblem(words(error));
    }
  };
  return (
    <main class="login">
      <form class="card" onSubmit={(event) => { void submit(event); }}>
        <h1>Rubato</h1>
        <label for="token">Token</label>
        <input id="token" type="password" autocomplete="current-password" required value={token}
          onInput={(event) => setToken(event.currentTarget.value)} />
        <button type="submit" class="main">Log in</button>
        <Problem text={problem} />
        <p class="hint">The administrator's token is in the file <code>admin.token</code> of the daemon's
          state folder. A tenant gets its token from the administrator.</p>
      </form>
    </main>
  );
}
