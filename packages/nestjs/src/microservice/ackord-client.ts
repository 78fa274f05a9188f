import { AckordError, type Context, InvalidOptionError, Message } from '@ackord/core'
import { checkFunction, describeMessage, isMessage, rejectUnknownOptions } from '@ackord/core/internal'
import type { OutboxWriter } from '@ackord/outbox'
import { Logger } from '@nestjs/common'
import { ClientProxy, type ReadPacket, type WritePacket } from '@nestjs/microservices'
import { Observable } from 'rxjs'

/** A `Database`, or a `Redis`. */
interface Transactions<Handle> {
  transaction(context?: Context | undefined): Handle | undefined
  write<R>(work: (transaction: Handle) => Promise<R>): Promise<R>
}

export interface AckordClientOptions<Handle> {
  /** The value that `@InjectDatabase()` injects. */
  readonly database: Transactions<Handle>
  /** The value that `@InjectOutbox()` injects. It needs a `source` and a `destination` for events. */
  readonly outbox: OutboxWriter<Handle>
}

/**
 * A client for Nest microservices. `emit()` stores an event in the outbox: in the transaction of the message or of `database.write()` that it is called in, otherwise in one
 * of its own. A relay publishes the event after the commit.
 *
 *     ClientsModule.registerAsync([{
 *       name: 'ORDERS',
 *       inject: [getDatabaseToken(), getOutboxToken()],
 *       useFactory: (database, outbox) => ({ customClass: AckordClient, options: { database, outbox } }),
 *     }])
 */
export class AckordClient<Handle = unknown> extends ClientProxy {
  readonly #database: Transactions<Handle>
  readonly #outbox: OutboxWriter<Handle>
  readonly #logger = new Logger(AckordClient.name)

  constructor(options: AckordClientOptions<Handle>) {
    const { database, outbox, ...unknown } = options
    rejectUnknownOptions('AckordClient', unknown)
    checkFunction('database.write', database?.write)
    checkFunction('outbox.append', outbox?.append)
    super()
    this.#database = database
    this.#outbox = outbox
  }

  /**
   * Starts to store an event at once, subscribed or not. The pattern is its type. `data` may be a message of `defineEvent()`, with attributes such as `partitionkey`. The
   * observable completes when the event is stored. A failure without a subscriber fails the transaction; outside of one it is logged.
   */
  override emit<TResult = unknown, TInput = unknown>(pattern: unknown, data: TInput): Observable<TResult> {
    const stored = this.dispatchEvent({ pattern, data })
    return new Observable((subscriber) => {
      stored.then(
        () => subscriber.complete(),
        (error: unknown) => subscriber.error(error),
      )
    })
  }

  async connect(): Promise<void> {}

  /** Closes nothing: the database and the relay have their own lifecycle. */
  close(): void {}

  /** The outbox. */
  unwrap<T>(): T {
    return this.#outbox as T
  }

  /** Not async: a transaction must see that the promise of `append()` itself is not awaited, and then fails with it. */
  protected override dispatchEvent<T>({ pattern, data }: ReadPacket): Promise<T> {
    const event = eventOf(this.normalizePattern(pattern), data)
    const transaction = this.#database.transaction()
    if (transaction !== undefined) return this.#outbox.append(transaction, event) as Promise<T>
    const stored = this.#database.write((own) => this.#outbox.append(own, event))
    stored.catch((error: unknown) => {
      this.#logger.error(`${describeMessage(event)} was not stored.`, error instanceof Error ? error.stack : error)
    })
    return stored as Promise<T>
  }

  /** Called by `send()`. */
  protected override publish(_packet: ReadPacket, callback: (packet: WritePacket) => void): () => void {
    const err = new InvalidOptionError(
      'send()',
      'is not supported: AckordClient stores events, and nothing answers them. Use emit(), or another client.',
    )
    callback({ err })
    return () => {}
  }
}

function eventOf(type: string | undefined, data: unknown): Message {
  if (typeof type !== 'string' || type === '')
    throw new InvalidOptionError('The pattern given to emit()', 'is missing. It is the type of the event.')
  if (!isMessage(data)) return new Message(data, { type })
  if (data.type === type) return data
  throw new AckordError(
    'ACKORD_INVALID_ATTRIBUTES',
    `emit('${type}') was given ${describeMessage(data)}. Pass the type of the message as the pattern.`,
  )
}
