import { createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { RunError } from '../../shared/base/errors.ts';
import { openClient } from './options/open-client.ts';
import { command, text } from './options/command.ts';
import { examples, exitCodes } from './cli.ts';
import { countOf } from '../../shared/base/words.ts';

export const addMedia = command('media <handle>', {
  description: 'Fetch a file that a run generated; `millrace get` shows its handle.',
  options: [text('-o, --output <file>', 'where it goes (default: standard output)')],
  help: examples(`millrace media media://sha256-${'0'.repeat(8)}… -o picture.png`),
  work: async (cli, handle, { output }) => {
    await using mill = openClient(cli);
    if (output === undefined && cli.stdout.isTTY)
      throw new RunError('validation', 'these are no characters for a terminal: name a file with -o, or pipe it on');
    const { bytes, mediaType } = await mill.media(handle);
    if (output === undefined) {
      await new Promise<void>((resolve, reject) =>
        cli.stdout.write(bytes, (error) => (error ? reject(error) : resolve())),
      );
      return exitCodes.ok;
    }
    await pipeline([bytes], createWriteStream(output)).catch((cause: unknown) => {
      throw new RunError('validation', `${output} cannot be written`, { cause });
    });
    cli.stderr.write(`${output}: ${mediaType}, ${countOf(bytes.length, 'byte')}\n`);
    return exitCodes.ok;
  },
});
