import { afterAll, beforeAll, describe, it } from 'vitest'
import { telemetry } from '../src/index.ts'
import { telemetryScenarios } from './suite/scenarios.ts'
import { useContextManager } from './support/recorder.ts'
import { stores } from './support/worlds.ts'

let restore: () => void
beforeAll(() => {
  restore = useContextManager()
})
afterAll(() => restore())

describe.each(Object.entries(stores))('telemetry on a store %s', (_, openStore) => {
  for (const { name, run } of telemetryScenarios) it(name, async () => void (await run({ openStore, telemetry })))
})
