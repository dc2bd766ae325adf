// Reads captures (pcapng) and packets (NDN TLV and NDNLPv2) for the inspector. A packet that is
// malformed ends in an element that says so; it never stops the capture.

/** An element of a packet. */
export interface Element {
  type: number;
  text: string;
  /** Value as text, if the element has no elements inside. */
  value: string;
  offset: number;
  length: number;
  children: Element[];
}

export interface CapturedPacket {
  seq: number;
  atMs: number;
  isIncoming: boolean;
  /** Name of the face, or of the port of an element as `ELEMENT.PORT`. */
  face: string;
  bytes: Uint8Array;
}

const NAMES: Record<number, string> = {
  0x05: 'Interest',
  0x06: 'Data',
  0x07: 'Name',
  0x08: 'GenericNameComponent',
  0x01: 'ImplicitSha256DigestComponent',
  0x02: 'ParametersSha256DigestComponent',
  0x20: 'KeywordNameComponent',
  0x32: 'SegmentNameComponent',
  0x34: 'ByteOffsetNameComponent',
  0x36: 'VersionNameComponent',
  0x38: 'TimestampNameComponent',
  0x3a: 'SequenceNumNameComponent',
  0x21: 'CanBePrefix',
  0x12: 'MustBeFresh',
  0x1e: 'ForwardingHint',
  0x0a: 'Nonce',
  0x0c: 'InterestLifetime',
  0x22: 'HopLimit',
  0x24: 'ApplicationParameters',
  0x2c: 'InterestSignatureInfo',
  0x2e: 'InterestSignatureValue',
  0x14: 'MetaInfo',
  0x15: 'Content',
  0x16: 'SignatureInfo',
  0x17: 'SignatureValue',
  0x18: 'ContentType',
  0x19: 'FreshnessPeriod',
  0x1a: 'FinalBlockId',
  0x1b: 'SignatureType',
  0x1c: 'KeyLocator',
  0x1d: 'KeyDigest',
  0x26: 'SignatureNonce',
  0x28: 'SignatureTime',
  0x2a: 'SignatureSeqNum',
  0x64: 'LpPacket',
  0x50: 'Fragment',
  0x51: 'Sequence',
  0x52: 'FragIndex',
  0x53: 'FragCount',
  0x62: 'PitToken',
  0x320: 'Nack',
  0x321: 'NackReason',
  0x32c: 'IncomingFaceId',
  0x330: 'NextHopFaceId',
  0x334: 'CachePolicy',
  0x335: 'CachePolicyType',
  0x340: 'CongestionMark',
  0x344: 'Ack',
  0x348: 'TxSequence',
  0x34c: 'NonDiscovery',
  0x350: 'PrefixAnnouncement',
};
const NESTED = new Set([
  0x05, 0x06, 0x07, 0x1e, 0x2c, 0x14, 0x16, 0x1a, 0x1c, 0x64, 0x50, 0x320, 0x334, 0x350,
]);
const NUMBERS = new Set([
  0x0c, 0x22, 0x18, 0x19, 0x1b, 0x28, 0x2a, 0x52, 0x53, 0x321, 0x32c, 0x330, 0x335, 0x340, 0x32,
  0x34, 0x36, 0x38, 0x3a,
]);
const DEPTH_MAX = 8;
const BLOCK_MAX = 1 << 20;

function readNumber(bytes: Uint8Array, at: number, end: number): [number, number] | undefined {
  const first = bytes[at];
  if (first === undefined || at >= end) return undefined;
  const width = first < 253 ? 0 : first === 253 ? 2 : first === 254 ? 4 : 8;
  if (width === 0) return [first, at + 1];
  if (at + 1 + width > end || width === 8) return undefined;
  let value = 0;
  for (let index = 1; index <= width; index += 1) value = value * 256 + bytes[at + index]!;
  return [value, at + 1 + width];
}

/** Returns the elements of a packet. */
export function dissect(bytes: Uint8Array, start = 0, end = bytes.length, depth = 0): Element[] {
  const elements: Element[] = [];
  let at = start;
  while (at < end) {
    const type = readNumber(bytes, at, end);
    const length = type && readNumber(bytes, type[1], end);
    if (!type || !length || length[0] > end - length[1]) {
      elements.push({
        type: -1,
        text: 'malformed',
        value: `${end - at} bytes from offset ${at}`,
        offset: at,
        length: end - at,
        children: [],
      });
      return elements;
    }
    const [from, to] = [length[1], length[1] + length[0]];
    const isNested = NESTED.has(type[0]) && depth < DEPTH_MAX;
    elements.push({
      type: type[0],
      text: NAMES[type[0]] ?? `type 0x${type[0].toString(16)}`,
      value: isNested
        ? type[0] === 0x07
          ? nameText(bytes, from, to)
          : ''
        : valueText(type[0], bytes.subarray(from, to)),
      offset: at,
      length: to - at,
      children: isNested ? dissect(bytes, from, to, depth + 1) : [],
    });
    at = to;
  }
  return elements;
}

function valueText(type: number, value: Uint8Array): string {
  if (value.length === 0) return '';
  if (NUMBERS.has(type) && value.length <= 8)
    return String(value.reduce((sum, byte) => sum * 256 + byte, 0));
  const isText = value.every((byte) => byte >= 32 && byte < 127);
  if (isText)
    return `"${new TextDecoder().decode(value.subarray(0, 120))}"${value.length > 120 ? ' …' : ''}`;
  return `${hex(value.subarray(0, 32))}${value.length > 32 ? ' …' : ''} (${value.length} bytes)`;
}

export const hex = (bytes: Uint8Array): string =>
  [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join(' ');

/** Conventions of typed components (naming conventions, revision 3). */
const PREFIXES: Record<number, string> = {
  0x32: 'seg=',
  0x34: 'off=',
  0x36: 'v=',
  0x38: 't=',
  0x3a: 'seq=',
  0x20: '32=',
  0x01: 'sha256digest=',
  0x02: 'params-sha256=',
};

function nameText(bytes: Uint8Array, start: number, end: number): string {
  let text = '';
  let at = start;
  while (at < end) {
    const type = readNumber(bytes, at, end);
    const length = type && readNumber(bytes, type[1], end);
    if (!type || !length || length[0] > end - length[1]) return `${text}/(malformed)`;
    const value = bytes.subarray(length[1], length[1] + length[0]);
    text += `/${PREFIXES[type[0]] ?? (type[0] === 8 ? '' : `${type[0]}=`)}${componentText(type[0], value)}`;
    at = length[1] + length[0];
  }
  return text || '/';
}

function componentText(type: number, value: Uint8Array): string {
  if (NUMBERS.has(type)) return String(value.reduce((sum, byte) => sum * 256 + byte, 0));
  if (type === 1 || type === 2)
    return [...value].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  const text = [...value].map((byte) => {
    const letter = String.fromCharCode(byte);
    return /[A-Za-z0-9\-._~]/.test(letter)
      ? letter
      : `%${byte.toString(16).padStart(2, '0').toUpperCase()}`;
  });
  return /^\.*$/.test(text.join('')) ? `...${text.join('')}` : text.join('');
}

/** Returns the first element of a type, at any depth. */
export function findElement(elements: Element[], type: number): Element | undefined {
  for (const element of elements) {
    const found = element.type === type ? element : findElement(element.children, type);
    if (found) return found;
  }
  return undefined;
}

/** Returns kind and name of a packet. */
export function summarize(elements: Element[]): { kind: string; name: string } {
  const kind = [0x320, 0x05, 0x06].find((type) => findElement(elements, type));
  const packet = findElement(elements, 0x05) ?? findElement(elements, 0x06);
  const name = packet && findElement([packet], 0x07);
  return { kind: kind === undefined ? 'other' : NAMES[kind]!, name: name?.value ?? '' };
}

/** Splits a pcapng stream into packets. */
export class CaptureReader {
  private rest = new Uint8Array(0);
  private faces: string[] = [];
  private seq = 0;
  /** Packets that were lost so far: more than are captured, or than are read. */
  lost = 0;

  read(bytes: Uint8Array): CapturedPacket[] {
    const all = new Uint8Array(this.rest.length + bytes.length);
    all.set(this.rest);
    all.set(bytes, this.rest.length);
    const view = new DataView(all.buffer);
    const packets: CapturedPacket[] = [];
    let at = 0;
    while (at + 12 <= all.length) {
      const length = view.getUint32(at + 4, true);
      if (length < 12 || length > BLOCK_MAX || length % 4)
        throw new Error('the capture is malformed');
      if (at + length > all.length) break;
      const packet = this.readBlock(new DataView(all.buffer, at, length));
      if (packet) packets.push(packet);
      at += length;
    }
    this.rest = all.slice(at);
    return packets;
  }

  private readBlock(block: DataView): CapturedPacket | undefined {
    const type = block.getUint32(0, true);
    if (type === 1)
      this.faces.push(new TextDecoder().decode(option(block, 16, 2) ?? new Uint8Array()));
    // Statistics: all packets that were lost since the start.
    if (type === 5) this.lost = Math.max(this.lost, numberOf(option(block, 20, 5)));
    if (type !== 6) return undefined;
    const captured = block.getUint32(20, true);
    const at = (block.getUint32(12, true) * 2 ** 32 + block.getUint32(16, true)) / 1e6;
    const options = 28 + Math.ceil(captured / 4) * 4;
    const flags = option(block, options, 2);
    this.lost += numberOf(option(block, options, 4));
    const ETHERNET = 14;
    this.seq += 1;
    return {
      seq: this.seq,
      atMs: at,
      isIncoming: flags?.[0] === 1,
      face: this.faces[block.getUint32(8, true)] ?? '',
      bytes: new Uint8Array(
        block.buffer,
        block.byteOffset + 28 + ETHERNET,
        Math.max(0, captured - ETHERNET),
      ).slice(),
    };
  }
}

/** Returns a number of eight bytes, the lowest first; 0 if there is none. */
function numberOf(value: Uint8Array | undefined): number {
  return [...(value ?? [])].reduceRight((sum, byte) => sum * 256 + byte, 0);
}

/** Returns the value of an option of a block. */
function option(block: DataView, start: number, wanted: number): Uint8Array | undefined {
  let at = start;
  while (at + 4 <= block.byteLength - 4) {
    const [code, length] = [block.getUint16(at, true), block.getUint16(at + 2, true)];
    if (code === 0) return undefined;
    if (code === wanted) return new Uint8Array(block.buffer, block.byteOffset + at + 4, length);
    at += 4 + Math.ceil(length / 4) * 4;
  }
  return undefined;
}
