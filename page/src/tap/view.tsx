// A tap: packets as they are received and sent, or as they leave an element, and an inspector of
// one. The same for a router and for an instance of a network.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { readBytes } from '../api';
import { clock, count } from '../format';
import { Empty, useCommand } from '../parts';
import {
  CaptureReader,
  dissect,
  hex,
  summarize,
  type CapturedPacket,
  type Element,
} from './packet';

type Shown = CapturedPacket & { kind: string; name: string };
const PACKETS_MAX = 500;
const ROWS_MAX = 100;

interface Props {
  /** Path of the capture. */
  path: string;
  /** What precedes the form's other fields, such as the choice of an instance. */
  before?: ComponentChildren;
  /** Faces to choose from. Without them, those of the packets are offered. */
  faces?: { id: number; text: string }[];
  /** Element whose outgoing packets are shown, instead of the packets at faces. */
  element?: string;
}

export function TapView({ path, before, faces, element }: Props) {
  const [name, setName] = useState('');
  const [face, setFace] = useState('');
  const [kinds, setKinds] = useState('');
  const [direction, setDirection] = useState('');
  /** Names of faces that packets had. */
  const [seenFaces, setSeenFaces] = useState<readonly string[]>([]);
  /** The face that is chosen by its name; packets of others are not kept. */
  const faceName = useRef('');
  faceName.current = faces ? '' : face;
  const [packets, setPackets] = useState<Shown[]>([]);
  const [lost, setLost] = useState(0);
  const [selected, setSelected] = useState<Shown>();
  const [running, setRunning] = useState(false);
  /** The list as it is while a person points at it or has the focus in it. */
  const [held, setHeld] = useState<Shown[]>();
  const abort = useRef<AbortController | undefined>(undefined);
  const command = useCommand();
  // Another path is another program, or another element is another place: packets of one are not
  // mixed with those of the last one.
  useEffect(() => {
    setPackets([]);
    setLost(0);
    setSelected(undefined);
    setSeenFaces([]);
    setFace('');
    return () => abort.current?.abort();
  }, [path, element]);

  const submit = (event: Event) => {
    event.preventDefault();
    const search = new URLSearchParams();
    if (name.trim()) search.set('name', name.trim());
    if (faces && face) search.set('face', face);
    if (kinds) search.set('kind', kinds);
    if (direction && !element) search.set('direction', direction);
    if (element) search.set('element', element);
    const controller = new AbortController();
    abort.current = controller;
    const reader = new CaptureReader();
    setPackets([]);
    setLost(0);
    setHeld(undefined);
    setSelected(undefined);
    void command.run(async () => {
      try {
        await readBytes(
          `${path}?${search}`,
          controller.signal,
          (bytes) => {
            const read = reader
              .read(bytes)
              .map((packet) => ({ ...packet, ...summarize(dissect(packet.bytes)) }));
            setLost(reader.lost);
            setSeenFaces((before) => withFacesOf(before, read));
            const wanted = faceName.current;
            const chosen = wanted ? read.filter((packet) => faceOf(packet) === wanted) : read;
            if (chosen.length) setPackets((before) => [...before, ...chosen].slice(-PACKETS_MAX));
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
  const chooseFace = (wanted: string) => {
    setFace(wanted);
    // A face that is chosen by its name is so at once, also for packets that are listed.
    if (!faces && wanted)
      setPackets((before) => before.filter((packet) => faceOf(packet) === wanted));
  };
  return (
    <>
      <section class="card">
        <h2>Tap</h2>
        <form class="inline" onSubmit={submit}>
          {before}
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
            {element ? 'Port' : 'Face'}{' '}
            <select value={face} onChange={(e) => chooseFace(e.currentTarget.value)}>
              <option value="">all</option>
              {faces
                ? faces.map(({ id, text }) => <option value={id}>{text}</option>)
                : seenFaces.map((text) => <option value={text}>{text}</option>)}
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
          {!element && (
            <label>
              Direction{' '}
              <select value={direction} onChange={(e) => setDirection(e.currentTarget.value)}>
                <option value="">both</option>
                <option value="in">received</option>
                <option value="out">sent</option>
              </select>
            </label>
          )}
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
            {lost > 0 && ` ${count(lost)} were lost: more than are captured or read.`}
            {held && ' The list waits while you point at it.'}
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
            <div
              class="scroll tall"
              tabIndex={0}
              role="region"
              aria-label="Packets"
              onPointerEnter={() => setHeld(packets)}
              onPointerLeave={() => setHeld(undefined)}
              onFocusCapture={() => setHeld((before) => before ?? packets)}
              onBlurCapture={() => setHeld(undefined)}
            >
              <table id="packets">
                <thead>
                  <tr>
                    <th scope="col">Time</th>
                    <th scope="col">{element ? 'Port' : 'Face'}</th>
                    <th scope="col">Packet</th>
                    <th scope="col">Name</th>
                    <th scope="col" class="number">
                      Bytes
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {(held ?? packets)
                    .slice(-ROWS_MAX)
                    .reverse()
                    .map((packet) => (
                      <tr key={packet.seq} class={packet.seq === selected?.seq ? 'selected' : ''}>
                        <td>{clock(packet.atMs)}</td>
                        <td>
                          {!element && (
                            <>
                              {packet.isIncoming ? '→' : '←'}
                              <span class="hidden">
                                {packet.isIncoming ? 'received' : 'sent'}
                              </span>{' '}
                            </>
                          )}
                          {faceOf(packet)}
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

/** Returns the name of a packet's face, without what the manager adds to make it unique. */
const faceOf = ({ face }: CapturedPacket): string =>
  face.replace('face ', '').replace(/_[0-9a-f]{6,16}$/, '');

/** Returns names with those of the packets' faces. */
function withFacesOf(names: readonly string[], packets: CapturedPacket[]): readonly string[] {
  const added = packets.map(faceOf).filter((name) => !names.includes(name));
  return added.length === 0 ? names : [...new Set([...names, ...added])].sort();
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
