// Faces: the list with rates, one face in detail, creating and closing.

import { useState } from 'preact/hooks';
import { request } from '../api';
import { bits, count, rate } from '../format';
import { Chart, ConfirmButton, Empty, useCommand } from '../parts';
import { isInternal, type Face, type RouterModel } from './model';

export function Faces({ model, tick }: { model: RouterModel; tick: number }) {
  const [withInternal, setWithInternal] = useState(false);
  const [selected, setSelected] = useState<number>();
  const command = useCommand();
  const faces = [...model.faces.values()].filter((face) => withInternal || !isInternal(face));
  const close = (face: Face) =>
    void command.run(async () => {
      await request('DELETE', `/v1/faces/${face.face_id}`);
      return `Face ${face.face_id} is closed.`;
    });
  const chosen = selected === undefined ? undefined : model.faces.get(selected);
  return (
    <>
      <CreateFace />
      <section class="card">
        <header class="row">
          <h2>Faces</h2>
          <label>
            <input
              type="checkbox"
              checked={withInternal}
              onChange={(e) => setWithInternal(e.currentTarget.checked)}
            />{' '}
            internal ones too
          </label>
        </header>
        {command.message}
        {faces.length === 0 ? (
          <Empty>No face yet: create one above, or let an application connect.</Empty>
        ) : (
          <div class="scroll" tabIndex={0} role="region" aria-label="Faces">
            <table id="faces">
              <thead>
                <tr>
                  <th scope="col">Face</th>
                  <th scope="col">Remote</th>
                  <th scope="col">Kind</th>
                  <th scope="col" class="number">
                    Interests in/s
                  </th>
                  <th scope="col" class="number">
                    Data in/s
                  </th>
                  <th scope="col" class="number">
                    Interests out/s
                  </th>
                  <th scope="col" class="number">
                    Data out/s
                  </th>
                  <th scope="col" class="number">
                    Received
                  </th>
                  <th scope="col" class="number">
                    Sent
                  </th>
                  <th scope="col">
                    <span class="hidden">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {faces.map((face) => {
                  const rates = model.ratesOf(face.face_id);
                  return (
                    <tr class={face.face_id === selected ? 'selected' : ''}>
                      <th scope="row">
                        <button
                          type="button"
                          class="link"
                          aria-label={`Details of face ${face.face_id}`}
                          onClick={() => setSelected(face.face_id)}
                        >
                          {face.face_id}
                        </button>
                      </th>
                      <td class="name">{face.uri}</td>
                      <td>
                        {face.persistency}, {face.scope}
                      </td>
                      <td class="number">{rate(rates.inInterests)}</td>
                      <td class="number">{rate(rates.inData)}</td>
                      <td class="number">{rate(rates.outInterests)}</td>
                      <td class="number">{rate(rates.outData)}</td>
                      <td class="number">{bits(rates.inBytes)}</td>
                      <td class="number">{bits(rates.outBytes)}</td>
                      <td>
                        {!isInternal(face) && (
                          <ConfirmButton
                            text="Close"
                            label={`Close face ${face.face_id}`}
                            onConfirm={() => close(face)}
                          />
                        )}
                      </td>
                    </tr>
                  );
                })}
              </tbody>
            </table>
          </div>
        )}
      </section>
      {chosen && (
        <section class="card" aria-label={`Face ${chosen.face_id}`}>
          <FaceDetails face={chosen} model={model} tick={tick} />
        </section>
      )}
    </>
  );
}

export function FaceDetails({
  face,
  model,
  tick,
}: {
  face: Face;
  model: RouterModel;
  tick: number;
}) {
  const curves = model.faceCurves.get(face.face_id);
  const rows: [string, string][] = [
    ['Remote', face.uri],
    ['Local', face.local_uri],
    ['Kind', `${face.persistency}, ${face.scope}, ${face.link_type}`],
    ['MTU', face.mtu ? `${face.mtu} bytes` : 'no limit'],
    ['Options', face.flags.join(', ') || 'none'],
    ['Interests', `${count(face.in_interests)} in, ${count(face.out_interests)} out`],
    ['Data', `${count(face.in_data)} in, ${count(face.out_data)} out`],
    ['Nacks', `${count(face.in_nacks)} in, ${count(face.out_nacks)} out`],
    [
      'Routes',
      model.routes
        .filter(({ routes }) => routes.some(({ face_id }) => face_id === face.face_id))
        .map(({ name }) => name)
        .join(', ') || 'none',
    ],
  ];
  return (
    <>
      <h3>Face {face.face_id}</h3>
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
          format={(value) => `${count(value)}`}
          label={`Bits per second of face ${face.face_id}`}
          lines={[
            { text: 'bit/s in', color: 'curve-1' },
            { text: 'bit/s out', color: 'curve-3', dash: [5, 3] },
          ]}
        />
      )}
    </>
  );
}

function CreateFace() {
  const command = useCommand();
  const [uri, setUri] = useState('');
  const [persistency, setPersistency] = useState('persistent');
  const submit = (event: Event) => {
    event.preventDefault();
    void command.run(async () => {
      const face = await request<Face>('POST', '/v1/faces', { uri: uri.trim(), persistency });
      setUri('');
      return `Face ${face.face_id} to ${face.uri} is created.`;
    });
  };
  return (
    <section class="card">
      <h2>Create a face</h2>
      <form class="inline" onSubmit={submit}>
        <label>
          Remote URI{' '}
          <input
            id="face-uri"
            required
            value={uri}
            placeholder="udp4://192.0.2.1:6363"
            size={30}
            onInput={(e) => setUri(e.currentTarget.value)}
          />
        </label>
        <label>
          Persistency{' '}
          <select value={persistency} onChange={(e) => setPersistency(e.currentTarget.value)}>
            <option value="persistent">persistent: until its socket fails</option>
            <option value="permanent">permanent: reconnects</option>
          </select>
        </label>
        <button type="submit" class="primary" disabled={command.isBusy}>
          Create face
        </button>
      </form>
      {command.message}
    </section>
  );
}
