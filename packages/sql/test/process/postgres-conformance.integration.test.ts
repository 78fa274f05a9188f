import type { Database } from '../../src/index.ts'
import { fromPg } from '../../src/postgres/index.ts'
import { testProcesses } from '../support/conformance.ts'
import { openPg, type TestHandle } from '../support/world.ts'

const run = async (handle: TestHandle, text: string, parameters: unknown[]) => (await handle.query(text, parameters)).rows

// Every process has its own pool.
testProcesses('pg', async () => {
  const world = await openPg()
  const pools: AsyncDisposable[] = []
  return {
    ...world,
    run,
    another() {
      const pool = world.createPool({ max: 5 })
      pools.push({ [Symbol.asyncDispose]: () => pool.end() })
      return fromPg(pool, { schema: world.schema }) as unknown as Database<TestHandle>
    },
    async [Symbol.asyncDispose]() {
      for (const pool of pools) await pool[Symbol.asyncDispose]()
      await world[Symbol.asyncDispose]()
    },
  }
})
