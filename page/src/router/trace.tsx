// A live trace: why did this Interest go there?

import { useEffect, useRef, useState } from 'preact/hooks';
import { readLines } from '../api';
import { Empty, useCommand } from '../parts';
import type { RouterModel, Schemas } from './model';

type TraceEvent = Schemas['TraceEvent'];
const EVENTS_MAX = 500;

const stepOf = ({ step }: TraceEvent): string => step.replaceAll('_', ' ');

/** Returns the words of a decision without the step, which stands before them. */
const detailOf = (event: TraceEvent): string => {
  const step = stepOf(event);
  return event.words.toLowerCase().startsWith(`${step}: `)
    ? event.words.slice(step.length + 2)
    : event.words;
};

export function Trace({ model }: { model: RouterModel }) {
  const [name, setName] = useState('');
  const [seconds, setSeconds] = useState('30');
  const [events, setEvents] = useState<TraceEvent[]>([]);
  const [running, setRunning] = useState(false);
  const abort = useRef<AbortController | undefined>(undefined);
  const command = useCommand();
  useEffect(() => () => abort.current?.abort(), []);

  const start = async () => {
    const controller = new AbortController();
    abort.current = controller;
    setEvents([]);
    const search = new URLSearchParams({ name: name.trim(), seconds });
    try {
      await readLines(
        `/v1/trace?${search}`,
        controller.signal,
        (line) =>
          line &&
          setEvents((before) => [...before, JSON.parse(line) as TraceEvent].slice(-EVENTS_MAX)),
        () => setRunning(true),
      );
    } finally {
      setRunning(false);
    }
    return 'The trace has ended.';
  };
  const submit = (event: Event) => {
    event.preventDefault();
    void command.run(async () => {
      try {
        return await start();
      } catch (error) {
        if (abort.current?.signal.aborted) return 'The trace is stopped.';
        throw error;
      }
    });
  };
  const packets = [...new Set(events.map(({ packet }) => packet))].reverse();
  return (
    <>
      <section class="card">
        <h2>Trace a name</h2>
        <p class="note">
          Shows each decision about packets under a prefix: content store, pending Interests, route,
          strategy, face. Send an Interest meanwhile, as with nw peek.
        </p>
        <form class="inline" onSubmit={submit}>
          <label>
            Prefix{' '}
            <input
              id="trace-name"
              required
              value={name}
              placeholder="/example"
              onInput={(e) => setName(e.currentTarget.value)}
            />
          </label>
          <label>
            For{' '}
            <input
              type="number"
              min="1"
              max="3600"
              value={seconds}
              onInput={(e) => setSeconds(e.currentTarget.value)}
            />{' '}
            s
          </label>
          <button type="submit" class="primary" disabled={running}>
            Start trace
          </button>
          <button type="button" disabled={!running} onClick={() => abort.current?.abort()}>
            Stop
          </button>
        </form>
        {running ? (
          <p class="outcome" role="status">
            Tracing {name}: waiting for packets.
          </p>
        ) : (
          command.message
        )}
      </section>
      <section class="card" id="trace">
        <h2>Decisions</h2>
        {packets.length === 0 && <Empty>No packet yet.</Empty>}
        {packets.map((packet) => {
          const own = events.filter((event) => event.packet === packet);
          return (
            <article class="decisions">
              <h3 class="name">{own[0]!.name}</h3>
              <ol>
                {own.map((event) => (
                  <li>
                    <span class="step">{stepOf(event)}</span> {detailOf(event)}
                    {event.face_id != null && (
                      <span class="note"> {model.faces.get(event.face_id)?.uri}</span>
                    )}
                    <span class="note"> +{event.at_us - own[0]!.at_us} µs</span>
                  </li>
                ))}
              </ol>
            </article>
          );
        })}
      </section>
    </>
  );
}
