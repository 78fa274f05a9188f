// @ts-check
// Draws the spans of one order as a waterfall. Shapes are computed here instead of referred to: a drawing that uses patterns or markers has `url(…)`, which some pages refuse.
import { dark, escapeXml, light, sansSerif } from './svg.mjs'

/**
 * @typedef {object} TraceSpan times are milliseconds since the first span began
 * @property {number} id
 * @property {number} trace the number of its trace
 * @property {string} service
 * @property {string} name
 * @property {string} kind
 * @property {string} [system]
 * @property {readonly number[]} links ids of spans
 * @property {number} start
 * @property {number} end
 * @property {number} [outbox] how long the oldest record was in the outbox when it was sent
 * @property {number} [committed] when the transaction was committed
 */

/** @typedef {{ recorded: string, spans: readonly TraceSpan[] }} Trace */

/** @typedef {import('../../test/telemetry/run-shop.ts').PrintedSpan} PrintedSpan */

/** @param {readonly PrintedSpan[]} printed @param {string} recorded the date @returns {Trace} */
export function toTrace(printed, recorded) {
  const sorted = printed.toSorted((one, other) => one.start - other.start || (one.links.includes(other.spanId) ? 1 : -1))
  const origin = sorted[0]?.start ?? 0
  const at = (/** @type {number} */ time) => rounded(time - origin)
  const ids = sorted.map(({ spanId }) => spanId)
  const traces = [...new Set(sorted.map(({ traceId }) => traceId))]
  const spans = sorted.map(({ span, service, kind, traceId, spanId, links, start, end, attributes, events }) => {
    const system = attributes['messaging.system.name']
    const age = attributes['ackord.outbox.oldest_age']
    const commit = events.find(({ name }) => name === 'ackord.committed')
    return {
      id: ids.indexOf(spanId) + 1,
      trace: traces.indexOf(traceId) + 1,
      ...{ service, name: span, kind },
      ...(system === undefined ? {} : { system: String(system) }),
      links: links.map((link) => ids.indexOf(link) + 1),
      ...{ start: at(start), end: at(end) },
      ...(age === undefined ? {} : { outbox: rounded(Number(age) * 1000) }),
      ...(commit === undefined ? {} : { committed: at(commit.at) }),
    }
  })
  return { recorded, spans }
}

/** @param {number} value */
const rounded = (value) => Math.round(value * 100) / 100

const width = 600
const padding = 16
const labelWidth = 150
/** For the duration behind the last bar. */
const valueWidth = 56
const left = padding + labelWidth
const right = width - padding - valueWidth
const top = 104
const rowHeight = 42
const barHeight = 16
const barTop = 9

/** @typedef {{ label: string, note: string, service: number, start: number, end: number, kind: 'span' | 'outbox', span: TraceSpan }} Row */

/** @param {Trace} trace @returns {string} an SVG document */
export function drawTrace({ spans }) {
  const services = [...new Set(spans.map(({ service }) => service))]
  const rows = spans.flatMap((span) => rowsOf(span, services.indexOf(span.service)))
  const end = Math.max(...spans.map((span) => span.end))
  const x = (/** @type {number} */ time) => left + (time / end) * (right - left)
  const bottom = top + rows.length * rowHeight
  const height = bottom + 8
  const step = [1, 2, 5, 10, 20, 50, 100].find((one) => end / one <= 6) ?? 200
  const ticks = Array.from({ length: Math.floor(end / step) + 1 }, (_, index) => index * step)
  const title = `One order through ${words(services.length)} services`
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-labelledby="trace-title trace-desc">`,
    `<title id="trace-title">${escapeXml(title)}</title>`,
    `<desc id="trace-desc">${escapeXml(describe(spans))}</desc>`,
    `<style>${style(light, lightBars)}@media (prefers-color-scheme:dark){${style(dark, darkBars)}}</style>`,
    `<rect class="card" x=".5" y=".5" width="${width - 1}" height="${height - 1}" rx="12"/>`,
    `<text class="title" x="${padding}" y="30">${escapeXml(title)}</text>`,
    legend(services),
    ...ticks.map((tick) => {
      const at = fixed(x(tick))
      const text = `<text class="muted" x="${at}" y="${top - 12}" text-anchor="middle">${tick}${tick === ticks.at(-1) ? ' ms' : ''}</text>`
      return `<path class="grid" d="M${at} ${top - 6}V${bottom}"/>${text}`
    }),
    ...rows.map((row, index) => drawRow(row, top + index * rowHeight, x)),
    ...drawLinks(rows, x),
    '</svg>',
    '',
  ].join('\n')
}

/** @param {TraceSpan} span @param {number} service @returns {Row[]} */
function rowsOf(span, service) {
  const { name, system, start, end, outbox } = span
  const row = { label: name, note: noteOf(span), service, start, end, kind: /** @type {const} */ ('span'), span }
  if (system === undefined || outbox === undefined) return [row]
  // SDKs round the beginning of a span to milliseconds.
  const stored = Math.max(0, start - outbox)
  return [{ ...row, label: 'outbox', note: 'in PostgreSQL', start: stored, end: start, kind: 'outbox' }, row]
}

/** @param {TraceSpan} span */
function noteOf({ system, kind }) {
  const broker = { rabbitmq: 'RabbitMQ', nats: 'NATS' }[system ?? '']
  if (broker === undefined) return 'HTTP request'
  return kind === 'CONSUMER' ? `from ${broker}` : `to ${broker}`
}

/** @param {Row} row @param {number} y @param {(time: number) => number} x */
function drawRow({ label, note, service, start, end, kind, span }, y, x) {
  const [from, to] = [x(start), x(end)]
  const bar = { x: from, y: y + barTop, width: Math.max(2, to - from), height: barHeight }
  const duration = kind === 'outbox' ? (span.outbox ?? 0) : end - start
  const commit = kind === 'span' ? span.committed : undefined
  return [
    `<circle class="s${service}${kind === 'outbox' ? ' hollow' : ''}" cx="${padding + 5}" cy="${y + 14}" r="4.5"/>`,
    `<text class="label" x="${padding + 17}" y="${y + 19}">${escapeXml(label)}</text>`,
    `<text class="note" x="${padding + 17}" y="${y + 34}">${escapeXml(note)}</text>`,
    kind === 'outbox' ? hatched(bar, service) : `<rect class="s${service}" ${box(bar)} rx="3"/>`,
    ...(commit === undefined ? [] : [diamond(Math.min(x(commit), to - 6), y + barTop + barHeight / 2)]),
    `<text class="value" x="${fixed(Math.max(to, from + 2) + 7)}" y="${y + barTop + 13}">${duration.toFixed(1)} ms</text>`,
  ].join('')
}

/** @typedef {{ x: number, y: number, width: number, height: number }} Box */

/** A frame with diagonal lines. @param {Box} bar @param {number} service */
function hatched(bar, service) {
  const { x, y, width: wide, height: high } = bar
  const lines = []
  for (let at = 6; at < wide + high; at += 6) {
    // From the upper or right edge down to the lower or left one, at 45 degrees.
    const [x1, y1] = at <= wide ? [at, 0] : [wide, at - wide]
    const [x2, y2] = at <= high ? [0, at] : [at - high, high]
    lines.push(`M${fixed(x + x1)} ${fixed(y + y1)}L${fixed(x + x2)} ${fixed(y + y2)}`)
  }
  return `<rect class="frame l${service}" ${box(bar)} rx="3"/><path class="hatch l${service}" d="${lines.join('')}"/>`
}

/** @param {number} x @param {number} y */
function diamond(x, y) {
  return `<path class="commit" d="M${fixed(x)} ${y - 5}l5 5-5 5-5-5z"/>`
}

/** Each link leads from the left end of a span to the lower edge of the span that it is linked to. @param {readonly Row[]} rows @param {(time: number) => number} x */
function drawLinks(rows, x) {
  const spans = rows
    .map(({ span, kind }, index) => ({ span, kind, y: top + index * rowHeight + barTop }))
    .filter(({ kind }) => kind === 'span')
  return spans.flatMap(({ span: linked, y: upper }) => {
    const linking = spans.filter(({ span }) => span.links.includes(linked.id))
    return linking.map(({ span, y }, index) => {
      // The lower the other end, the further left: the curves do not cross.
      const [fromX, fromY] = [x(span.start) - 1, y + barHeight / 2]
      const [toX, toY] = [x(linked.start) + 6 + 11 * (linking.length - 1 - index), upper + barHeight + 2]
      const curve = `M${fixed(fromX)} ${fromY}C${fixed(toX + 8)} ${fromY} ${fixed(toX)} ${fromY - 10} ${fixed(toX)} ${toY + 7}`
      const head = `M${fixed(toX)} ${toY}l4 8h-8z`
      return `<path class="halo" d="${curve}"/><path class="link" d="${curve}"/><path class="head" d="${head}"/>`
    })
  })
}

/** @param {readonly string[]} services */
function legend(services) {
  let x = padding
  /** @type {string[]} */
  const parts = []
  const add = (/** @type {string} */ symbol, /** @type {number} */ symbolWidth, /** @type {string} */ text) => {
    parts.push(symbol, `<text class="muted" x="${x + symbolWidth + 6}" y="56">${escapeXml(text)}</text>`)
    x += symbolWidth + 6 + Math.ceil(text.length * 6.9) + 16
  }
  services.forEach((service, index) => {
    add(`<rect class="s${index}" x="${x}" y="46" width="16" height="11" rx="3"/>`, 16, `service ${service}`)
  })
  add(hatched({ x, y: 46, width: 22, height: 11 }, 0), 22, 'stored in the outbox')
  add(diamond(x + 5, 51), 10, 'commit')
  const link = `<path class="link" d="M${x + 26} 56C${x + 14} 56 ${x + 8} 54 ${x + 5} 50"/><path class="head" d="M${x + 2} 44l7 4.5-6 4z"/>`
  add(link, 26, 'link')
  return parts.join('')
}

/** The picture in words. @param {readonly TraceSpan[]} spans */
function describe(spans) {
  const nameOf = new Map(spans.map(({ id, name }) => [id, name]))
  const sentences = spans.map(({ service, name, start, end, links, outbox }) => {
    const linked = links.map((id) => `'${nameOf.get(id)}'`).join(', ')
    const waited = outbox === undefined ? '' : `, after ${outbox.toFixed(1)} ms in the outbox`
    return `${service}: ${name}, ${(end - start).toFixed(1)} ms${waited}${linked === '' ? '' : `, linked to ${linked}`}`
  })
  return `${spans.length} spans, in the order of time. ${sentences.join('; ')}.`
}

/** @param {number} count */
const words = (count) => ['no', 'one', 'two', 'three', 'four'][count] ?? String(count)

/** @param {number} value */
const fixed = (value) => String(Math.round(value * 10) / 10)

/** @param {Box} bar */
const box = ({ x, y, width: wide, height: high }) => `x="${fixed(x)}" y="${fixed(y)}" width="${fixed(wide)}" height="${fixed(high)}"`

const lightBars = ['#6b3a80', '#0f766e']
const darkBars = ['#b886cc', '#4fb8ab']

/** @param {typeof light} colours @param {readonly string[]} bars */
function style({ card, border, text, muted }, bars) {
  return [
    `text{font:15px ${sansSerif};fill:${text}}`,
    '.title{font-size:17px;font-weight:650}',
    '.label{font-weight:600}',
    `.muted,.note{font-size:13px;fill:${muted}}`,
    `.value{font-size:13px;font-weight:600;paint-order:stroke;stroke:${card};stroke-width:4px}`,
    `.card{fill:${card};stroke:${border}}`,
    `.grid{stroke:${border}}`,
    ...bars.map(
      (colour, index) => `.s${index}{fill:${colour}}.l${index}{stroke:${colour};fill:none}.hollow.s${index}{fill:none;stroke:${colour}}`,
    ),
    '.hollow{stroke-width:1.8}',
    '.frame{stroke-width:1.4}',
    '.hatch{stroke-width:1.4;opacity:.75}',
    `.commit{fill:${card};stroke:${text};stroke-width:1.2}`,
    `.halo{fill:none;stroke:${card};stroke-width:5}`,
    `.link{fill:none;stroke:${muted};stroke-width:1.6}`,
    `.head{fill:${muted}}`,
  ].join('')
}
