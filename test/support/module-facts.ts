import { parseSync } from 'vite';

/** What a module does that the rules of the house are about. */
export interface ModuleFacts {
  /** Every specifier it names: static, type-only, re-exported, dynamic, and in `import('…')` types. */
  readonly imports: readonly string[];
  /** Those that are still there when types are gone: what a program really loads. */
  readonly loads: readonly string[];
  /** What it takes from where: specifier and name, `*` for all of a module. */
  readonly takes: readonly (readonly [specifier: string, name: string])[];
  /** It calls `import(…)` with something that is not a literal. */
  readonly importsComputed: boolean;
  readonly readsEnvironment: boolean;
  /** It writes JSON with the language's own writer. */
  readonly stringifies: boolean;
  readonly exportsDefault: boolean;
  readonly exportsEverythingOf: readonly string[];
}

/** Parses one TypeScript module. Throws when the parser finds a mistake, because a file it cannot read is not checked. */
export function moduleFacts(path: string, source: string): ModuleFacts {
  const { program, module, errors } = parseSync(path, source, {
    lang: path.endsWith('.tsx') ? 'tsx' : 'ts',
    sourceType: 'module',
  });
  if (errors.length > 0) throw new Error(`${path}: ${errors.map((error) => error.message).join('; ')}`);
  const found = {
    imports: [] as string[],
    takes: [] as [string, string][],
    importsComputed: false,
    readsEnvironment: false,
    stringifies: false,
    loaded: [] as string[],
  };
  visit(program, (node) => {
    if (node.type === 'ImportExpression' || node.type === 'TSImportType') {
      const specifier = literal(node['source']);
      if (specifier === undefined) found.importsComputed = true;
      else found.imports.push(specifier);
      if (specifier !== undefined && node.type === 'ImportExpression') {
        found.takes.push([specifier, '*']);
        found.loaded.push(specifier);
      }
    }
    if (readsEnvironment(node)) found.readsEnvironment = true;
    if (stringifies(node)) found.stringifies = true;
  });
  const exported = module.staticExports.flatMap((statement) => statement.entries);
  const reexported = exported.flatMap((entry) => (entry.moduleRequest ? [entry.moduleRequest.value] : []));
  return {
    imports: [
      ...module.staticImports.map((statement) => statement.moduleRequest.value),
      ...reexported,
      ...found.imports,
    ],
    loads: [
      ...module.staticImports
        .filter(({ entries }) => entries.length === 0 || entries.some(({ isType }) => !isType))
        .map(({ moduleRequest }) => moduleRequest.value),
      ...exported.flatMap(({ moduleRequest, isType }) => (moduleRequest && !isType ? [moduleRequest.value] : [])),
      ...found.loaded,
    ],
    takes: [
      ...module.staticImports.flatMap(({ moduleRequest, entries }) =>
        entries.map(({ importName }): [string, string] => [moduleRequest.value, importName.name ?? '*']),
      ),
      ...exported.flatMap(({ moduleRequest, importName }): [string, string][] =>
        moduleRequest ? [[moduleRequest.value, importName.name ?? '*']] : [],
      ),
      ...found.takes,
    ],
    importsComputed: found.importsComputed,
    readsEnvironment: found.readsEnvironment,
    stringifies: found.stringifies,
    exportsDefault: exported.some(
      (entry) => entry.exportName.kind === 'Default' || entry.exportName.name === 'default',
    ),
    exportsEverythingOf: exported.flatMap((entry) =>
      entry.moduleRequest && entry.importName.kind.startsWith('All') ? [entry.moduleRequest.value] : [],
    ),
  };
}

interface SyntaxNode {
  readonly type: string;
  readonly [field: string]: unknown;
}

function visit(value: unknown, see: (node: SyntaxNode) => void): void {
  if (Array.isArray(value)) for (const item of value) visit(item, see);
  if (!isNode(value)) return;
  see(value);
  for (const child of Object.values(value)) visit(child, see);
}

function isNode(value: unknown): value is SyntaxNode {
  return typeof value === 'object' && value !== null && typeof (value as SyntaxNode).type === 'string';
}

function literal(value: unknown): string | undefined {
  if (!isNode(value)) return undefined;
  if (value.type === 'TSLiteralType') return literal(value['literal']);
  return value.type === 'Literal' && typeof value['value'] === 'string' ? value['value'] : undefined;
}

/** `process.env`, `process['env']`, `const { env } = process`, and the same through `globalThis` or an import. */
function readsEnvironment(node: SyntaxNode): boolean {
  switch (node.type) {
    case 'MemberExpression':
      return nameOf(node['property']) === 'env' && isProcess(node['object']);
    case 'VariableDeclarator':
      return isProcess(node['init']) && takesEnv(node['id']);
    case 'ImportDeclaration':
      return /^(node:)?process$/.test(literal(node['source']) ?? '') && hasEnvSpecifier(node['specifiers']);
    default:
      return false;
  }
}

/** `JSON.stringify`, however it is taken out of `JSON`. */
function stringifies(node: SyntaxNode): boolean {
  if (node.type === 'MemberExpression')
    return nameOf(node['property']) === 'stringify' && nameOf(node['object']) === 'JSON';
  return node.type === 'VariableDeclarator' && nameOf(node['init']) === 'JSON';
}

function isProcess(value: unknown): boolean {
  if (!isNode(value)) return false;
  return nameOf(value.type === 'MemberExpression' ? value['property'] : value) === 'process';
}

function takesEnv(pattern: unknown): boolean {
  if (!isNode(pattern) || !Array.isArray(pattern['properties'])) return false;
  return pattern['properties'].some((property: SyntaxNode) => nameOf(property['key']) === 'env');
}

function hasEnvSpecifier(specifiers: unknown): boolean {
  return (
    Array.isArray(specifiers) && specifiers.some((specifier: SyntaxNode) => nameOf(specifier['imported']) === 'env')
  );
}

function nameOf(value: unknown): string | undefined {
  if (!isNode(value)) return undefined;
  return value.type === 'Identifier' ? (value['name'] as string) : literal(value);
}
