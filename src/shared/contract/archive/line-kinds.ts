/**
 * What the lines of an archived run are, by their first character. They are copied as they stand in Redis, so that writing them costs
 * little, and one that cannot be read hides no other. A field of the record is its name, a space, and its value; the others are JSON.
 */
export const lineKinds = { about: 'A', field: 'R', entry: 'J', decision: 'D', event: 'E', earlier: 'B' } as const;
