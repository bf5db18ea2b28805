import { useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { loadSession, logIn } from '../../log-in.ts';
import { useAct } from '../../ui/dialog.tsx';
import { Form, TextField } from '../../ui/form.tsx';
import { Problem } from '../../ui/states.tsx';

/** Changes an API key into a session; goes on to where the person wanted to go. */
export function LoginView() {
  const [key, setKey] = useState('');
  const { query, route } = useLocation();
  const { busy, error, run } = useAct(async () => {
    await logIn(key.trim());
    await loadSession();
    route(insideOnly(query['next']), true);
  });
  return (
    <main class="login">
      <h1>Millrace</h1>
      <Form onSubmit={() => run()}>
        <TextField
          label="API key"
          type="password"
          autoComplete="current-password"
          value={key}
          onValue={setKey}
          required
          hint="The producer answers with a cookie that no script can read; the key is not kept in this browser."
        />
        {error && <Problem error={error} />}
        <button class="primary" disabled={busy || key.trim() === ''}>
          {busy ? 'Logging in…' : 'Log in'}
        </button>
      </Form>
      <p class="soft">
        Keys are made by who runs the producer, in <code>MILLRACE_API_KEYS</code>. On the producer&#39;s own machine,
        without keys, there is no login.
      </p>
    </main>
  );
}

/** A path of this console: never another site. */
function insideOnly(next: string | undefined): string {
  if (next === undefined || !/^\/(?![/\\])/.test(next)) return '/runs';
  return new URL(next, location.origin).origin === location.origin ? next : '/runs';
}
