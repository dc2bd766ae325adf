// The view of a network: the live map, plans, the document with a draft, scaling, routes, history.

import { useEffect, useRef, useState } from 'preact/hooks';
import { follow, request, type Connection, type RequestError } from '../api';
import { clock, rate } from '../format';
import type { MapNode } from '../map/model';
import { MapView } from '../map/view';
import { Empty } from '../parts';
import { Tabs } from '../tabs';
import { DocumentView } from './document';
import { Decisions } from './decisions';
import { Access } from './access';
import { Events, History, NetworkRoutes } from './lists';
import { GRID, NetworkModel, type NetworkEvent, type Graph } from './model';
import { InstancePanel } from './panel';
import { Plans } from './plans';
import { Services } from './services';
import { NetworkTap, type TapPlace } from './tap';

/** Most graphs a second. */
const REFRESH_MS = 400;

export function NetworkView(props: {
  host: string;
  onConnection(connection: Connection, error?: RequestError): void;
}) {
  const model = useRef(new NetworkModel()).current;
  const [tick, setTick] = useState(0);
  const [tapped, setTapped] = useState<TapPlace>();
  useEffect(() => {
    let isAsked = false;
    let isOver = false;
    const refresh = async () => {
      try {
        model.apply(await request<Graph>('GET', '/v1/graph'));
        setTick((before) => before + 1);
      } catch {
        // The stream of events reports that the manager does not answer.
      }
      isAsked = false;
    };
    const ask = () => {
      if (isAsked || isOver) return;
      isAsked = true;
      setTimeout(() => void refresh(), REFRESH_MS);
    };
    ask();
    const stop = follow<Partial<NetworkEvent>>(
      '/v1/events',
      (event) => {
        if (event.number !== undefined) model.addEvent(event as NetworkEvent);
        ask();
      },
      props.onConnection,
    );
    return () => {
      isOver = true;
      stop();
    };
  }, []);
  const { graph } = model;
  if (!graph)
    return (
      <main>
        <Empty>Waiting for the manager.</Empty>
      </main>
    );
  return (
    <>
      {graph.conditions.map(({ subject, kind, reason }) => (
        <p class="banner" role="alert">
          <b>{subject}</b>, {kind}: {reason}
        </p>
      ))}
      <Tabs
        tabs={[
          {
            id: 'map',
            text: 'Map',
            view: () => <NetworkMap model={model} tick={tick} onTap={setTapped} />,
          },
          { id: 'plan', text: 'Plan', view: () => <Plans model={model} /> },
          { id: 'document', text: 'Document', view: () => <DocumentView model={model} /> },
          { id: 'services', text: 'Services', view: () => <Services model={model} tick={tick} /> },
          { id: 'decisions', text: 'Decisions', view: () => <Decisions model={model} /> },
          { id: 'routes', text: 'Routes', view: () => <NetworkRoutes model={model} tick={tick} /> },
          {
            id: 'tap',
            text: 'Tap',
            view: () => <NetworkTap model={model} place={tapped} onPlace={setTapped} />,
          },
          { id: 'events', text: 'Events', view: () => <Events model={model} /> },
          {
            id: 'history',
            text: 'History',
            view: () => <History version={graph.version} />,
          },
          { id: 'access', text: 'Access', view: () => <Access tick={tick} /> },
        ]}
      />
    </>
  );
}

function NetworkMap(props: { model: NetworkModel; tick: number; onTap(place: TapPlace): void }) {
  const { model, tick } = props;
  const graph = model.graph!;
  const [back, setBack] = useState(0);
  const shown = back === 0 ? undefined : model.recorded.at(-back);
  const move = (id: string, place: { x: number; y: number }) => {
    const instance = graph.instances.some(({ name, host }) => `${name} on ${host}` === id);
    if (!instance) return;
    const position = { x: place.x / GRID.x, y: place.y / GRID.y, fixed: true };
    void request('PUT', '/v1/positions', { positions: [{ instance: id, position }] }).catch(
      () => undefined,
    );
  };
  const arrange = () => {
    const fixed = graph.instances.filter(({ position }) => position.fixed);
    const positions = fixed.map(({ name, host }) => ({
      instance: `${name} on ${host}`,
      position: null,
    }));
    if (positions.length)
      void request('PUT', '/v1/positions', { positions }).catch(() => undefined);
  };
  return (
    <>
      <p class="status-line">
        <b>{graph.network}</b>, version {graph.version}, {graph.state}
        {graph.hosts.map(
          (host) =>
            ` · ${host.name}: ${host.instances} ${host.instances === 1 ? 'instance' : 'instances'}, ${host.cpu_cores.toFixed(2)} cores${host.up ? '' : ', does not answer'}`,
        )}
      </p>
      {model.recorded.length > 1 && (
        <label class="slider">
          Time{' '}
          <input
            type="range"
            min={-model.recorded.length}
            max={0}
            value={-back}
            aria-valuetext={shown ? clock(shown.atMs) : 'live'}
            onInput={(e) => setBack(-Number(e.currentTarget.value))}
          />{' '}
          {shown ? clock(shown.atMs) : 'live'}
        </label>
      )}
      <MapView
        graph={shown?.graph ?? model.map}
        storageKey={`network:${graph.network}`}
        onMove={move}
        onArrange={arrange}
        note={noteOf}
        labels={[
          { name: 'rate', text: 'packets/s', format: (value) => `${rate(value)}/s` },
          { name: 'pending', text: 'pending', format: (value) => `${value} pending` },
          { name: 'kind', text: 'transport', format: String },
        ]}
        columns={[
          { name: 'host', text: 'Host' },
          { name: 'state', text: 'State' },
          { name: 'rate', text: 'Packets/s', format: rate },
          { name: 'cpu', text: 'Cores', format: (value) => value.toFixed(2) },
          { name: 'pending', text: 'Pending', format: String },
        ]}
        panel={(node) => (
          <InstancePanel key={node.id} node={node} model={model} tick={tick} onTap={props.onTap} />
        )}
      />
    </>
  );
}

/** Returns what stands below the name of an instance or a face. */
function noteOf({ kind, values }: MapNode): string {
  const packets = Number(values['rate'] ?? 0) > 0.05 ? `${rate(Number(values['rate']))}/s` : '';
  const cores = kind !== 'listener' && typeof values['cpu'] === 'number' ? values['cpu'] : 0;
  return [packets, cores >= 0.01 ? `${cores.toFixed(2)} cores` : ''].filter(Boolean).join(', ');
}
