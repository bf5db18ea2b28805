import { expect, test } from 'vitest';
import { FailedLogins, failuresAllowed, mostAddresses } from '../../../src/producer/http/failed-logins.ts';
import { FakeClock } from '../../../src/testing/fake-clock.ts';

/** Codes of the answers to so many wrong keys. */
function wrongKeys(logins: FailedLogins, address: string, count: number): readonly string[] {
  return Array.from({ length: count }, () => logins.refusal(address).code);
}

test('wrong keys of an address are too many for the rest of a minute, and of another address are counted apart', async () => {
  const clock = new FakeClock();
  const logins = new FailedLogins(clock);
  expect(new Set(wrongKeys(logins, '10.0.0.1', failuresAllowed))).toEqual(new Set(['unauthorized']));
  await clock.advance(15_000);
  expect(logins.refusal('10.0.0.1')).toMatchObject({ code: 'rate_limited', http: 429, details: { retryAfterS: 45 } });
  expect(logins.refusal('10.0.0.2').code).toBe('unauthorized');
  await clock.advance(44_999);
  expect(logins.refusal('10.0.0.1')).toMatchObject({ code: 'rate_limited', details: { retryAfterS: 1 } });
  await clock.advance(1);
  expect(logins.refusal('10.0.0.1').code).toBe('unauthorized');
});

test('addresses are forgotten after their minute, and the oldest when there are too many', async () => {
  const clock = new FakeClock();
  const logins = new FailedLogins(clock);
  wrongKeys(logins, 'oldest', failuresAllowed);
  await clock.advance(1);
  wrongKeys(logins, 'second', failuresAllowed);
  for (let number = 2; number <= mostAddresses; number++) logins.refusal(`address ${number}`);
  expect([logins.size, logins.refusal('second').code]).toEqual([mostAddresses, 'rate_limited']);
  expect([logins.size, logins.refusal('oldest').code]).toEqual([mostAddresses, 'unauthorized']);
  await clock.advance(60_000);
  logins.refusal('later');
  expect(logins.size).toBe(1);
});
