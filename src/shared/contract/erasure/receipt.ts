import { createHash, createPrivateKey, createPublicKey, sign, verify, type KeyObject } from 'node:crypto';
import { z } from 'zod';
import { canonicalJson } from '../../base/json.ts';
import { RunError } from '../../base/run-error.ts';

export const receiptVersion = 1;

const count = z.int().min(0);

/** Runs that cannot be read that a receipt names. */
export const maxUnreadableNamed = 100;

/** How much of what was erased. */
export const erasedCounts = z.object({
  records: count.describe('Records of runs in Redis: request, result, decisions, messages on their way.'),
  journalEntries: count,
  events: count.describe('In the logs of the runs.'),
  lifecycleEvents: count.describe('In the stream of all runs.'),
  archived: count.describe('Runs in the archive.'),
  results: count.describe('Runs whose kept results of tools were removed, if there were any.'),
  progressNotes: count,
  media: count.describe('Files that the runs made or were given, by their digest.'),
  files: count.describe('Uploaded files that were inputs of these runs.'),
  batchLines: count.describe('Lines of input, output and error files of batches.'),
  threads: count,
  threadEntries: count,
});
export type ErasedCounts = z.infer<typeof erasedCounts>;

export const noCounts: Readonly<ErasedCounts> = {
  records: 0,
  journalEntries: 0,
  events: 0,
  lifecycleEvents: 0,
  archived: 0,
  results: 0,
  progressNotes: 0,
  media: 0,
  files: 0,
  batchLines: 0,
  threads: 0,
  threadEntries: 0,
};

/** What a key that signs is known by. */
export const erasureKeyView = z.object({
  keyId: z.string().describe('The first 16 digits of the SHA-256 of the public key.'),
  algorithm: z.literal('Ed25519'),
  publicKey: z.string().describe('The 32 bytes of the key, base64.'),
});
export type ErasureKeyView = Readonly<z.infer<typeof erasureKeyView>>;

const signed = z.object({
  kind: z.literal('millrace.erasure-receipt'),
  v: z.literal(receiptVersion),
  receiptId: z.string(),
  tenant: z.string(),
  at: z.string(),
  by: z.string().optional().describe('As in the audit log.'),
  of: z.enum(['run', 'runs', 'thread']),
  metadataKeys: z
    .array(z.string())
    .optional()
    .describe('The keys that runs were chosen by; their values are personal and not here.'),
  runs: z.array(z.string()).describe('Ids, with those of children.'),
  threads: z.array(z.string()),
  erased: erasedCounts,
  kept: z
    .object({ media: count, files: count })
    .describe(
      'Left because runs or threads that were not erased refer to them, or may: one cannot be read, or there are too many to look at all.',
    ),
  unreadable: z
    .object({ count, runs: z.array(z.string()).describe(`The first ${maxUnreadableNamed}.`) })
    .optional()
    .describe(
      'Runs whose only record is in the archive and cannot be read. Of those in `runs` it was removed; children, a thread, files and lines of a batch that it alone named are not known. The others stay: it is not known whether they are meant.',
    ),
});

/** Says what was erased, when, and for whom. Signed: a changed one does not verify. */
export const erasureReceipt = signed.extend({
  keyId: z.string(),
  signature: z.string().describe('Ed25519 over the JSON of all other fields but `keyId`, with sorted keys, base64.'),
});
export type ErasureReceipt = Readonly<z.infer<typeof erasureReceipt>>;
export type UnsignedReceipt = Readonly<z.infer<typeof signed>>;

const seedBytes = 32;
/** What comes before the seed of a private key in PKCS #8, and before the bytes of a public one in SPKI. */
const privateHead = Buffer.from('302e020100300506032b657004220420', 'hex');
const publicHead = Buffer.from('302a300506032b6570032100', 'hex');

/** A key that signs receipts. */
export interface ErasureKey {
  readonly view: ErasureKeyView;
  sign(receipt: UnsignedReceipt): ErasureReceipt;
}

/** The key of a seed of 32 bytes in base64. Throws `invalid_config` for anything else. */
export function erasureKeyOf(seed: string): ErasureKey {
  const bytes = Buffer.from(seed, 'base64');
  if (bytes.length !== seedBytes || !/^[A-Za-z0-9+/]+=*$/.test(seed))
    throw new RunError('invalid_config', 'ERASURE_KEY must be 32 bytes in base64: openssl rand -base64 32');
  const key = createPrivateKey({ key: Buffer.concat([privateHead, bytes]), format: 'der', type: 'pkcs8' });
  const view = viewOfKey(createPublicKey(key));
  return {
    view,
    sign(receipt) {
      const signature = sign(null, textOf(receipt), key).toString('base64');
      return { ...signed.parse(receipt), keyId: view.keyId, signature };
    },
  };
}

function viewOfKey(key: KeyObject): ErasureKeyView {
  const publicKey = key.export({ format: 'der', type: 'spki' }).subarray(publicHead.length);
  const keyId = createHash('sha256').update(publicKey).digest('hex').slice(0, 16);
  return { keyId, algorithm: 'Ed25519', publicKey: publicKey.toString('base64') };
}

/** What is signed. */
function textOf(receipt: UnsignedReceipt): Buffer {
  return Buffer.from(canonicalJson(signed.parse(receipt)));
}

/** The digest of the signed text, as the audit log has it. */
export function receiptSha256(receipt: UnsignedReceipt): string {
  return createHash('sha256').update(textOf(receipt)).digest('hex');
}

/** A receipt without anything that was not signed: what a schema leaves out would show, and verify all the same. */
const exactReceipt = erasureReceipt
  .extend({
    erased: erasedCounts.strict(),
    kept: signed.shape.kept.strict(),
    unreadable: signed.shape.unreadable.unwrap().strict().optional(),
    signature: z.base64(),
  })
  .strict();

/** Is it a receipt that the owner of this public key (32 bytes, base64) has signed, and as it was? Never throws. */
export function verifyReceipt(receipt: unknown, publicKey: string): boolean {
  const parsed = exactReceipt.safeParse(receipt);
  const bytes = Buffer.from(publicKey, 'base64');
  if (!parsed.success || bytes.length !== seedBytes) return false;
  const key = createPublicKey({ key: Buffer.concat([publicHead, bytes]), format: 'der', type: 'spki' });
  const { keyId, signature, ...rest } = parsed.data;
  const bits = Buffer.from(signature, 'base64');
  // The last digit has bits that say nothing: any would do.
  const isExact = bits.toString('base64') === signature;
  return isExact && keyId === viewOfKey(key).keyId && verify(null, textOf(rest), key, bits);
}
