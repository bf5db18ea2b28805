import type { ResultReader } from './result-reader.ts';
import type { Tool } from './tool.ts';

/** Tools that are there only while a run is worked on, for instance those of an MCP server. Closing them never rejects. */
export interface OpenedTools extends AsyncDisposable {
  /** As they are now: a server may change its list while the run goes on. */
  tools(): readonly Tool[];
  /** Readers of the handles that their results name. */
  readonly resultReaders: readonly ResultReader[];
}
