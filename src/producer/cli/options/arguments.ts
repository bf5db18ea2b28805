import { defined } from '../../../shared/base/collections.ts';
import { didYouMean } from '../../../shared/base/nearest.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { InvalidArgumentError } from 'commander';
import { budgetOnExceed, type OnExceed } from '../../../shared/contract/money.ts';
import { choice, value } from './command.ts';
import { dialectNames } from '../../../shared/dialects/project.ts';

/** A whole number within bounds, from the command line. */
export function wholeNumber(min: number, max = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < min || value > max) {
      throw new InvalidArgumentError(
        `Not a whole number ${max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`}.`,
      );
    }
    return value;
  };
}

/** A number above zero, from the command line. */
export function positiveNumber(text: string): number {
  const value = Number(text);
  if (!/^\d*\.?\d+$/.test(text) || value <= 0) throw new InvalidArgumentError('Not a number above 0.');
  return value;
}

/** What happens before a call that could pass the cap. */
export function onExceedOption(cap = '--max-cost') {
  return choice('--on-exceed <what>', `before a call that could pass ${cap} (default: fail)`, budgetOnExceed.options);
}

/** The budget that `--max-cost` and `--on-exceed` set, if any. Throws `validation`. */
export function budgetFrom({ maxCost, onExceed }: { maxCost: number | undefined; onExceed: OnExceed | undefined }) {
  if (maxCost !== undefined) return defined({ maxCostUsd: maxCost, onExceed });
  if (onExceed === undefined) return undefined;
  throw new RunError('validation', '--on-exceed needs --max-cost: without a cap there is nothing to exceed');
}

const deadline = 'end the run so long after its acceptance, whatever it waits for';

/** Seconds, for {@link deadlineFrom}. */
export function deadlineOption(means = deadline) {
  return value('--deadline <seconds>', means, positiveNumber);
}

/** The field of a run that `--deadline` sets. */
export function deadlineFrom({ deadline: seconds }: { readonly deadline?: number | undefined }): {
  deadlineMs?: number;
} {
  return seconds === undefined ? {} : { deadlineMs: Math.ceil(seconds * 1_000) };
}

/** Events in the words of another system. Its help names none: few readers need them, and those know the name. */
export function dialectOption() {
  return value('--dialect <name>', 'print one event a line, in the format of another system', (text) => {
    const name = dialectNames.find((one) => one === text);
    if (name !== undefined) return name;
    throw new InvalidArgumentError(`Not one of ${dialectNames.join(', ')}${didYouMean(text, dialectNames)}`);
  });
}

/** For the end of a help. */
export const dialectHelp = `\n\nFormats of --dialect: ${dialectNames.join(', ')}.`;

/** Collects a repeated `key=value`. */
export function keyValue(text: string, before: Readonly<Record<string, string>> = {}): Record<string, string> {
  const at = text.indexOf('=');
  if (at < 1) throw new InvalidArgumentError('Not of the form key=value.');
  return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
}
