/** What one script may use. The process around it is replaced when it goes beyond time or memory. */
export interface ScriptLimits {
  /** UTF-16 units of source text. */
  readonly maxSourceChars: number;
  /** From its first instruction to its last, waiting for tools included. */
  readonly timeoutMs: number;
  /** The call after the last one ends the script. */
  readonly maxCalls: number;
  /** UTF-16 units of JSON that one call may pass to a tool. */
  readonly maxArgsChars: number;
  /** Bytes of JSON that one call may get from a tool. */
  readonly maxInnerResultBytes: number;
  /** Bytes of JSON that it may return. */
  readonly maxResultBytes: number;
}

export const defaultLimits: ScriptLimits = {
  maxSourceChars: 100_000,
  timeoutMs: 30_000,
  maxCalls: 64,
  maxArgsChars: 262_144,
  maxInnerResultBytes: 1_048_576,
  maxResultBytes: 51_200,
};

/** How long a script that has to end, and the calls it has in flight, may take to do so. */
export const scriptGraceMs = 100;

/** Levels of arrays and objects in arguments and in what a script returns. */
export const maxJsonLevels = 64;

/** What a script prints: this many lines, each of this length, are kept. */
export const maxLogLines = 100;
export const maxLogLineChars = 500;

/** Of what a script threw. */
export const maxErrorChars = 2_000;

/** Largest message of a process: the arguments of one call, in the longest way to write them. */
export const maxChildFrameBytes = 4 * 1_048_576;
/** Largest message to a process: the result of one call, likewise. */
export const maxHostFrameBytes = 8 * 1_048_576;
