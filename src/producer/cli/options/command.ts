import { Option, type Command } from 'commander';
import type { AddCommand, Work } from '../cli.ts';

declare const named: unique symbol;

/** An option of a command, with the name and the type of its value. */
export interface OptionOf<Name extends string = string, T = unknown> extends Option {
  readonly [named]?: readonly [Name, T];
}

/** What commander passes on for options: each value by its name. */
export type ValuesOf<O extends readonly OptionOf[]> = {
  readonly [E in O[number] as NonNullable<E[typeof named]>[0]]: NonNullable<E[typeof named]>[1];
};

type Camel<S extends string> = S extends `${infer Head}-${infer Tail}` ? `${Head}${Capitalize<Camel<Tail>>}` : S;
/** `maxCost` of `-m, --max-cost <usd>`. */
type NameIn<Flags extends string> = Flags extends `${string}--${infer Long} ${string}`
  ? Camel<Long>
  : Flags extends `${string}--${infer Long}`
    ? Camel<Long>
    : never;

export function flag<F extends string>(flags: F, means: string): OptionOf<NameIn<F>, true | undefined> {
  return new Option(flags, means);
}

export function text<F extends string>(flags: F, means: string): OptionOf<NameIn<F>, string | undefined> {
  return new Option(flags, means);
}

export function choice<F extends string, const T extends string>(
  flags: F,
  means: string,
  choices: readonly T[],
): OptionOf<NameIn<F>, T | undefined> {
  return new Option(flags, means).choices(choices);
}

/** `read` gets what an earlier option of this name gave, and throws `InvalidArgumentError`. */
export function value<F extends string, T>(
  flags: F,
  means: string,
  read: (given: string, before?: T) => T,
): OptionOf<NameIn<F>, T | undefined> {
  return new Option(flags, means).argParser(read);
}

export function valueOr<F extends string>(
  flags: F,
  means: string,
  read: (given: string) => number,
  otherwise: number,
): OptionOf<NameIn<F>, number> {
  return new Option(flags, means).argParser(read).default(otherwise);
}

export const asJson = flag('--json', 'print one JSON document');

type ArgIn<Arg extends string> = Arg extends `${string}...${string}`
  ? string[]
  : Arg extends `<${string}`
    ? string
    : string | undefined;
/** `[string, string[]]` of `approve <run> [calls...]`. */
type ArgsIn<Form extends string> = Form extends `${string} ${infer Arg} ${infer Rest}`
  ? [ArgIn<Arg>, ...ArgsIn<`- ${Rest}`>]
  : Form extends `${string} ${infer Arg}`
    ? [ArgIn<Arg>]
    : [];

interface About<Form extends string, O extends readonly OptionOf[]> {
  readonly description: string;
  readonly options?: O;
  /** The text after the options. */
  readonly help?: string;
  readonly isDefault?: true;
  /** Gets the arguments, and then the values of the options. */
  readonly work: Work<[...ArgsIn<Form>, ValuesOf<O>]>;
}

/** A command by its form, for instance `get <run>`. */
export function command<Form extends string, O extends readonly OptionOf[] = []>(
  form: Form,
  { description, options, help = '', work, ...how }: About<Form, O>,
): (...parent: Parameters<AddCommand>) => Command {
  return (parent, act) => {
    const made = parent.command(form, how).description(description);
    for (const option of options ?? []) made.addOption(option);
    return made.addHelpText('after', help).action(act(work));
  };
}
