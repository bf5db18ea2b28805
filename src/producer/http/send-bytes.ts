import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import { contentDisposition } from './content-disposition.ts';

/** For the description of a route that answers with bytes. */
export const bytesAnswer = {
  description: 'The bytes.',
  content: { 'application/octet-stream': { schema: z.string().meta({ format: 'binary' }) } },
};

/** Answers with bytes to download, as they come. */
export async function sendBytes(
  reply: FastifyReply,
  bytes: AsyncIterable<Uint8Array>,
  { type, filename, length }: { readonly type: string; readonly filename: string; readonly length?: number },
): Promise<never> {
  // No browser shows what a stranger uploaded as a page of ours.
  void reply.headers({
    'content-security-policy': "default-src 'none'; sandbox",
    'content-disposition': contentDisposition(filename),
    ...(length !== undefined && { 'content-length': length }),
  });
  return await reply.type(type).send(Readable.from(bytes));
}
