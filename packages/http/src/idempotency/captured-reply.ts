import { AckordError } from '@ackord/core'

/** A reply of Fastify that sends nothing: the payload is kept. Everything else goes to the real reply. */
export class CapturedReply<Reply extends object> {
  readonly reply: Reply
  readonly #sent: Promise<readonly [payload: unknown]>
  #isSent = false

  constructor(real: Reply) {
    let keep: (payload: unknown) => void = () => {}
    this.#sent = new Promise((resolve) => {
      // In an array: a promise as the payload would be awaited.
      keep = (payload) => resolve([payload])
    })
    const capture = this
    const own = {
      get sent() {
        return capture.#isSent
      },
      send(payload: unknown) {
        capture.#isSent = true
        keep(payload)
        return capture.reply
      },
      // `return reply` and `await reply` wait until the answer is sent, which is after the handler.
      // biome-ignore lint/suspicious/noThenProperty: Fastify's reply has it too.
      then(resolve: () => void) {
        void capture.#sent.then(() => resolve())
      },
      hijack() {
        throw new AckordError('ACKORD_WRONG_DATA', 'An idempotent handler cannot hijack its reply: the answer is sent after the commit.')
      },
    }
    this.reply = new Proxy(real, {
      get: (target, name, receiver) => (Object.hasOwn(own, name) ? Reflect.get(own, name) : Reflect.get(target, name, receiver)),
    })
  }

  /** The payload that the handler has sent or returned. `returned` may be a promise. */
  async payloadOf(returned: unknown): Promise<unknown> {
    const isThenable = typeof returned === 'object' && returned !== null && 'then' in returned
    const value = await returned
    // As in Fastify: without a promise and a value, the handler sends later.
    const [payload] = this.#isSent || (value === undefined && !isThenable) ? await this.#sent : [value]
    if (payload instanceof Error) throw payload
    return payload
  }
}
