/** The most messages that are remembered. */
const maxMessages = 10_000

/**
 * Counts the deliveries that no handler of this process has seen: of messages that were returned while they waited. SQS counts them like any other, and a message would be
 * dead-lettered for failures that it never had. Those of other processes are not known here.
 */
export class UnseenDeliveries {
  readonly #counts = new Map<string, number>()

  of(messageId: string): number {
    return this.#counts.get(messageId) ?? 0
  }

  add(messageId: string): void {
    const count = this.of(messageId) + 1
    // The message that was added longest ago is the first one of the map.
    this.#counts.delete(messageId)
    this.#counts.set(messageId, count)
    const [oldest] = this.#counts.keys()
    if (this.#counts.size > maxMessages && oldest !== undefined) this.#counts.delete(oldest)
  }

  forget(messageId: string): void {
    this.#counts.delete(messageId)
  }
}
