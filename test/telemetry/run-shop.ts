import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

/** A span of one of the processes, as it prints it. Times are milliseconds since the epoch. */
export interface PrintedSpan {
  readonly span: string
  readonly service: string
  readonly kind: string
  readonly traceId: string
  readonly spanId: string
  readonly parentId?: string | undefined
  readonly links: readonly string[]
  readonly start: number
  readonly end: number
  readonly attributes: Readonly<Record<string, unknown>>
  readonly events: readonly { readonly name: string; readonly at: number }[]
}

type Line = Partial<PrintedSpan> & { readonly ready?: boolean; readonly port?: number; readonly confirmed?: string }

/** A process of the shop. */
export class ShopProcess implements AsyncDisposable {
  readonly spans: PrintedSpan[] = []
  readonly confirmed: string[] = []
  readonly ready: Promise<number | undefined>
  readonly #child: ChildProcess
  readonly #closed: Promise<unknown>

  constructor(file: string, env: Readonly<Record<string, string>>) {
    this.#child = spawn(process.execPath, [file], { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'inherit'] })
    this.#closed = once(this.#child, 'close')
    this.ready = new Promise((resolve, reject) => {
      const { stdout } = this.#child
      if (stdout === null) throw new Error('the output of the process is not piped')
      createInterface({ input: stdout }).on('line', (text) => {
        const line = JSON.parse(text) as Line
        if (line.ready === true) resolve(line.port)
        else if (line.confirmed !== undefined) this.confirmed.push(line.confirmed)
        else this.spans.push(line as PrintedSpan)
      })
      void this.#closed.then(() => reject(new Error('the process ended before it was ready')))
    })
    // It may be awaited later.
    this.ready.catch(() => {})
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill('SIGTERM')
    await this.#closed
  }
}
