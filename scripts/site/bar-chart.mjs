// @ts-check
import { dark, escapeXml, light, sansSerif } from './svg.mjs'

/**
 * @typedef {object} Bar
 * @property {string} label
 * @property {string} [note] what is compared, in a few words, below the label
 * @property {number} value
 * @property {number} [upper] a second value, at least as large, drawn as a lighter part of the bar
 * @property {boolean} [other] not Ackord's, and drawn in another colour
 */

/** @typedef {(value: number, upper?: number) => string} Format the text of a value, or of both */

/**
 * @typedef {object} BarChart
 * @property {string} title
 * @property {string} subtitle
 * @property {readonly Bar[]} bars
 * @property {{ value: number, label: string } | undefined} [baseline] a vertical line that the bars are compared with
 * @property {Format} format
 */

const width = 460
const padding = 16
const top = 68
const rowHeight = 50
const minValueWidth = 60
const characterWidth = 8.5

/**
 * Horizontal bars under their labels: legible at the width of a phone, too.
 * @param {BarChart} chart @returns {string} an SVG document
 */
export function barChart({ title, subtitle, bars, baseline, format }) {
  const valueWidth = Math.max(minValueWidth, ...bars.map((bar) => Math.ceil((format(bar.value, bar.upper).length + 1) * characterWidth)))
  const full = width - 2 * padding - valueWidth
  const largest = Math.max(baseline?.value ?? 0, ...bars.map(({ value, upper = value }) => upper))
  const lengthOf = (/** @type {number} */ value) => Math.round((value / largest) * full)
  const bottom = top + bars.length * rowHeight
  const height = bottom + (baseline === undefined ? 8 : 34)
  const x = baseline === undefined ? 0 : padding + lengthOf(baseline.value)
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-labelledby="title desc">`,
    `<title id="title">${escapeXml(title)}</title>`,
    `<desc id="desc">${escapeXml(description({ title, subtitle, bars, baseline, format }))}</desc>`,
    `<style>${style(light)}@media (prefers-color-scheme:dark){${style(dark)}}</style>`,
    `<rect class="card" x=".5" y=".5" width="${width - 1}" height="${height - 1}" rx="12"/>`,
    `<text class="title" x="${padding}" y="30">${escapeXml(title)}</text>`,
    `<text class="muted" x="${padding}" y="51">${escapeXml(subtitle)}</text>`,
    ...bars.map((bar, index) => drawBar(bar, top + index * rowHeight, lengthOf, format)),
    ...(baseline === undefined
      ? []
      : [
          // Beside the bars, not across their labels.
          `<path class="base" d="${bars.map((_, index) => `M${x} ${top + index * rowHeight + 20}v22`).join('')}"/>`,
          `<text class="muted" ${anchor(x)} y="${bottom + 22}">${escapeXml(baseline.label)}</text>`,
        ]),
    '</svg>',
    '',
  ].join('\n')
}

/** @param {Bar} bar @param {number} y @param {(value: number) => number} lengthOf @param {Format} format */
function drawBar(bar, y, lengthOf, format) {
  const { label, note, value, upper, other = false } = bar
  const details = note === undefined ? '' : `<tspan class="muted" dx="8">${escapeXml(note)}</tspan>`
  return [
    `<text class="label" x="${padding}" y="${y + 16}">${escapeXml(label)}${details}</text>`,
    ...(upper === undefined
      ? []
      : [`<rect class="${other ? 'upper other' : 'upper'}" x="${padding}" y="${y + 23}" width="${lengthOf(upper)}" height="16" rx="3"/>`]),
    `<rect class="${other ? 'bar other' : 'bar'}" x="${padding}" y="${y + 23}" width="${lengthOf(value)}" height="16" rx="3"/>`,
    `<text class="value" x="${width - padding}" y="${y + 36}" text-anchor="end">${escapeXml(format(bar.value, bar.upper))}</text>`,
  ].join('')
}

/** Where the label of the baseline begins or ends, so that it stays inside of the chart. @param {number} x */
function anchor(x) {
  if (x < width * 0.3) return `x="${padding}"`
  return `x="${x}" text-anchor="${x > width * 0.75 ? 'end' : 'middle'}"`
}

/** The chart in words. @param {BarChart} chart */
function description({ subtitle, bars, baseline, format }) {
  const values = bars.map((bar) => `${bar.label}${bar.note === undefined ? '' : ` (${bar.note})`}: ${format(bar.value, bar.upper)}`)
  return `${subtitle}. ${values.join('; ')}.${baseline === undefined ? '' : ` ${format(baseline.value)} is ${baseline.label}.`}`
}

/** @param {typeof light} colours */
function style({ card, border, text, muted, brand, other }) {
  return [
    `text{font:15px ${sansSerif};fill:${text}}`,
    '.title{font-size:17px;font-weight:650}',
    `.muted{font-size:13px;fill:${muted}}`,
    '.value{font-weight:650}',
    `.card{fill:${card};stroke:${border}}`,
    `.bar,.upper{fill:${brand}}`,
    `.other{fill:${other}}`,
    '.upper{opacity:.35}',
    `.base{stroke:${text};stroke-dasharray:4 3}`,
  ].join('')
}
