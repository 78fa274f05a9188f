import { Writable } from 'node:stream'
import { stripVTControlCharacters } from 'node:util'

/** Cursor movements, erasures and modes of the terminal; and everything else. */
const sequence = /(\p{Cc}\[[?\d;]*[A-Za-z])/u

/** A terminal of a size, which shows what a person would see: the sequences that the command writes are applied, and unknown ones are rejected. */
export class VirtualTerminal extends Writable {
  readonly isTTY = true
  columns: number
  rows: number
  /** How many times each part of the screen was written. */
  frames = 0
  cursorShown = true
  /** The colours of everything that was written. */
  readonly colours: string[] = []
  #main: string[] = []
  #alternate: string[] | undefined
  #row = 0
  #column = 0
  #waiting: (() => void)[] = []

  constructor(columns: number, rows: number) {
    super({ decodeStrings: false })
    this.columns = columns
    this.rows = rows
  }

  /** The lines that are visible now. */
  get screen(): readonly string[] {
    return (this.#alternate ?? this.#main).map((line) => line.trimEnd())
  }

  get isAlternate(): boolean {
    return this.#alternate !== undefined
  }

  resize(columns: number, rows: number): void {
    this.columns = columns
    this.rows = rows
    this.emit('resize')
  }

  /** Resolves when the screen is so, or with an error that has the screen if that takes too long. */
  async until(isSo: (screen: string) => boolean): Promise<void> {
    const limit = AbortSignal.timeout(30_000)
    while (!isSo(this.screen.join('\n'))) {
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve)
        limit.addEventListener('abort', () => resolve(), { once: true })
      })
      if (limit.aborted) throw new Error(`The screen is:\n${this.screen.join('\n')}`)
    }
  }

  override _write(chunk: string, _: BufferEncoding, done: () => void): void {
    for (const part of chunk.split(sequence)) {
      if (sequence.test(part)) this.#control(part.slice(2))
      else this.#print(part)
    }
    done()
    for (const wake of this.#waiting.splice(0)) wake()
  }

  #control(text: string): void {
    const lines = this.#alternate ?? this.#main
    if (text.endsWith('m')) this.colours.push(text)
    else if (text === '?1049h') this.#alternate = []
    else if (text === '?1049l') this.#leave()
    else if (text === '?25h' || text === '?25l') this.cursorShown = text === '?25h'
    else if (text === '?2026l') this.frames += 1
    else if (text === 'K') lines[this.#row] = (lines[this.#row] ?? '').slice(0, this.#column)
    else if (text === 'J') lines.splice(this.#row)
    else if (text === '2J') lines.length = 0
    else if (/^\d+;1H$/.test(text)) [this.#row, this.#column] = [Number.parseInt(text, 10) - 1, 0]
    else if (text !== '?2026h') throw new Error(`The terminal does not know the sequence ${text}.`)
  }

  #leave(): void {
    this.#alternate = undefined
    ;[this.#row, this.#column] = [this.#main.length, 0]
  }

  #print(text: string): void {
    const lines = this.#alternate ?? this.#main
    for (const [index, part] of stripVTControlCharacters(text).split('\n').entries()) {
      if (index > 0) [this.#row, this.#column] = [this.#row + 1, 0]
      if (part === '') continue
      if (this.#alternate !== undefined && this.#row >= this.rows) throw new Error(`The row ${this.#row + 1} is below the terminal.`)
      const line = (lines[this.#row] ?? '').padEnd(this.#column)
      lines[this.#row] = line.slice(0, this.#column) + part + line.slice(this.#column + part.length)
      this.#column += part.length
    }
  }
}
