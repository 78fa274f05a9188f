import { testConformance } from './support/conformance.ts'
import { openPg, openPglite, type TestHandle } from './support/world.ts'

const run = (handle: TestHandle, text: string, parameters: unknown[]) => handle.query(text, parameters)

testConformance('pg', async () => ({ ...(await openPg()), run }))
testConformance('PGlite', async () => ({ ...(await openPglite()), run }))
