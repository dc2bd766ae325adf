// The view of a router: tabs over one stream of events.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { follow, type Connection, type RequestError } from '../api';
import { bits, rate } from '../format';
import { MapView } from '../map/view';
import type { MapGraph, MapNode } from '../map/model';
import { Tabs } from '../tabs';
import { TapView } from '../tap/view';
import { FaceDetails, Faces } from './faces';
import { Log } from './log';
import { RouterModel, type Change, type Face } from './model';
import { Overview } from './overview';
import { PubSub } from './pubsub';
import { Routes, Strategies } from './routes';
import { Trace } from './trace';

export function RouterView(props: {
  host: string;
  onConnection(connection: Connection, error?: RequestError): void;
}) {
  const model = useRef(new RouterModel()).current;
  const [tick, setTick] = useState(0);
  useEffect(
    () =>
      follow<Change>(
        '/v1/events',
        (change) => {
          model.apply(change);
          setTick((before) => before + 1);
        },
        props.onConnection,
      ),
    [],
  );
  return (
    <>
      {model.isTruncated && (
        <p class="banner">
          This router has more than 1,000 faces, routes or strategies: the first 1,000 of each are
          shown.
        </p>
      )}
      <Tabs
        tabs={[
          { id: 'overview', text: 'Overview', view: () => <Overview model={model} tick={tick} /> },
          {
            id: 'map',
            text: 'Map',
            view: () => <RouterMap model={model} tick={tick} host={props.host} />,
          },
          { id: 'faces', text: 'Faces', view: () => <Faces model={model} tick={tick} /> },
          { id: 'routes', text: 'Routes', view: () => <Routes model={model} /> },
          { id: 'strategies', text: 'Strategies', view: () => <Strategies model={model} /> },
          { id: 'pubsub', text: 'Publish/subscribe', view: () => <PubSub /> },
          { id: 'trace', text: 'Trace', view: () => <Trace model={model} /> },
          { id: 'tap', text: 'Tap', view: () => <RouterTap model={model} /> },
          { id: 'log', text: 'Log', view: () => <Log model={model} /> },
        ]}
      />
    </>
  );
}

function RouterMap({ model, tick, host }: { model: RouterModel; tick: number; host: string }) {
  const graph = useMemo(() => routerGraph(model, host), [tick, host]);
  const panel = (node: MapNode) => {
    const face = model.faces.get(Number(node.values['face']));
    if (face) return <FaceDetails face={face} model={model} tick={tick} />;
    return (
      <p>
        {model.outerFaces().length} faces, {model.routes.length} prefixes with routes.
      </p>
    );
  };
  return (
    <MapView
      graph={graph}
      storageKey="router"
      labels={[
        { name: 'rate', text: 'packets/s', format: (value) => `${rate(value)}/s` },
        { name: 'bytes', text: 'bit/s', format: bits },
        { name: 'routes', text: 'routes', format: (value) => `${value} routes` },
      ]}
      columns={[
        { name: 'face', text: 'Face', format: String },
        { name: 'rate', text: 'Packets/s', format: rate },
        { name: 'bytes', text: 'bit/s', format: bits },
        { name: 'routes', text: 'Routes', format: String },
      ]}
      panel={panel}
    />
  );
}

function routerGraph(model: RouterModel, host: string): MapGraph {
  const center: MapNode = {
    id: 'router',
    label: host,
    kind: 'router',
    health: 'ok',
    x: 0,
    y: 0,
    values: {},
  };
  const graph: MapGraph = { nodes: [center], links: [] };
  for (const face of model.outerFaces()) {
    const rates = model.ratesOf(face.face_id);
    const routes = model.routes.filter((entry) =>
      entry.routes.some(({ face_id }) => face_id === face.face_id),
    ).length;
    const values = {
      face: face.face_id,
      rate: rates.inInterests + rates.inData + rates.outInterests + rates.outData,
      bytes: rates.inBytes + rates.outBytes,
      routes,
      scope: face.scope,
      persistency: face.persistency,
    };
    const isQuiet = values.rate < 0.05;
    const health = isSilent(face) ? 'warning' : isQuiet ? 'idle' : 'ok';
    const id = `face:${face.uri}`;
    graph.nodes.push({ id, label: shortUri(face), kind: kindOf(face), health, values });
    graph.links.push({ id, from: 'router', to: id, health, values });
  }
  return graph;
}

/** A face that has sent Interests and never received anything. */
const isSilent = (face: Face): boolean =>
  face.out_interests > 20 && face.in_data === 0 && face.in_nacks === 0 && face.in_interests === 0;

function kindOf(face: Face): string {
  if (face.link_type === 'multi-access') return 'group';
  return face.scope === 'local' ? 'application' : 'peer';
}

const shortUri = (face: Face): string =>
  face.scope === 'local' ? `application (face ${face.face_id})` : face.uri.replace(/^\w+:\/\//, '');

const RouterTap = ({ model }: { model: RouterModel }) => (
  <TapView
    path="/v1/tap"
    faces={model.outerFaces().map(({ face_id, uri }) => ({
      id: face_id,
      text: `${face_id}: ${uri}`,
    }))}
  />
);
