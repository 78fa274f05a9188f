import { testConformance } from './support/conformance.ts'
import { openPg, openPglite, type TestHandle } from './support/world.ts'

const run = async (handle: TestHandle, text: string, parameters: unknown[]) => (await handle.query(text, parameters)).rows

testConformance('pg', async () => ({ ...(await openPg()), run }))
testConformance('PGlite', async () => ({ ...(await openPglite()), run }))
