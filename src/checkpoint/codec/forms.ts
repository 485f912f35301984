// How objects that are more than their JSON are kept: under the name of their class, a payload of values that can be
// kept themselves. JavaScript's own classes here; LangChain's and LangGraph's in langchain-forms.ts.

/** `take` gives the payload of an instance, `make` an instance equal to it. */
export type Form = Readonly<{
  /** The class's name, which is also the envelope's tag. */
  tag: string;
  /** Exactly this class: instances of subclasses are something else. */
  prototype: object;
  take(value: object): unknown;
  make(payload: unknown): object;
}>;

/** Raw bytes in a payload: written as base64 when they are few, else as a node of their own. */
export class RawBytes {
  constructor(readonly bytes: Buffer) {}
}

/** As Object.assign, but a key `__proto__` is one like any other: JSON of a model may have it. */
export function assignAll<T extends object>(target: T, source: object): T {
  for (const [key, value] of Object.entries(source)) {
    if (key === "__proto__") define(target, key, value, true);
    else (target as Record<string, unknown>)[key] = value;
  }
  return target;
}

function define(target: object, key: string, value: unknown, enumerable: boolean): void {
  Object.defineProperty(target, key, { value, writable: true, configurable: true, enumerable });
}

type Class<T> = Readonly<{ name: string; prototype: T }>;

/** The casts of all forms: an instance found by its prototype, a payload that was written by the same form. */
export function formOf<T extends object, P>(
  { name, prototype }: Class<T>,
  how: Readonly<{ take(value: T): unknown; make(payload: P): T }>,
): Form {
  return {
    tag: name,
    prototype,
    take: (value) => how.take(value as T),
    make: (payload) => how.make(payload as P),
  };
}

/** Bytes as they lie in memory: little-endian on every platform that Node runs on. */
function bytesForm<T extends object>(
  kind: Class<T>,
  view: (value: T) => Readonly<{ buffer: ArrayBufferLike; byteOffset: number; byteLength: number }>,
  make: (bytes: ArrayBuffer) => T,
): Form {
  return formOf<T, string | Buffer>(kind, {
    take(value) {
      const { buffer, byteOffset, byteLength } = view(value);
      return new RawBytes(Buffer.from(buffer, byteOffset, byteLength));
    },
    // A copy: what is read is cached, and what is made belongs to the caller.
    make: (payload) =>
      make(Uint8Array.from(typeof payload === "string" ? Buffer.from(payload, "base64") : payload).buffer),
  });
}

type TypedArray = ArrayBufferView & object;
type TypedArrayClass = Class<TypedArray> & (new (bytes: ArrayBuffer) => TypedArray);
const TYPED_ARRAYS: readonly TypedArrayClass[] = [
  Int8Array,
  Uint8Array,
  Uint8ClampedArray,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  Float32Array,
  Float64Array,
  BigInt64Array,
  BigUint64Array,
  DataView,
];

const ERRORS: readonly (Class<Error> & (new (message?: string) => Error))[] = [
  Error,
  EvalError,
  RangeError,
  ReferenceError,
  SyntaxError,
  TypeError,
  URIError,
];

export const JAVASCRIPT_FORMS: readonly Form[] = [
  formOf<Date, string | null>(Date, {
    take: (date) => (Number.isNaN(date.getTime()) ? null : date.toISOString()),
    make: (iso) => new Date(iso ?? Number.NaN),
  }),
  formOf<Map<unknown, unknown>, [unknown, unknown][]>(Map, {
    take: (map) => [...map],
    make: (entries) => new Map(entries),
  }),
  formOf<Set<unknown>, unknown[]>(Set, {
    take: (set) => [...set],
    make: (items) => new Set(items),
  }),
  formOf<RegExp, [string, string, number]>(RegExp, {
    take: ({ source, flags, lastIndex }) => [source, flags, lastIndex],
    make: ([source, flags, lastIndex]) => Object.assign(new RegExp(source, flags), { lastIndex }),
  }),
  formOf<URL, string>(URL, {
    take: ({ href }) => href,
    make: (href) => new URL(href),
  }),
  ...TYPED_ARRAYS.map((View) =>
    bytesForm(
      View,
      (value) => value,
      (bytes) => new View(bytes),
    ),
  ),
  bytesForm(
    Buffer,
    (value) => value,
    (bytes) => Buffer.from(bytes),
  ),
  bytesForm(
    ArrayBuffer,
    (value) => ({ buffer: value, byteOffset: 0, byteLength: value.byteLength }),
    (bytes) => bytes,
  ),
  ...ERRORS.map((Kind) =>
    formOf(Kind, { take: takeError, make: (payload: ErrorPayload) => makeError(new Kind(), payload) }),
  ),
  formOf<AggregateError, ErrorPayload>(AggregateError, {
    take: takeError,
    make: (payload) => makeError(new AggregateError([]), payload),
  }),
];

type ErrorPayload = Readonly<{
  name: unknown;
  /** Own properties that `for in` doesn't see: message, stack, cause, errors. */
  hidden: Readonly<Record<string, unknown>>;
  /** The others, such as `code`. */
  shown: Readonly<Record<string, unknown>>;
}>;

/** An error of a class that isn't JavaScript's own is kept as an Error with its name, message, stack, cause and fields. */
function takeError(error: Error): ErrorPayload {
  const values = error as unknown as Readonly<Record<string, unknown>>;
  const shown = Object.fromEntries(Object.entries(error));
  // A DOMException has its message on the prototype.
  const message = error.message === "" || Object.hasOwn(shown, "message") ? [] : ["message"];
  const hidden = [...message, ...Object.getOwnPropertyNames(error)].filter((key) => !Object.hasOwn(shown, key));
  return { name: error.name, hidden: Object.fromEntries(hidden.map((key) => [key, values[key]])), shown };
}

function makeError<T extends Error>(error: T, { name, hidden, shown }: ErrorPayload): T {
  // The stack of the instance made just now is that of this decoder.
  for (const key of Object.getOwnPropertyNames(error)) Reflect.deleteProperty(error, key);
  for (const [key, value] of Object.entries(hidden)) define(error, key, value, false);
  assignAll(error, shown);
  if (error.name !== name) define(error, "name", name, false);
  return error;
}
