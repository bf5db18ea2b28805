import { appendFile } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { defined } from '../../../shared/base/collections.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { jsonOr, isRecord, repeatsKey } from '../../../shared/base/json.ts';
import { verifyReceipt, type ErasureReceipt } from '../../../shared/contract/erasure/receipt.ts';
import type { EraseRequest, ErasureAnswer } from '../../client/erase/request.ts';
import type { Millrace } from '../../client/millrace.ts';
import { examples, exitCodes, printJson, type AddCommand, type Cli, shownJson } from '../cli.ts';
import { command, flag, text, value, asJson, type ValuesOf } from '../options/command.ts';
import { openClient } from '../options/open-client.ts';
import { keyValue } from '../options/arguments.ts';
import { count, countOf, flat } from '../../../shared/base/words.ts';

const options = [
  value('--metadata <key=value>', 'all runs with this; may be given several times', keyValue),
  text('--thread <id>', 'this thread, with all of its runs'),
  flag('--threads', 'also the threads of these runs, with all runs of them'),
  flag('--cancel', 'cancel what has not ended first'),
  flag('--yes', 'do not ask: needed with --metadata and --thread'),
  text('-o, --output <file>', 'add the receipts to this file, one a line'),
  asJson,
];
type Options = ValuesOf<typeof options>;

export const addErase = command('erase [run]', {
  description: 'Erase a run, a thread, or all runs with some metadata, for good, and keep the signed receipt.',
  options,
  help:
    examples(
      'millrace erase 01K9Z5N3T8R6V2X4B7C1D0E9FG -o receipt.json',
      'millrace erase --metadata user=42 --threads --yes -o receipts.jsonl',
      'millrace erase --thread customer-42 --cancel --yes --json',
    ) + '\n\nExits with 1 when something was left: it says what, and why.',
  work: async (cli, run, asked) => {
    await using mill = openClient(cli);
    const request = await requestOf(mill, run, asked);
    // Before anything is erased: a receipt is given once.
    if (asked.output !== undefined) await addTo(resolve(cli.cwd, asked.output), '');
    const answers: ErasureAnswer[] = [];
    const receipts = () => answers.map(({ receipt }) => receipt);
    const kept = () => answers.flatMap((answer) => answer.kept);
    try {
      for (let cursor: string | undefined; ;) {
        cli.interrupted.throwIfAborted();
        const answer = await mill.erase(defined({ ...request, cursor }));
        answers.push(answer);
        await keepReceipt(cli, answer.receipt, asked);
        cursor = answer.cursor;
        if (cursor === undefined) break;
      }
    } finally {
      if (asked.json && answers.length > 0) printJson(cli, { receipts: receipts(), kept: kept() });
    }
    for (const left of kept()) cli.stderr.write(`Left: ${left.runId} (${left.reason})\n`);
    const unreadable = unreadableLines(receipts());
    for (const line of unreadable) cli.stderr.write(`${line}\n`);
    cli.stderr.write(`${summaryOf(receipts())}\n`);
    return kept().length + unreadable.length === 0 ? exitCodes.ok : exitCodes.failed;
  },
});

/** At once, and behind those that the file has: a later call may fail, and no receipt is given twice. */
async function keepReceipt(cli: Cli, receipt: ErasureReceipt, { output, json }: Options): Promise<void> {
  const line = shownJson(receipt);
  const print = () => void (json || cli.stdout.write(line));
  if (output === undefined) return print();
  await addTo(resolve(cli.cwd, output), line).catch((error: unknown) => {
    print();
    throw error;
  });
}

async function addTo(path: string, text: string): Promise<void> {
  await appendFile(path, text).catch((cause: unknown) => {
    throw new RunError('validation', `${path} cannot be written`, { cause });
  });
}

async function requestOf(mill: Millrace, run: string | undefined, asked: Options): Promise<EraseRequest> {
  const { metadata, thread, threads, cancel, yes } = asked;
  if ([run, thread, metadata].filter((given) => given !== undefined).length !== 1)
    throw new RunError('validation', 'say what: a run, --thread THREAD, or --metadata KEY=VALUE, one of them');
  if (run === undefined && !yes) throw new RunError('validation', 'this erases for good: add --yes');
  const how = { threads, cancel };
  if (run !== undefined) return defined({ run: await wholeId(mill, run), ...how });
  return defined({ thread, metadata, ...how });
}

/** Also of a run that a killed erasure has left without a record. */
async function wholeId(mill: Millrace, run: string): Promise<string> {
  return /^[0-9A-HJKMNP-TV-Z]{26}$/.test(run) ? run : await mill.findRunId(run);
}

/** What may be left because a record cannot be read. */
function unreadableLines(receipts: readonly ErasureReceipt[]): readonly string[] {
  const erased = new Set(receipts.flatMap(({ runs }) => runs));
  const named = new Set(receipts.flatMap(({ unreadable }) => unreadable?.runs ?? []));
  const lines = [...named].map((runId) =>
    erased.has(runId)
      ? `Erased, but what belongs to it is not known: ${runId} (unreadable)`
      : `Left: ${runId} (unreadable)`,
  );
  const more = receipts.reduce(
    (sum, { unreadable }) => sum + (unreadable ? unreadable.count - unreadable.runs.length : 0),
    0,
  );
  return more === 0 ? lines : [...lines, `Unreadable: ${count(more)} more`];
}

function summaryOf(receipts: readonly ErasureReceipt[]): string {
  const sum = (of: (receipt: ErasureReceipt) => number) => receipts.reduce((total, receipt) => total + of(receipt), 0);
  const [runs, threads] = [sum((receipt) => receipt.runs.length), sum((receipt) => receipt.threads.length)];
  return `Erased: ${countOf(runs, 'run')}, ${countOf(threads, 'thread')}.`;
}

const verify = command('verify <file>', {
  description: 'Say whether receipts of erasures are as they were signed.',
  options: [
    text(
      '--key <key>',
      'the public key, base64, as `GET /v1/erasure-key` had it (default: the one of this installation)',
    ),
    asJson,
  ],
  help: examples(
    'millrace receipt verify receipts.jsonl',
    'millrace receipt verify receipt.json --key 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=',
  ),
  work: async (cli, file, { key, json }) => {
    const receipts = receiptsIn(readText(resolve(cli.cwd, file)));
    const publicKey = key ?? (await ownKey(cli));
    const found = receipts.map(({ receipt, isClear }) => {
      const receiptId = isRecord(receipt) ? String(receipt['receiptId']) : '';
      if (!isClear) cli.stderr.write(`${flat(receiptId)}: ${notClear}\n`);
      return { receiptId, valid: isClear && verifyReceipt(receipt, publicKey) };
    });
    if (json) printJson(cli, found);
    else
      for (const { receiptId, valid } of found)
        cli.stdout.write(`${valid ? 'valid' : 'NOT VALID'} ${flat(receiptId)}\n`);
    return found.every(({ valid }) => valid) ? exitCodes.ok : exitCodes.failed;
  },
});

const notClear = 'an object in its text has a key twice, so what a reader takes from it is not certain';

async function ownKey(cli: Parameters<typeof openClient>[0]): Promise<string> {
  await using mill = openClient(cli);
  return (await mill.erasureKey()).publicKey;
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    throw new RunError('validation', `${path} cannot be read`, { cause });
  }
}

/** `isClear`: all readers of its text take the same from it. */
interface ReadReceipt {
  readonly receipt: unknown;
  readonly isClear: boolean;
}

/** One document, or one a line. An answer over HTTP has its receipt within. */
function receiptsIn(content: string): readonly ReadReceipt[] {
  const isWhole = jsonOr(content) !== undefined;
  const texts = isWhole ? [content] : content.split('\n').filter((line) => line.trim() !== '');
  if (texts.length === 0 || texts.some((text) => jsonOr(text) === undefined))
    throw new RunError('validation', 'the file is neither a receipt, nor one a line');
  return texts.map((text) => {
    const found = jsonOr(text);
    const receipt = isRecord(found) && isRecord(found['receipt']) ? found['receipt'] : found;
    return { receipt, isClear: !repeatsKey(text) };
  });
}

export const addReceipt: AddCommand = (program, act) => {
  const receipt = program
    .command('receipt')
    .description('Verify receipts of erasures.')
    .addHelpText('after', examples('millrace receipt verify receipt.json'));
  verify(receipt, act);
};
