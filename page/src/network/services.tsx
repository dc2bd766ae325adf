// Services: how many instances there are and why, with curves.

import { count } from '../format';
import { Chart } from '../parts';
import { ScaleForm } from './panel';
import type { NetworkModel } from './model';

export function Services({ model, tick }: { model: NetworkModel; tick: number }) {
  return (
    <div class="columns">
      {model.graph!.services.map((service) => {
        const curves = model.services.get(service.name);
        return (
          <section class="card">
            <h2>
              {service.name}{' '}
              <span class="note">
                {service.running} of {service.wanted} run, {service.min} to {service.max} permitted
                {service.pinned ? ', set by a person' : ''}
                {service.origin === 'document' ? '' : `, by ${service.origin}`}
              </span>
            </h2>
            {curves && (
              <Chart
                curves={curves}
                tick={tick}
                height={110}
                format={(value) => count(value)}
                label={`Instances and Interests per second of ${service.name}`}
                lines={[
                  { text: 'instances', color: 'curve-3', ownScale: true },
                  { text: 'Interests/s', color: 'curve-1', dash: [6, 3] },
                ]}
              />
            )}
            <ScaleForm service={service.name} model={model} />
          </section>
        );
      })}
    </div>
  );
}
