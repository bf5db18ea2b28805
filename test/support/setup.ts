import { configureGlobal } from 'fast-check';
import { testSeed } from './seeded.ts';

// Before each test file: properties draw from the seed of the test run, as `seeded()` does.
configureGlobal({ seed: testSeed });
