// @ts-check
// The extent of the tests. `make test` runs every scenario on every database and broker with one client, and `make test-matrix` on the other clients what is specific to
// them; `make proof` sets ACKORD_PROOF=1 and runs the rest as well. Only this file reads the variable: scripts/proof.mjs runs the test files
// that import it, directly or through another test module.

/** Whether to run everything that tests can run, however long it takes. */
export const isProof = process.env['ACKORD_PROOF'] === '1'

/**
 * The depth of suites on the first client of a database or broker, where their scenarios are many and slow.
 *
 * @type {import('@ackord/testkit/suites').SuiteDepth}
 */
export const depthOfFirstClient = isProof ? 'whole' : 'once'

/**
 * The depth of suites on a client whose database or broker has passed all scenarios with another client.
 *
 * @type {import('@ackord/testkit/suites').SuiteDepth}
 */
export const depthOfOtherClients = isProof ? 'whole' : 'basic'

/**
 * The extent of the runs that kill a service at its probes. `brief` kills it at every one of them too, but in one run instead of one run each.
 *
 * @type {'full' | 'brief'}
 */
export const crashMatrix = isProof ? 'full' : 'brief'
