// A tap: packets as they are received and sent, and an inspector of one.

import { useEffect, useRef, useState } from 'preact/hooks';
import { readBytes } from '../api';
import { clock } from '../format';
import { Empty, useCommand } from '../parts';
import {
  CaptureReader,
  dissect,
  hex,
  summarize,
  type CapturedPacket,
  type Element,
} from './packet';
import type { RouterModel } from './model';

type Shown = CapturedPacket & { kind: string; name: string };
const PACKETS_MAX = 500;
const ROWS_MAX = 100;

export function Tap({ model }: { model: RouterModel }) {
  const [name, setName] = useState('');
  const [face, setFace] = useState('');
  const [kinds, setKinds] = useState('');
  const [packets, setPackets] = useState<Shown[]>([]);
  const [selected, setSelected] = useState<Shown>();
  const [running, setRunning] = useState(false);
  const abort = useRef<AbortController | undefined>(undefined);
  const command = useCommand();
  useEffect(() => () => abort.current?.abort(), []);

  const submit = (event: Event) => {
    event.preventDefault();
    const search = new URLSearchParams();
    if (name.trim()) search.set('name', name.trim());
    if (face) search.set('face', face);
    if (kinds) search.set('kind', kinds);
    const controller = new AbortController();
    abort.current = controller;
    const reader = new CaptureReader();
    setPackets([]);
    setSelected(undefined);
    void command.run(async () => {
      try {
        await readBytes(
          `/v1/tap?${search}`,
          controller.signal,
          (bytes) => {
            const read = reader
              .read(bytes)
              .map((packet) => ({ ...packet, ...summarize(dissect(packet.bytes)) }));
            if (read.length) setPackets((before) => [...before, ...read].slice(-PACKETS_MAX));
          },
          () => setRunning(true),
        );
        return 'The tap has ended.';
      } catch (error) {
        if (controller.signal.aborted) return 'The tap is stopped.';
        throw error;
      } finally {
        setRunning(false);
      }
    });
  };
  return (
    <>
      <section class="card">
        <h2>Tap</h2>
        <form class="inline" onSubmit={submit}>
          <label>
            Prefix{' '}
            <input
              id="tap-name"
              value={name}
              placeholder="all names"
              onInput={(e) => setName(e.currentTarget.value)}
            />
          </label>
          <label>
            Face{' '}
            <select value={face} onChange={(e) => setFace(e.currentTarget.value)}>
              <option value="">all</option>
              {model.outerFaces().map(({ face_id, uri }) => (
                <option value={face_id}>
                  {face_id}: {uri}
                </option>
              ))}
            </select>
          </label>
          <label>
            Packets{' '}
            <select value={kinds} onChange={(e) => setKinds(e.currentTarget.value)}>
              <option value="">all</option>
              <option value="interest">Interests</option>
              <option value="data">Data</option>
              <option value="nack">Nacks</option>
            </select>
          </label>
          <button type="submit" class="primary" disabled={running}>
            Start tap
          </button>
          <button type="button" disabled={!running} onClick={() => abort.current?.abort()}>
            Stop
          </button>
        </form>
        {running ? (
          <p class="outcome" role="status">
            {packets.length} packets. The last {PACKETS_MAX} are kept.
          </p>
        ) : (
          command.message
        )}
      </section>
      <div class="columns wide">
        <section class="card">
          <h2>Packets</h2>
          {packets.length === 0 ? (
            <Empty>No packet yet.</Empty>
          ) : (
            <div class="scroll tall" tabIndex={0} role="region" aria-label="Packets">
              <table id="packets">
                <thead>
                  <tr>
                    <th scope="col">Time</th>
                    <th scope="col">Face</th>
                    <th scope="col">Packet</th>
                    <th scope="col">Name</th>
                    <th scope="col" class="number">
                      Bytes
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {packets
                    .slice(-ROWS_MAX)
                    .reverse()
                    .map((packet) => (
                      <tr class={packet.seq === selected?.seq ? 'selected' : ''}>
                        <td>{clock(packet.atMs)}</td>
                        <td>
                          {packet.isIncoming ? '→' : '←'}
                          <span class="hidden">{packet.isIncoming ? 'received' : 'sent'}</span>{' '}
                          {packet.face.replace('face ', '')}
                        </td>
                        <td>{packet.kind}</td>
                        <th scope="row" class="name">
                          <button type="button" class="link" onClick={() => setSelected(packet)}>
                            {packet.name || 'inspect'}
                          </button>
                        </th>
                        <td class="number">{packet.bytes.length}</td>
                      </tr>
                    ))}
                </tbody>
              </table>
            </div>
          )}
        </section>
        {selected && (
          <section class="card" id="inspector" aria-label="Packet inspector">
            <h2>
              {selected.kind} <span class="name">{selected.name}</span>
            </h2>
            <Tree elements={dissect(selected.bytes)} />
            <pre class="hex" tabIndex={0} aria-label="Bytes of the packet">
              {hex(selected.bytes.subarray(0, 512))}
            </pre>
          </section>
        )}
      </div>
    </>
  );
}

const Tree = ({ elements }: { elements: Element[] }) => (
  <ul class="tree">
    {elements.map((element) => (
      <li>
        <span class={element.type < 0 ? 'error' : 'step'}>{element.text}</span>{' '}
        <span class="name">{element.value}</span>
        <span class="note"> {element.length} bytes</span>
        {element.children.length > 0 && <Tree elements={element.children} />}
      </li>
    ))}
  </ul>
);
