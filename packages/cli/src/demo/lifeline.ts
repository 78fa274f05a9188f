/**
 * Lets a service die in the middle of its work, as far as the store and the broker can tell:
 *
 *     alive ─ arm() ─▶ armed: acks no longer reach the broker ─ a batch is published, or cut() ─▶ cut: nothing reaches anybody
 */
export class Lifeline {
  #armed = false
  #cut = false
  #dropped = 0

  /** How many acks were not let through, of messages that were handled. */
  get droppedAcks(): number {
    return this.#dropped
  }

  get isCut(): boolean {
    return this.#cut
  }

  arm(): void {
    this.#armed = true
  }

  cut(): void {
    this.#cut = true
  }

  /** Called when the broker has confirmed events, before the store hears of it: the moment that makes duplicates. */
  published(): void {
    if (this.#armed && this.#dropped > 0) this.cut()
  }

  /** Throws if a verdict on a message must not get through. */
  checkVerdict(): void {
    if (!this.#armed && !this.#cut) return
    this.#dropped += 1
    throw gone()
  }

  /** Throws if nothing gets through any more. */
  check(): void {
    if (this.#cut) throw gone()
  }
}

function gone(): Error {
  return new Error('The process is gone.')
}
