import type { BatchLine, LineSource, SourceDraft } from '../../../../src/producer/batch/lines/line.ts';
import { lineSource, readLines } from '../../../../src/producer/batch/lines/read-lines.ts';

const draft: SourceDraft = {
  endpoint: '/v1/runs',
  filename: 'in.jsonl',
  defaults: { agent: 'support' },
  inputTemplate: undefined,
  answerFields: [],
};

export function sourceOf(content: string | Buffer, about: Partial<SourceDraft> = {}): LineSource {
  return lineSource({ ...draft, ...about }, Buffer.from(content).subarray(0, 1024 * 1024));
}

/** Reads a file that arrives in pieces of so many bytes. */
export async function read(
  content: string | Buffer,
  about: Partial<SourceDraft> = {},
  pieceBytes = 64 * 1024,
): Promise<BatchLine[]> {
  return await Array.fromAsync(readLines(inPieces(Buffer.from(content), pieceBytes), sourceOf(content, about)));
}

export async function readCsv(content: string | Buffer, about: Partial<SourceDraft> = {}, pieceBytes?: number) {
  return await read(content, { filename: 'in.csv', ...about }, pieceBytes);
}

async function* inPieces(bytes: Buffer, pieceBytes: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes);
}

/** What a line asks the agent, or what is wrong with it. */
export function saidBy(line: BatchLine | undefined): string {
  if (line === undefined) return 'no line';
  return line.kind === 'request' ? textOf(line.request.input) : line.error.message;
}

function textOf(input: string | readonly unknown[]): string {
  return typeof input === 'string' ? input : JSON.stringify(input);
}
