import { registerSuite, type TestRunner } from '../../run/scenario.ts'
import { ackScenarios, delayScenarios, deliveryCountScenarios } from './ack-scenarios.ts'
import type { BrokerClaims, BrokerScenario, BrokerSubject } from './broker-world.ts'
import { contentScenarios, nameScenarios, typeScenarios } from './content-scenarios.ts'
import { competingScenarios, deliveryScenarios } from './delivery-scenarios.ts'
import { groupScenarios, replayScenarios } from './group-scenarios.ts'
import { lifecycleScenarios } from './lifecycle-scenarios.ts'
import { orderScenarios } from './order-scenarios.ts'
import { declaredScenarios, publishScenarios, repeatScenarios, sizeScenarios } from './publish-scenarios.ts'
import { restartScenarios } from './restart-scenarios.ts'
import { publisherTelemetryScenarios, sourceTelemetryScenarios } from './telemetry-scenarios.ts'

/** All scenarios for a source with these claims: the base, and the scenarios that each claim adds. */
export function sourceScenarios(claims: BrokerClaims): readonly BrokerScenario[] {
  return [
    ...(claims.competing === true ? competingScenarios : []),
    ...deliveryScenarios(claims),
    ...contentScenarios,
    ...(claims.types === true ? typeScenarios : []),
    ...(claims.names === true ? nameScenarios : []),
    ...ackScenarios(claims),
    ...(claims.deliveryCount === true ? deliveryCountScenarios : []),
    ...(claims.delay === true ? delayScenarios : []),
    ...(claims.order === 'perKey' ? orderScenarios(claims) : []),
    ...(claims.groups === true ? groupScenarios : []),
    ...(claims.replay === true ? replayScenarios : []),
    ...lifecycleScenarios(claims),
    ...sourceTelemetryScenarios,
    ...(claims.restart === true ? restartScenarios : []),
  ]
}

/** Registers a test per scenario: the promises of a source to the handlers of its messages. */
export function testSource(runner: TestRunner, subject: BrokerSubject): void {
  const { name, open, claims, results } = subject
  registerSuite(runner, { suite: 'source', name, scenarios: sourceScenarios(claims), open, results })
}

/** All scenarios for a publisher with these claims: the base, and the scenarios that each claim adds. */
export function publisherScenarios(claims: BrokerClaims): readonly BrokerScenario[] {
  return [
    ...publishScenarios(claims),
    ...publisherTelemetryScenarios,
    ...(claims.declared === true ? declaredScenarios : []),
    ...(claims.sizeLimit === true ? sizeScenarios : []),
    ...(claims.dropsRepeats === true ? repeatScenarios : []),
  ]
}

/** Registers a test per scenario: the promises of a publisher to its callers. Published messages are read by the sources of the world. */
export function testPublisher(runner: TestRunner, subject: BrokerSubject): void {
  const { name, open, claims, results } = subject
  registerSuite(runner, { suite: 'publisher', name, scenarios: publisherScenarios(claims), open, results })
}
