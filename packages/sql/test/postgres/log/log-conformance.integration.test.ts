import { depthOfFirstClient, depthOfOtherClients } from '../../../../../scripts/test-depth.mjs'
import { testOrder } from '../../support/conformance.ts'
import { openPg, openPglite, type TestHandle } from '../../support/world.ts'

const run = async (handle: TestHandle, text: string, parameters: unknown[]) => (await handle.query(text, parameters)).rows

// The complete suites run on pg by default; on PGlite they run only in `make proof`.

testOrder('pg, log mode', async () => ({ ...(await openPg()), run }), depthOfFirstClient, 'log')
testOrder('PGlite, log mode', async () => ({ ...(await openPglite()), oneWriter: true, run }), depthOfOtherClients, 'log')
