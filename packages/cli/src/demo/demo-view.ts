import { type ProgressResult, progress, settings } from '@clack/prompts'
import type { Output } from '../output/output.ts'
import { counted } from '../output/text.ts'
import { wrapWords } from '../output/wrap-words.ts'
import type { Store } from '../stores/store.ts'
import type { DemoEvents, DemoProgress, DemoReport, DemoResult } from './demo.ts'

export interface DemoView extends DemoEvents {
  /** Removes the progress bar, and restores the terminal. Idempotent. */
  end(): void
}

/** A progress bar on a terminal; lines elsewhere; JSON for programs. */
export function demoView(output: Output, orders: number): DemoView {
  const columns = columnsOf(output)
  const onStep = (text: string) => {
    output.object({ step: text })
    output.line(wrapWords(text, { columns, first: '● ' }).replace('●', output.colours.cyan('●')))
  }
  if (!output.terminal || !process.stdin.isTTY || columns < narrowest) return { onStep, onProgress() {}, end() {} }
  const bar = new Bar(orders, columns)
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

/** Prints the findings of the demo, their meaning, and the next step. */
export function showSummary(
  output: Output,
  report: DemoReport,
  { store, broker }: { readonly store: Store; readonly broker: string },
): void {
  const { repeated_events: repeated, ...result } = report
  const columns = columnsOf(output)
  const isGood = result.lost === 0 && result.applied_twice === 0
  const paragraph = (text: string) => output.line(wrapWords(text, { columns, first: '  ' }))
  output.line()
  paragraph(
    `${result.applied} of ${counted(result.orders, 'order')} in ${nameOf(store.address)}; ${counted(result.duplicates_skipped, 'duplicate')} detected and skipped.`,
  )
  paragraph(
    `${counted(result.events_published, 'event')} at ${nameOf(broker)}, one for each order, although the service was killed and the broker was down.`,
  )
  if (repeated > 0)
    paragraph(
      `${repeated} of them published twice, with the same id: the killed service had published and not settled them. The inbox of a consumer skips those.`,
    )
  output.line((isGood ? output.colours.green : output.colours.red)(`  ${result.lost} lost, ${result.applied_twice} applied twice.`))
  output.line()
  if (isGood) showNextSteps(output, store, columns)
  // For programs, which read the last line.
  if (!output.terminal) output.raw(JSON.stringify(result satisfies DemoResult))
}

/** In words, if it is no server. */
function nameOf(address: string): string {
  return { 'pglite:': 'PostgreSQL', 'memory:': 'the broker in memory' }[address] ?? address
}

const startPages: Readonly<Record<Store['kind'], string>> = {
  postgres: 'postgresql',
  pglite: 'postgresql',
  mysql: 'mysql',
  sqlite: 'sqlite',
  redis: 'redis',
}

function showNextSteps(output: Output, store: Store, columns: number): void {
  const step = (text: string) => output.line(wrapWords(text, { columns, first: '  ', rest: '    ' }))
  output.line(output.colours.bold('Next'))
  step(`Write such a service: docs/start/${startPages[store.kind]}.md in the repository`)
  step('Run the demo on your own servers: npx ackord demo --store postgres://… --broker amqp://…')
  step('See what else the command does: npx ackord --help')
  output.line()
}

/** The width of the terminal; other output is not wrapped. Some terminals do not report their width. */
function columnsOf({ terminal }: Output): number {
  return terminal ? process.stdout.columns || 80 : Infinity
}

const narrowest = 40

/** The columns of the progress bar, the timer and the space between them. */
const besideText = 35

class Bar {
  readonly #orders: number
  readonly #columns: number
  #bar: ProgressResult | undefined
  #shown = 0
  #now: DemoProgress = { handled: 0, published: 0, skipped: 0 }

  constructor(orders: number, columns: number) {
    this.#orders = orders
    this.#columns = columns
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
    const counts = `${now.published} of ${this.#orders} events published`
    const full = `${counts}, ${now.skipped} duplicates skipped`
    // Beside the bar and the timer; a second line would not be removed.
    this.#bar.advance(step, full.length + besideText > this.#columns ? counts : full)
  }

  hide(): void {
    if (this.#bar?.isCancelled === false) this.#bar.clear()
    this.#bar = undefined
  }
}
