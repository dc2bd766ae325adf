// The view of a balancer: members and their shares, where a name goes, drain and weights.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { request, RequestError, type Connection } from '../api';
import { bits, count, duration, percent, rate } from '../format';
import type { Health, MapGraph } from '../map/model';
import { HealthMark, MapView } from '../map/view';
import { ConfirmButton, Empty, Tile, useCommand } from '../parts';
import { Tabs } from '../tabs';
import type { components } from '../types/balancer';

type Schemas = components['schemas'];
type Status = Schemas['BalancerStatus'];
type Member = Schemas['BalancerMember'];

const INTERVAL_MS = 1000;

interface MemberRate {
  interests: number;
  bytes: number;
}

export function ClusterView(props: {
  host: string;
  onConnection(connection: Connection, error?: RequestError): void;
}) {
  const [status, setStatus] = useState<Status>();
  const [rates, setRates] = useState(new Map<string, MemberRate>());
  const before = useRef<{ atMs: number; members: Map<string, Member> } | undefined>(undefined);
  const refresh = async () => {
    const now = await request<Status>('GET', '/v1/balancer');
    const atMs = performance.now();
    setRates(ratesBetween(before.current, now.members, atMs));
    before.current = { atMs, members: new Map(now.members.map((member) => [member.name, member])) };
    setStatus(now);
  };
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    let isOver = false;
    const turn = async () => {
      try {
        await refresh();
        props.onConnection('live');
      } catch (error) {
        props.onConnection('lost', error instanceof RequestError ? error : undefined);
      }
      if (!isOver) timer = setTimeout(() => void turn(), INTERVAL_MS);
    };
    void turn();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, []);
  if (!status)
    return (
      <main>
        <Empty>Waiting for the balancer.</Empty>
      </main>
    );
  return (
    <Tabs
      tabs={[
        {
          id: 'overview',
          text: 'Members',
          view: () => <Members status={status} rates={rates} refresh={refresh} />,
        },
        { id: 'map', text: 'Map', view: () => <ClusterMap status={status} rates={rates} /> },
        { id: 'names', text: 'Names', view: () => <WhereIs /> },
      ]}
    />
  );
}

function ratesBetween(
  before: { atMs: number; members: Map<string, Member> } | undefined,
  members: Member[],
  atMs: number,
) {
  const rates = new Map<string, MemberRate>();
  for (const { name, counters } of members) {
    const earlier = before?.members.get(name)?.counters ?? counters;
    const seconds = before ? (atMs - before.atMs) / 1000 : 1;
    rates.set(name, {
      interests: Math.max(0, counters.in_interests - earlier.in_interests) / seconds,
      bytes:
        Math.max(0, counters.in_bytes + counters.out_bytes - earlier.in_bytes - earlier.out_bytes) /
        seconds,
    });
  }
  return rates;
}

function healthOf(member: Member): Health {
  if (member.state === 'failed' || member.healthy === false) return 'failed';
  if (member.trouble || !member.reachable) return 'warning';
  return member.state === 'active' ? 'ok' : 'idle';
}

function Members({
  status,
  rates,
  refresh,
}: {
  status: Status;
  rates: Map<string, MemberRate>;
  refresh(): Promise<void>;
}) {
  const command = useCommand();
  const change = (member: Member, wanted: Schemas['MemberChange'], text: string) =>
    void command.run(async () => {
      await request('PATCH', `/v1/members/${encodeURIComponent(member.name)}`, wanted);
      await refresh();
      return text;
    });
  const load = [...rates.values()].reduce((sum, { interests }) => sum + interests, 0);
  return (
    <>
      {status.warnings.map((warning) => (
        <p class="banner" role="alert">
          {warning}
        </p>
      ))}
      <div class="tiles">
        <Tile title="Load" value={`${rate(load)}/s`}>
          Interests to members
        </Tile>
        <Tile
          title="Members"
          value={`${status.members.filter(({ state }) => state === 'active').length} active`}
        >
          of {status.members.length}
        </Tile>
        <Tile title="Routes" value={count(status.routes.routes)}>
          copied to members, {status.routes.skipped} skipped
        </Tile>
        <Tile title="Running" value={duration(status.uptime_s)}>
          {status.cluster}, {status.addresses.join(', ')}
        </Tile>
        {status.elastic && (
          <Tile
            title="Autoscaler"
            value={`${percent(status.elastic.load_per_s / Math.max(1, status.elastic.capacity_per_s))} used`}
          >
            {status.elastic.says}
          </Tile>
        )}
      </div>
      <section class="card">
        <h2>Members</h2>
        {command.message}
        <div class="scroll" tabIndex={0} role="region" aria-label="Members">
          <table id="members">
            <thead>
              <tr>
                <th scope="col">Member</th>
                <th scope="col">State</th>
                <th scope="col">Share of names</th>
                <th scope="col" class="number">
                  Interests/s
                </th>
                <th scope="col" class="number">
                  Traffic
                </th>
                <th scope="col" class="number">
                  Probe
                </th>
                <th scope="col">Weight</th>
                <th scope="col">
                  <span class="hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {status.members.map((member) => (
                <tr>
                  <th scope="row">
                    {member.name}
                    {member.control ? ' (control)' : ''}
                  </th>
                  <td>
                    <HealthMark health={healthOf(member)} /> {member.state}
                    {member.trouble ? `: ${member.trouble}` : ''}
                  </td>
                  <td>
                    <meter
                      min="0"
                      max="1"
                      value={member.share}
                      aria-label={`Share of ${member.name}`}
                    />{' '}
                    {percent(member.share)}
                  </td>
                  <td class="number">{rate(rates.get(member.name)?.interests ?? 0)}</td>
                  <td class="number">{bits(rates.get(member.name)?.bytes ?? 0)}</td>
                  <td class="number">{member.probe_us != null ? `${member.probe_us} µs` : '–'}</td>
                  <td>
                    <Weight
                      member={member}
                      onChange={(weight) =>
                        change(member, { weight }, `${member.name} has the weight ${weight}.`)
                      }
                    />
                  </td>
                  <td>
                    {member.state === 'draining' || member.state === 'drained' ? (
                      <button
                        type="button"
                        onClick={() =>
                          change(member, { drain: false }, `${member.name} gets names again.`)
                        }
                      >
                        Activate
                      </button>
                    ) : (
                      <ConfirmButton
                        text="Drain"
                        label={`Drain ${member.name}`}
                        onConfirm={() =>
                          change(member, { drain: true }, `${member.name} gets no new names.`)
                        }
                      />
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </section>
    </>
  );
}

function Weight({ member, onChange }: { member: Member; onChange(weight: string): void }) {
  const shown = member.measured ? 'measured' : String(member.weight);
  const [value, setValue] = useState<string>();
  const submit = (event: Event) => {
    event.preventDefault();
    if (value && value !== shown) onChange(value.trim());
    setValue(undefined);
  };
  return (
    <form class="inline" onSubmit={submit}>
      <input
        aria-label={`Weight of ${member.name}`}
        size={8}
        value={value ?? shown}
        onInput={(e) => setValue(e.currentTarget.value)}
      />
      {value !== undefined && <button type="submit">Set</button>}
    </form>
  );
}

function ClusterMap({ status, rates }: { status: Status; rates: Map<string, MemberRate> }) {
  const graph = useMemo((): MapGraph => {
    const nodes: MapGraph['nodes'] = [
      {
        id: 'balancer',
        label: status.cluster,
        kind: 'balancer',
        health: status.warnings.length ? 'warning' : 'ok',
        x: 0,
        y: 0,
        values: {},
      },
    ];
    const links: MapGraph['links'] = [];
    for (const member of status.members) {
      const own = rates.get(member.name);
      const values = {
        rate: own?.interests ?? 0,
        bytes: own?.bytes ?? 0,
        share: member.share,
        weight: member.weight,
        state: member.state,
      };
      nodes.push({
        id: member.name,
        label: member.name,
        kind: 'member',
        health: healthOf(member),
        values,
      });
      links.push({
        id: member.name,
        from: 'balancer',
        to: member.name,
        health: healthOf(member),
        values,
      });
    }
    return { nodes, links };
  }, [status, rates]);
  return (
    <MapView
      graph={graph}
      storageKey="cluster"
      labels={[
        { name: 'rate', text: 'Interests/s', format: (value) => `${rate(value)}/s` },
        { name: 'share', text: 'share of names', format: percent },
        { name: 'bytes', text: 'bit/s', format: bits },
      ]}
      columns={[
        { name: 'rate', text: 'Interests/s', format: rate },
        { name: 'share', text: 'Share', format: percent },
        { name: 'weight', text: 'Weight', format: String },
      ]}
      panel={(node) => {
        const member = status.members.find(({ name }) => name === node.id);
        if (!member) return <p>{status.members.length} members.</p>;
        const rows: [string, string][] = [
          ['State', `${member.state} since ${duration(member.since_s)}`],
          ['Addresses', `${member.addresses.join(', ')} port ${member.port}`],
          ['Share', percent(member.share)],
          ['Routes', member.has_routes ? 'all' : 'not yet'],
          ['Interests', count(member.counters.in_interests)],
          ['Data back', count(member.counters.out_data)],
        ];
        return (
          <dl>
            {rows.map(([term, value]) => (
              <>
                <dt>{term}</dt>
                <dd>{value}</dd>
              </>
            ))}
          </dl>
        );
      }}
    />
  );
}

function WhereIs() {
  const command = useCommand();
  const [name, setName] = useState('');
  const [where, setWhere] = useState<Schemas['NameWhere']>();
  const submit = (event: Event) => {
    event.preventDefault();
    void command.run(async () => {
      setWhere(
        await request<Schemas['NameWhere']>(
          'GET',
          `/v1/where?${new URLSearchParams({ name: name.trim() })}`,
        ),
      );
      return undefined;
    });
  };
  return (
    <section class="card">
      <h2>Where does a name go?</h2>
      <form class="inline" onSubmit={submit}>
        <label>
          Name{' '}
          <input
            required
            value={name}
            placeholder="/example/film"
            size={30}
            onInput={(e) => setName(e.currentTarget.value)}
          />
        </label>
        <button type="submit" class="primary">
          Find
        </button>
      </form>
      {command.message}
      {where && (
        <p>
          <b class="name">{where.name}</b> goes to{' '}
          <b>{where.member ?? 'no member: none is active'}</b>, by{' '}
          {where.by === 'control' ? 'a rule of control names' : `the hash of ${where.hashed}`}
          {where.slot != null ? ` (slot ${where.slot})` : ''}.
        </p>
      )}
    </section>
  );
}
