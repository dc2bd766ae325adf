// The page: login, header, and the view of the program that serves it.

import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import {
  forgetSession,
  hasSession,
  logIn,
  logOut,
  request,
  RequestError,
  type Connection,
} from './api';
import { ClusterView } from './cluster/view';
import { RecordingView } from './recording/view';
import { NetworkView } from './network/view';
import { RouterView } from './router/view';

interface PageInfo {
  program: string;
  version: string;
  host: string;
}

const TITLES: Record<string, string> = {
  router: 'Router',
  network: 'Network',
  balancer: 'Cluster',
  recording: 'Recording',
};
const THEMES = ['auto', 'light', 'dark'] as const;
type Theme = (typeof THEMES)[number];

function applyTheme(theme: Theme) {
  document.documentElement.dataset['theme'] = theme;
  localStorage.setItem('nw-theme', theme);
}

function Page() {
  const [info, setInfo] = useState<PageInfo>();
  const [error, setError] = useState<string>();
  const [connection, setConnection] = useState<Connection>('connecting');
  const load = async () => {
    try {
      setInfo(await request<PageInfo>('GET', '/v1/page'));
      setError(undefined);
    } catch (failure) {
      const refused =
        failure instanceof RequestError && (failure.code === 401 || failure.code === 403);
      if (refused) forgetSession();
      setError(failure instanceof Error ? failure.message : String(failure));
    }
  };
  useEffect(() => {
    void openWithTicket().then(
      () => (hasSession() ? load() : setError('')),
      (failure: Error) => setError(failure.message),
    );
  }, []);
  useEffect(() => {
    document.title = info ? `${info.host} – Namewire` : 'Namewire';
  }, [info]);
  const onConnection = (now: Connection, failure?: RequestError) => {
    setConnection(now);
    if (failure?.code !== 401 && failure?.code !== 403) return;
    forgetSession();
    setInfo(undefined);
    setError(failure.message);
  };
  if (error !== undefined && !hasSession())
    return <Login error={error} onDone={() => void load()} />;
  if (!info)
    return (
      <div class="login">
        <p role="status">{error ?? 'Connecting.'}</p>
        {error && (
          <button type="button" onClick={() => void load()}>
            Try again
          </button>
        )}
      </div>
    );
  const View =
    {
      router: RouterView,
      network: NetworkView,
      balancer: ClusterView,
      recording: RecordingView,
    }[info.program] ?? RouterView;
  return (
    <>
      <Header
        info={info}
        connection={connection}
        onLogOut={() => void logOut().then(() => location.reload())}
      />
      <View host={info.host} onConnection={onConnection} />
    </>
  );
}

/** Uses the ticket in the address, and removes it from there. */
async function openWithTicket(): Promise<void> {
  const ticket = /^#ticket=(\w+)$/.exec(location.hash)?.[1];
  if (!ticket) return;
  history.replaceState(null, '', location.pathname);
  await logIn({ ticket }).catch((failure: unknown) => {
    // A page that is open already works without the ticket.
    if (!hasSession()) throw failure;
  });
}

const CONNECTIONS: Record<Connection, string> = {
  live: '● live',
  connecting: '○ connecting',
  lost: '✕ no answer, trying again',
};

function Header(props: { info: PageInfo; connection: Connection; onLogOut(): void }) {
  const [theme, setTheme] = useState<Theme>(
    (localStorage.getItem('nw-theme') as Theme | null) ?? 'auto',
  );
  const { info, connection } = props;
  return (
    <header class="top">
      <img src="/icon.svg" alt="" width="28" height="28" />
      <h1>
        {TITLES[info.program] ?? 'Namewire'} <span>{info.host}</span>
      </h1>
      <span class={`connection ${connection}`} role="status">
        {CONNECTIONS[connection]}
      </span>
      <span class="note version">{info.version}</span>
      <label class="theme">
        <span class="hidden">Colours</span>
        <select
          value={theme}
          onChange={(e) => {
            const wanted = e.currentTarget.value as Theme;
            setTheme(wanted);
            applyTheme(wanted);
          }}
        >
          <option value="auto">system</option>
          <option value="light">light</option>
          <option value="dark">dark</option>
        </select>
      </label>
      <button type="button" onClick={props.onLogOut}>
        Log out
      </button>
    </header>
  );
}

function Login({ error, onDone }: { error: string; onDone(): void }) {
  const [token, setToken] = useState('');
  const [message, setMessage] = useState(error);
  const submit = (event: Event) => {
    event.preventDefault();
    logIn({ token }).then(onDone, (failure: Error) => setMessage(failure.message));
  };
  return (
    <main class="login">
      <img src="/icon.svg" alt="" width="56" height="56" />
      <h1>Namewire</h1>
      <p>On the machine of this program, run</p>
      <pre tabIndex={0} aria-label="Command">
        nw open
      </pre>
      <p>
        It opens this page. From elsewhere, log in with the token in the file that{' '}
        <code>page.token_file</code> names.
      </p>
      <form onSubmit={submit}>
        <label>
          Token{' '}
          <input
            type="password"
            id="token"
            required
            value={token}
            autocomplete="current-password"
            onInput={(e) => setToken(e.currentTarget.value)}
          />
        </label>
        <button type="submit" class="primary">
          Log in
        </button>
      </form>
      <p class="outcome error" role="alert">
        {message}
      </p>
    </main>
  );
}

applyTheme((localStorage.getItem('nw-theme') as Theme | null) ?? 'auto');
render(<Page />, document.getElementById('page')!);
