// @ts-check
import * as suites from '@ackord/testkit/suites'

/**
 * @param {import('./checks.mjs').Checks} checks
 * @param {string} name
 * @param {import('@ackord/testkit/suites').OpenBrokerWorld} open
 * @param {import('@ackord/testkit/suites').BrokerClaims} claims
 */
export function testBroker(checks, name, open, claims) {
  suites.testSource(checks, { name, open, claims })
  suites.testPublisher(checks, { name, open, claims })
}
