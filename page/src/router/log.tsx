// The log: its lines as they are written, and its levels.

import { useEffect, useRef, useState } from 'preact/hooks';
import { request } from '../api';
import { clock } from '../format';
import { useCommand } from '../parts';
import type { RouterModel } from './model';

const LEVELS = ['error', 'warn', 'info', 'debug', 'trace'];

export function Log({ model }: { model: RouterModel }) {
  const [level, setLevel] = useState('trace');
  const [text, setText] = useState('');
  const [filter, setFilter] = useState('');
  const command = useCommand();
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => {
    void request<{ filter: string }>('GET', '/v1/log').then(
      (levels) => setFilter(levels.filter),
      () => undefined,
    );
  }, []);
  const shown = model.log.filter(
    (line) =>
      LEVELS.indexOf(line.level) <= LEVELS.indexOf(level) &&
      `${line.part} ${line.text}`.toLowerCase().includes(text.toLowerCase()),
  );
  // Follows the end, unless a person has scrolled up.
  const isAtEnd =
    !frame.current ||
    frame.current.scrollHeight - frame.current.scrollTop - frame.current.clientHeight < 40;
  useEffect(() => {
    if (isAtEnd) frame.current?.scrollTo(0, frame.current.scrollHeight);
  }, [shown.length]);
  const submit = (event: Event) => {
    event.preventDefault();
    void command.run(async () => {
      const levels = await request<{ filter: string }>('PUT', '/v1/log', { filter });
      return `The log writes ${levels.filter}.`;
    });
  };
  return (
    <section class="card">
      <h2>Log</h2>
      <form class="inline" onSubmit={submit}>
        <label>
          Show{' '}
          <select value={level} onChange={(e) => setLevel(e.currentTarget.value)}>
            {LEVELS.map((name) => (
              <option value={name}>{name === 'trace' ? 'all' : `${name} and worse`}</option>
            ))}
          </select>
        </label>
        <label>
          With <input type="search" value={text} onInput={(e) => setText(e.currentTarget.value)} />
        </label>
        <label>
          Levels of the router{' '}
          <input
            value={filter}
            placeholder="info,router=debug"
            onInput={(e) => setFilter(e.currentTarget.value)}
          />
        </label>
        <button type="submit">Set levels</button>
      </form>
      {command.message}
      <div class="log" ref={frame} tabIndex={0} role="log" aria-label="Lines of the log">
        {shown.map((line) => (
          <div class={`line ${line.level}`}>
            <time>{clock(line.at_ms)}</time> <b>{line.level}</b>{' '}
            <span class="note">{line.part}</span> {line.text}
          </div>
        ))}
      </div>
    </section>
  );
}
