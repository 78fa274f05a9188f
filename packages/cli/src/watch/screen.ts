import type { Output } from '../output/output.ts'
import { counted, truncate, widthOf } from '../output/text.ts'

const control = '\u001b['

/** A terminal's alternate screen, redrawn in place. The caller closes it: otherwise the terminal stays without a cursor. */
export class Screen {
  readonly #output: Output
  #isOpen = false

  constructor(output: Output) {
    this.#output = output
  }

  /** Replaces the contents. Lines that do not fit are cut. */
  draw(lines: readonly string[]): void {
    const { width = Infinity, height = Infinity } = this.#output
    const shown =
      lines.length <= height ? lines : [...lines.slice(0, height - 1), `… ${counted(lines.length - height + 1, 'line', 'lines')} more`]
    const rows = shown.map((line, index) => {
      const text = truncate(line, width)
      // After the last column some terminals would erase its character.
      return `${control}${index + 1};1H${text}${widthOf(text) < width ? `${control}K` : ''}`
    })
    const rest = shown.length < height ? `${control}${shown.length + 1};1H${control}J` : ''
    // One write, as a synchronised update where the terminal has those: it never shows a half-drawn screen.
    this.#output.write(`${this.#open()}${control}?2026h${rows.join('')}${rest}${control}?2026l`)
  }

  /** Erases everything first: a terminal that changes its size may move lines. */
  redraw(lines: readonly string[]): void {
    // A screen that is not open yet is empty, and this would erase the one below.
    if (this.#isOpen) this.#output.write(`${control}2J`)
    this.draw(lines)
  }

  /** Shows the contents and the cursor as they were before. Idempotent; the next `draw()` opens the screen again. */
  close(): void {
    if (this.#isOpen) this.#output.write(`${control}?25h${control}?1049l`)
    this.#isOpen = false
  }

  #open(): string {
    if (this.#isOpen) return ''
    this.#isOpen = true
    return `${control}?1049h${control}?25l`
  }
}
