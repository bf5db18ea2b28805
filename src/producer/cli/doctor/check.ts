/** One line of `doctor`. `warn` can wait, `fail` needs attention; `advice` is what to do. */
export interface Check {
  readonly name: string;
  readonly level: 'ok' | 'warn' | 'fail';
  readonly text: string;
  readonly advice?: string | undefined;
}

function checkOf(level: Check['level']): (name: string, text: string, advice?: string) => Check {
  return (name, text, advice) => ({ name, level, text, advice });
}

export const ok = checkOf('ok');
export const warn = checkOf('warn');
export const fail = checkOf('fail');
