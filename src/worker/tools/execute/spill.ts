import { createHash } from 'node:crypto';
import { jsonText } from '../../../shared/base/json.ts';
import type { Log } from '../../../shared/base/log.ts';
import type { Artifacts } from '../../../shared/state/results/artifacts.ts';
import type { Spill } from './batch.ts';
import { partOf, type ResultReader } from '../source.ts';
import { ToolError } from '../tool-error.ts';

/** What the handles of kept results begin with. The rest is the name within the run's own area, and has no meaning. */
const scheme = 'spill:';

/**
 * Keeps the results of one run. A name is made of the run, the tool and the body: the same result again takes no more
 * room, and no other run has or can guess it. A store that fails is logged, without the body.
 */
export function spillOf(artifacts: Artifacts, runId: string, log: Log): Spill {
  return {
    async put(body, origin) {
      const { toolName, trust, sensitivity, inboundSanitization } = origin;
      const facts = jsonText([runId, toolName, trust, sensitivity, inboundSanitization]);
      const name = createHash('sha256').update(facts).update(body).digest('hex').slice(0, 32);
      const bytes = Buffer.from(body);
      try {
        await artifacts.put(runId, name, bytes, origin);
      } catch (error) {
        log.warn({ tool: toolName, bytes: bytes.length, err: error }, 'a large result was not kept');
        throw error;
      }
      return scheme + name;
    },
  };
}

/** Reads what `spillOf` kept, for the same run only. */
export function createSpillReader(artifacts: Artifacts): ResultReader {
  return async (request) => {
    if (!request.handle.startsWith(scheme)) return undefined;
    const name = request.handle.slice(scheme.length);
    // Checked before it can reach a path or a key.
    if (!/^[0-9a-f]{32}$/.test(name)) throw unknownHandle();
    const { runId, range, maxBytes, signal } = request;
    return await partOf(range, maxBytes, async (offset, length) => {
      signal.throwIfAborted();
      const found = await artifacts.read(runId, name, offset, length);
      if (!found) throw unknownHandle();
      return { bytes: Buffer.from(found.bytes), info: found.info };
    });
  };
}

function unknownHandle(): ToolError {
  return new ToolError('spill_handle_invalid', 'this run has no result of this handle');
}
