type Optional<T> = { [K in keyof T]: undefined extends T[K] ? K : never }[keyof T];
type Defined<T> = { [K in keyof T as K extends Optional<T> ? never : K]: T[K] } & {
  [K in keyof T as K extends Optional<T> ? K : never]?: Exclude<T[K], undefined>;
};

/**
 * Without the fields that are undefined. For objects that leave the process as objects (arguments of a caller's functions, what the
 * clients answer): there an absent field and an undefined one differ. What becomes JSON does not need it.
 */
export function defined<const T extends object>(fields: T): Defined<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Defined<T>;
}
