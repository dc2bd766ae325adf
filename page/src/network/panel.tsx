// What stands beside the map: an instance with its values, curves, log and graph.

import { useEffect, useState } from 'preact/hooks';
import { request } from '../api';
import { bytes, count, duration, percent, rate } from '../format';
import type { MapNode } from '../map/model';
import { Chart, useCommand } from '../parts';
import { useList } from './lists';
import { idOf, type Instance, type NetworkModel, type Schemas } from './model';
import type { TapPlace } from './tap';

export function InstancePanel({
  node,
  model,
  tick,
  onTap,
}: {
  node: MapNode;
  model: NetworkModel;
  tick: number;
  /** Called when packets of the instance, or of an element inside, are to be shown. */
  onTap(place: TapPlace): void;
}) {
  const instance = model.graph!.instances.find((candidate) => idOf(candidate) === node.id);
  if (!instance) return <OtherPanel node={node} model={model} />;
  const rows: [string, string][] = [
    ['State', `${instance.state}${instance.reason ? `: ${instance.reason}` : ''}`],
    ['Host', `${instance.host}${instance.pid ? `, process ${instance.pid}` : ''}`],
    ['Added by', instance.origin],
    ['Running', duration(instance.uptime_s)],
    ['Processor', `${instance.cpu_cores.toFixed(2)} of ${instance.quota_cores ?? 1} core`],
    ['Memory', bytes(instance.resident_bytes)],
    ['Interests', `${rate(instance.rates.interests)}/s`],
    ['Data', `${rate(instance.rates.data)}/s`],
    ['Dropped', `${rate(instance.rates.dropped)}/s`],
    ['Pending', count(instance.pending)],
    [
      'Cached',
      `${count(instance.cached_packets)} packets${instance.hit_ratio != null ? `, ${percent(instance.hit_ratio)} hits` : ''}`,
    ],
  ];
  const curves = model.curves.get(node.id);
  const tap = (element: string) => {
    onTap({ instance: node.id, element });
    location.hash = 'tap';
  };
  return (
    <>
      <button type="button" onClick={() => tap('')}>
        Tap its packets
      </button>
      <dl>
        {rows.map(([term, value]) => (
          <>
            <dt>{term}</dt>
            <dd>{value}</dd>
          </>
        ))}
      </dl>
      {curves && (
        <Chart
          curves={curves}
          tick={tick}
          height={130}
          format={(value) => count(value)}
          label={`Curves of ${instance.name}`}
          lines={[
            { text: 'Interests/s', color: 'curve-1' },
            { text: 'Data/s', color: 'curve-2', dash: [6, 3] },
            { text: 'core %', color: 'curve-3', dash: [2, 3] },
          ]}
        />
      )}
      {instance.elements.map((element) => (
        <details>
          <summary>
            {element.name}: {element.element.replaceAll('_', ' ')}
          </summary>
          <button type="button" onClick={() => tap(element.name)}>
            Tap outputs of {element.name}
          </button>
          <dl>
            {Object.entries(element.values).map(([name, value]) => (
              <>
                <dt>{name.replaceAll('_', ' ')}</dt>
                <dd>{count(value)}</dd>
              </>
            ))}
          </dl>
        </details>
      ))}
      <InstanceRoutes instance={instance} />
      <ScaleForm service={instance.service} model={model} />
      <Texts instance={instance} />
    </>
  );
}

/** Routes of the instance's name routers. */
function InstanceRoutes({ instance }: { instance: Instance }) {
  const { value } = useList<Schemas['NetworkRoute'][]>('/v1/routes', idOf(instance));
  const routes = (value ?? []).filter((route) => route.instance === idOf(instance));
  if (routes.length === 0) return null;
  return (
    <details>
      <summary>{routes.length} routes</summary>
      <ul class="plain">
        {routes.map((route) => (
          <li>
            <span class="name">{route.prefix}</span> to {route.face}, by {route.by ?? route.origin}
          </li>
        ))}
      </ul>
    </details>
  );
}

function OtherPanel({ node, model }: { node: MapNode; model: NetworkModel }) {
  const service = model.graph!.services.find(({ name }) => node.id === `fold:${name}`);
  return (
    <>
      <dl>
        {Object.entries(node.values).map(([name, value]) => (
          <>
            <dt>{name}</dt>
            <dd>{typeof value === 'number' ? count(value) : value}</dd>
          </>
        ))}
      </dl>
      {service && <ScaleForm service={service.name} model={model} />}
    </>
  );
}

/** Sets the number of instances of a service, or lets load decide. */
export function ScaleForm({ service, model }: { service: string; model: NetworkModel }) {
  const scale = model.graph!.services.find(({ name }) => name === service);
  const [wanted, setWanted] = useState('');
  const command = useCommand();
  if (!scale || scale.max <= 1) return null;
  const set = (instances: number | null) =>
    void command.run(async () => {
      await request<Schemas['ServiceScale']>('PUT', `/v1/scale/${encodeURIComponent(service)}`, {
        instances,
      });
      return instances === null
        ? `Load decides the number of ${service}.`
        : `${service} gets ${instances} instances.`;
    });
  const submit = (event: Event) => {
    event.preventDefault();
    set(Number(wanted));
  };
  return (
    <form class="inline" onSubmit={submit}>
      <label>
        Instances of {service}{' '}
        <input
          type="number"
          required
          min={scale.min}
          max={scale.max}
          placeholder={String(scale.wanted)}
          value={wanted}
          onInput={(e) => setWanted(e.currentTarget.value)}
        />
      </label>
      <button type="submit" disabled={command.isBusy}>
        Set
      </button>
      <button type="button" disabled={!scale.pinned || command.isBusy} onClick={() => set(null)}>
        Let load decide
      </button>
      {scale.reason && <span class="note">{scale.reason}</span>}
      {command.message}
    </form>
  );
}

function Texts({ instance }: { instance: Instance }) {
  const [open, setOpen] = useState<'log' | 'graph'>();
  const [text, setText] = useState('');
  const path = `/v1/instances/${encodeURIComponent(`${instance.name}@${instance.host}`)}`;
  useEffect(() => {
    if (!open) return;
    const load = async () => {
      if (open === 'graph')
        return (
          (await request<Schemas['InstanceDetail']>('GET', path)).graph ?? 'It does not answer.'
        );
      return (
        (await request<Schemas['InstanceLog']>('GET', `${path}/logs?lines=60`)).lines.join('\n') ||
        'The log is empty.'
      );
    };
    load().then(setText, (error: Error) => setText(error.message));
  }, [open, path]);
  return (
    <>
      <p class="group">
        <button type="button" aria-pressed={open === 'log'} onClick={() => setOpen('log')}>
          Log
        </button>{' '}
        <button type="button" aria-pressed={open === 'graph'} onClick={() => setOpen('graph')}>
          Graph
        </button>
      </p>
      {open && (
        <pre tabIndex={0} aria-label={open === 'log' ? 'Log' : 'Graph'}>
          {text}
        </pre>
      )}
    </>
  );
}
