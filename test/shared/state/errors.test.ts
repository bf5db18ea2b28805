import { expect, test } from 'vitest';
import { RunError } from '../../../src/shared/base/errors.ts';
import { redisError, refusal } from '../../../src/shared/state/errors.ts';

function reply(message: string): Error {
  return Object.assign(new Error(message), { name: 'ReplyError' });
}

test('a Redis that cannot take a command now is unavailable, with the cause kept', () => {
  for (const word of [
    'OOM',
    'LOADING',
    'READONLY',
    'NOREPLICAS',
    'MISCONF',
    'MASTERDOWN',
    'CLUSTERDOWN',
    'TRYAGAIN',
    'BUSY',
  ]) {
    const cause = reply(`${word} not now`);
    expect(redisError(cause, 'x')).toMatchObject({ code: 'queue_unavailable', retryable: true, cause });
  }
});

test('a connection that is closed or late is unavailable', () => {
  for (const message of ['Connection is closed.', 'Command timed out']) {
    expect(redisError(new Error(message), 'x')).toMatchObject({ code: 'queue_unavailable' });
  }
});

test('an answer that says we asked for nonsense is a defect of ours', () => {
  expect(redisError(reply('WRONGTYPE Operation against a key'), 'x')).toMatchObject({
    code: 'internal',
    retryable: false,
  });
  expect(refusal('ERR syntax error', 'x')).toMatchObject({ code: 'internal', cause: expect.any(Error) });
});

test('the message names what was being done and not the arguments that Redis repeats', () => {
  expect(redisError(reply("ERR unknown command 'secret'"), 'commit of run R').message).toBe(
    'Redis answered ERR: commit of run R',
  );
});

test('an error that is already ours stays as it is', () => {
  const own = new RunError('run_state_malformed', 'x');
  expect(redisError(own, 'y')).toBe(own);
});
