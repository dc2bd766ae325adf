// A map with its tools: find, hide, label, fold, fit; a legend; and a table of the same nodes for
// the keyboard and screen readers.

import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { MapCanvas } from './canvas';
import { parseFilter } from './filter';
import { fold, type Health, type MapGraph, type MapLink, type MapNode } from './model';
import { shapeOf, SIGNS, svgPath, type Palette } from './shapes';

interface Props {
  graph: MapGraph;
  /** Name of the map; with `onMove`, the server keeps places, otherwise this browser. */
  storageKey: string;
  /** Called when a person has moved a node. */
  onMove?(id: string, place: { x: number; y: number }): void;
  /** Called when all nodes are to be placed again. */
  onArrange?(): void;
  /** Values that a link's label can show: name and text. */
  labels: { name: string; text: string; format(value: number): string }[];
  /** Returns the second line of a node's label. */
  note?(node: MapNode): string;
  /** Columns of the table. */
  columns: { name: string; text: string; format?(value: number): string }[];
  /** What stands beside the map when a node is selected. */
  panel(node: MapNode): ComponentChildren;
}

export const HEALTH_TEXT: Record<Health, string> = {
  ok: 'works',
  idle: 'idle',
  warning: 'needs a look',
  failed: 'failed',
};

export function readPalette(): Palette {
  const style = getComputedStyle(document.documentElement);
  const color = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return {
    background: color('map'),
    text: color('text'),
    muted: color('muted'),
    line: color('map-line'),
    node: color('surface'),
    accent: color('flow'),
    onSign: color('surface'),
    health: {
      ok: color('ok'),
      idle: color('idle'),
      warning: color('warning'),
      failed: color('failed'),
    },
  };
}

export function MapView(props: Props) {
  const { graph, storageKey, labels, columns, panel } = props;
  const canvasRef = useRef<HTMLCanvasElement>(null);
  const map = useRef<MapCanvas | undefined>(undefined);
  const [find, setFind] = useState('');
  const [hide, setHide] = useState('');
  const [label, setLabel] = useState(labels[0]?.name ?? '');
  const [selected, setSelected] = useState<string>();
  const [unfolded, setUnfolded] = useState<ReadonlySet<string>>(new Set());
  const onMove = useRef(props.onMove);
  onMove.current = props.onMove;
  const note = useRef(props.note);
  note.current = props.note;
  const labelText = useRef<(link: MapLink) => string>(() => '');
  labelText.current = (link) => {
    const value = link.values[label];
    if (value === undefined || value === 0) return '';
    return typeof value === 'number'
      ? (labels.find(({ name }) => name === label)?.format(value) ?? '')
      : value;
  };

  const shown = useMemo(() => {
    const isHidden = parseFilter(hide);
    const nodes = graph.nodes.filter((node) => !isHidden(node));
    const ids = new Set(nodes.map(({ id }) => id));
    const links = graph.links.filter(({ from, to }) => ids.has(from) && ids.has(to));
    return fold({ nodes, links }, unfolded);
  }, [graph, hide, unfolded]);
  const found = useMemo(() => (find.trim() ? parseFilter(find) : undefined), [find]);
  const selectedNode = shown.nodes.find(({ id }) => id === selected);

  useEffect(() => {
    let palette = readPalette();
    const current = new MapCanvas(canvasRef.current!, {
      storageKey: props.onMove ? '' : `nw-places:${storageKey}`,
      onMove: (id, place) => onMove.current?.(id, place),
      onSelect: setSelected,
      palette: () => palette,
      linkLabel: (link) => labelText.current(link),
      nodeNote: (node) => note.current?.(node) ?? '',
    });
    map.current = current;
    const refresh = () => {
      palette = readPalette();
      current.redraw();
    };
    const media = matchMedia('(prefers-color-scheme: dark)');
    media.addEventListener('change', refresh);
    const themes = new MutationObserver(refresh);
    themes.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    return () => {
      media.removeEventListener('change', refresh);
      themes.disconnect();
      current.destroy();
    };
  }, [storageKey]);
  useEffect(() => map.current?.setGraph(shown), [shown, storageKey]);
  useEffect(() => map.current?.setFound(found), [found, storageKey]);
  useEffect(() => map.current?.setSelected(selected), [selected, storageKey]);
  useEffect(() => map.current?.redraw(), [label]);

  const groups = [...new Set(graph.nodes.flatMap(({ group }) => group ?? []))];
  const canFold = groups.some(
    (group) => graph.nodes.filter((node) => node.group === group).length > 1,
  );
  return (
    <div class="map-view">
      <div class="tools" role="toolbar" aria-label="Map">
        <label>
          Find{' '}
          <input
            type="search"
            value={find}
            placeholder="rate>100"
            onInput={(e) => setFind(e.currentTarget.value)}
          />
        </label>
        <label>
          Hide{' '}
          <input
            type="search"
            value={hide}
            placeholder="health=idle"
            onInput={(e) => setHide(e.currentTarget.value)}
          />
        </label>
        {labels.length > 1 && (
          <label>
            Links show{' '}
            <select value={label} onChange={(e) => setLabel(e.currentTarget.value)}>
              {labels.map(({ name, text }) => (
                <option value={name}>{text}</option>
              ))}
            </select>
          </label>
        )}
        {canFold && (
          <label>
            <input
              type="checkbox"
              checked={unfolded.size === 0}
              onChange={(e) => setUnfolded(new Set(e.currentTarget.checked ? [] : groups))}
            />{' '}
            Fold clones
          </label>
        )}
        <span class="group">
          <button type="button" onClick={() => map.current?.zoomBy(1.3)} aria-label="Zoom in">
            +
          </button>
          <button type="button" onClick={() => map.current?.zoomBy(0.77)} aria-label="Zoom out">
            −
          </button>
          <button type="button" onClick={() => map.current?.fit()}>
            Fit
          </button>
          <button
            type="button"
            onClick={() => {
              props.onArrange?.();
              map.current?.arrange();
            }}
          >
            Arrange
          </button>
        </span>
      </div>
      <div class="map-and-panel">
        <div class="map-frame">
          <canvas
            ref={canvasRef}
            tabIndex={0}
            role="application"
            aria-label="Map. Arrows move it, plus and minus zoom, 0 fits. The table below lists the same nodes."
          />
          <Legend nodes={shown.nodes} />
        </div>
        {selectedNode && (
          <aside class="panel" aria-label={`Details of ${selectedNode.label}`}>
            <header>
              <h2>{selectedNode.label}</h2>
              <button
                type="button"
                aria-label="Close details"
                onClick={() => setSelected(undefined)}
              >
                ✕
              </button>
            </header>
            {selectedNode.values['clones'] !== undefined && selectedNode.group && (
              <button
                type="button"
                onClick={() => setUnfolded(new Set([...unfolded, selectedNode.group!]))}
              >
                Unfold {String(selectedNode.values['clones'])} clones
              </button>
            )}
            {panel(selectedNode)}
          </aside>
        )}
      </div>
      <NodeTable
        nodes={found ? shown.nodes.filter(found) : shown.nodes}
        columns={columns}
        selected={selected}
        onSelect={(id) => {
          setSelected(id);
          map.current?.show(id);
        }}
      />
    </div>
  );
}

function Legend({ nodes }: { nodes: MapNode[] }) {
  const kinds = [...new Set(nodes.map(({ kind }) => kind))].sort();
  const healths = [...new Set(nodes.map(({ health }) => health))];
  return (
    <ul class="legend" aria-label="Legend">
      {kinds.map((kind) => (
        <li>
          <ShapeIcon kind={kind} /> {kind.replaceAll('_', ' ')}
        </li>
      ))}
      {healths.map((health) => (
        <li>
          <HealthMark health={health} />
        </li>
      ))}
    </ul>
  );
}

export const ShapeIcon = ({ kind }: { kind: string }) => (
  <svg class="shape" viewBox="0 0 16 16" aria-hidden="true">
    <path d={svgPath(shapeOf(kind))} />
  </svg>
);

/** The sign and the word of a health, so that no one has to tell colours apart. */
export const HealthMark = ({ health }: { health: Health }) => (
  <span class={`health ${health}`}>
    <span aria-hidden="true">{SIGNS[health] || (health === 'ok' ? '✓' : '–')}</span>{' '}
    {HEALTH_TEXT[health]}
  </span>
);

const ROWS_MAX = 200;

function NodeTable(props: {
  nodes: MapNode[];
  columns: Props['columns'];
  selected: string | undefined;
  onSelect(id: string): void;
}) {
  const { nodes, columns } = props;
  const cell = (value: string | number | undefined, format?: (value: number) => string) =>
    value === undefined ? '' : typeof value === 'number' && format ? format(value) : String(value);
  return (
    <details class="node-table">
      <summary>Table of the {nodes.length} nodes</summary>
      <div class="scroll" tabIndex={0} role="region" aria-label="Nodes">
        <table>
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">Kind</th>
              <th scope="col">Health</th>
              {columns.map(({ text, format }) => (
                <th scope="col" class={format ? 'number' : ''}>
                  {text}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {nodes.slice(0, ROWS_MAX).map((node) => (
              <tr class={node.id === props.selected ? 'selected' : ''}>
                <th scope="row">
                  <button type="button" class="link" onClick={() => props.onSelect(node.id)}>
                    {node.label}
                  </button>
                </th>
                <td>{node.kind.replaceAll('_', ' ')}</td>
                <td>
                  <HealthMark health={node.health} />
                </td>
                {columns.map(({ name, format }) => (
                  <td class={format ? 'number' : ''}>{cell(node.values[name], format)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {nodes.length > ROWS_MAX && (
        <p class="note">The first {ROWS_MAX} are listed: use Find for the others.</p>
      )}
    </details>
  );
}
