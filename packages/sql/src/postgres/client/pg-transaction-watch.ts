/** The part of the connection of a pg client that is used: it emits every message of the server. */
interface MessageEmitter {
  on(event: 'commandComplete', listener: (message: { readonly text: string }) => void): unknown
  on(event: 'readyForQuery', listener: (message: { readonly status?: string | undefined }) => void): unknown
}

export interface WatchedSession {
  usesSavepoints(): boolean
  /** Called when a transaction was begun or ended by something other than the session. */
  onEnded(): void
}

const watches = new WeakMap<object, PgTransactionWatch>()

/** The command tags of statements that begin or end a transaction, whatever their text was. `ROLLBACK` is also the tag of `ROLLBACK TO`. */
const controlTags = new Set(['BEGIN', 'START TRANSACTION', 'COMMIT', 'PREPARE TRANSACTION'])

/**
 * Detects from the server's messages, without a round trip, whether the open transaction of a client has ended: from the transaction status, and from
 * command tags, because `COMMIT AND CHAIN` begins another transaction with the same status.
 */
export class PgTransactionWatch {
  #session: WatchedSession | undefined

  /** The watch of a client; `undefined` for clients that do not expose messages, such as the native one. */
  static of(client: { readonly connection?: unknown }): PgTransactionWatch | undefined {
    const { connection } = client
    if (typeof connection !== 'object' || connection === null || !('on' in connection)) return undefined
    let watch = watches.get(connection)
    if (watch === undefined) {
      watch = new PgTransactionWatch(connection as MessageEmitter)
      watches.set(connection, watch)
    }
    return watch
  }

  private constructor(connection: MessageEmitter) {
    connection.on('commandComplete', ({ text }) => {
      if (this.#session === undefined) return
      if (controlTags.has(text) || (text === 'ROLLBACK' && !this.#session.usesSavepoints())) this.#session.onEnded()
    })
    connection.on('readyForQuery', ({ status }) => {
      if (status === 'I') this.#session?.onEnded()
    })
  }

  /** The session has begun: from now on every BEGIN and COMMIT comes from elsewhere. */
  start(session: WatchedSession): void {
    this.#session = session
  }

  /** The session is about to end. */
  stop(): void {
    this.#session = undefined
  }
}
