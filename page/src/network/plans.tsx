// Plans: steps as they are carried out; hold, resume, return to the version before.

import { useEffect, useState } from 'preact/hooks';
import { request } from '../api';
import { ConfirmButton, Empty, useCommand } from '../parts';
import type { NetworkModel, Schemas } from './model';

type Plan = Schemas['NetworkPlan'];

export function Plans({ model }: { model: NetworkModel }) {
  const graph = model.graph!;
  const command = useCommand();
  const [plan, setPlan] = useState<Plan>();
  const lastEvent = model.events.findLast((event) => event.plan)?.number;
  const id = graph.plan ?? model.events.findLast((event) => event.plan)?.plan;
  useEffect(() => {
    if (id)
      request<Plan>('GET', `/v1/plans/${encodeURIComponent(id)}`).then(setPlan, () =>
        setPlan(undefined),
      );
  }, [id, lastEvent, graph.state]);
  const post = (path: string, body: unknown, text: string) =>
    void command.run(async () => {
      await request('POST', path, body);
      return text;
    });
  return (
    <section class="card">
      <header class="row">
        <h2>
          Plan{' '}
          {plan && (
            <span class="note">
              {plan.state}
              {plan.version ? `, for version ${plan.version}` : ''}
            </span>
          )}
        </h2>
        <span class="group">
          {graph.state === 'held' ? (
            <button
              type="button"
              class="primary"
              onClick={() => post('/v1/resume', undefined, 'Changes go on.')}
            >
              Resume
            </button>
          ) : (
            <button
              type="button"
              onClick={() => post('/v1/hold', undefined, 'Changes are held from the next wave on.')}
            >
              Hold
            </button>
          )}{' '}
          <ConfirmButton
            text="Undo"
            label="Undo: return to the version before"
            onConfirm={() => post('/v1/undo', {}, 'The version before is in effect again.')}
          />
        </span>
      </header>
      {command.message}
      {plan ? (
        <Steps plan={plan} />
      ) : (
        <Empty>
          No plan has been carried out since this page watches. The network is {graph.state}.
        </Empty>
      )}
    </section>
  );
}

const SIGNS: Record<string, string> = {
  planned: '○',
  running: '▶',
  done: '✓',
  failed: '✕',
  undone: '↩',
  replaced: '–',
};

export function Steps({ plan }: { plan: Plan }) {
  if (plan.steps.length === 0)
    return <Empty>Nothing has to be done: the network is as the document says.</Empty>;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Steps">
      <table class="steps">
        <thead>
          <tr>
            <th scope="col">Step</th>
            <th scope="col">State</th>
            <th scope="col">What</th>
            <th scope="col">Instance</th>
            <th scope="col">Why</th>
            <th scope="col" class="number">
              Took
            </th>
          </tr>
        </thead>
        <tbody>
          {plan.steps.map((step) => (
            <tr class={step.state}>
              <th scope="row">{step.id}</th>
              <td>
                <span aria-hidden="true">{SIGNS[step.state]}</span> {step.state}
              </td>
              <td>{step.phase}</td>
              <td class="name">
                {step.instance}@{step.host}
              </td>
              <td>
                {step.reason}
                {step.remark ? ` ${step.remark}` : ''}
              </td>
              <td class="number">{step.took_ms != null ? `${step.took_ms} ms` : ''}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
