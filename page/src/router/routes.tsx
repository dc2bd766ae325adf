// Routes and strategies: lists, adding, changing, removing.

import { useState } from 'preact/hooks';
import { request } from '../api';
import { ConfirmButton, Empty, useCommand } from '../parts';
import type { RouterModel, Schemas } from './model';

const query = (values: Record<string, string | number>) =>
  new URLSearchParams(
    Object.entries(values).map(([key, value]) => [key, String(value)]),
  ).toString();

export function Routes({ model }: { model: RouterModel }) {
  const command = useCommand();
  const remove = (prefix: string, route: Schemas['Route']) =>
    void command.run(async () => {
      await request(
        'DELETE',
        `/v1/routes?${query({ prefix, face_id: route.face_id, origin: route.origin })}`,
      );
      return `The route of ${prefix} by face ${route.face_id} is removed.`;
    });
  return (
    <>
      <AddRoute model={model} />
      <section class="card">
        <h2>Routes</h2>
        {command.message}
        {model.routes.length === 0 ? (
          <Empty>
            No route yet: an Interest that no application answers is refused. Add one above.
          </Empty>
        ) : (
          <div class="scroll" tabIndex={0} role="region" aria-label="Routes">
            <table id="routes">
              <thead>
                <tr>
                  <th scope="col">Prefix</th>
                  <th scope="col">Next hop</th>
                  <th scope="col" class="number">
                    Cost
                  </th>
                  <th scope="col">Origin</th>
                  <th scope="col">Options</th>
                  <th scope="col">
                    <span class="hidden">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {model.routes.flatMap(({ name, routes }) =>
                  routes.map((route) => (
                    <tr>
                      <th scope="row" class="name">
                        {name}
                      </th>
                      <td class="name">
                        {route.face_id}: {model.faces.get(route.face_id)?.uri ?? 'closed'}
                      </td>
                      <td class="number">{route.cost}</td>
                      <td>{route.origin}</td>
                      <td>
                        {route.flags.join(', ')}
                        {route.expiration_period_ms
                          ? `, expires in ${Math.round(route.expiration_period_ms / 1000)} s`
                          : ''}
                      </td>
                      <td>
                        <ConfirmButton
                          text="Remove"
                          label={`Remove the route of ${name} by face ${route.face_id}`}
                          onConfirm={() => remove(name, route)}
                        />
                      </td>
                    </tr>
                  )),
                )}
              </tbody>
            </table>
          </div>
        )}
      </section>
    </>
  );
}

function AddRoute({ model }: { model: RouterModel }) {
  const command = useCommand();
  const [prefix, setPrefix] = useState('');
  const [face, setFace] = useState('');
  const [cost, setCost] = useState('0');
  const submit = (event: Event) => {
    event.preventDefault();
    void command.run(async () => {
      const wanted = { prefix: prefix.trim(), face_id: Number(face), cost: Number(cost) };
      const route = await request<{ name: string }>('PUT', '/v1/routes', wanted);
      return `${route.name} goes to face ${wanted.face_id}.`;
    });
  };
  return (
    <section class="card">
      <h2>Add or change a route</h2>
      <form class="inline" onSubmit={submit}>
        <label>
          Prefix{' '}
          <input
            id="route-prefix"
            required
            value={prefix}
            placeholder="/example"
            onInput={(e) => setPrefix(e.currentTarget.value)}
          />
        </label>
        <label>
          Face{' '}
          <select
            id="route-face"
            required
            value={face}
            onChange={(e) => setFace(e.currentTarget.value)}
          >
            <option value="">choose</option>
            {model.outerFaces().map(({ face_id, uri }) => (
              <option value={face_id}>
                {face_id}: {uri}
              </option>
            ))}
          </select>
        </label>
        <label>
          Cost{' '}
          <input
            type="number"
            min="0"
            value={cost}
            onInput={(e) => setCost(e.currentTarget.value)}
          />
        </label>
        <button type="submit" class="primary" disabled={command.isBusy}>
          Set route
        </button>
      </form>
      {command.message}
    </section>
  );
}

const STRATEGIES = ['best-route', 'multicast', 'asf', 'self-learning', 'random', 'access'];

export function Strategies({ model }: { model: RouterModel }) {
  const command = useCommand();
  const [prefix, setPrefix] = useState('');
  const [strategy, setStrategy] = useState(STRATEGIES[0]!);
  const submit = (event: Event) => {
    event.preventDefault();
    void command.run(async () => {
      const choice = await request<Schemas['StrategyChoice']>('PUT', '/v1/strategies', {
        prefix: prefix.trim(),
        strategy: strategy.trim(),
      });
      return `${choice.name} is forwarded by ${choice.strategy}.`;
    });
  };
  const unset = (name: string) =>
    void command.run(async () => {
      await request('DELETE', `/v1/strategies?${query({ prefix: name })}`);
      return `${name} has the strategy of the next shorter prefix.`;
    });
  return (
    <>
      <section class="card">
        <h2>Choose a strategy</h2>
        <form class="inline" onSubmit={submit}>
          <label>
            Prefix{' '}
            <input
              required
              value={prefix}
              placeholder="/example"
              onInput={(e) => setPrefix(e.currentTarget.value)}
            />
          </label>
          <label>
            Strategy{' '}
            <input
              required
              list="strategies"
              value={strategy}
              size={34}
              onInput={(e) => setStrategy(e.currentTarget.value)}
            />
            <datalist id="strategies">
              {STRATEGIES.map((name) => (
                <option value={name} />
              ))}
            </datalist>
          </label>
          <button type="submit" class="primary" disabled={command.isBusy}>
            Set strategy
          </button>
        </form>
        {command.message}
      </section>
      <section class="card">
        <h2>Strategies</h2>
        <table id="strategy-choices">
          <thead>
            <tr>
              <th scope="col">Prefix</th>
              <th scope="col">Strategy</th>
              <th scope="col">
                <span class="hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {model.strategies.map(({ name, strategy: chosen }) => (
              <tr>
                <th scope="row" class="name">
                  {name}
                </th>
                <td class="name">{String(chosen).replace('/localhost/nfd/strategy/', '')}</td>
                <td>
                  {name !== '/' && (
                    <ConfirmButton
                      text="Unset"
                      label={`Unset the strategy of ${name}`}
                      onConfirm={() => unset(name)}
                    />
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </>
  );
}
