// Lists of a network: routes, events, versions, audit.

import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { request } from '../api';
import { clock } from '../format';
import { ConfirmButton, Empty, useCommand } from '../parts';
import { faceName, type NetworkModel, type Schemas } from './model';

/** Requests a value again when `key` changes. */
export function useList<T>(path: string, key: unknown): { value: T | undefined } {
  const [value, setValue] = useState<T>();
  useEffect(() => {
    request<T>('GET', path).then(setValue, () => undefined);
  }, [path, key]);
  return { value };
}

export function ListTable(props: {
  title: string;
  head: string[];
  rows: ComponentChildren[][];
  empty: string;
  /** What stands below the rows. */
  children?: ComponentChildren;
}) {
  return (
    <section class="card">
      <h2>{props.title}</h2>
      {props.rows.length === 0 ? (
        <Empty>{props.empty}</Empty>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label={props.title}>
          <table>
            <thead>
              <tr>
                {props.head.map((text) => (
                  <th scope="col">{text || <span class="hidden">Actions</span>}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {props.rows.map((row) => (
                <tr>
                  {row.map((cell) => (
                    <td>{cell}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {props.children}
    </section>
  );
}

/** Routes; a person may add and remove those that lead out of the network. */
export function NetworkRoutes({ model, tick }: { model: NetworkModel; tick: number }) {
  const [changes, setChanges] = useState(0);
  const [wanted, setWanted] = useState({ prefix: '', exit: '', cost: '0' });
  const command = useCommand();
  // Routes rarely change: requested every few samples.
  const key = `${changes} ${Math.floor(tick / 3)}`;
  const { value: routes } = useList<Schemas['NetworkRoute'][]>('/v1/routes', key);
  const change = (path: string, body: unknown, text: string) =>
    void command.run(async () => {
      await request('POST', path, body);
      setChanges((before) => before + 1);
      return text;
    });
  const add = (event: Event) => {
    event.preventDefault();
    const [element, face] = wanted.exit.split('.');
    const route = { prefix: wanted.prefix, element, face, cost: Number(wanted.cost) };
    change('/v1/routes', route, `${wanted.prefix} leads to ${wanted.exit}.`);
  };
  const exits = exitsOf(model);
  const set = (part: Partial<typeof wanted>) => setWanted({ ...wanted, ...part });
  return (
    <ListTable
      title="Routes"
      head={['Prefix', 'Instance', 'Element', 'Face', 'Cost', 'Set by', 'Registered by', '']}
      rows={(routes ?? []).map((route) => [
        <span class="name">{route.prefix}</span>,
        route.instance,
        route.element,
        faceName(route.face),
        route.cost,
        route.origin,
        <span class="name">{route.by ?? ''}</span>,
        route.by && route.origin !== 'registration' ? (
          <ConfirmButton
            text="Remove"
            label={`Remove the route ${route.prefix}`}
            onConfirm={() =>
              change(
                '/v1/routes/remove',
                {
                  prefix: route.prefix,
                  element: route.element,
                  face: faceName(route.face),
                  cost: route.cost,
                },
                `The route ${route.prefix} is removed.`,
              )
            }
          />
        ) : (
          ''
        ),
      ])}
      empty="No name router has a route."
    >
      {exits.length > 0 && (
        <form class="inline" onSubmit={add}>
          <label>
            Prefix{' '}
            <input
              required
              value={wanted.prefix}
              placeholder="/example"
              onInput={(e) => set({ prefix: e.currentTarget.value })}
            />
          </label>
          <label>
            leads to{' '}
            <select
              required
              value={wanted.exit}
              onChange={(e) => set({ exit: e.currentTarget.value })}
            >
              <option value=""></option>
              {exits.map((exit) => (
                <option value={exit}>{exit}</option>
              ))}
            </select>
          </label>
          <label>
            Cost{' '}
            <input
              type="number"
              min={0}
              required
              value={wanted.cost}
              onInput={(e) => set({ cost: e.currentTarget.value })}
            />
          </label>
          <button type="submit" disabled={command.isBusy}>
            Add route
          </button>
        </form>
      )}
      {command.message}
    </ListTable>
  );
}

/** Returns ELEMENT.FACE for the faces to the outside of instances that have a name router. */
function exitsOf(model: NetworkModel): string[] {
  const exits = model.graph!.edges.flatMap(({ end }) => {
    const instance = model.graph!.instances.find(
      ({ name, host }) => name === end.instance && host === end.host,
    );
    const routers = instance?.elements.filter(({ element }) =>
      ['name_router', 'router'].includes(element),
    );
    return (routers ?? []).map(({ name }) => `${name}.${faceName(end.face)}`);
  });
  return [...new Set(exits)].sort();
}

export function Events({ model }: { model: NetworkModel }) {
  return (
    <ListTable
      title="Events"
      head={['Time', 'What', 'Text', 'About']}
      rows={[...model.events]
        .reverse()
        .map((event) => [
          clock(event.at_ms),
          event.kind.replaceAll('-', ' '),
          event.text,
          event.instance ?? event.subject ?? '',
        ])}
      empty="Nothing has happened since the manager started."
    />
  );
}

export function History({ version }: { version: number }) {
  const { value: versions } = useList<Schemas['DocumentVersion'][]>('/v1/history', version);
  const command = useCommand();
  const restore = (wanted: number) =>
    void command.run(async () => {
      await request('POST', '/v1/undo', { version: wanted });
      return `The text of version ${wanted} is in effect again, as a new version.`;
    });
  return (
    <>
      {command.message}
      <ListTable
        title="Versions"
        head={['Version', 'Time', 'By', 'Why', '']}
        rows={(versions ?? []).map((entry) => [
          entry.current ? `${entry.version} (in effect)` : entry.version,
          new Date(entry.at_ms).toLocaleString('en-GB'),
          entry.author,
          entry.reason,
          entry.current ? (
            ''
          ) : (
            <ConfirmButton
              text="Restore"
              label={`Restore version ${entry.version}`}
              onConfirm={() => restore(entry.version)}
            />
          ),
        ])}
        empty="No version."
      />
    </>
  );
}

export function Audit({ version }: { version: unknown }) {
  const { value: entries } = useList<Schemas['AuditEntry'][]>('/v1/audit', version);
  return (
    <ListTable
      title="Who asked for what"
      head={['Time', 'By', 'What', 'Result']}
      rows={(entries ?? []).map((entry) => [
        new Date(entry.at_ms).toLocaleString('en-GB'),
        entry.author,
        entry.action,
        entry.result,
      ])}
      empty="No change was asked for."
    />
  );
}
