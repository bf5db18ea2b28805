import { toolErrorHints, type ToolErrorKind } from '../base/errors.ts';

/**
 * An error of a tool as a model reads it: what happened, what to do, and last the kind. It always begins with our own words,
 * so that no text of a tool can pass for anything but text.
 */
export function toolErrorText(kind: ToolErrorKind, message: string, toolName: string): string {
  return `Error of tool ${toolName}: ${message}\nHint: ${toolErrorHints[kind]}\nKind: ${kind}`;
}
