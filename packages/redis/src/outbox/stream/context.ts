import type { Logger, Runtime } from '@ackord/core'
import type { DescribedMetrics } from '@ackord/core/internal'
import type { RedisPort } from '../../client/port.ts'
import type { StreamCodec } from '../record-fields.ts'
import type { DestinationStreams } from './destination-stream.ts'

/** Shared by the parts of a stream outbox. */
export interface StreamOutboxContext {
  readonly port: RedisPort
  readonly streams: DestinationStreams
  readonly group: string
  /** `undefined`: the default. */
  readonly codec: StreamCodec | undefined
  /** Whether this store adds message ids to the index, and completes it. Any store uses an index that is complete, and removes what it deletes from it. */
  readonly messageIndex: boolean
  readonly runtime: Runtime
  readonly logger: Logger
  readonly metrics: DescribedMetrics | undefined
}
