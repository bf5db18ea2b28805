// Builds the console (src/producer/console) into a folder: `node scripts/console.mjs build [FOLDER]`, by default the one
// that a producer which runs from source serves. `npm run console:dev` serves it with hot replacement instead, and
// everything else from a producer: `node scripts/console.mjs dev [PRODUCER-URL]`, by default http://127.0.0.1:8080.
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { preact } from '@preact/preset-vite';
import { build, createServer } from 'vite';

const root = fileURLToPath(new URL('..', import.meta.url));
const source = join(root, 'src/producer/console');
const defaultProducer = 'http://127.0.0.1:8080';

/** Never inline: the policy of the page allows only files of this origin. */
const config = {
  configFile: false,
  root: source,
  base: '/',
  cacheDir: join(root, '.cache/vite-console'),
  plugins: [preact({ reactAliasesEnabled: false })],
};

const [what = 'build', where] = process.argv.slice(2);
if (what === 'build') await buildInto(resolve(where ?? join(root, '.cache/console')));
else if (what === 'dev') await serveFor(where ?? defaultProducer);
else throw new Error(`${what}: there is build and dev`);

async function buildInto(outDir) {
  await build({
    ...config,
    logLevel: 'warn',
    build: {
      outDir,
      emptyOutDir: true,
      target: 'es2023',
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      assetsDir: 'assets',
    },
  });
}

async function serveFor(producer) {
  // The producer sees its own origin, as it would without this server in between.
  const { origin } = new URL(producer);
  const proxied = { target: origin, changeOrigin: true, headers: { origin } };
  const server = await createServer({
    ...config,
    server: {
      host: '127.0.0.1',
      port: 5_180,
      proxy: { '/v1': proxied, '/openapi.json': proxied, '/metrics': proxied, '/readyz': proxied },
    },
  });
  await server.listen();
  server.printUrls();
  console.error(`requests go to the producer at ${origin}`);
}
