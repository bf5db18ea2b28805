import { pino, stdSerializers, stdTimeFunctions, type DestinationStream, type Logger } from 'pino';
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

/** The log of a caller's own, which decides where it writes: facts and errors reach it without credentials. */
export function scrubbedLog(log: Log, redactor: Redactor): Log {
  const clean = (value: unknown) => (value instanceof Error ? value : redactor.value(value));
  return log.child(
    {},
    {
      formatters: {
        log: (facts) => Object.fromEntries(Object.entries(facts).map(([name, value]) => [name, clean(value)])),
      },
      serializers: { err: (error: Error) => redactor.value(stdSerializers.err(error)) },
    },
  );
}

export const silentLog: Log = pino({ level: 'silent' });
