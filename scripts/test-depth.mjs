// @ts-check
// How much the tests do. `make test` runs every scenario on every database and broker with one client, and every client with what is its own;
// `make proof` sets ACKORD_PROOF=1 and runs the rest as well. This is the only place that reads the variable: scripts/proof.mjs runs the test files
// that import this one, themselves or through a module of the tests.

/** Whether everything is to be run that tests can run, however long it takes. */
export const isProof = process.env['ACKORD_PROOF'] === '1'

/**
 * Of suites on a client whose database or broker another client has taken through all scenarios.
 *
 * @type {import('@ackord/testkit/suites').SuiteDepth}
 */
export const depthOfOtherClients = isProof ? 'whole' : 'basic'

/**
 * Of the runs that kill a service at its probes, on the first store.
 *
 * @type {'full' | 'small'}
 */
export const crashMatrix = isProof ? 'full' : 'small'

/**
 * Of the runs that kill a service at its probes, on a store whose service differs from the first one's by the store only.
 *
 * @type {'full' | 'brief'}
 */
export const crashMatrixOfOtherStores = isProof ? 'full' : 'brief'
