import { registerSuite, type TestRunner } from '../test-runner.ts'
import type { BrokerClaims, BrokerScenario, BrokerSubject } from './broker-world.ts'
import { declaredScenarios, publishScenarios, repeatScenarios, sizeScenarios } from './publish-scenarios.ts'

/** All scenarios for a publisher with these claims: the base, and what each claim adds. */
export function publisherScenarios(claims: BrokerClaims): readonly BrokerScenario[] {
  return [
    ...publishScenarios(claims),
    ...(claims.declared === true ? declaredScenarios : []),
    ...(claims.sizeLimit === true ? sizeScenarios : []),
    ...(claims.dropsRepeats === true ? repeatScenarios : []),
  ]
}

/** Registers a test per scenario: what every publisher promises to whoever has something to say. What it sent is read by the world's sources. */
export function testPublisher(runner: TestRunner, subject: BrokerSubject): void {
  const { name, open, claims, results } = subject
  registerSuite(runner, { suite: 'publisher', name, scenarios: publisherScenarios(claims), open, results })
}
