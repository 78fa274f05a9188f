import { InvalidOptionError } from '@ackord/core'
import { checkChoice, checkCount, checkDuration, rejectUnknownOptions } from '@ackord/core/internal'
import { consumerNotFound, type JetStreamApi, JetStreamError, nanoseconds, streamNotFound } from './jetstream-api.ts'

export interface NatsStreamOptions {
  /** The stream stores messages to these subjects; `*` and `>` are wildcards. */
  readonly subjects: readonly string[]
  /** Default: 'file'. */
  readonly storage?: 'file' | 'memory' | undefined
  /**
   * `limits`: messages stay until they are too old or too many. `interest`: until all consumers have acked them. `workqueue`: until the only consumer of
   * their subject has acked them. Default: 'limits'.
   */
  readonly retention?: 'limits' | 'interest' | 'workqueue' | undefined
  /** The number of servers of a cluster that store the stream. Default: 1. */
  readonly replicas?: number | undefined
  /** Milliseconds after which a message is deleted. Default: never. */
  readonly maxAge?: number | undefined
  /** Milliseconds in which a message that is published again is recognised and dropped. Default: the server's, 120,000. */
  readonly duplicateWindow?: number | undefined
  /** Further settings, as JetStream's API names them. Default: none. */
  readonly config?: Readonly<Record<string, unknown>> | undefined
}

export interface NatsConsumerOptions {
  /** Only messages of this subject, which may have wildcards. Default: all of the stream. */
  readonly filter?: string | undefined
  /** Where a new consumer starts: at the first message of the stream, or with messages that are published from now on. Default: 'oldest'. */
  readonly from?: 'oldest' | 'newest' | undefined
  /** Milliseconds without an ack or a progress report after which a message is delivered again. Default: 30,000. */
  readonly ackWait?: number | undefined
  /** The most unsettled messages of all instances together; with order per key, of the one instance that reads. Default: 1,000; with order the source's `prefetch`. */
  readonly maxAckPending?: number | undefined
  /** Further settings, as JetStream's API names them. Default: none. */
  readonly config?: Readonly<Record<string, unknown>> | undefined
}

export interface NatsDeclaration {
  /** Creates the stream, unless it exists. Default: it must exist. */
  readonly stream?: NatsStreamOptions | undefined
  /** Settings of the durable consumer, which is created unless it exists. */
  readonly consumer?: NatsConsumerOptions | undefined
}

/** The settings in JetStream's own names. */
export interface Topology {
  readonly stream: Readonly<Record<string, unknown>> | undefined
  readonly consumer: Readonly<Record<string, unknown>>
}

export function topologyOf(declaration: NatsDeclaration, defaults: { readonly maxAckPending: number }): Topology {
  if (typeof declaration !== 'object' || declaration === null) {
    throw new InvalidOptionError('declare', "must be an object such as { stream: { subjects: ['orders.>'] } }.")
  }
  const { stream, consumer = {}, ...unknown } = declaration
  rejectUnknownOptions('declare', unknown)
  return { stream: stream === undefined ? undefined : streamConfig(stream), consumer: consumerConfig(consumer, defaults) }
}

function streamConfig(options: NatsStreamOptions): Record<string, unknown> {
  const { subjects, storage = 'file', retention = 'limits', replicas = 1, maxAge, duplicateWindow, config = {}, ...unknown } = options
  rejectUnknownOptions('declare.stream', unknown)
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
  rejectUnknownOptions('declare.consumer', unknown)
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

/** Creates the stream and the consumer, unless they exist. An existing one must be as declared; nothing is changed. */
export async function declareTopology(
  api: JetStreamApi,
  stream: string,
  consumer: string,
  { stream: streamSettings, ...rest }: Topology,
): Promise<void> {
  if (streamSettings !== undefined) {
    const existing = await unlessMissing(api.streamInfo(stream), streamNotFound)
    if (existing === undefined) await api.createStream(stream, streamSettings)
    else checkSame(`stream '${stream}'`, existing.config, streamSettings)
  }
  const existing = await unlessMissing(api.consumerInfo(stream, consumer), consumerNotFound)
  if (existing === undefined) await api.createConsumer(stream, consumer, rest.consumer)
  else checkSame(`consumer '${consumer}'`, existing.config, rest.consumer)
}

/** A stream or consumer exists with other settings than declared. */
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

async function unlessMissing<T>(request: Promise<T>, missing: number): Promise<T | undefined> {
  try {
    return await request
  } catch (error) {
    if (error instanceof JetStreamError && error.code === missing) return undefined
    throw error
  }
}
