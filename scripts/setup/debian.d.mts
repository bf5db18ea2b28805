export function unpackDebianPackages(
  packages: readonly string[],
  folder: string,
  env: NodeJS.ProcessEnv,
): string | undefined;
