/** A piece that two texts share. */
export interface Span {
  /** In the text that was searched: first unit, and the one behind the last. */
  readonly from: number;
  readonly to: number;
  /** Behind its last unit in the needle, where it first stands there. */
  readonly end: number;
}
