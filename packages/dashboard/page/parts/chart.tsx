import { useComputed, useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { wholeNumber } from '../text/numbers.ts'
import { clockTime } from '../text/times.ts'

interface ChartSeries {
  readonly label: string
  /** `null`: unknown. */
  readonly values: readonly (number | null)[]
  readonly kind: 'bars' | 'line' | 'area'
  /** A custom property of the style sheet. */
  readonly colour: string
}

interface ChartProps {
  readonly title: string
  /** Milliseconds since the epoch. */
  readonly at: readonly number[]
  readonly series: readonly ChartSeries[]
  /** The first and last instant to show. */
  readonly from: number
  readonly to: number
  /** Said instead of an empty chart. */
  readonly empty: string
}

const height = 132

export function Chart({ title, at, series, from, to, empty }: ChartProps): VNode {
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | undefined>(undefined)
  const range = useRef<[number, number]>([0, 0])
  range.current = [from / 1000, to / 1000]
  const cursor = useSignal<number | undefined>(undefined)
  const darkened = useSignal(0)
  const data = [at.map((instant) => instant / 1000), ...series.map(({ values }) => [...values])] as uPlot.AlignedData
  const isEmpty = series.every(({ values }) => values.every((value) => value === 0 || value === null))

  useEffect(() => {
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    const change = () => {
      darkened.value += 1
    }
    scheme.addEventListener('change', change)
    return () => scheme.removeEventListener('change', change)
  }, [])

  useEffect(() => {
    const element = place.current
    if (element === null) return
    const options = chartOptions(series, element, range, (index) => {
      cursor.value = index
    })
    const created = new uPlot(options, data, element)
    plot.current = created
    const observer = new ResizeObserver(() => created.setSize({ width: element.clientWidth, height }))
    observer.observe(element)
    return () => {
      observer.disconnect()
      created.destroy()
    }
  }, [darkened.value])

  useEffect(() => {
    plot.current?.setData(data)
  })

  const shownAt = useComputed(() => cursor.value)
  const index = Math.min(shownAt.value ?? at.length - 1, at.length - 1)
  const instant = at[index]
  const values = series.map(({ label, values }) => `${label} ${valueText(values[index])}`)
  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">{title}</span>
        <ul class="legend">
          {series.map(({ label, values, colour }) => (
            <li key={label} class={`key ${colour}`}>
              {label} <b>{valueText(values[index])}</b>
            </li>
          ))}
          {instant !== undefined && <li class="muted">{shownAt.value === undefined ? 'latest' : clockTime(instant)}</li>}
        </ul>
      </figcaption>
      <div class="plot" ref={place} role="img" aria-label={isEmpty ? empty : `${title}, latest: ${values.join(', ')}`} />
      {isEmpty && <p class="chart-empty">{empty}</p>}
    </figure>
  )
}

function valueText(value: number | null | undefined): string {
  return value === null || value === undefined ? '–' : wholeNumber(value)
}

function chartOptions(
  series: readonly ChartSeries[],
  element: HTMLElement,
  range: { readonly current: [number, number] },
  onCursor: (index: number | undefined) => void,
): uPlot.Options {
  const style = getComputedStyle(element)
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim()
  const font = `11px ${style.fontFamily}`
  const axis: uPlot.Axis = { stroke: colour('muted'), font, ticks: { show: false }, grid: { stroke: colour('grid'), width: 1 } }
  return {
    width: Math.max(1, element.clientWidth),
    height,
    padding: [8, 8, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: {
      x: { range: () => range.current },
      y: { range: (_self, _min, max) => [0, Math.max(4, max * 1.1)] },
    },
    axes: [
      { ...axis, size: 24, grid: { show: false }, space: 56, values: (_self, splits) => splits.map((second) => clockTime(second * 1000)) },
      {
        ...axis,
        size: 44,
        space: 22,
        values: (_self, splits) => splits.map((value) => (Number.isInteger(value) ? shortNumber(value) : '')),
      },
    ],
    hooks: { setCursor: [({ cursor: { idx } }) => onCursor(idx ?? undefined)] },
    series: [{}, ...series.map((each) => seriesOptions(each, colour))],
  }
}

function seriesOptions({ label, kind, colour: name }: ChartSeries, colour: (name: string) => string): uPlot.Series {
  const stroke = colour(name)
  const bars = uPlot.paths.bars?.({ size: [0.7, 14], radius: 0.15 })
  return {
    label,
    stroke,
    width: kind === 'bars' ? 0 : 1.5,
    points: { show: false },
    ...(kind === 'line' ? {} : { fill: kind === 'bars' ? stroke : `${stroke}22` }),
    ...(kind === 'bars' && bars ? { paths: bars } : {}),
  }
}

const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })

function shortNumber(value: number): string {
  return compact.format(value)
}
