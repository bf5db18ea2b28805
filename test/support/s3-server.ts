import { spawn } from 'node:child_process';
import { goTool } from '../../scripts/go-tool.ts';
import { freePort } from './scratch-redis.ts';
import { until } from './redis.ts';

const tool = await goTool('gofakes3', 'github.com/johannesboyne/gofakes3/cmd/gofakes3@v1.2.0', process.env);

/** Why no S3-compatible server can run on this machine; undefined when one can. */
export const withoutS3 = 'missing' in tool ? tool.missing : undefined;
if (process.env['CI'] && withoutS3) throw new Error(`nothing may be left out on CI: ${withoutS3}`);

export interface S3Server {
  readonly endpoint: string;
  readonly bucket: string;
  stop(): Promise<void>;
}

/** An S3-compatible server with one empty bucket, in memory. The SDK takes its credentials from the environment. */
export async function startS3Server(): Promise<S3Server> {
  if ('missing' in tool) throw new Error(tool.missing);
  process.env['AWS_ACCESS_KEY_ID'] ??= 'test';
  process.env['AWS_SECRET_ACCESS_KEY'] ??= 'test';
  const [bucket, host] = ['results', `127.0.0.1:${await freePort()}`];
  const args = ['-backend', 'memory', '-host', host, '-initialbucket', bucket, '-quiet'];
  const child = spawn(tool.path, args, { stdio: 'ignore' });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const stopWithTests = () => child.kill('SIGKILL');
  process.once('exit', stopWithTests);
  await until('the S3 server to answer', () =>
    fetch(`http://${host}/`).then(
      ({ ok }) => ok,
      () => false,
    ),
  );
  return {
    endpoint: `http://${host}`,
    bucket,
    async stop() {
      process.off('exit', stopWithTests);
      child.kill('SIGKILL');
      await ended;
    },
  };
}
