// Lets a checkout run what imports `millrace` by name, from source and without a build:
// node --import ./scripts/resolve-source.mjs examples/in-process.ts

import { registerHooks } from 'node:module';

const own = {
  millrace: new URL('../src/producer/index.ts', import.meta.url).href,
  'millrace/client': new URL('../src/producer/client/remote/entry.ts', import.meta.url).href,
  'millrace/worker': new URL('../src/worker/index.ts', import.meta.url).href,
  'millrace/testing': new URL('../src/testing/index.ts', import.meta.url).href,
};

registerHooks({
  resolve(specifier, context, next) {
    const url = own[specifier];
    return url ? { url, shortCircuit: true } : next(specifier, context);
  },
});
