import type { Writable } from 'node:stream'
import { type Logger, systemRuntime } from '@ackord/core'
import { causesOf, messageOf as redactedMessage } from '@ackord/core/internal'
import colours from 'picocolors'
import type { CommandError } from './errors.ts'
import type { Secrets } from './secrets.ts'

export interface OutputOptions {
  readonly stdout: Writable
  readonly stderr: Writable
  readonly secrets: Secrets
  /** For programs: JSON only, no colours. */
  readonly json: boolean
  /** Whether the output is a terminal. */
  readonly terminal: boolean
}

type Colours = ReturnType<typeof colours.createColors>

/** All output of the command. Results go to stdout; failures and the library's log lines to stderr. */
export class Output {
  readonly json: boolean
  readonly terminal: boolean
  readonly colours: Colours
  readonly #options: OutputOptions

  constructor(options: OutputOptions) {
    this.#options = options
    this.json = options.json
    this.terminal = options.terminal && !options.json
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
    this.#options.stdout.write(`${text}\n`)
  }

  /** Prints columns as wide as needed; numbers are right-aligned. */
  table(headings: readonly string[], rows: readonly (readonly (string | number)[])[]): void {
    const shown = rows.map((row) => row.map((cell) => printable(String(cell))))
    const widths = headings.map((heading, index) => Math.max(heading.length, ...shown.map((row) => row[index]?.length ?? 0)))
    const numeric = headings.map((_, index) => rows.length > 0 && rows.every((row) => typeof row[index] === 'number'))
    const format = (cells: readonly string[]) =>
      cells
        .map((cell, index) => (numeric[index] ? cell.padStart(widths[index] ?? 0) : cell.padEnd(widths[index] ?? 0)))
        .join('  ')
        .trimEnd()
    this.line(this.colours.bold(format(headings)))
    for (const row of shown) this.line(format(row))
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
    if (!texts.includes(text)) texts.push(text)
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

/** Record contents are user data: they must not contain terminal control characters. */
export function printable(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, (control) => `\\x${control.charCodeAt(0).toString(16).padStart(2, '0')}`)
}

function shownFields(fields: Record<string, unknown>): string {
  return Object.entries(fields)
    .map(
      ([name, value]) =>
        ` ${name}=${printable(typeof value === 'string' ? JSON.stringify(value) : (JSON.stringify(value) ?? String(value)))}`,
    )
    .join('')
}
