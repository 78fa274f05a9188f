/** The keys of `ackord.config.ts`: the options of the commands, by their names. Durations are milliseconds, or strings such as `30s`, `24h`, `7d`. */
export interface AckordConfig {
  /** `postgres://`, `mysql://`, `sqlite:`, `redis://` or `redis+cluster://`. For `relay` and `dashboard` also several, as a list or by name. */
  readonly store?: string | readonly string[] | Readonly<Record<string, string>> | undefined
  /** `amqp://`, `amqp10://`, `nats://`, `kafka://`, `mqtt://`, `redis://`, `redis+cluster://`, `sqs:`, `sns:` or `eventbridge:`. */
  readonly broker?: string | undefined
  /** The namespace of the tables; SQL only. Default: the connection's own. */
  readonly schema?: string | undefined
  /** The prefix of the table names; SQL only. Default: `ackord_`. */
  readonly prefix?: string | undefined
  /** The kind of outbox, the same as in the writing services; Redis only. Default: `stream`. */
  readonly outbox?: 'stream' | 'lua' | undefined
  /** The name of the outbox in its keys; Redis only. Default: `outbox`, of a Lua outbox `lua-outbox`. */
  readonly stream?: string | undefined
  /** The hash tags of the outbox; Redis only; a Lua outbox has one. Default: `ackord`. */
  readonly tag?: string | readonly string[] | undefined
  /** The number of shards; Lua outbox only. Default: 1. */
  readonly shards?: number | undefined
  /** For `relay`: destination names in the store, and their names at the broker. Default: the same names. */
  readonly map?: Readonly<Record<string, string>> | undefined
  /** For `relay`. Default: all. */
  readonly destinations?: readonly string[] | undefined
  /** For `relay`: where to send a copy of each parked record. Default: nowhere. */
  readonly deadLetter?: string | undefined
  /** For `relay`. Default: `none`. */
  readonly order?: 'none' | 'perKey' | undefined
  /** For `relay` and `doctor`; `log` is for PostgreSQL only. Default: `table`, and for `doctor` the mode that has been used. */
  readonly mode?: 'table' | 'log' | undefined
  /** For `relay`, with order `perKey`. Default: `park`. */
  readonly onExhausted?: 'park' | 'block' | 'parkKey' | undefined
  /** For `relay` on PostgreSQL. Default: false. */
  readonly listen?: boolean | undefined
  /** For `relay`, where it makes the store keep published records, and for `cleanup`. Default: `relay` keeps none; 24 hours for `cleanup`. */
  readonly keepPublished?: number | string | undefined
  /** For `cleanup`. Default: 7 days. */
  readonly inboxWindow?: number | string | undefined
  /** For `migrate`: whether the inbox consists of partitions; PostgreSQL only. Default: as it is. */
  readonly inboxPartitions?: boolean | undefined
  /** For `relay`, where it is 500 by default, and `cleanup`, where it is 1,000. */
  readonly batchSize?: number | undefined
  /** For `relay`. Default: 1. */
  readonly concurrency?: number | undefined
  /** For `relay` with several stores: the batches of all stores that are published concurrently. Default: 8. */
  readonly totalConcurrency?: number | undefined
  /** For `relay`. Default: 30 seconds. */
  readonly lease?: number | string | undefined
  /** For `relay`. Default: 10 seconds. */
  readonly publishTimeout?: number | string | undefined
  /** For `relay`. Default: 10. */
  readonly maxAttempts?: number | undefined
  /** For `relay`. Default: 500 milliseconds. */
  readonly pollInterval?: number | string | undefined
  /** For `relay`. Default: 25 seconds. */
  readonly shutdownTimeout?: number | string | undefined
  /** For `relay`: the name in its log lines. Default: none. */
  readonly name?: string | undefined
  /** For `relay`. Default: `127.0.0.1`. */
  readonly host?: string | undefined
  /** For `relay`. Default: nothing is served. */
  readonly port?: number | undefined
  /** For `relay`: the URL of an OpenTelemetry collector, for traces and metrics by OTLP over HTTP. Default: nothing is exported. */
  readonly otlp?: string | undefined
  /** For `dashboard`: the token that lets people in. Default: the command prints a token that is valid once. */
  readonly token?: string | undefined
}

/** Adds types to `ackord.config.ts`. */
export function defineConfig(config: AckordConfig): AckordConfig {
  return config
}
