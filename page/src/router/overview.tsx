// The overview of a router: rates, tables, why packets were dropped, and the first steps.

import { bits, bytes, count, duration, percent, rate } from '../format';
import { Chart, Commands, Empty, Tile } from '../parts';
import type { RouterModel, Schemas } from './model';

export function Overview({ model, tick }: { model: RouterModel; tick: number }) {
  const { status, total } = model;
  if (!status) return <Empty>Waiting for the router.</Empty>;
  const { forwarder, content_store: store } = status;
  const asked = store.hits + store.misses;
  const uptime = (forwarder.current_timestamp_ms - forwarder.start_timestamp_ms) / 1000;
  const busy = model.top;
  return (
    <>
      {isFresh(model) && <FirstRun />}
      <div class="tiles">
        <Tile title="Interests in" value={`${rate(total.inInterests)}/s`}>
          {count(forwarder.in_interests)} since start
        </Tile>
        <Tile title="Data out" value={`${rate(total.outData)}/s`}>
          {bits(total.outBytes)} sent
        </Tile>
        <Tile title="Pending Interests" value={count(forwarder.pit_entries)}>
          {count(forwarder.satisfied_interests)} answered, {count(forwarder.unsatisfied_interests)}{' '}
          not
        </Tile>
        <Tile
          title="Content store"
          value={asked ? `${percent(store.hits / asked)} hits` : count(store.entries)}
        >
          {count(store.entries)} of {count(store.capacity)} packets,{' '}
          {bytes(status.content_store_bytes)}
        </Tile>
        <Tile title="Dropped" value={`${rate(model.dropRate)}/s`}>
          {count(model.drops.reduce((sum, drop) => sum + drop.count, 0))} since start
        </Tile>
        <Tile title="Running" value={duration(uptime)}>
          {status.shards?.length ?? 1} forwarding thread
          {(status.shards?.length ?? 1) > 1 ? 's' : ''}
        </Tile>
      </div>
      <section class="card">
        <h2>Packets per second, last five minutes</h2>
        <Chart
          curves={model.curves}
          tick={tick}
          format={(value) => count(value)}
          label="Curves of Interests received, Data received, Data sent and drops per second"
          lines={[
            { text: 'Interests in', color: 'curve-1' },
            { text: 'Data in', color: 'curve-2', dash: [6, 3] },
            { text: 'Data out', color: 'curve-3', dash: [2, 3] },
            { text: 'Dropped', color: 'failed', dash: [8, 3, 2, 3] },
          ]}
        />
      </section>
      <div class="columns">
        <Reasons
          title="Dropped packets by reason"
          counts={model.drops}
          empty="No packet was dropped."
        />
        <Reasons
          title="Ended as expected"
          counts={model.done}
          empty="Nothing yet."
          note="Answers of the content store and aggregated Interests are not drops."
        />
        <section class="card">
          <h2>Busiest prefixes</h2>
          {busy && busy.prefixes.length > 0 ? (
            <table>
              <thead>
                <tr>
                  <th scope="col">Prefix</th>
                  <th scope="col" class="number">
                    Interests
                  </th>
                  <th scope="col" class="number">
                    Data
                  </th>
                </tr>
              </thead>
              <tbody>
                {busy.prefixes.slice(0, 8).map((prefix) => (
                  <tr>
                    <th scope="row" class="name">
                      {prefix.prefix}
                    </th>
                    <td class="number">{count(prefix.interests)}</td>
                    <td class="number">{count(prefix.data)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          ) : (
            <Empty>No traffic since this page watches.</Empty>
          )}
        </section>
      </div>
    </>
  );
}

function Reasons(props: {
  title: string;
  counts: Schemas['DropCount'][];
  empty: string;
  note?: string;
}) {
  const counts = [...props.counts].sort((a, b) => b.count - a.count);
  return (
    <section class="card">
      <h2>{props.title}</h2>
      {counts.length === 0 ? (
        <Empty>{props.empty}</Empty>
      ) : (
        <table>
          <thead>
            <tr>
              <th scope="col">Reason</th>
              <th scope="col" class="number">
                Packets
              </th>
            </tr>
          </thead>
          <tbody>
            {counts.map(({ reason, count: packets }) => (
              <tr>
                <th scope="row">{reason.replaceAll(/[_-]/g, ' ')}</th>
                <td class="number">{count(packets)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {props.note && <p class="note">{props.note}</p>}
    </section>
  );
}

/** A router without a face to another one and without a route. */
const isFresh = (model: RouterModel): boolean =>
  model.routes.length === 0 &&
  !model
    .outerFaces()
    .some((face) => face.scope === 'non-local' && face.persistency !== 'on-demand');

function FirstRun() {
  return (
    <section class="card first-run" aria-labelledby="first-run">
      <h2 id="first-run">This router is new: three commands to begin with</h2>
      <Commands
        lines={[
          'nw ping-server /example                   # answer Interests, in a second terminal',
          'nw ping /example                          # send some and see the round-trip time',
          'nw route add /ndn udp4://ROUTER:6363      # reach another router (its address for ROUTER)',
        ]}
      />
      <p class="note">
        This page shows what they change within a second. The third is also a form under Routes.
      </p>
    </section>
  );
}
