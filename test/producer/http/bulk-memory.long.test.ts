import { expect, test } from 'vitest';
import { withoutProc } from '../../support/coreless.ts';
import { greedyBodies, keepAsking, sendGreedy, smallProducer } from './bulk-bodies.ts';

const leftOut = withoutProc === undefined ? '' : ` (left out: ${withoutProc})`;

test.skipIf(withoutProc).for(greedyBodies)(
  `two bulk requests of 64 MB of $name at once are both answered, and others within a second${leftOut}`,
  { timeout: 120_000 },
  async (body) => {
    const producer = await smallProducer();
    const { url, peakMb } = producer;
    const idleMb = peakMb();
    const done = new AbortController();
    const asked = keepAsking(producer, done.signal, 1_000);
    const both = Promise.all([sendGreedy(url, body), sendGreedy(url, body)]);
    const answers = await Promise.race([both, asked.then(() => expect.unreachable())]);
    done.abort();
    for (const { status, text } of answers) {
      expect(status).toBe(body.status);
      expect(text).toContain(body.answer);
    }
    expect(await asked).toBeGreaterThan(0);
    expect(peakMb() - idleMb).toBeLessThan(200);
  },
);

test.skipIf(withoutProc)(
  `bulk requests of 64 MB need little memory, and the producer answers others meanwhile${leftOut}`,
  async () => {
    const producer = await smallProducer();
    const { url, peakMb } = producer;
    const idleMb = peakMb();
    const done = new AbortController();
    const asked = keepAsking(producer, done.signal, 5_000);
    for (const body of greedyBodies) {
      const { status, text } = await Promise.race([sendGreedy(url, body), asked.then(() => expect.unreachable())]);
      const expected = [body.name, body.status, expect.stringContaining(body.answer)];
      expect([body.name, status, text]).toEqual(expected);
    }
    done.abort();
    expect(await asked).toBeGreaterThan(0);
    expect(peakMb() - idleMb).toBeLessThan(150);
  },
  60_000,
);
