// @ts-check

/**
 * @typedef {object} Run a piece of a line in one style
 * @property {string} text
 * @property {string} style class names of the recording, such as `bold green`
 */

/** @typedef {{ character: string, style: string }} Cell */

const colours = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white']
// biome-ignore lint/suspicious/noControlCharactersInRegex: the commands of a terminal begin with one.
const parts = /\x1b\[([\d;?]*)([A-Za-z])|\x1b\][^\x07]*\x07|\x1b.|[\s\S]/gu
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above.
const unfinished = /\x1b(?:\[[\d;?]*|\][^\x07]*)?$/
const blank = { character: ' ', style: '' }

/** As much of a terminal as the demo uses: text, colours, moves of the cursor, erasing. Lines never scroll away. */
export class Terminal {
  #columns
  /** @type {Cell[][]} */
  #lines = [[]]
  #row = 0
  #column = 0
  #colour = ''
  #weight = ''
  /** An escape sequence whose end is in the next chunk. */
  #rest = ''

  /** @param {number} columns */
  constructor(columns) {
    this.#columns = columns
  }

  /** @param {string} chunk */
  write(chunk) {
    const text = this.#rest + chunk
    this.#rest = unfinished.exec(text)?.[0] ?? ''
    const whole = text.slice(0, text.length - this.#rest.length)
    for (const [part, parameters, command] of whole.matchAll(parts)) {
      if (command !== undefined) this.#control(command, parameters ?? '')
      else if (!part.startsWith('\x1b')) this.#put(part)
    }
  }

  /** The lines, without trailing spaces and trailing empty lines. @returns {Run[][]} */
  lines() {
    const lines = this.#lines.map((cells) => runsOf(cells))
    return lines.slice(0, lines.findLastIndex((runs) => runs.length > 0) + 1)
  }

  /** @param {string} character */
  #put(character) {
    if (character === '\n') this.#row += 1
    else if (character === '\r') this.#column = 0
    else if (character === '\b') this.#column = Math.max(0, this.#column - 1)
    else if (character >= ' ') {
      if (this.#column === this.#columns) {
        this.#row += 1
        this.#column = 0
      }
      this.#line()[this.#column] = { character, style: [this.#weight, this.#colour].filter(Boolean).join(' ') }
      this.#column += 1
    }
    this.#line()
  }

  /** The cells of the current line, up to the cursor at least. */
  #line() {
    while (this.#lines.length <= this.#row) this.#lines.push([])
    const line = /** @type {Cell[]} */ (this.#lines[this.#row])
    while (line.length < this.#column) line.push(blank)
    return line
  }

  /** @param {string} command @param {string} parameters */
  #control(command, parameters) {
    const numbers = parameters.split(';').map(Number)
    const count = numbers[0] || 1
    if (command === 'm') for (const number of numbers) this.#setStyle(number)
    else if (command === 'A' || command === 'F') this.#row = Math.max(0, this.#row - count)
    else if (command === 'B' || command === 'E') this.#row += count
    else if (command === 'C') this.#column += count
    else if (command === 'D') this.#column = Math.max(0, this.#column - count)
    else if (command === 'G') this.#column = count - 1
    else if (command === 'K') this.#erase(numbers[0] === 2 ? 0 : this.#column)
    else if (command === 'J') {
      this.#erase(this.#column)
      this.#lines.length = this.#row + 1
    }
    if (command === 'E' || command === 'F') this.#column = 0
  }

  /** Erases the line from a column on. @param {number} from */
  #erase(from) {
    this.#line().length = Math.min(this.#line().length, from)
  }

  /** @param {number} number */
  #setStyle(number) {
    if (number === 0) this.#colour = this.#weight = ''
    else if (number === 1) this.#weight = 'bold'
    else if (number === 2) this.#weight = 'dim'
    else if (number === 22) this.#weight = ''
    else if (number === 39) this.#colour = ''
    else if (number >= 30 && number <= 37) this.#colour = colours[number - 30] ?? ''
    else if (number >= 90 && number <= 97) this.#colour = number === 90 ? 'dim' : (colours[number - 90] ?? '')
  }
}

/** @param {readonly Cell[]} cells @returns {Run[]} */
function runsOf(cells) {
  /** @type {Run[]} */
  const runs = []
  const end = cells.findLastIndex(({ character }) => character !== ' ') + 1
  for (const { character, style } of cells.slice(0, end)) {
    const last = runs.at(-1)
    // A space looks the same in every style.
    if (last !== undefined && (last.style === style || character === ' ')) last.text += character
    else runs.push({ text: character, style })
  }
  return runs
}
