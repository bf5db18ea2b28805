/** `using` needs these, which not every browser has yet. Loaded before everything else. */
for (const name of ['dispose', 'asyncDispose'] as const) {
  if (!(name in Symbol)) Object.defineProperty(Symbol, name, { value: Symbol(`Symbol.${name}`) });
}
