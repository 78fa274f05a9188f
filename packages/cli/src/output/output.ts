import type { Writable } from 'node:stream'
import { type Logger, systemRuntime } from '@ackord/core'
import { causesOf, messageOf as redactedMessage } from '@ackord/core/internal'
import colours from 'picocolors'
import type { CommandError } from './errors.ts'
import type { Secrets } from './secrets.ts'
import { type Column, tableLines } from './table.ts'
import { printable } from './text.ts'

/** A stream that may be a terminal, whose size can change. */
export type OutputStream = Writable & {
  readonly isTTY?: boolean
  readonly columns?: number
  readonly rows?: number
}

export interface OutputOptions {
  readonly stdout: OutputStream
  readonly stderr: Writable
  readonly secrets: Secrets
  /** For programs: JSON only, no colours. */
  readonly json: boolean
  /** Whether the output is a terminal. */
  readonly terminal: boolean
  /** Whether the terminal can move its cursor. Default: true. */
  readonly cursor?: boolean | undefined
}

type Colours = ReturnType<typeof colours.createColors>

/** All output of the command. Results go to stdout; failures and the library's log lines to stderr. */
export class Output {
  readonly json: boolean
  readonly terminal: boolean
  /** Whether earlier output can be replaced. */
  readonly redraws: boolean
  readonly colours: Colours
  readonly #options: OutputOptions

  constructor(options: OutputOptions) {
    this.#options = options
    this.json = options.json
    this.terminal = options.terminal && !options.json
    this.redraws = this.terminal && options.cursor !== false
    this.colours = colours.createColors(this.terminal && colours.isColorSupported)
  }

  /** For people. Suppressed with `--json`. */
  line(text = ''): void {
    if (!this.json) this.raw(text)
  }

  /** For programs: one JSON object per line. Suppressed without `--json`. */
  object(value: object): void {
    if (this.json) this.raw(JSON.stringify(value))
  }

  /** For both. */
  raw(text: string): void {
    this.write(`${text}\n`)
  }

  /** Replaces the line of the cursor on a terminal, to show progress; an empty text clears it. Suppressed elsewhere. */
  progress(text: string): void {
    if (this.terminal) this.#options.stdout.write(`\r\u001B[K${text}`)
  }

  /** For both, without a line break: for control sequences of a terminal. */
  write(text: string): void {
    this.#options.stdout.write(text)
  }

  /** The number of columns of the terminal; `undefined` if the output is none, or does not report it. */
  get width(): number | undefined {
    return this.terminal ? this.#options.stdout.columns || undefined : undefined
  }

  /** The number of lines of the terminal; `undefined` if the output is none, or does not report it. */
  get height(): number | undefined {
    return this.terminal ? this.#options.stdout.rows || undefined : undefined
  }

  /** Calls the listener when the size of the terminal has changed, or when the reader has gone. Returns a function that ends it. */
  on(event: 'resize' | 'error', listener: () => void): () => void {
    const { stdout } = this.#options
    stdout.on(event, listener)
    return () => void stdout.off(event, listener)
  }

  /** The lines of a table that fits the terminal. Elsewhere nothing is cut. */
  table<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): readonly string[] {
    return tableLines(columns, rows, { width: this.width, heading: this.colours.bold })
  }

  /** The text without passwords: for texts that come, or may come, from drivers. */
  masked(text: string): string {
    return this.#options.secrets.mask(text)
  }

  failure(error: CommandError): void {
    const message = this.masked(oneLine(error.message))
    const hint = error.hint === undefined ? undefined : this.masked(oneLine(error.hint))
    if (this.json) this.#error(JSON.stringify({ error: message, ...(hint !== undefined && { hint }), exit_code: error.exitCode }))
    else this.#error(`${this.colours.red('ackord:')} ${message}${hint === undefined ? '' : `\n  ${hint}`}`)
  }

  /** The logger of the library. `debug` lines are omitted. */
  logger(where: 'stdout' | 'stderr' = 'stderr'): Logger {
    const write = (text: string) => {
      this.#options[where].write(`${text}\n`)
    }
    const log = (level: 'info' | 'warn' | 'error') => (fields: object, text: string) => {
      const time = new Date(systemRuntime.now()).toISOString()
      const [safe, safeText] = [this.#safeFields(fields), this.masked(text)]
      if (this.json) write(JSON.stringify({ time, level, text: safeText, ...safe }))
      else write(`${this.colours.dim(time.slice(11, 19))} ${this.#level(level)} ${safeText}${shownFields(safe)}`)
    }
    return { debug() {}, info: log('info'), warn: log('warn'), error: log('error') }
  }

  #level(level: 'info' | 'warn' | 'error'): string {
    if (level === 'info') return level
    return level === 'warn' ? this.colours.yellow(level) : this.colours.red(level)
  }

  #safeFields(fields: object): Record<string, unknown> {
    return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name === 'err' ? 'error' : name, this.#safe(value)]))
  }

  /**
   * Errors as strings, with their causes: texts from drivers may contain a URL. Each value is masked separately: in JSON a password may be escaped,
   * or be part of the syntax.
   */
  #safe(value: unknown): unknown {
    if (value === undefined) return undefined
    // Before `toJSON`, which some errors have.
    if (value instanceof Error) return this.masked(errorText(value))
    const text = JSON.stringify(value, (_, each: unknown) => {
      if (each instanceof Error) return this.masked(errorText(each))
      return typeof each === 'string' ? this.masked(each) : each
    })
    return text === undefined ? String(value) : JSON.parse(text)
  }

  #error(text: string): void {
    this.#options.stderr.write(`${text}\n`)
  }
}

/** The error text with its causes, innermost last. */
export function errorText(error: unknown): string {
  const texts: string[] = []
  for (const cause of [...causesOf(error)].slice(0, 5)) {
    const text = cause instanceof Error ? messageOf(cause) : String(cause)
    // Some errors repeat the text of their cause.
    if (!texts.some((each) => each.includes(text))) texts.push(text)
  }
  return oneLine(texts.join(' Cause: '))
}

/** Node's error for several failed connection attempts has no message; its inner errors do. */
function messageOf(error: Error): string {
  if (error.message !== '') return redactedMessage(error)
  if (error instanceof AggregateError) return error.errors.map((each) => (each instanceof Error ? each.message : String(each))).join('; ')
  return 'code' in error ? String(error.code) : error.name
}

function oneLine(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, ' ').trim()
}

function shownFields(fields: Record<string, unknown>): string {
  return Object.entries(fields)
    .map(
      ([name, value]) =>
        ` ${name}=${printable(typeof value === 'string' ? JSON.stringify(value) : (JSON.stringify(value) ?? String(value)))}`,
    )
    .join('')
}
