import { InvalidOptionError } from '@ackord/core'
import { checkChoice, checkCount, checkDuration, checkNoMore } from '@ackord/core/internal'
import { consumerNotFound, type JetStreamApi, JetStreamError, nanoseconds, streamNotFound } from './jetstream-api.ts'

export interface NatsStreamOptions {
  /** What is published to these subjects is in the stream; `*` and `>` are wildcards. */
  readonly subjects: readonly string[]
  /** Default: 'file'. */
  readonly storage?: 'file' | 'memory' | undefined
  /**
   * `limits`: messages stay until they are too old or too many. `interest`: until all consumers have acked them. `workqueue`: until the one consumer of
   * their subject has. Default: 'limits'.
   */
  readonly retention?: 'limits' | 'interest' | 'workqueue' | undefined
  /** How many servers of a cluster have the stream. Default: 1. */
  readonly replicas?: number | undefined
  /** Milliseconds that a message stays at most. Default: for ever. */
  readonly maxAge?: number | undefined
  /** Milliseconds in which a message that is published again is dropped. Default: the server's, 120,000. */
  readonly duplicateWindow?: number | undefined
  /** Further settings, as JetStream's API names them. Default: none. */
  readonly config?: Readonly<Record<string, unknown>> | undefined
}

export interface NatsConsumerOptions {
  /** Only messages of this subject, which may have wildcards. Default: all of the stream. */
  readonly filter?: string | undefined
  /** Where a consumer that is made now starts: at the first message of the stream, or with what comes from now on. Default: 'oldest'. */
  readonly from?: 'oldest' | 'newest' | undefined
  /** Milliseconds without a sign of life after which a message is delivered again. Default: 30,000. */
  readonly ackWait?: number | undefined
  /** How many messages may be without a verdict, with all instances together. With order per key what one instance holds. Default: 1,000; with order the source's `prefetch`. */
  readonly maxAckPending?: number | undefined
  /** Further settings, as JetStream's API names them. Default: none. */
  readonly config?: Readonly<Record<string, unknown>> | undefined
}

export interface NatsDeclaration {
  /** The stream, if it is missing. Default: it must exist. */
  readonly stream?: NatsStreamOptions | undefined
  /** The durable consumer, if it is missing. */
  readonly consumer?: NatsConsumerOptions | undefined
}

/** What JetStream is asked for. */
export interface Topology {
  readonly stream: Readonly<Record<string, unknown>> | undefined
  readonly consumer: Readonly<Record<string, unknown>>
}

export function topologyOf(declaration: NatsDeclaration, defaults: { readonly maxAckPending: number }): Topology {
  if (typeof declaration !== 'object' || declaration === null) {
    throw new InvalidOptionError('declare', "must be an object such as { stream: { subjects: ['orders.>'] } }.")
  }
  const { stream, consumer = {}, ...unknown } = declaration
  checkNoMore('declare', unknown)
  return { stream: stream === undefined ? undefined : streamConfig(stream), consumer: consumerConfig(consumer, defaults) }
}

function streamConfig(options: NatsStreamOptions): Record<string, unknown> {
  const { subjects, storage = 'file', retention = 'limits', replicas = 1, maxAge, duplicateWindow, config = {}, ...unknown } = options
  checkNoMore('declare.stream', unknown)
  if (!Array.isArray(subjects) || subjects.length === 0 || !subjects.every((subject) => typeof subject === 'string' && subject !== '')) {
    throw new InvalidOptionError('declare.stream.subjects', "must be a list of subjects such as ['orders.>'].")
  }
  checkChoice('declare.stream.storage', storage, ['file', 'memory'])
  checkChoice('declare.stream.retention', retention, ['limits', 'interest', 'workqueue'])
  checkCount('declare.stream.replicas', replicas)
  if (maxAge !== undefined) checkDuration('declare.stream.maxAge', maxAge, { min: 1 })
  if (duplicateWindow !== undefined) checkDuration('declare.stream.duplicateWindow', duplicateWindow, { min: 1 })
  return {
    subjects,
    storage,
    retention,
    num_replicas: replicas,
    ...(maxAge === undefined ? {} : { max_age: maxAge * nanoseconds }),
    ...(duplicateWindow === undefined ? {} : { duplicate_window: duplicateWindow * nanoseconds }),
    ...config,
  }
}

function consumerConfig(options: NatsConsumerOptions, defaults: { readonly maxAckPending: number }): Record<string, unknown> {
  const { filter, from = 'oldest', ackWait = 30_000, maxAckPending = defaults.maxAckPending, config = {}, ...unknown } = options
  checkNoMore('declare.consumer', unknown)
  if (filter !== undefined && (typeof filter !== 'string' || filter === '')) {
    throw new InvalidOptionError('declare.consumer.filter', "must be a subject such as 'orders.>'.")
  }
  checkChoice('declare.consumer.from', from, ['oldest', 'newest'])
  checkDuration('declare.consumer.ackWait', ackWait, { min: 1 })
  checkCount('declare.consumer.maxAckPending', maxAckPending)
  return {
    ack_policy: 'explicit',
    deliver_policy: from === 'oldest' ? 'all' : 'new',
    ack_wait: ackWait * nanoseconds,
    max_ack_pending: maxAckPending,
    ...(filter === undefined ? {} : { filter_subject: filter }),
    ...config,
  }
}

/** Makes what is missing. What exists must be as it is declared; nothing is changed. */
export async function declareTopology(
  api: JetStreamApi,
  stream: string,
  consumer: string,
  { stream: streamSettings, ...rest }: Topology,
): Promise<void> {
  if (streamSettings !== undefined) {
    const existing = await found(api.streamInfo(stream), streamNotFound)
    if (existing === undefined) await api.createStream(stream, streamSettings)
    else checkSame(`stream '${stream}'`, existing.config, streamSettings)
  }
  const existing = await found(api.consumerInfo(stream, consumer), consumerNotFound)
  if (existing === undefined) await api.createConsumer(stream, consumer, rest.consumer)
  else checkSame(`consumer '${consumer}'`, existing.config, rest.consumer)
}

/** It exists, and is not what was declared. */
export class DeclarationMismatch extends Error {
  static {
    this.prototype.name = 'DeclarationMismatch'
  }
}

function checkSame(what: string, existing: Readonly<Record<string, unknown>>, declared: Readonly<Record<string, unknown>>): void {
  for (const name in declared) {
    const [found, wanted] = [JSON.stringify(existing[name]), JSON.stringify(declared[name])]
    if (found !== wanted) throw new DeclarationMismatch(`${what} exists with ${name} ${found ?? 'not set'}, and 'declare' says ${wanted}`)
  }
}

async function found<T>(asking: Promise<T>, missing: number): Promise<T | undefined> {
  try {
    return await asking
  } catch (error) {
    if (error instanceof JetStreamError && error.code === missing) return undefined
    throw error
  }
}
