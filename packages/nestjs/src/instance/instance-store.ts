import type { Handler } from '@ackord/core'
import type { IdempotencyStore, InboxAdmin, OutboxAdmin, OutboxStore, OutboxWriter } from '@ackord/outbox'
import type { Service } from '@ackord/outbox/service'
import type { ConsumerOptions } from './options.ts'

export type AnyOutbox = OutboxStore & OutboxAdmin & OutboxWriter<never>

/** A consumer with its handlers. */
export interface ConsumerParts {
  readonly name: string
  readonly options: ConsumerOptions
  readonly handlers: readonly Handler[]
}

/** The parts of an instance that depend on its store. */
export interface InstanceStore {
  /** The value that `@InjectDatabase()` injects. */
  readonly database: object
  /** The value that `@InjectOutbox()` injects. */
  readonly outbox: AnyOutbox
  readonly inbox: InboxAdmin
  /** Remembers the answers to requests. */
  readonly idempotency: IdempotencyStore<unknown>
  /** Publishes the events, and deletes what the store no longer needs. `undefined` if another process publishes. */
  readonly publishing: Service | undefined
  /** A service that handles the messages of one consumer. Its events are published by `publishing`. */
  createConsumer(parts: ConsumerParts): Service
  /** Throws unless the store is ready for this version of the code. */
  check(): Promise<void>
  /** Starts the cleanup if `publishing` does not do it. Default: nothing has to be deleted. */
  startCleanup?(): { stop(): Promise<void> }
}
