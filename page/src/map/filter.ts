// Expressions that find or hide nodes: `kind=cs rate>1000 host=h2 -name~test`. All terms must
// match. A word without an operator is a part of the label.

import type { MapNode } from './model';

type Test = (node: MapNode) => boolean;

const TERM = /^(-?)([\w.]+)(>=|<=|!=|=|~|>|<)(.*)$/;

/** Returns the test of an expression. An empty one matches nothing. */
export function parseFilter(text: string): Test {
  const tests = text.trim().split(/\s+/).filter(Boolean).map(parseTerm);
  return (node) => tests.length > 0 && tests.every((test) => test(node));
}

function parseTerm(term: string): Test {
  const found = TERM.exec(term);
  if (!found) {
    const isNegated = term.startsWith('-') && term.length > 1;
    const part = (isNegated ? term.slice(1) : term).toLowerCase();
    return (node) => node.label.toLowerCase().includes(part) !== isNegated;
  }
  const [, minus, field, operator, wanted] = found as unknown as [
    string,
    string,
    string,
    string,
    string,
  ];
  return (node) => compare(valueOf(node, field), operator, wanted) !== (minus === '-');
}

function valueOf(node: MapNode, field: string): string | number | undefined {
  if (field === 'kind' || field === 'health' || field === 'group') return node[field];
  return field === 'name' || field === 'label' ? node.label : node.values[field];
}

function compare(value: string | number | undefined, operator: string, wanted: string): boolean {
  if (value === undefined) return operator === '!=';
  const text = String(value).toLowerCase();
  const other = wanted.toLowerCase();
  switch (operator) {
    case '=':
      return text === other;
    case '!=':
      return text !== other;
    case '~':
      return text.includes(other);
    default:
      return compareNumbers(Number(value), operator, Number(wanted));
  }
}

function compareNumbers(value: number, operator: string, wanted: number): boolean {
  switch (operator) {
    case '>':
      return value > wanted;
    case '<':
      return value < wanted;
    case '>=':
      return value >= wanted;
    default:
      return value <= wanted;
  }
}
