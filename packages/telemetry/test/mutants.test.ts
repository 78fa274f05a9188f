import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { checkMutants } from '../../testkit/test/support/check-mutants.ts'
import { telemetry } from '../src/index.ts'
import { telemetryMutants } from './suite/mutants.ts'
import { telemetryScenarios } from './suite/scenarios.ts'
import { useContextManager } from './support/recorder.ts'
import { stores } from './support/worlds.ts'

let restore: () => void
beforeAll(() => {
  restore = useContextManager()
})
afterAll(() => restore())

const openStore = stores['in memory']
if (openStore === undefined) throw new Error('there is no store in memory')
checkMutants(telemetryScenarios, telemetryMutants(openStore), { openStore, telemetry }, { describe, expect, it })
