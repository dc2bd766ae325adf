// Lists of a network: routes, events, versions, audit.

import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { request } from '../api';
import { clock } from '../format';
import { ConfirmButton, Empty, useCommand } from '../parts';
import type { NetworkModel, Schemas } from './model';

/** Asks for a list again when `key` changes. */
function useList<T>(path: string, key: unknown): T[] {
  const [list, setList] = useState<T[]>([]);
  useEffect(() => {
    request<T[]>('GET', path).then(setList, () => undefined);
  }, [path, key]);
  return list;
}

function ListTable(props: {
  title: string;
  head: string[];
  rows: ComponentChildren[][];
  empty: string;
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
    </section>
  );
}

export function NetworkRoutes({ tick }: { tick: number }) {
  // Routes rarely change: requested every few samples.
  const routes = useList<Schemas['NetworkRoute']>('/v1/routes', Math.floor(tick / 3));
  return (
    <ListTable
      title="Routes"
      head={['Prefix', 'Instance', 'Face', 'Cost', 'Set by']}
      rows={routes.map((route) => [
        <span class="name">{route.prefix}</span>,
        route.instance,
        route.face,
        route.cost,
        route.origin,
      ])}
      empty="No name router has a route."
    />
  );
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
  const versions = useList<Schemas['DocumentVersion']>('/v1/history', version);
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
        rows={versions.map((entry) => [
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

export function Audit({ version }: { version: number }) {
  const entries = useList<Schemas['AuditEntry']>('/v1/audit', version);
  return (
    <ListTable
      title="Who asked for what"
      head={['Time', 'By', 'What', 'Result']}
      rows={entries.map((entry) => [
        new Date(entry.at_ms).toLocaleString('en-GB'),
        entry.author,
        entry.action,
        entry.result,
      ])}
      empty="No change was asked for."
    />
  );
}
