import { expect, test } from 'vitest';
import { editedValues } from '../../../../src/shared/contract/journal/edited-values.ts';

test('a value that was put in counts as a whole, one that was moved or left does not', () => {
  const before = { to: 'eve@evil.example', cc: ['kim@corp.example'], amount: 5 };
  const edited = { to: 'kim@corp.example', cc: ['bob@corp.example'], amount: 50, note: ' ' };
  expect(editedValues(edited, before)).toEqual(['bob@corp.example', '50']);
});

test('of a long text only what differs counts', () => {
  const passage = 'please wire it to the clerk of pier nine '.repeat(10);
  const before = { body: `Hello Bob. ${passage} Yours, Ann` };
  expect(editedValues({ body: `Hello Kim. ${passage} Yours, Ann` }, before)).toEqual(['Kim']);
  expect(editedValues({ body: `${before.body} and Lee` }, before)).toEqual([' and Lee']);
  expect(editedValues({ body: before.body.slice(0, 300) }, before)).toEqual([]);
});
