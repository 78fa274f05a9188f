import type { ResultTable } from '../../run/result-table.ts'
import { registerSuite, type SuiteDepth, type TestRunner } from '../../run/scenario.ts'
import { codecScenarios } from './codec-scenarios.ts'
import type { CodecFeatures, OpenCodecWorld } from './codec-world.ts'

export interface CodecSubject {
  /** Names the implementation in titles and in the table. */
  readonly name: string
  /** Called once or more for each scenario. */
  readonly open: OpenCodecWorld
  readonly features: CodecFeatures
  /** Default: `whole`. */
  readonly depth?: SuiteDepth | undefined
  readonly results?: ResultTable | undefined
}

/** Registers a test per scenario: the promises of a codec of payloads. */
export function testPayloadCodec(runner: TestRunner, subject: CodecSubject): void {
  const { name, open, features, depth, results } = subject
  registerSuite(runner, { suite: 'payload codec', name, scenarios: codecScenarios(features), open, depth, results })
}
