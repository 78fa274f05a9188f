// One invocation of a Lambda function on PostgreSQL, in a process of its own that is killed at a crash point. Prints the answer of the function.

import { lambdaSqs, type SqsEvent } from '@ackord/aws/lambda'
import { systemRuntime } from '@ackord/core'
import { installProbe } from '@ackord/core/internal'
import { startOptions } from '../../packages/sql/test/support/own-schema.ts'
import { pg } from '../../packages/sql/test/support/pg.ts'
import { postgresUrl } from '../../packages/sql/test/support/postgres-url.ts'
import { createFunction, type FunctionOptions } from './lambda-service.ts'

interface Invocation extends FunctionOptions {
  readonly schema: string
  readonly event: SqsEvent
  /** Where the process is killed. Default: nowhere. */
  readonly point?: string | undefined
}

const { schema, event, point, ...options } = JSON.parse(process.argv[2] ?? '') as Invocation
if (point !== undefined) {
  installProbe((reached) => {
    if (reached === point) process.kill(process.pid, 'SIGKILL')
    // A kill takes effect a moment later.
    return reached === point ? new Promise(() => {}) : undefined
  })
}
const pool = new pg.Pool({ connectionString: postgresUrl, options: startOptions(schema) })
const { service, relay } = createFunction(pool, options)
const startedAt = systemRuntime.monotonic()
const context = { getRemainingTimeInMillis: () => 20_000 - (systemRuntime.monotonic() - startedAt) }
console.log(JSON.stringify(await lambdaSqs(service, { relay })(event, context)))
await service.close()
await pool.end()
