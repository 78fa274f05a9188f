/** What is used of the connection of a pg client: it emits every message of the server. */
interface MessageEmitter {
  on(event: 'commandComplete', listener: (message: { readonly text: string }) => void): unknown
  on(event: 'readyForQuery', listener: (message: { readonly status?: string | undefined }) => void): unknown
}

export interface WatchedSession {
  usesSavepoints(): boolean
  /** Called when something else than the session has begun or ended a transaction. */
  onEnded(): void
}

const watches = new WeakMap<object, PgTransactionWatch>()

/** The server says these of a statement that begins or ends a transaction, whatever its text was. `ROLLBACK` is also said of `ROLLBACK TO`. */
const controlTags = new Set(['BEGIN', 'START TRANSACTION', 'COMMIT', 'PREPARE TRANSACTION'])

/**
 * Hears from the server's own messages whether a transaction that is open on a client has ended, without a round trip: by the transaction status, and by the
 * command tags, because after `COMMIT AND CHAIN` the status is the same and the transaction another one.
 */
export class PgTransactionWatch {
  #session: WatchedSession | undefined

  /** The one of a client; `undefined` for clients that do not show messages, as the native one. */
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

  /** The session has begun: from here on every BEGIN and COMMIT is somebody else's. */
  start(session: WatchedSession): void {
    this.#session = session
  }

  /** The session is about to end. */
  stop(): void {
    this.#session = undefined
  }
}
