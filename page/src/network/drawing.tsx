// The drawing of a draft at the level of elements. Each change is an edit of the text, which the
// manager makes: text and drawing are the same document.

import { useEffect, useRef, useState } from 'preact/hooks';
import { Empty } from '../parts';
import type { Schemas } from './model';

export type Drawing = Schemas['Drawing'];
export type DraftEdit = Schemas['DraftEdit'];
type Box = Schemas['DrawnBox'];
type Link = Schemas['DrawnLink'];

/** Size of a character of the layout, pixels. */
const CELL = { x: 8.4, y: 19 };

/** Smallest scale at which a drawing is fitted into its frame: text stays readable. */
const SCALE_MIN = 0.6;

interface Props {
  drawing: Drawing;
  /** The text has an edit under way. */
  isBusy: boolean;
  onEdit(edit: DraftEdit): void;
  onShowLine(line: number): void;
}

/** What is selected: a box by name, a link by its ends, or an output to connect. */
type Selection =
  | { kind: 'box'; name: string }
  | { kind: 'link'; source: string; target: string }
  | { kind: 'output'; source: string };

export function DrawingEditor({ drawing, isBusy, onEdit, onShowLine }: Props) {
  const [selection, setSelection] = useState<Selection>();
  const [scale, setScale] = useState(1);
  const frame = useRef<HTMLDivElement>(null);
  const problems = new Map(drawing.problems.map((problem) => [problem.line, problem]));
  const onKey = (event: KeyboardEvent) => {
    if (event.key === 'Escape') setSelection(undefined);
    if (event.key !== 'Delete' || isBusy) return;
    if (selection?.kind === 'link')
      onEdit({ kind: 'disconnect', from: selection.source, to: selection.target });
    if (selection?.kind === 'box') onEdit({ kind: 'remove', name: selection.name });
    setSelection(undefined);
  };
  const connect = (target: string) => {
    if (selection?.kind !== 'output' || isBusy) return;
    onEdit({ kind: 'connect', from: selection.source, to: target });
    setSelection(undefined);
  };
  const { boxes, links } = drawing;
  const width = Math.max(20, ...boxes.map((box) => box.x + box.width + 4)) * CELL.x;
  const bottom = Math.max(6, ...boxes.map((box) => box.y + box.height + 3));
  const height = (bottom + links.filter((link) => isBackward(link, boxes)).length * 0.7) * CELL.y;
  const backward = links.filter((link) => isBackward(link, boxes));
  const fit = () => {
    const space = frame.current?.clientWidth;
    if (space) setScale(Math.min(1, Math.max(SCALE_MIN, space / width)));
  };
  // A drawing is first shown as large as its frame allows.
  useEffect(fit, [boxes.length === 0]);
  return (
    <div class="drawing-editor" onKeyDown={onKey}>
      <Tools drawing={drawing} isBusy={isBusy} onEdit={onEdit} />
      {boxes.length === 0 ? (
        <Empty>Nothing to draw: add a face or an element, or look at the text.</Empty>
      ) : (
        <>
          <div class="scroll drawing" ref={frame} tabindex={0} role="region" aria-label="Drawing">
            <svg
              width={width * scale}
              height={height * scale}
              viewBox={`0 0 ${width} ${height}`}
              role="group"
              aria-label="Elements and connections"
            >
              {links.map((link) => (
                <DrawnLink
                  key={`${link.source}>${link.target}`}
                  link={link}
                  boxes={boxes}
                  turn={bottom - 2 + backward.indexOf(link) * 0.7}
                  isSelected={
                    selection?.kind === 'link' &&
                    selection.source === link.source &&
                    selection.target === link.target
                  }
                  onSelect={() =>
                    setSelection({ kind: 'link', source: link.source, target: link.target })
                  }
                />
              ))}
              {boxes.map((box) => (
                <DrawnBox
                  key={`${box.name}:${box.is_face ? (box.outputs.length ? 'out' : 'in') : 'element'}`}
                  box={box}
                  problem={box.line ? problems.get(box.line)?.message : undefined}
                  isSelected={selection?.kind === 'box' && selection.name === box.name}
                  output={selection?.kind === 'output' ? selection.source : undefined}
                  onSelect={() => setSelection({ kind: 'box', name: box.name })}
                  onOutput={(source) => setSelection({ kind: 'output', source })}
                  onInput={connect}
                />
              ))}
            </svg>
          </div>
          <p class="group">
            <button type="button" onClick={() => setScale(scale * 1.2)} aria-label="Larger">
              +
            </button>{' '}
            <button type="button" onClick={() => setScale(scale / 1.2)} aria-label="Smaller">
              −
            </button>{' '}
            <button type="button" onClick={fit}>
              Fit
            </button>{' '}
            <span class="note">
              Drag from an output, or choose one, then an input: they are connected.
            </span>
          </p>
        </>
      )}
      <Selected
        selection={selection}
        drawing={drawing}
        isBusy={isBusy}
        onEdit={(edit) => {
          onEdit(edit);
          if (edit.kind !== 'assign') setSelection(undefined);
        }}
        onShowLine={onShowLine}
        onEnd={() => setSelection(undefined)}
      />
    </div>
  );
}

/** Rows above the first port, as the layout has them. */
const head = (box: Box): number =>
  box.is_face ? 1 : box.label !== '' && box.label !== box.name ? 3 : 2;

const portAt = (box: Box, port: number, isOutput: boolean) => ({
  x: (box.x + (isOutput ? box.width : 0)) * CELL.x,
  y: (box.y + head(box) + port + 0.5) * CELL.y,
});

const isBackward = (link: Link, boxes: Box[]): boolean => boxes[link.to]!.x <= boxes[link.from]!.x;

function DrawnLink(props: {
  link: Link;
  boxes: Box[];
  /** Row at which a link that leads back turns. */
  turn: number;
  isSelected: boolean;
  onSelect(): void;
}) {
  const { link, boxes } = props;
  const source = boxes[link.from]!;
  // A face has one output, from which all its connections begin.
  const from = portAt(source, source.is_face ? 0 : link.from_port, true);
  const to = portAt(boxes[link.to]!, link.to_port, false);
  const reach = Math.max(24, Math.min(90, Math.abs(to.x - from.x) / 2));
  const turn = props.turn * CELL.y;
  const path = isBackward(link, boxes)
    ? `M${from.x} ${from.y}C${from.x + 40} ${from.y} ${from.x + 40} ${turn} ${from.x - 10} ${turn}L${to.x + 10} ${turn}C${to.x - 40} ${turn} ${to.x - 40} ${to.y} ${to.x} ${to.y}`
    : `M${from.x} ${from.y}C${from.x + reach} ${from.y} ${to.x - reach} ${to.y} ${to.x} ${to.y}`;
  return (
    <g
      class={`drawn-link${props.isSelected ? ' selected' : ''}`}
      role="button"
      tabindex={0}
      aria-label={`Connection ${link.source} to ${link.target}`}
      aria-pressed={props.isSelected}
      onClick={props.onSelect}
      onFocus={props.onSelect}
      onKeyDown={onEnter(props.onSelect)}
    >
      <path class="reach" d={path} />
      <path d={path} />
      <path class="tip" d={`M${to.x} ${to.y}l-8 -4v8z`} />
    </g>
  );
}

const onEnter = (action: () => void) => (event: KeyboardEvent) => {
  if (event.key !== 'Enter' && event.key !== ' ') return;
  event.preventDefault();
  action();
};

function DrawnBox(props: {
  box: Box;
  problem: string | undefined;
  isSelected: boolean;
  /** The output that is to be connected. */
  output: string | undefined;
  onSelect(): void;
  onOutput(source: string): void;
  onInput(target: string): void;
}) {
  const { box, problem } = props;
  const [x, y] = [box.x * CELL.x, box.y * CELL.y];
  const width = box.width * CELL.x;
  const end = (port: string) => (box.is_face ? box.name : `${box.name}.${port}`);
  const inputs = box.inputs.length || !box.is_face ? box.inputs : [''];
  const shownAs = problem ? `, ${problem}` : '';
  return (
    <g class={`drawn-box${box.is_face ? ' face' : ''}${problem ? ' faulty' : ''}`}>
      <g
        role="button"
        tabindex={0}
        class={props.isSelected ? 'body selected' : 'body'}
        aria-pressed={props.isSelected}
        aria-label={`${box.is_face ? 'Face' : 'Element'} ${box.name}${box.label ? `, ${box.label}` : ''}${shownAs}`}
        onClick={props.onSelect}
        onFocus={() => !props.output && props.onSelect()}
        onKeyDown={onEnter(() =>
          box.is_face && props.output ? props.onInput(box.name) : props.onSelect(),
        )}
        onPointerUp={() => box.is_face && props.output && props.onInput(box.name)}
      >
        <rect x={x} y={y} width={width} height={box.height * CELL.y} rx={box.is_face ? 14 : 5} />
        {problem && <title>{problem}</title>}
      </g>
      <text class="title" x={x + width / 2} y={y + 1.35 * CELL.y}>
        {problem ? '! ' : ''}
        {box.name}
      </text>
      {box.label !== box.name && box.label && (
        <text class="label" x={x + width / 2} y={y + 2.3 * CELL.y}>
          {shortened(box.label, box.width - 2)}
        </text>
      )}
      {box.service && (
        <text class="service" x={x + 4} y={y - 5}>
          {box.service}
        </text>
      )}
      {!box.is_face &&
        inputs.map((port, index) => (
          <Port
            key={`in:${port}`}
            at={portAt(box, index, false)}
            text={port}
            isOutput={false}
            isWanted={props.output !== undefined}
            label={`Input ${end(port)}`}
            onChoose={() => props.onInput(end(port))}
            onDrop={() => props.onInput(end(port))}
          />
        ))}
      {(box.is_face ? (box.outputs.length ? [''] : []) : box.outputs).map((port, index) => (
        <Port
          key={`out:${port}`}
          at={portAt(box, index, true)}
          text={port}
          isOutput
          isWanted={props.output === end(port)}
          label={`Output ${end(port)}`}
          onChoose={() => props.onOutput(end(port))}
          onStart={() => props.onOutput(end(port))}
        />
      ))}
    </g>
  );
}

function Port(props: {
  at: { x: number; y: number };
  text: string;
  isOutput: boolean;
  isWanted: boolean;
  label: string;
  onChoose(): void;
  onStart?(): void;
  onDrop?(): void;
}) {
  const { at, isOutput } = props;
  return (
    <g class={`port${props.isWanted ? ' wanted' : ''}`}>
      <circle
        cx={at.x}
        cy={at.y}
        r={6}
        role="button"
        tabindex={0}
        aria-label={props.label}
        onClick={props.onChoose}
        onKeyDown={onEnter(props.onChoose)}
        onPointerDown={props.onStart}
        onPointerUp={props.onDrop}
      />
      <text x={at.x + (isOutput ? -10 : 10)} y={at.y + 4} class={isOutput ? 'out' : 'in'}>
        {props.text}
      </text>
    </g>
  );
}

const shortened = (text: string, length: number): string =>
  text.length <= length ? text : `${text.slice(0, Math.max(1, length - 1))}…`;

/** Forms that add elements, faces, services and connections. */
function Tools({
  drawing,
  isBusy,
  onEdit,
}: {
  drawing: Drawing;
  isBusy: boolean;
  onEdit(edit: DraftEdit): void;
}) {
  const [name, setName] = useState('');
  const [what, setWhat] = useState('content_store');
  const [uri, setUri] = useState('');
  const [from, setFrom] = useState('');
  const [to, setTo] = useState('');
  const isFace = what === 'face' || what === 'listener';
  const isService = what === 'service';
  const free = drawing.boxes.filter(({ name: own, service }) => own !== 'faces' && !service);
  const [member, setMember] = useState('');
  const add = (event: Event) => {
    event.preventDefault();
    if (isFace) onEdit({ kind: 'add_face', name, uri, listens: what === 'listener' });
    else if (isService) onEdit({ kind: 'add_service', name, members: [member] });
    else onEdit({ kind: 'add_element', name, element: what });
    setName('');
  };
  const connect = (event: Event) => {
    event.preventDefault();
    onEdit({ kind: 'connect', from, to });
  };
  const help = drawing.catalogue.find((element) => element.name === what)?.help;
  return (
    <div class="drawing-tools">
      <form class="inline" onSubmit={add}>
        <label>
          Add{' '}
          <select value={what} onChange={(e) => setWhat(e.currentTarget.value)}>
            <optgroup label="Elements">
              {drawing.catalogue.map((element) => (
                <option value={element.name}>{element.name}</option>
              ))}
            </optgroup>
            <optgroup label="Others">
              <option value="face">face to a peer</option>
              <option value="listener">face that listens</option>
              <option value="service">service</option>
            </optgroup>
          </select>
        </label>
        <label>
          called{' '}
          <input
            required
            size={10}
            value={name}
            pattern="[A-Za-z_][A-Za-z0-9_\-]*"
            onInput={(e) => setName(e.currentTarget.value)}
          />
        </label>
        {isFace && (
          <label>
            at{' '}
            <input
              required
              size={22}
              value={uri}
              placeholder="udp4://192.0.2.1:6363"
              onInput={(e) => setUri(e.currentTarget.value)}
            />
          </label>
        )}
        {isService && (
          <label>
            with{' '}
            <select required value={member} onChange={(e) => setMember(e.currentTarget.value)}>
              <option value="" />
              {[...free, ...drawing.boxes.filter(({ service }) => service)].map((box) => (
                <option value={box.name}>{box.name}</option>
              ))}
            </select>
          </label>
        )}
        <button type="submit" disabled={isBusy}>
          Add
        </button>
      </form>
      <form class="inline" onSubmit={connect}>
        <label>
          Connect{' '}
          <select required value={from} onChange={(e) => setFrom(e.currentTarget.value)}>
            <option value="" />
            {drawing.outputs.map((output) => (
              <option value={output}>{output}</option>
            ))}
          </select>
        </label>
        <label>
          to{' '}
          <select required value={to} onChange={(e) => setTo(e.currentTarget.value)}>
            <option value="" />
            {drawing.inputs.map((input) => (
              <option value={input}>{input}</option>
            ))}
          </select>
        </label>
        <button type="submit" disabled={isBusy}>
          Connect
        </button>
      </form>
      {help && <p class="note">{help}</p>}
    </div>
  );
}

/** What can be done with the selected part. */
function Selected(props: {
  selection: Selection | undefined;
  drawing: Drawing;
  isBusy: boolean;
  onEdit(edit: DraftEdit): void;
  onShowLine(line: number): void;
  onEnd(): void;
}) {
  const { selection, drawing, isBusy, onEdit, onShowLine } = props;
  if (!selection) return null;
  if (selection.kind === 'output')
    return (
      <p class="selected-part" role="status">
        <b>{selection.source}</b>: choose an input to connect it to.{' '}
        <button type="button" onClick={props.onEnd}>
          Cancel
        </button>
      </p>
    );
  if (selection.kind === 'link') {
    const { source, target } = selection;
    const link = drawing.links.find((own) => own.source === source && own.target === target);
    if (!link) return null;
    return (
      <p class="selected-part">
        <b>
          {source} → {target}
        </b>{' '}
        <button type="button" class="link" onClick={() => onShowLine(link.line)}>
          line {link.line}
        </button>{' '}
        <button
          type="button"
          disabled={isBusy}
          onClick={() => onEdit({ kind: 'disconnect', from: source, to: target })}
        >
          Remove the connection
        </button>
      </p>
    );
  }
  const box = drawing.boxes.find(({ name }) => name === selection.name);
  if (!box || box.line === 0) return null;
  return (
    <p class="selected-part">
      <b>{box.name}</b> {box.label}{' '}
      <button type="button" class="link" onClick={() => onShowLine(box.line)}>
        line {box.line}
      </button>{' '}
      <label>
        Service{' '}
        <select
          value={box.service}
          disabled={isBusy}
          onChange={(e) =>
            onEdit({ kind: 'assign', member: box.name, service: e.currentTarget.value || null })
          }
        >
          <option value="">none</option>
          {drawing.services.map(({ name }) => (
            <option value={name}>{name}</option>
          ))}
        </select>
      </label>{' '}
      {box.service && (
        <button
          type="button"
          disabled={isBusy}
          onClick={() => onEdit({ kind: 'remove_service', name: box.service })}
        >
          Remove service {box.service}
        </button>
      )}{' '}
      <button
        type="button"
        disabled={isBusy}
        onClick={() => onEdit({ kind: 'remove', name: box.name })}
      >
        Remove {box.name}
      </button>
    </p>
  );
}
