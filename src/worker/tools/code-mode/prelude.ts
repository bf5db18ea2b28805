/**
 * What runs inside the sandbox before the script: it makes `tools`, `console`, a clock that stands still and random
 * numbers that repeat, from three functions that take and give nothing but strings and numbers. It protects nothing: a
 * script that breaks it breaks only itself, because every string is checked again outside.
 */
export const prelude = String.raw`(function (hostCall, hostLog, hostDone, settingsText) {
  'use strict';
  const { parse, stringify } = JSON;
  const settings = parse(settingsText);
  const NativePromise = Promise;
  const define = Object.defineProperty;

  const NativeDate = Date;
  function FixedDate(...parts) {
    if (!new.target) return new NativeDate(settings.nowMs).toString();
    return Reflect.construct(NativeDate, parts.length > 0 ? parts : [settings.nowMs], new.target);
  }
  FixedDate.prototype = NativeDate.prototype;
  define(FixedDate, 'name', { value: 'Date' });
  define(NativeDate.prototype, 'constructor', { value: FixedDate, writable: true, configurable: true });
  FixedDate.now = () => settings.nowMs;
  FixedDate.parse = NativeDate.parse;
  FixedDate.UTC = NativeDate.UTC;
  define(globalThis, 'Date', { value: FixedDate, writable: true, configurable: true });

  // sfc32
  let [a, b, c, counter] = settings.seed;
  Math.random = () => {
    const sum = (a + b + counter++) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + sum) | 0;
    return (sum >>> 0) / 4294967296;
  };

  const show = (value) => {
    if (typeof value === 'string') return value;
    if (value instanceof Error) return value.name + ': ' + value.message;
    try {
      const json = stringify(value);
      return json === undefined ? String(value) : json;
    } catch {
      return '[cannot be shown]';
    }
  };
  const print = (...values) => {
    try {
      hostLog(values.map(show).join(' '));
    } catch {}
  };
  define(globalThis, 'console', {
    value: Object.freeze({ log: print, info: print, warn: print, error: print, debug: print }),
    writable: true,
    configurable: true,
  });

  class ToolError extends Error {
    constructor(tool, kind, message) {
      super(tool + ': ' + message + ' (' + kind + ')');
      this.name = 'ToolError';
      this.tool = tool;
      this.kind = kind;
    }
  }

  const waiting = { __proto__: null };
  let calls = 0;
  const callerOf = (name) => (args) =>
    new NativePromise((resolve, reject) => {
      const json = stringify(args === undefined ? {} : args);
      if (json === undefined) throw new ToolError(name, 'invalid_input', 'the arguments are no JSON value');
      if (json.length > settings.maxArgsChars) {
        const size = 'the arguments have ' + json.length + ' characters, at most ' + settings.maxArgsChars;
        throw new ToolError(name, 'invalid_input', size);
      }
      const id = ++calls;
      waiting[id] = { name, resolve, reject };
      hostCall(id, name, json);
    });
  const functions = { __proto__: null };
  for (const name of settings.tools) define(functions, name, { value: callerOf(name), enumerable: true });
  Object.freeze(functions);
  const hasOwn = Object.hasOwn;
  const tools = new Proxy(functions, {
    get(_, key) {
      if (hasOwn(functions, key)) return functions[key];
      // What the language itself asks of any object.
      if (typeof key === 'symbol' || key === 'then' || key === 'toJSON') return undefined;
      throw new ToolError(key, 'unknown_tool', 'there is no such tool: find its name with code_search');
    },
  });
  define(globalThis, 'tools', { value: tools, enumerable: true });

  const text = (value) => (value === undefined ? '' : show(value));
  const describe = (error) => {
    try {
      const isError = error !== null && typeof error === 'object' && error.message !== undefined;
      const shown = isError ? error : { message: show(error) };
      return stringify({ name: text(shown.name), message: text(shown.message), stack: text(shown.stack) });
    } catch {
      return '{"name":"","message":"the script threw a value that cannot be read","stack":""}';
    }
  };

  return {
    async start(script) {
      try {
        let value = await script();
        if (typeof value === 'function') value = await value();
        const json = value === undefined ? '' : stringify(value);
        if (json === undefined) hostDone('not_json', '');
        else if (json.length > settings.maxResultBytes) hostDone('too_large', String(json.length));
        else hostDone('value', json);
      } catch (error) {
        hostDone('error', describe(error));
      }
    },
    settle(id, isFine, body) {
      const { name, resolve, reject } = waiting[id];
      delete waiting[id];
      let result;
      try {
        result = body === '' ? undefined : parse(body);
      } catch {
        return reject(new ToolError(name, 'invalid_output', 'its result is nested too deeply, or too large'));
      }
      if (isFine) resolve(result);
      else reject(new ToolError(name, result.kind, result.message));
    },
  };
})`;
