import type { Context, Runtime } from '@ackord/core'
import type { PartPorts } from '@ackord/core/internal'
import type { RedisPort } from '../client/port.ts'
import type { CommandQueue } from './command-queue.ts'
import type { UnitOfWork, UnitOfWorkParts } from './unit-of-work.ts'

/** For the middleware, the stores and the broker of this package. */
export interface RedisInternals extends UnitOfWorkParts {
  /** Each of its calls ends within the deadline. */
  readonly port: RedisPort
  readonly deadline: number
  /** Of which the logger is a part. Whatever works on this object passes its own ports on to it. */
  readonly ports: PartPorts
  readonly runtime: Runtime
  readonly coalesce: number
  find(context: Context): CommandQueue | undefined
  /** The unit of work that the inbox around this context has begun. */
  findUnit(context: Context): UnitOfWork | undefined
  enterUnit(context: Context, unit: UnitOfWork): Context
}
