import { pythonWith } from './python.ts';

/** A Python with the client of OpenAI. */
export function openaiForPython(): string {
  return pythonWith('openai==3.54.0');
}
