// Scaling and defence as they happen: what was decided and why, what ended, and which elements
// people keep from countermeasures.

import { useState } from 'preact/hooks';
import { request } from '../api';
import { clock } from '../format';
import { ConfirmButton, Empty, useCommand } from '../parts';
import { idOf, type NetworkEvent, type NetworkModel } from './model';

const DECISIONS: readonly string[] = [
  'scaled',
  'defence',
  'condition-began',
  'condition-ended',
  'instance-ended',
];
const ROWS_MAX = 100;
const SIGNS: Record<string, string> = {
  scaled: '↕',
  defence: '◆',
  'condition-began': '!',
  'condition-ended': '✓',
  'instance-ended': '✕',
};

export const isDecision = (event: NetworkEvent): boolean => DECISIONS.includes(event.kind);

export function Decisions({ model }: { model: NetworkModel }) {
  const decisions = model.events.filter(isDecision).slice(-ROWS_MAX).reverse();
  const added = model.graph!.instances.filter(({ origin }) => origin === 'defence');
  return (
    <>
      <section class="card">
        <h2>Scaling and defence</h2>
        {decisions.length === 0 ? (
          <Empty>Nothing was decided since the manager started.</Empty>
        ) : (
          <div class="scroll tall" tabIndex={0} role="region" aria-label="Scaling and defence">
            <table id="decisions">
              <thead>
                <tr>
                  <th scope="col">Time</th>
                  <th scope="col">What</th>
                  <th scope="col">About</th>
                  <th scope="col">Why</th>
                </tr>
              </thead>
              <tbody aria-live="polite">
                {decisions.map((event) => (
                  <tr key={event.number}>
                    <td>{clock(event.at_ms)}</td>
                    <td>
                      <span aria-hidden="true">{SIGNS[event.kind]}</span>{' '}
                      {event.kind.replaceAll('-', ' ')}
                    </td>
                    <td class="name">{event.instance ?? event.subject ?? ''}</td>
                    <td>{event.text}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </section>
      <section class="card">
        <h2>Countermeasures</h2>
        {added.length === 0 ? (
          <Empty>No instance was added by a defence.</Empty>
        ) : (
          <ul>
            {added.map((instance) => (
              <li>
                <span class="name">{idOf(instance)}</span>
                {instance.reason ? `: ${instance.reason}` : ''}
              </li>
            ))}
          </ul>
        )}
        <Veto model={model} />
      </section>
    </>
  );
}

/** Keeps countermeasures away from an element, or lets them come back. */
function Veto({ model }: { model: NetworkModel }) {
  const elements = [
    ...new Set(model.graph!.instances.flatMap(({ elements: own }) => own.map(({ name }) => name))),
  ].sort();
  const [element, setElement] = useState('');
  const command = useCommand();
  const set = (forbidden: boolean) =>
    void command.run(async () => {
      const wanted = element || elements[0];
      await request('PUT', `/v1/countermeasures/${encodeURIComponent(wanted!)}/veto`, {
        forbidden,
      });
      return forbidden
        ? `Countermeasures at ${wanted} are forbidden; what is in effect there is removed.`
        : `Countermeasures at ${wanted} are allowed.`;
    });
  if (elements.length === 0) return null;
  return (
    <div class="inline">
      <label>
        At element{' '}
        <select value={element || elements[0]} onChange={(e) => setElement(e.currentTarget.value)}>
          {elements.map((name) => (
            <option value={name}>{name}</option>
          ))}
        </select>
      </label>{' '}
      <ConfirmButton
        text="Forbid countermeasures"
        label="Forbid countermeasures"
        onConfirm={() => set(true)}
      />{' '}
      <button type="button" disabled={command.isBusy} onClick={() => set(false)}>
        Allow them
      </button>
      {command.message}
    </div>
  );
}
