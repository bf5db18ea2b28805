import type { AnyComponent, ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { ErrorBoundary, lazy } from 'preact-iso';
import { LocationProvider, Route, Router, useLocation } from 'preact-iso/router';
import { asApiError, reachable, type ApiError } from './api.ts';
import { Poll } from './poll.ts';
import { listenForKeys, shortcuts, useKeys } from './keys.ts';
import { loadSession, logOut } from './log-in.ts';
import { session } from './session.ts';
import { chooseTheme, theme, themeNames, themes } from './theme.ts';
import { Dialog } from './ui/dialog.tsx';
import { LeaveQuestion } from './ui/leave-question.tsx';
import { Notice, notify } from './ui/notice.tsx';
import { Empty, Loading, Problem } from './ui/states.tsx';
import { Steady } from './ui/steady.tsx';
import { askBeforeLeaving } from './ui/unsaved.ts';
import { useInbox, waitingText } from './views/approvals/inbox.ts';

/** Each view is a chunk of its own, fetched when it is opened first. */
const RunsView = lazy(async () => (await import('./views/runs/runs.tsx')).RunsView);
const RunView = lazy(async () => (await import('./views/run/run.tsx')).RunView);
const ApprovalsView = lazy(async () => (await import('./views/approvals/approvals.tsx')).ApprovalsView);
const ThreadsView = lazy(async () => (await import('./views/threads/threads.tsx')).ThreadsView);
const ThreadView = lazy(async () => (await import('./views/threads/thread.tsx')).ThreadView);
const BatchesView = lazy(async () => (await import('./views/batches/batches.tsx')).BatchesView);
const BatchView = lazy(async () => (await import('./views/batches/batch.tsx')).BatchView);
const AgentsView = lazy(async () => (await import('./views/agents/agents.tsx')).AgentsView);
const AgentView = lazy(async () => (await import('./views/agents/agent.tsx')).AgentView);
const MoneyView = lazy(async () => (await import('./views/money/money.tsx')).MoneyView);
const FleetView = lazy(async () => (await import('./views/fleet/fleet.tsx')).FleetView);
const AuditView = lazy(async () => (await import('./views/audit/audit.tsx')).AuditView);
const LoginView = lazy(async () => (await import('./views/login/login.tsx')).LoginView);

const views: readonly (readonly [path: string, component: AnyComponent<{ id?: string }>])[] = [
  ['/runs', RunsView],
  ['/runs/:id', RunView],
  ['/approvals', ApprovalsView],
  ['/threads', ThreadsView],
  ['/threads/:id', ThreadView],
  ['/batches', BatchesView],
  ['/batches/:id', BatchView],
  ['/agents', AgentsView],
  ['/agents/:id', AgentView],
  ['/money', MoneyView],
  ['/fleet', FleetView],
  ['/audit', AuditView],
];

/** Views in the navigation: path, name, and the key that follows `g`. */
const places = [
  ['/runs', 'Runs', 'r'],
  ['/approvals', 'Approvals', 'p'],
  ['/threads', 'Threads', 't'],
  ['/batches', 'Batches', 'b'],
  ['/agents', 'Agents', 'a'],
  ['/money', 'Money', 'm'],
  ['/fleet', 'Fleet', 'f'],
  ['/audit', 'Audit', 'u'],
] as const;

/** Links to the API and to files are the browser's. */
const ownPaths = /^\/(runs|approvals|threads|batches|agents|money|fleet|audit|login)?(?:[/?#]|$)/;

listenForKeys();

export function App() {
  return (
    <LocationProvider scope={ownPaths}>
      <ErrorBoundary>
        <Gate />
      </ErrorBoundary>
      <LeaveQuestion paths={ownPaths} />
      <Notice />
    </LocationProvider>
  );
}

/** Nothing is drawn before it is known who is there; a visitor without a session gets the login. */
function Gate() {
  const { path, url, route } = useLocation();
  const problem = useSession();
  const { state } = session.value;
  const leave = state === 'out' && path !== '/login' ? `/login?next=${encodeURIComponent(url)}` : undefined;
  const home = state === 'in' && (path === '/' || (path === '/login' && !session.value.keys)) ? '/runs' : undefined;
  const to = leave ?? home;
  useEffect(() => {
    if (to !== undefined) route(to, true);
  }, [to]);
  const waiting = waitingText();
  useEffect(() => {
    document.title = `${waiting === '' ? '' : `(${waiting}) `}${titleOf(path)}`;
  }, [path, waiting]);
  if (to !== undefined) return null;
  if (path === '/login') return <LoginView />;
  if (state === 'unknown')
    return problem ? <Problem error={problem} /> : <Loading what="Asking the producer who you are" />;
  return (
    <Shell>
      <Router>
        {views.map(([viewPath, component]) => (
          <Route key={viewPath} path={viewPath} component={component} />
        ))}
        <Route default component={Nowhere} />
      </Router>
    </Shell>
  );
}

/** Loads the session, and goes on trying while the producer does not answer. */
function useSession(): ApiError | undefined {
  const [problem, setProblem] = useState<ApiError>();
  useEffect(() => {
    const leave = new AbortController();
    const work = async () => {
      await loadSession(leave.signal);
      setProblem(undefined);
    };
    const poll = new Poll({ work, onError: setProblem, everyMs: undefined, leave: leave.signal });
    if (session.value.state === 'unknown') void poll.now();
    return () => leave.abort();
  }, []);
  return problem;
}

/** How many things wait for people, beside the way to them. */
function Waiting() {
  const waiting = waitingText();
  if (waiting === '') return null;
  return (
    <>
      {' '}
      <span class="badge">
        {waiting}
        <span class="visually-hidden"> waiting</span>
      </span>
    </>
  );
}

function Shell({ children }: { children: ComponentChildren }) {
  useInbox();
  const { path, route } = useLocation();
  const nav = useRef<HTMLElement>(null);
  // On a phone the bar is longer than the screen.
  useEffect(() => {
    nav.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' });
  }, [path]);
  const [help, setHelp] = useState(false);
  const [going, setGoing] = useState(false);
  useKeys({
    '?': { what: 'Show the keys', run: () => setHelp(true) },
    g: {
      what: `Go to: then ${places.map(([, name, key]) => `${key} ${name.toLowerCase()}`).join(', ')}`,
      run: () => setGoing(true),
    },
  });
  return (
    <div class="shell">
      <a class="skip" href="#view">
        Skip to the view
      </a>
      <header class="bar">
        <a class="brand" href="/runs">
          Millrace
        </a>
        <nav aria-label="Views" ref={nav}>
          {places.map(([to, name]) => (
            <a key={to} href={to} aria-current={path === to || path.startsWith(`${to}/`) ? 'page' : undefined}>
              <Steady text={name} />
              {to === '/approvals' && <Waiting />}
            </a>
          ))}
        </nav>
        <Corner onHelp={() => setHelp(true)} />
      </header>
      {!reachable.value && (
        <p class="away" role="alert">
          The producer does not answer. What you see is what it said last; this page goes on trying.
        </p>
      )}
      <main id="view" tabIndex={-1}>
        {children}
      </main>
      {help && <Help onClose={() => setHelp(false)} />}
      {going && <GoTo route={route} onDone={() => setGoing(false)} />}
    </div>
  );
}

/** Waits for the second key after `g`, from before the next paint on: keys may come faster than that. */
function GoTo({ route, onDone }: { route: (url: string) => void; onDone: () => void }) {
  useLayoutEffect(() => {
    const leave = new AbortController();
    const listen = (event: KeyboardEvent) => {
      if (event.key === 'Shift') return;
      const place = places.find(([, , key]) => key === event.key);
      if (place) {
        event.preventDefault();
        event.stopImmediatePropagation();
        askBeforeLeaving(() => route(place[0]));
      }
      onDone();
    };
    window.addEventListener('keydown', listen, { capture: true, signal: leave.signal });
    return () => leave.abort();
  }, []);
  return null;
}

function Corner({ onHelp }: { onHelp: () => void }) {
  const now = session.value;
  return (
    <div class="corner">
      {now.state === 'in' && (
        <span class="who" title={`Scopes: ${now.scopes.join(', ')}`}>
          <span class="soft">tenant</span> {now.tenant}
        </span>
      )}
      <label class="theme" title="The colours of this page: those of the system, light, or dark">
        <span class="soft">Theme</span>{' '}
        <select
          value={theme.value}
          onChange={({ currentTarget }) => chooseTheme(themes.find((each) => each === currentTarget.value) ?? 'system')}
        >
          {themes.map((each) => (
            <option key={each} value={each}>
              {themeNames[each]}
            </option>
          ))}
        </select>
      </label>
      <button type="button" class="quiet" aria-label="Keys" onClick={onHelp}>
        ?
      </button>
      {now.state === 'in' && now.keys && (
        <button
          type="button"
          class="quiet"
          onClick={() => void logOut().catch((error: unknown) => notify(asApiError(error).message))}
        >
          Log out
        </button>
      )}
    </div>
  );
}

function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="keys">
        {[...shortcuts()].map(([key, { what }]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

function Nowhere() {
  const { path } = useLocation();
  return (
    <Empty title="There is no such view.">
      <p>
        Nothing is at <code>{path}</code>. These are the views:
      </p>
      <ul class="ways" aria-label="All views">
        {places.map(([to, name]) => (
          <li key={to}>
            <a href={to}>{name}</a>
          </li>
        ))}
      </ul>
    </Empty>
  );
}

function titleOf(path: string): string {
  const place = places.find(([to]) => path === to || path.startsWith(`${to}/`));
  const id = path.split('/')[2];
  return [id && decodeURIComponent(id).slice(0, 12), place?.[1], 'Millrace'].filter(Boolean).join(' · ');
}
