import { createContext, runInContext } from 'node:vm';
import { gzipSync } from 'node:zlib';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'vite';

/** A program for a page, in a folder that has the package installed, as one script of a browser. */
export async function bundle(folder: string, program: string) {
  const entry = join(folder, 'page.js');
  writeFileSync(entry, program);
  const built = await build({
    root: folder,
    configFile: false,
    logLevel: 'silent',
    build: { write: false, lib: { entry, formats: ['iife'], name: 'page' } },
  });
  const [output] = Array.isArray(built) ? built : [built];
  if (!output || !('output' in output)) throw new Error('vite has built nothing');
  const [{ code, moduleIds }] = output.output;
  return { code, modules: moduleIds, bytes: code.length, gzippedBytes: gzipSync(code).length };
}

/** What browsers, workers and edge functions have in common, and nothing of Node. */
const webGlobals = [
  'fetch',
  'Request',
  'Response',
  'Headers',
  'FormData',
  'Blob',
  'URL',
  'URLSearchParams',
  'ReadableStream',
  'AbortController',
  'AbortSignal',
  'DOMException',
  'TextEncoder',
  'TextDecoder',
  'crypto',
  'performance',
  'setTimeout',
  'clearTimeout',
  'setInterval',
  'clearInterval',
  'queueMicrotask',
  'structuredClone',
  'console',
] as const;

/** Runs a script that sets `page.main` with the globals of the web alone, and answers that function. */
export function openPage<T>(code: string): (...args: readonly unknown[]) => Promise<T> {
  const globals = Object.fromEntries(webGlobals.map((name) => [name, globalThis[name]]));
  // A realm of its own has its own errors and typed arrays, as a page has, and no `process`, `Buffer` or `require`.
  const context = createContext({ ...globals, Uint8Array, Error, TypeError });
  runInContext(code, context);
  return runInContext('page.main', context) as (...args: readonly unknown[]) => Promise<T>;
}
