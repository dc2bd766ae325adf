// The tap of one instance of a network: at its faces, or at an element inside of it.

import { TapView } from '../tap/view';
import { idOf, type NetworkModel } from './model';

/** Where packets are tapped: an instance, and the name of an element inside, or '' for its faces. */
export interface TapPlace {
  instance: string;
  element: string;
}

export function NetworkTap(props: {
  model: NetworkModel;
  place: TapPlace | undefined;
  onPlace(place: TapPlace): void;
}) {
  const instances = props.model.graph!.instances;
  const chosen = instances.find((one) => idOf(one) === props.place?.instance) ?? instances[0];
  if (!chosen) return <p class="empty">No instance runs.</p>;
  const name = encodeURIComponent(`${chosen.name}@${chosen.host}`);
  // An element that the instance has no more is not chosen any more.
  const element = chosen.elements.find((one) => one.name === props.place?.element)?.name ?? '';
  return (
    <TapView
      path={`/v1/instances/${name}/tap`}
      element={element}
      before={
        <>
          <label>
            Instance{' '}
            <select
              value={idOf(chosen)}
              onChange={(event) =>
                props.onPlace({ instance: event.currentTarget.value, element: '' })
              }
            >
              {instances.map((one) => (
                <option value={idOf(one)}>{idOf(one)}</option>
              ))}
            </select>
          </label>
          <label>
            At{' '}
            <select
              value={element}
              onChange={(event) =>
                props.onPlace({ instance: idOf(chosen), element: event.currentTarget.value })
              }
            >
              <option value="">its faces</option>
              {chosen.elements.map((one) => (
                <option value={one.name}>outputs of {one.name}</option>
              ))}
            </select>
          </label>
        </>
      }
    />
  );
}
