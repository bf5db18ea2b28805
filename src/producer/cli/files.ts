import { createReadStream, createWriteStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, extname, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { defined } from '../../shared/base/collections.ts';
import { RunError } from '../../shared/base/errors.ts';
import {
  type FileView,
  filePurpose,
  maxListedFiles,
  minFileTtlS,
  maxFileTtlS,
  uploadPurpose,
} from '../../shared/contract/files.ts';
import { type AddCommand, examples, exitCodes, printJson } from './cli.ts';
import { wholeNumber } from './options/arguments.ts';
import { asJson, choice, command, text, value, valueOr } from './options/command.ts';
import { openClient } from './options/open-client.ts';
import { listTable, nameColumn, numberColumn, textColumn } from './show/list-table.ts';
import { dateTime, dim } from './show/paint.ts';
import { countOf, oneLine } from '../../shared/base/words.ts';

export const addFiles: AddCommand = (program, act) => {
  const files = program
    .command('files')
    .description('List, upload, fetch and delete files: what batches read and write, and what runs are given.')
    .addHelpText(
      'after',
      examples('millrace files', 'millrace files put lines.jsonl', 'millrace files get file-01K… -o answers.jsonl'),
    );
  for (const add of [list, put, get, remove]) add(files, act);
};

const list = command('list', {
  description: 'List files, newest first.',
  options: [
    choice('--purpose <purpose>', 'only files for this', filePurpose.options),
    valueOr('--limit <n>', 'at most so many', wholeNumber(1, maxListedFiles), 20),
    asJson,
  ],
  isDefault: true,
  help: examples('millrace files list --purpose batch_output', 'millrace files --limit 100 --json'),
  work: async (cli, { purpose, limit, json }) => {
    await using mill = openClient(cli);
    const { data, has_more } = await mill.files.list({ purpose, limit });
    if (json) return printJson(cli, data);
    cli.stdout.write(data.length === 0 ? '' : listTable(columns, data.map(rowOf), cli.stdout));
    if (data.length === 0) cli.stderr.write('There are no such files.\n');
    else if (has_more)
      cli.stderr.write(`${dim(cli.stderr, `There are more: --limit ${Math.min(limit * 2, maxListedFiles)}`)}\n`);
    return exitCodes.ok;
  },
});

const columns = [
  nameColumn('FILE'),
  numberColumn('BYTES'),
  nameColumn('PURPOSE'),
  nameColumn('MADE (UTC)'),
  nameColumn('UNTIL (UTC)'),
  textColumn('NAME'),
];

function rowOf({ id, bytes, purpose, created_at, expires_at, filename }: FileView): string[] {
  const until = expires_at === undefined ? '' : timeOf(expires_at);
  return [id, String(bytes), purpose, timeOf(created_at), until, oneLine(filename, 80)];
}

function timeOf(seconds: number): string {
  return dateTime(new Date(seconds * 1_000).toISOString());
}

const put = command('put <path>', {
  description: 'Upload a file and print its id.',
  options: [
    choice(
      '--purpose <purpose>',
      'what it is for (default: batch for .jsonl and .csv, else user_data)',
      uploadPurpose.options,
    ),
    text('--name <name>', 'its name (default: that of the file)'),
    text('--type <type>', 'its content type (default: by its ending)'),
    value('--expires <seconds>', 'when it goes (default: after 7 days)', wholeNumber(minFileTtlS, maxFileTtlS)),
    asJson,
  ],
  help: examples('millrace files put lines.jsonl', 'millrace files put contract.pdf --expires 86400'),
  work: async (cli, path, { purpose, name, type, expires, json }) => {
    const full = resolve(cli.cwd, path);
    await requireFile(full, path);
    await using mill = openClient(cli);
    const ending = extname(full).toLowerCase();
    const file = await mill.files.upload(
      createReadStream(full),
      defined({
        filename: name ?? basename(full),
        purpose: purpose ?? (ending === '.jsonl' || ending === '.csv' ? 'batch' : 'user_data'),
        mediaType: type ?? typesByEnding[ending],
        expiresAfterS: expires,
      }),
    );
    if (json) return printJson(cli, file);
    cli.stdout.write(`${file.id}\n`);
    cli.stderr.write(`${oneLine(file.filename, 200)}: ${countOf(file.bytes, 'byte')}, for ${file.purpose}\n`);
    return exitCodes.ok;
  },
});

const typesByEnding: Readonly<Record<string, string>> = {
  '.jsonl': 'application/jsonl',
  '.csv': 'text/csv',
  '.json': 'application/json',
  '.txt': 'text/plain',
  '.md': 'text/markdown',
  '.pdf': 'application/pdf',
  '.png': 'image/png',
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.gif': 'image/gif',
  '.webp': 'image/webp',
};

/** What cannot be read is a mistake in the command, and nothing is uploaded of it. */
async function requireFile(full: string, path: string): Promise<void> {
  const found = await stat(full).catch((cause: unknown) => {
    throw new RunError('validation', `${path} cannot be read`, { cause });
  });
  if (!found.isFile()) throw new RunError('validation', `${path} is not a file`);
}

const get = command('get <id>', {
  description: 'Fetch the bytes of a file.',
  options: [text('-o, --output <file>', 'where they go (default: standard output)')],
  help: examples('millrace files get file-01K… -o answers.jsonl', 'millrace files get file-01K… | head'),
  work: async (cli, id, { output }) => {
    await using mill = openClient(cli);
    const { media_type, bytes } = await mill.files.get(id);
    if (output === undefined) {
      if (cli.stdout.isTTY && !/^text\/|json/.test(media_type))
        throw new RunError('validation', 'these are no characters for a terminal: name a file with -o, or pipe it on');
      await pipeline(mill.files.content(id), cli.stdout, { end: false });
      return exitCodes.ok;
    }
    const written = createWriteStream(resolve(cli.cwd, output));
    await pipeline(mill.files.content(id), written).catch((cause: unknown) => {
      throw cause instanceof RunError ? cause : new RunError('validation', `${output} cannot be written`, { cause });
    });
    cli.stderr.write(`${output}: ${media_type}, ${countOf(bytes, 'byte')}\n`);
    return exitCodes.ok;
  },
});

const remove = command('rm <id>', {
  description: 'Delete a file.',
  options: [asJson],
  help: examples('millrace files rm file-01K…'),
  work: async (cli, id, { json }) => {
    await using mill = openClient(cli);
    await mill.files.remove(id);
    if (json) return printJson(cli, { id, deleted: true });
    cli.stderr.write(`${id} is gone.\n`);
    return exitCodes.ok;
  },
});
