/**
 * What the texts of all archived runs have in common: a short run is mostly this. The likeliest is at the end, where it is cheapest.
 * What is written with it can only be read with it: it never changes, another one is another form.
 */
export const dictionary = Buffer.from(['"type":"text.delta"', '{"v":1,"tenant":"default","runId":"'].join(''));
