// Requests to the program that serves this page: login, commands, and streams.
//
// Every request needs the session's cookie, which the browser sends, and the value of the header
// X-NW-CSRF, which only pages of this origin can read from the storage.

import type { components as Router } from './types/router';

type Problem = Router['schemas']['Problem'];

const CSRF_KEY = 'nw-csrf';

/** An error of a request: what the program says, and the HTTP status. */
export class RequestError extends Error {
  constructor(
    readonly code: number,
    text: string,
  ) {
    super(text);
  }
}

export const hasSession = () => localStorage.getItem(CSRF_KEY) !== null;
export const forgetSession = () => localStorage.removeItem(CSRF_KEY);

async function send(
  method: string,
  path: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<Response> {
  const headers: Record<string, string> = { 'X-NW-CSRF': localStorage.getItem(CSRF_KEY) ?? '' };
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      cache: 'no-store',
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new RequestError(0, 'the program does not answer: is it still running?');
  }
  if (response.ok) return response;
  const text = await response.text();
  let message = text;
  try {
    message = (JSON.parse(text) as Problem).text;
  } catch {
    // Not a problem of the program: shown as it is.
  }
  throw new RequestError(response.status, message || `status ${response.status}`);
}

/** Sends a request and returns the JSON of the response, or `undefined` if it has no body. */
export async function request<T>(method: string, path: string, body?: unknown): Promise<T> {
  const response = await send(method, path, body);
  const text = await response.text();
  return (text ? JSON.parse(text) : undefined) as T;
}

/** Starts a session with a ticket of `nw open` or with the token of `page.token_file`. */
export async function logIn(wanted: { ticket?: string; token?: string }): Promise<void> {
  const made = await request<{ csrf: string }>('POST', '/v1/session', wanted);
  localStorage.setItem(CSRF_KEY, made.csrf);
}

export async function logOut(): Promise<void> {
  await request('DELETE', '/v1/session').catch(() => undefined);
  forgetSession();
}

/** Reads a response piece by piece until it ends or the signal aborts. */
export async function readBytes(
  path: string,
  signal: AbortSignal,
  onBytes: (bytes: Uint8Array) => void,
  onStart?: () => void,
): Promise<void> {
  const response = await send('GET', path, undefined, signal);
  onStart?.();
  const reader = response.body!.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    onBytes(value);
  }
}

/** Reads a response line by line. */
export async function readLines(
  path: string,
  signal: AbortSignal,
  onLine: (line: string) => void,
  onStart?: () => void,
): Promise<void> {
  const decoder = new TextDecoder();
  let rest = '';
  await readBytes(
    path,
    signal,
    (bytes) => {
      const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n');
      rest = lines.pop() ?? '';
      lines.forEach(onLine);
    },
    onStart,
  );
}

/** State of a stream of events. */
export type Connection = 'connecting' | 'live' | 'lost';

/**
 * Follows Server-Sent Events and connects again when the stream ends. `fetch` reads them, as
 * EventSource cannot send the session's header.
 */
export function follow<T>(
  path: string,
  onEvent: (event: T) => void,
  onConnection: (connection: Connection, error?: RequestError) => void,
): () => void {
  const abort = new AbortController();
  const run = async () => {
    let pause = 500;
    while (!abort.signal.aborted) {
      onConnection('connecting');
      try {
        await readLines(path, abort.signal, (line) => {
          if (!line.startsWith('data: ')) return;
          pause = 500;
          onConnection('live');
          onEvent(JSON.parse(line.slice(6)) as T);
        });
      } catch (error) {
        if (abort.signal.aborted) return;
        onConnection('lost', error instanceof RequestError ? error : undefined);
        if (error instanceof RequestError && (error.code === 401 || error.code === 403)) return;
      }
      await new Promise((done) => setTimeout(done, pause));
      pause = Math.min(pause * 2, 5000);
    }
  };
  void run();
  return () => abort.abort();
}
