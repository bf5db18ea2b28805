import type { z } from 'zod';
import { didYouMean } from './nearest.ts';

type Issue = z.core.$ZodIssue;

/** What is wrong at a place of the input. */
export interface Worded {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/**
 * Says issues in words about the input: what is missing, what is unknown, what must be. A message that a schema gives itself
 * stays. An unknown field is an issue of its own, at its own path; of a union only the form that fits best is spoken of.
 */
export function wordsOf(issues: readonly Issue[], schema?: z.core.$ZodType): Worded[] {
  return issues.flatMap((issue) => worded(issue, schema));
}

/** How the messages begin that zod makes up itself. */
const ownWords = /^(Invalid |Too (big|small): |Unrecognized key)/;

function worded(issue: Issue, schema: z.core.$ZodType | undefined): Worded[] {
  const { path, message } = issue;
  if (!ownWords.test(message)) return [{ path, message }];
  if (issue.code === 'unrecognized_keys') {
    const known = schema ? fieldsAt(schema, path) : [];
    return issue.keys.map((key) => ({
      path: [...path, key],
      message: `is not a known field${didYouMean(key, known)}`,
    }));
  }
  if (issue.code === 'invalid_union') return ofUnion(issue, schema);
  return [{ path, message: sentence(issue) ?? message }];
}

function sentence(issue: Issue): string | undefined {
  const { message } = issue;
  switch (issue.code) {
    case 'invalid_type': {
      const received = /received (.+)$/.exec(message)?.[1] ?? 'something else';
      return received === 'undefined' ? 'is missing' : `must be ${kindOf(issue.expected)}, not ${kindOf(received)}`;
    }
    case 'invalid_value':
      return `must be ${issue.values.length === 1 ? '' : 'one of '}${issue.values.map(String).join(', ')}`;
    case 'too_small':
      return `must ${sized(issue.origin, issue.exact ? 'exactly' : issue.inclusive ? 'at least' : 'more than', issue.minimum)}`;
    case 'too_big':
      return `must ${sized(issue.origin, issue.exact ? 'exactly' : issue.inclusive ? 'at most' : 'less than', issue.maximum)}`;
    case 'not_multiple_of':
      return `must be a multiple of ${issue.divisor}`;
    case 'invalid_format':
      return message.startsWith('Invalid string: ')
        ? message.slice('Invalid string: '.length)
        : `is not a valid ${message.slice('Invalid '.length)}`;
    default:
      return undefined;
  }
}

const kinds: Readonly<Record<string, string>> = {
  int: 'a whole number',
  number: 'a number',
  string: 'a text',
  boolean: 'true or false',
  object: 'an object',
  record: 'an object',
  array: 'a list',
  tuple: 'a list',
};

function kindOf(type: string): string {
  return kinds[type] ?? type;
}

const units: Readonly<Record<string, string>> = {
  string: 'character',
  array: 'item',
  set: 'item',
  map: 'entry',
  file: 'byte',
};

function sized(origin: string, how: string, bound: number | bigint): string {
  const unit = units[origin];
  if (unit === undefined) return `be ${how} ${bound}`;
  return `have ${how} ${bound} ${Number(bound) === 1 ? unit : unit === 'entry' ? 'entries' : `${unit}s`}`;
}

function ofUnion(issue: z.core.$ZodIssueInvalidUnion, schema: z.core.$ZodType | undefined): Worded[] {
  const { path } = issue;
  const found = /Expected (.+)$/.exec(issue.message)?.[1];
  if (found !== undefined)
    return [{ path, message: `must be one of ${found.replaceAll("'", '').replaceAll(' | ', ', ')}` }];
  const forms = issue.errors.filter((errors) => errors.length > 0);
  if (forms.length === 0) return [{ path, message: 'fits more than one form' }];
  // A form whose kind of value is given already is the one that was meant.
  const meant = forms.filter((errors) => !errors.some((error) => error.path.length === 0 && isOfKind(error)));
  const [best] = meant.toSorted((a, b) => a.length - b.length);
  if (best) return best.flatMap((inner) => worded({ ...inner, path: [...path, ...inner.path] }, schema));
  const kindsOf = forms.flatMap((errors) => errors.map((error) => sentence(error) ?? ''));
  if (kindsOf.includes('is missing')) return [{ path, message: 'is missing' }];
  const needs = kindsOf.map((text) => text.replace(/^must be (one of )?/, '').replace(/, not .*$/, ''));
  return [{ path, message: `must be ${[...new Set(needs.filter(Boolean))].join(' or ')}` }];
}

function isOfKind(issue: Issue): boolean {
  return issue.code === 'invalid_type' || issue.code === 'invalid_value';
}

/** The names of the fields that an object at this place may have. */
function fieldsAt(schema: z.core.$ZodType, path: readonly PropertyKey[]): string[] {
  // oxlint-disable-next-line no-underscore-dangle -- zod has no other name for the definition of any schema
  const { def } = (schema as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case 'object': {
      const [first, ...rest] = path;
      if (first === undefined) return Object.keys(def.shape);
      const field = def.shape[String(first)];
      return field ? fieldsAt(field, rest) : [];
    }
    case 'array':
      return fieldsAt(def.element, path.slice(1));
    case 'record':
      return fieldsAt(def.valueType, path.slice(1));
    case 'union':
      return def.options.flatMap((option) => fieldsAt(option, path));
    case 'optional':
    case 'nullable':
    case 'default':
    case 'prefault':
    case 'readonly':
    case 'nonoptional':
      return fieldsAt(def.innerType, path);
    case 'pipe':
      return [...fieldsAt(def.in, path), ...fieldsAt(def.out, path)];
    case 'lazy':
      return fieldsAt(def.getter(), path);
    default:
      return [];
  }
}
