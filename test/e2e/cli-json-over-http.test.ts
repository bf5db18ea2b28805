// Every command with `--json` against a producer, from a shell that has no Redis.
const { reach } = await import('./cli-json.test.ts');
reach.isHttp = true;
