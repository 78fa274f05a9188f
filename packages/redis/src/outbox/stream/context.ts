import type { Logger, Metrics, Runtime } from '@ackord/core'
import type { RedisPort } from '../../client/port.ts'
import type { StreamCodec } from '../record-fields.ts'
import type { Lanes } from './destination-stream.ts'

/** What the parts of a stream outbox share. */
export interface OutboxHome {
  readonly port: RedisPort
  readonly lanes: Lanes
  readonly group: string
  /** If it is not the default. */
  readonly codec: StreamCodec | undefined
  readonly runtime: Runtime
  readonly logger: Logger
  readonly metrics: Metrics | undefined
}
