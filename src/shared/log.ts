import { pino, stdTimeFunctions, type DestinationStream, type Logger } from 'pino';
import type { Redactor } from './redact.ts';

export type Log = Logger;

/**
 * A JSON logger: constant messages, facts as fields. The finished line passes the redactor, because path redaction
 * misses secrets inside messages, causes and nested text.
 */
export function createLog(
  service: string,
  level: string,
  redactor: Redactor,
  destination: { write(line: string): unknown } = process.stdout,
): Log {
  const scrubbed: DestinationStream = { write: (line: string) => void destination.write(redactor.text(line)) };
  return pino(
    {
      level,
      base: { service, pid: process.pid },
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    scrubbed,
  );
}

export const silentLog: Log = pino({ level: 'silent' });
