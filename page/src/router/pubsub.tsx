// Publish/subscribe: the information graph (scopes and items), who publishes and subscribes, other
// nodes, and the trees of an item. It is asked for while it is shown only.

import { useEffect, useMemo, useState } from 'preact/hooks';
import { request } from '../api';
import { count } from '../format';
import type { MapGraph, MapLink, MapNode } from '../map/model';
import { MapView } from '../map/view';
import { Empty, Tile } from '../parts';
import type { Schemas } from './model';

type Status = Schemas['PubSubStatus'];
type Trace = Schemas['NameTrace'];

const INTERVAL_MS = 1000;
/** Items on the map; the table of items lists more. */
const ITEMS_MAX = 300;
const ROWS_MAX = 500;

export function PubSub() {
  const [status, setStatus] = useState<Status>();
  const [error, setError] = useState('');
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    let isOver = false;
    const turn = async () => {
      try {
        setStatus(await request<Status>('GET', '/v1/pubsub'));
        setError('');
      } catch (failure) {
        setError(failure instanceof Error ? failure.message : String(failure));
      }
      if (!isOver) timer = setTimeout(() => void turn(), INTERVAL_MS);
    };
    void turn();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, []);
  const graph = useMemo(() => (status ? pubsubGraph(status) : undefined), [status]);
  if (!status || !graph) return <Empty>{error || 'Waiting for publish/subscribe.'}</Empty>;
  const delivered = status.applications.reduce((sum, app) => sum + app.delivered, 0);
  const lost = status.applications.reduce((sum, app) => sum + app.lost, 0);
  return (
    <>
      {error && (
        <p class="banner" role="alert">
          {error}
        </p>
      )}
      <div class="tiles">
        <Tile title="Items" value={count(status.items.length + status.items_omitted)} />
        <Tile title="Applications" value={count(status.applications.length)} />
        <Tile title="Delivered" value={count(delivered)}>
          {lost > 0 ? `${count(lost)} lost` : 'none lost'}
        </Tile>
        <Tile title="Other nodes" value={count(status.nodes.length)}>
          {status.node ? `this node is ${status.node}` : 'no domain'}
        </Tile>
      </div>
      <MapView
        graph={graph}
        storageKey="pubsub"
        labels={[{ name: 'what', text: 'what a link means', format: String }]}
        columns={[
          { name: 'published', text: 'Published', format: count },
          { name: 'subscribers', text: 'Subscribers', format: count },
          { name: 'delivered', text: 'Delivered', format: count },
          { name: 'lost', text: 'Lost', format: count },
        ]}
        panel={(node) => <Details key={node.id} node={node} status={status} />}
      />
      <ItemTable status={status} />
    </>
  );
}

function ItemTable({ status }: { status: Status }) {
  if (status.items.length === 0)
    return (
      <section class="card recorded">
        <Empty>
          No item is announced. On a terminal: nw sub '/sensors/**' &amp; nw pub
          /sensors/room1/temperature 21.5
        </Empty>
      </section>
    );
  return (
    <section class="card recorded">
      <h2>Items</h2>
      <div class="scroll tall" tabIndex={0} role="region" aria-label="Items">
        <table id="items">
          <thead>
            <tr>
              <th scope="col">Item</th>
              <th scope="col">Publisher</th>
              <th scope="col" class="number">
                Published
              </th>
              <th scope="col" class="number">
                Subscribers
              </th>
              <th scope="col" class="number">
                Nodes
              </th>
            </tr>
          </thead>
          <tbody>
            {status.items.slice(0, ROWS_MAX).map((item) => (
              <tr>
                <th scope="row" class="name">
                  {item.name}
                </th>
                <td>{item.node ? `node ${item.node}` : `application ${item.session}`}</td>
                <td class="number">{count(item.published)}</td>
                <td class="number">{count(item.subscribers)}</td>
                <td class="number">{count(item.nodes)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {status.items.length + status.items_omitted > ROWS_MAX && (
        <p class="note">The first {ROWS_MAX} are listed.</p>
      )}
    </section>
  );
}

/** Values that number something, and count nothing. */
const NUMBERS = ['application', 'process', 'node'];

function Details({ node, status }: { node: MapNode; status: Status }) {
  const item = node.kind === 'item' ? node.id.slice('item:'.length) : undefined;
  const [trace, setTrace] = useState<Trace>();
  useEffect(() => {
    if (item)
      request<Trace>('GET', `/v1/pubsub/trace?name=${encodeURIComponent(item)}`).then(
        setTrace,
        () => setTrace(undefined),
      );
  }, [item, status]);
  const app = status.applications.find(({ session }) => node.id === `app:${session}`);
  const other = status.nodes.find((candidate) => node.id === `node:${candidate.node}`);
  const patterns = app?.subscriptions ?? other?.subscriptions ?? [];
  return (
    <>
      <dl>
        {Object.entries(node.values).map(([name, value]) => (
          <>
            <dt>{name[0]!.toUpperCase() + name.slice(1)}</dt>
            <dd>{typeof value === 'number' && !NUMBERS.includes(name) ? count(value) : value}</dd>
          </>
        ))}
      </dl>
      {patterns.length > 0 && (
        <>
          <h3>Subscribes to</h3>
          <ul class="tree">
            {patterns.map((pattern) => (
              <li class="name">{pattern}</li>
            ))}
          </ul>
        </>
      )}
      {trace?.publishers.map((publisher) => (
        <>
          <h3>
            Subscribers of{' '}
            {publisher.item.node
              ? `node ${publisher.item.node}`
              : `application ${publisher.item.session}`}
          </h3>
          <ul class="tree">
            {publisher.subscribers.map((subscriber) => (
              <li>
                {subscriber.program} (application {subscriber.session}),{' '}
                {subscriber.delivery === 'ring' ? 'by shared memory' : 'by messages'}
              </li>
            ))}
            {publisher.links.map((link) => (
              <li class="name">tree: {link.replace(' ', ' → ')}</li>
            ))}
          </ul>
        </>
      ))}
    </>
  );
}

/** Returns the information graph with publishers, subscribers and nodes. */
export function pubsubGraph(status: Status): MapGraph {
  const nodes = new Map<string, MapNode>();
  const links = new Map<string, MapLink>();
  const add = (id: string, label: string, kind: string, values: MapNode['values']) => {
    if (!nodes.has(id)) nodes.set(id, { id, label, kind, health: 'idle', values });
    return nodes.get(id)!;
  };
  const link = (from: string, to: string, what: string) => {
    if (nodes.has(from) && nodes.has(to))
      links.set(`${from}>${to}`, { id: `${from}>${to}`, from, to, health: 'ok', values: { what } });
  };
  for (const app of status.applications)
    add(`app:${app.session}`, app.program || `application ${app.session}`, 'application', {
      application: app.session,
      process: app.pid,
      delivered: app.delivered,
      lost: app.lost,
    }).health = app.lost > 0 ? 'warning' : 'ok';
  for (const other of status.nodes)
    add(`node:${other.node}`, `node ${other.node}`, 'peer', {
      hops: other.hops,
      address: other.address,
    }).health = other.hops > 0 ? 'ok' : 'warning';
  for (const item of status.items.slice(0, ITEMS_MAX)) {
    const parts = item.name.split('/').slice(1);
    const id = `item:${item.name}`;
    let parent = '';
    parts.slice(0, -1).forEach((part, at) => {
      const scope = `scope:/${parts.slice(0, at + 1).join('/')}`;
      add(scope, part, 'scope', {});
      if (parent) link(parent, scope, '');
      parent = scope;
    });
    const known = nodes.get(id);
    const node = add(id, parts.at(-1) ?? item.name, 'item', {
      name: item.name,
      published: item.published,
      subscribers: item.subscribers,
      nodes: item.nodes,
    });
    if (known) node.values['published'] = Number(node.values['published']) + item.published;
    if (item.published > 0) node.health = 'ok';
    if (parent) link(parent, id, '');
    link(item.node ? `node:${item.node}` : `app:${item.session}`, id, 'publishes');
    for (const app of status.applications)
      if (app.subscriptions.some((pattern) => matches(pattern, item.name)))
        link(id, `app:${app.session}`, 'subscribed');
    for (const other of status.nodes)
      if (other.subscriptions.some((pattern) => matches(pattern, item.name)))
        link(id, `node:${other.node}`, 'subscribed');
  }
  return { nodes: [...nodes.values()], links: [...links.values()] };
}

/** Returns whether a pattern covers a name: `*` is one component, `**` at the end any number. */
export function matches(pattern: string, name: string): boolean {
  const [wanted, parts] = [pattern.split('/').slice(1), name.split('/').slice(1)];
  for (const [at, part] of wanted.entries()) {
    if (part === '**') return true;
    if (at >= parts.length || (part !== '*' && part !== parts[at])) return false;
  }
  return wanted.length === parts.length;
}
