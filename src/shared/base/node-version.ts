/** The first import of every public door, so that an old Node stops with one sentence and not with a syntax error. */
const neededMajor = 24;

if (Number(process.versions.node.split('.')[0]) < neededMajor) {
  throw new Error(
    `millrace needs Node ${neededMajor} or later and this is ${process.versions.node}: https://nodejs.org, or \`npm install --save-dev node@${neededMajor}\``,
  );
}
