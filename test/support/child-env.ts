/** The environment of a process that a test starts: the path, the compiled code of earlier starts, and what is given. */
export function childEnv(given: Readonly<Record<string, string>> = {}): Record<string, string> {
  const { PATH = '', NODE_COMPILE_CACHE } = process.env;
  return { PATH, ...(NODE_COMPILE_CACHE !== undefined && { NODE_COMPILE_CACHE }), ...given };
}
