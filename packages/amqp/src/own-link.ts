import type { Runtime } from '@ackord/core'
import { abortable, answerTimeout, settledWithin } from '@ackord/core/internal'
import { ChannelNumbers } from './channel-numbers.ts'
import type { AmqpConnection, AmqpLink, AmqpSession } from './client.ts'
import { type ConditionError, toConditionError } from './conditions.ts'
import { whenLost } from './connection-watch.ts'

/** How many deliveries a session of rhea keeps track of. It forgets settled ones in their order only: none that came after an unsettled one. */
export const sessionCapacity = 65_536

/** Milliseconds within which the broker must attach a link. A broker that never answers must not keep a source or a publisher waiting for ever. */
const attachTimeout = 10_000

/**
 * A link in a session of its own: rhea stops a session whose first message has no credit, and brokers end a whole session for an error of one link.
 *
 *     attaching ─ the broker attaches it ─▶ open ─ close() ─▶ closed
 *     attaching, open ─ the broker refuses or detaches it, does not answer, or ends the session; the connection is lost ─▶ lost
 */
export class OwnLink<Link extends AmqpLink> {
  readonly link: Link
  /** Resolves, with the reason, when the link is lost. */
  readonly lost: Promise<ConditionError>
  readonly #session: AmqpSession
  readonly #runtime: Runtime
  readonly #opened: Promise<void>
  /** Resolves when the broker has ended the session, or the connection is lost. */
  readonly #ended: Promise<void>
  readonly #forget: () => void
  #isLost = false
  #closing: Promise<void> | undefined
  #onLost: (error: ConditionError) => void = () => {}
  #onEnded: () => void = () => {}

  constructor(connection: AmqpConnection, role: 'sender' | 'receiver', open: (session: AmqpSession) => Link, runtime: Runtime) {
    this.#runtime = runtime
    this.lost = new Promise((resolve) => {
      this.#onLost = resolve
    })
    this.#ended = new Promise((resolve) => {
      this.#onEnded = resolve
    })
    const channels = ChannelNumbers.of(connection)
    const session = channels.createSession({ incoming: sessionCapacity, outgoing: sessionCapacity }, runtime.monotonic())
    this.#session = session
    this.#forget = whenLost(connection, (error) => {
      // Otherwise rhea would attach the link again by itself, without credit.
      session.remove()
      this.#lose(error)
      this.#onEnded()
    })
    // rhea throws errors that have no listener.
    session.on('session_error', () => {})
    session.on('session_close', () => {
      channels.ended(session, runtime.monotonic())
      this.#lose(toConditionError(session.error, 'the broker ended the session'))
      this.#forget()
      this.#onEnded()
    })
    session.begin()
    const link = open(session)
    this.link = link
    link.on(`${role}_error`, () => {})
    link.on(`${role}_close`, () => {
      this.#lose(toConditionError(link.error, 'the broker closed the link'))
      void this.close()
    })
    const giveUp = () => {
      this.#lose(toConditionError(undefined, `the broker did not attach the link within ${attachTimeout} ms`))
      void this.close()
    }
    const unanswered = runtime.setTimeout(giveUp, attachTimeout, { keepAlive: false })
    void this.lost.then(() => unanswered.cancel())
    this.#opened = new Promise((resolve) => {
      link.on(`${role}_open`, () => {
        unanswered.cancel()
        // A link without its terminus is refused: the broker detaches it next, and says why.
        if (isTerminus(role === 'sender' ? link.target : link.source)) resolve()
      })
    })
  }

  get isLost(): boolean {
    return this.#isLost
  }

  /** Resolves when the broker has attached the link. Rejects if it refuses to, and with the reason of the signal. */
  async opened(signal?: AbortSignal): Promise<void> {
    const refused = this.lost.then((error) => {
      throw error
    })
    const opening = Promise.race([this.#opened, refused])
    await (signal === undefined ? opening : abortable(opening, signal))
  }

  /** Ends the session. Resolves when the broker has done so, after a while at the latest. Idempotent, never rejects. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    // rhea answers the broker's detach a tick later. After the end of the session that would be an error of the whole connection.
    this.link.close()
    this.#session.close()
    await settledWithin(this.#runtime, answerTimeout, this.#ended)
    this.#forget()
  }

  #lose(error: ConditionError): void {
    this.#isLost = true
    this.#onLost(error)
  }
}

/** rhea has a missing terminus as a typed null. */
function isTerminus(terminus: unknown): boolean {
  return typeof terminus === 'object' && terminus !== null && (terminus as { readonly value?: unknown }).value !== null
}
