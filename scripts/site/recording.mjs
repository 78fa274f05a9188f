// @ts-check
import { escapeXml, monospace } from './svg.mjs'
import { Terminal } from './terminal.mjs'

/** @typedef {import('./capture.mjs').Chunk} Chunk */
/** @typedef {import('./terminal.mjs').Run} Run */

/**
 * @typedef {object} Shown a line of the terminal, from one moment to another, in milliseconds
 * @property {number} row
 * @property {readonly Run[]} runs
 * @property {number} from
 * @property {number | undefined} to nothing if it stays until the end
 */

/** Between two frames, in milliseconds. A progress bar has more steps than anybody sees. */
const frameTime = 120
/** Longer pauses are cut to this. */
const longestPause = 1200
/** How long the last frame is shown before it begins again. */
const endTime = 6000
const [characterWidth, lineHeight, padding, titleHeight] = [8.43, 20, 18, 30]

/**
 * An animated terminal. Without animation, or where the reader prefers reduced motion, it shows the last frame.
 * @param {readonly Chunk[]} chunks @param {{ prompt: string, columns: number, title: string, description: string }} options @returns {string} an SVG document
 */
export function recording(chunks, { prompt, columns, title, description }) {
  const { shown, duration } = timeline(chunks, prompt, columns)
  const total = duration + endTime
  const rows = Math.max(...shown.map(({ row }) => row)) + 1
  const width = Math.ceil(columns * characterWidth) + 2 * padding
  const height = titleHeight + rows * lineHeight + padding
  const percent = (/** @type {number} */ time) => `${Number(((time / total) * 100).toFixed(2))}%`
  /** @type {Map<string, string>} */
  const animations = new Map()
  const animationOf = (/** @type {Shown} */ { from, to }) => {
    const hidden = 'visibility:hidden'
    const end = to === undefined ? '' : `${percent(to)},to{${hidden}}`
    const keyframes = `0%{${hidden}}${percent(from)}{visibility:visible}${end}`
    const name = animations.get(keyframes) ?? `a${animations.size}`
    animations.set(keyframes, name)
    return name
  }
  // A line that was replaced at once is in no frame.
  const visible = shown.filter(({ from, to }) => to === undefined || percent(from) !== percent(to))
  const lines = visible.map((line) => {
    const name = line.from === 0 && line.to === undefined ? '' : animationOf(line)
    const spans = line.runs.map(({ text, style }) =>
      style === '' ? escapeXml(text) : `<tspan class="${style}">${escapeXml(text)}</tspan>`,
    )
    const y = titleHeight + (line.row + 1) * lineHeight - 4
    const classes = [line.to === undefined ? 'kept' : 'gone', name].filter(Boolean).join(' ')
    return `<text class="${classes}" x="${padding}" y="${y}" xml:space="preserve">${spans.join('')}</text>`
  })
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-labelledby="title desc">`,
    `<title id="title">${escapeXml(title)}</title>`,
    `<desc id="desc">${escapeXml(description)}</desc>`,
    `<style>${style}.gone{visibility:hidden}@media (prefers-reduced-motion:no-preference){text{animation:${(total / 1000).toFixed(1)}s step-end infinite}`,
    ...[...animations].map(([keyframes, name]) => `.${name}{animation-name:${name}}@keyframes ${name}{${keyframes}}`),
    '}</style>',
    `<rect class="card" x=".5" y=".5" width="${width - 1}" height="${height - 1}" rx="10"/>`,
    `<g class="dots"><circle cx="20" cy="18" r="5"/><circle cx="37" cy="18" r="5"/><circle cx="54" cy="18" r="5"/></g>`,
    ...lines,
    '</svg>',
    '',
  ].join('\n')
}

/** The text of the last frame, line by line. @param {string} svg @returns {string[]} */
export function recordedLines(svg) {
  return [...svg.matchAll(/<text class="kept[^"]*"[^>]*>(.*)<\/text>/g)].map(([, spans = '']) =>
    spans
      .replaceAll(/<[^>]*>/g, '')
      .replaceAll('&lt;', '<')
      .replaceAll('&gt;', '>')
      .replaceAll('&quot;', '"')
      .replaceAll('&amp;', '&'),
  )
}

/** The lines that the chunks leave on a terminal. @param {readonly Chunk[]} chunks @param {number} columns @returns {string[]} */
export function printedLines(chunks, columns) {
  const terminal = new Terminal(columns)
  for (const { text } of chunks) terminal.write(text)
  return terminal.lines().map((runs) => runs.map(({ text }) => text).join(''))
}

/** @param {readonly Chunk[]} chunks @param {string} prompt @param {number} columns @returns {{ shown: Shown[], duration: number }} */
function timeline(chunks, prompt, columns) {
  const terminal = new Terminal(columns)
  terminal.write(`\x1b[2m$\x1b[22m \x1b[1m${prompt}\x1b[22m\r\n`)
  /** @type {Shown[]} */
  const shown = []
  /** @type {Map<number, { line: Shown, key: string }>} by row */
  const current = new Map()
  const takeFrame = (/** @type {number} */ now) => {
    const lines = terminal.lines()
    for (let row = 0; row < Math.max(lines.length, ...[...current.keys()].map((each) => each + 1)); row += 1) {
      const runs = lines[row] ?? []
      const key = JSON.stringify(runs)
      const before = current.get(row)
      if (before?.key === key) continue
      if (before !== undefined) before.line.to = now
      current.delete(row)
      if (runs.length === 0) continue
      const line = { row, runs, from: now, to: undefined }
      shown.push(line)
      current.set(row, { line, key })
    }
  }
  takeFrame(0)
  let [now, last, frameAt] = [0, 0, 0]
  for (const { at, text } of chunks) {
    now += Math.min(at - last, longestPause)
    last = at
    // The frame shows what was there until now; this chunk belongs to the next one.
    if (now - frameAt >= frameTime) {
      takeFrame(now)
      frameAt = now
    }
    terminal.write(text)
  }
  takeFrame(now)
  return { shown, duration: now }
}

const style = [
  `text{font:14px ${monospace};fill:#25232a;white-space:pre}`,
  '.card{fill:#faf9fb;stroke:#e0dde4}.dots{fill:#d9d5de}',
  '.bold{font-weight:700}.dim{fill:#77717f}.red{fill:#b3261e}.green{fill:#1b6e3c}.yellow{fill:#7a5900}',
  '.blue{fill:#2456a6}.magenta{fill:#6b3a80}.cyan{fill:#6b3a80}',
  '@media (prefers-color-scheme:dark){text{fill:#ece9f0}.card{fill:#1b1b1f;stroke:#3b3840}.dots{fill:#45414c}',
  '.dim{fill:#9a93a3}.red{fill:#ff8a80}.green{fill:#7fd6a0}.yellow{fill:#e6c66a}.blue{fill:#9dc1ff}.magenta,.cyan{fill:#cfa6e0}}',
].join('')
