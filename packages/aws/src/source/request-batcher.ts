import type { Runtime } from '@ackord/core'
import type { AwsBatchFailure } from '../client.ts'

/** The most entries of a request, and the most requests at the same time: while they run, further entries collect, so that batches grow with the load. */
const maxEntries = 10
const maxRequests = 4

interface WaitingEntry<Entry> {
  readonly entry: Entry
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/** SQS did not accept an entry of a batch. */
export class RefusedEntry extends Error {
  static {
    this.prototype.name = 'RefusedEntry'
  }

  /** Whether the entry is at fault: its receipt handle has expired, or the message is visible again. Otherwise SQS failed, and may accept it later. */
  readonly senderFault: boolean

  constructor({ Code: code = 'unknown', Message: text = '', SenderFault: senderFault = false }: AwsBatchFailure) {
    super(text === '' ? code : `${code}: ${text}`)
    this.senderFault = senderFault
  }
}

/** Sends entries of one operation in batches, those of one turn of the event loop together. */
export class RequestBatcher<Entry> {
  readonly #runtime: Runtime
  readonly #send: (entries: readonly Entry[]) => Promise<readonly (AwsBatchFailure | undefined)[]>
  readonly #waiting: WaitingEntry<Entry>[] = []
  #requests = 0
  #isScheduled = false

  /** `send` returns the failures by position; `undefined` for an accepted entry. */
  constructor(runtime: Runtime, send: (entries: readonly Entry[]) => Promise<readonly (AwsBatchFailure | undefined)[]>) {
    this.#runtime = runtime
    this.#send = send
  }

  /** Resolves when SQS has accepted the entry. Rejects with a `RefusedEntry`, or with the failure of the request. */
  add(entry: Entry): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ entry, resolve, reject })
      if (!this.#isScheduled) void this.#sendAfterTurn()
    })
  }

  async #sendAfterTurn(): Promise<void> {
    this.#isScheduled = true
    await this.#runtime.yield?.()
    this.#isScheduled = false
    this.#sendWaiting()
  }

  #sendWaiting(): void {
    while (this.#requests < maxRequests && this.#waiting.length > 0) void this.#sendBatch(this.#waiting.splice(0, maxEntries))
  }

  /** Never rejects. */
  async #sendBatch(batch: readonly WaitingEntry<Entry>[]): Promise<void> {
    this.#requests += 1
    try {
      const failures = await this.#send(batch.map(({ entry }) => entry))
      for (const [index, { resolve, reject }] of batch.entries()) {
        const failure = failures[index]
        if (failure === undefined) resolve()
        else reject(new RefusedEntry(failure))
      }
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
    this.#requests -= 1
    this.#sendWaiting()
  }
}
