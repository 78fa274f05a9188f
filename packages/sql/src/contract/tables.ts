export interface TableNames {
  readonly inbox: string
  readonly outbox: string
  readonly meta: string
  /** The function with which programs in other languages store events; PostgreSQL only. */
  readonly append: string
  /** The function that checks which rows the outbox may contain; PostgreSQL only. */
  readonly valid: string
  /** The relays that share the partitions, with order per key. */
  readonly relays: string
  /** The owner of each partition. */
  readonly partitions: string
  /** The claim journal: the records that relays have in flight. */
  readonly hands: string
  /** The function with which relays renew and share the partitions; PostgreSQL only. */
  readonly keep: string
  /** Small facts that relays and operators share: pauses, the list of relays, rates and the audit. */
  readonly notes: string
  /** The claims and answers of requests with an idempotency key. */
  readonly idempotency: string
  /** The instances of processes. */
  readonly process: string
  /** The log, in log mode; PostgreSQL only. Its parts are `ackord_log_0` and so on. */
  readonly log: string
  /** How far the log was read and published; PostgreSQL only. Its parts are `ackord_cursors_0` and so on. */
  readonly cursors: string
  /** Records of the log that an operator has moved to the outbox table; PostgreSQL only. */
  readonly taken: string
  /** The relays that read the log; PostgreSQL only. Not logged: a crash or a failover of the server empties it. */
  readonly readers: string
}

export interface TableOptions {
  /** Default: the first schema of the connection's search path; on MySQL, its database. */
  readonly schema?: string | undefined
  /** Default: `ackord_inbox`, `ackord_outbox`, `ackord_meta` and so on. */
  readonly names?: { readonly [Table in keyof TableNames]?: string | undefined } | undefined
}

/** Quoted and qualified, for use in statements. */
export interface Tables extends TableNames {
  /** As given, not quoted. */
  readonly schema: string | undefined
  /** The parts of the log and of its cursors, which are written and emptied in turn. */
  readonly leaves: readonly { readonly log: string; readonly cursors: string }[]
}

/** The number of parts of the log. One is written; the others are read until they are empty, so that there is one to switch to. */
const leafCount = 4

/** Quotes a name, as a dialect does. */
interface NameQuoter {
  quote(option: string, name: string): string
}

/** The names given here, else those of the database, else the defaults. */
export function tablesOf(dialect: NameQuoter, options: TableOptions, defaults: TableOptions): Tables {
  const schema = options.schema ?? defaults.schema
  const prefix = schema === undefined ? '' : `${dialect.quote('schema', schema)}.`
  const named = (table: keyof TableNames, suffix = '') => {
    const name = options.names?.[table] ?? defaults.names?.[table] ?? `ackord_${table}`
    return prefix + dialect.quote(`names.${table}`, name + suffix)
  }
  return {
    schema,
    inbox: named('inbox'),
    outbox: named('outbox'),
    meta: named('meta'),
    append: named('append'),
    valid: named('valid'),
    relays: named('relays'),
    partitions: named('partitions'),
    hands: named('hands'),
    keep: named('keep'),
    notes: named('notes'),
    idempotency: named('idempotency'),
    process: named('process'),
    log: named('log'),
    cursors: named('cursors'),
    taken: named('taken'),
    readers: named('readers'),
    leaves: Array.from({ length: leafCount }, (_, leaf) => ({ log: named('log', `_${leaf}`), cursors: named('cursors', `_${leaf}`) })),
  }
}
