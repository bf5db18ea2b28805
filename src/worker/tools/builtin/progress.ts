import { defined } from '../../../shared/base/collections.ts';
import { z } from 'zod';
import { RunError } from '../../../shared/base/errors.ts';
import { runId } from '../../../shared/base/ids.ts';
import { sensitivity, type Sensitivity } from '../../../shared/contract/message.ts';
import {
  maxNoteBytes,
  maxNotesRead,
  progressRole,
  progressSeq,
  progressTags,
} from '../../../shared/contract/artifacts.ts';
import type { Redactor } from '../../../shared/base/redact.ts';
import type { ProgressNotes } from '../../../shared/state/results/progress-notes.ts';
import { definePackageTool } from '../define.ts';
import { ToolError } from '../tool-error.ts';
import { ToolOutput, type HostContext, type Tool, type ToolContext } from '../tool.ts';

const defaultRole = 'agent';
const defaultNotesRead = 20;

const writeSchema = z.strictObject({
  content: z.string().describe(`The text, at most ${maxNoteBytes / 1024} KiB.`),
  role: progressRole.default(defaultRole).describe('Who writes. Every role has numbers of its own.'),
  seq: progressSeq.optional().describe('Default: the next number. One that is taken is an error.'),
  sensitivity: sensitivity.default('public').describe('How far the note may travel.'),
  tags: progressTags.default([]),
});

const readSchema = z.strictObject({
  runId: runId.optional().describe('The run whose notes are wanted. Default: this one.'),
  role: progressRole.optional().describe('Only notes of this role.'),
  sinceSeq: z.int().min(0).default(0).describe('Only notes with a higher number.'),
  maxArtifacts: z.int().min(1).max(maxNotesRead).default(defaultNotesRead),
});

/** `progress_write` and `progress_read`: notes for later sessions of the same tenant, without the secrets of the redactor. */
export function createProgressTools(notes: ProgressNotes, redactor: Redactor): readonly [write: Tool, read: Tool] {
  return [createWriteTool(notes, redactor), createReadTool(notes)];
}

function createWriteTool(notes: ProgressNotes, redactor: Redactor): Tool {
  return definePackageTool({
    name: 'progress_write',
    description:
      'Leaves a note about the progress of this work, for later sessions and for people. Notes are numbered and never changed.',
    inputSchema: writeSchema,
    effect: 'idempotent',
    async execute({ content, ...draft }, context) {
      const { tenant, idempotencyKey: key } = context;
      const text = redactor.text(content);
      const note = await notes
        .write({ ...defined(draft), runId: context.runId, tenant, text, key })
        .catch(throwToolError);
      hostOf(context).emit({ type: 'agent.progress.written', ref: note.ref, sha256: note.sha256 });
      return note;
    },
  });
}

function createReadTool(notes: ProgressNotes): Tool {
  return definePackageTool({
    name: 'progress_read',
    description:
      'Reads notes that sessions have left about the progress of their work, by number. With the id of an earlier run it reads the notes of that one. For more, ask again with sinceSeq.',
    inputSchema: readSchema,
    effect: 'read',
    // Models wrote these texts, from whatever they had read by then.
    trust: 'external',
    truncationStrategy: 'spill-to-file',
    async execute({ runId: other, ...query }, context) {
      const { tenant, runId } = context;
      const found = await notes.read(tenant, other ?? runId, defined(query)).catch(throwToolError);
      for (const { note } of found)
        hostOf(context).emit({ type: 'agent.progress.read', ref: note.ref, sha256: note.sha256 });
      const value = { notes: found.map(({ note, text }) => ({ ...note, text: text ?? null })) };
      const strictest = strictestOf(found.map(({ note }) => note.sensitivity));
      return new ToolOutput(value, {
        origin: { toolName: 'progress_read', trust: 'external', sensitivity: strictest },
      });
    },
  });
}

function strictestOf(labels: readonly Sensitivity[]): Sensitivity {
  return sensitivity.options.findLast((label) => labels.includes(label)) ?? 'public';
}

/** What the model gets of a failure: its code and why. */
function throwToolError(error: unknown): never {
  if (!(error instanceof RunError)) throw error;
  const kind = error.code === 'validation' ? 'invalid_input' : 'execution_failed';
  throw new ToolError(kind, `${error.code}: ${error.message}`, { cause: error });
}

function hostOf(context: ToolContext): Pick<HostContext, 'emit'> {
  return context as HostContext;
}
