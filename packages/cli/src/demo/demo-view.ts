import { type ProgressResult, progress, settings } from '@clack/prompts'
import type { Output } from '../output/output.ts'
import type { DemoEvents, DemoProgress } from './demo.ts'

export interface DemoView extends DemoEvents {
  /** Removes the progress bar, and restores the terminal. Idempotent. */
  end(): void
}

/** A progress bar on a terminal; lines elsewhere; JSON for programs. */
export function demoView(output: Output, orders: number): DemoView {
  const onStep = (text: string) => {
    output.object({ step: text })
    output.line(`${output.colours.cyan('●')} ${text}`)
  }
  // Some terminals do not report their width.
  const wide = process.stdout.columns >= narrowest
  if (!output.terminal || !process.stdin.isTTY || !wide) return { onStep, onProgress() {}, end() {} }
  const bar = new Bar(orders)
  return {
    onStep(text) {
      bar.hide()
      onStep(text)
      bar.show()
    },
    onProgress: (now) => bar.update(now),
    end: () => bar.hide(),
  }
}

const narrowest = 40

class Bar {
  readonly #orders: number
  #bar: ProgressResult | undefined
  #shown = 0
  #now: DemoProgress = { handled: 0, published: 0, skipped: 0 }

  constructor(orders: number) {
    this.#orders = orders
    // With its signal handlers the library ends the process at Ctrl-C, before anything can be cleaned up.
    settings.aliases.delete('\u0003')
    settings.aliases.delete('escape')
  }

  show(): void {
    this.#bar = progress({
      max: this.#orders,
      size: 20,
      indicator: 'timer',
      withGuide: false,
      cancelMessage: 'Stopping, and removing the data of this run. Press Ctrl-C again to exit immediately.',
    })
    this.#bar.start()
    // Raw mode would prevent Ctrl-C from sending a signal.
    process.stdin.setRawMode(false)
    this.#shown = 0
    this.update(this.#now)
  }

  update(now: DemoProgress): void {
    this.#now = now
    if (this.#bar === undefined || this.#bar.isCancelled) return
    const step = Math.max(0, now.published - this.#shown)
    this.#shown += step
    this.#bar.advance(step, `${now.published} of ${this.#orders} events published, ${now.skipped} duplicates skipped`)
  }

  hide(): void {
    if (this.#bar?.isCancelled === false) this.#bar.clear()
    this.#bar = undefined
  }
}
