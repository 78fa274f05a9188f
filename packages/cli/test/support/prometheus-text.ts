/** One metric of a scrape. */
export interface ScrapedFamily {
  readonly name: string
  readonly kind: string
  readonly help: string
  readonly samples: readonly Sample[]
}

interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

const helpLine = /^# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (\S(?:[^\\]|\\[\\n])*)$/
const typeLine = /^# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram)$/
const sampleLine = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? ([+-]?Inf|NaN|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)$/
const labelPair = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)/y

/**
 * Parses the text format of Prometheus, version 0.0.4, as strictly as its documentation describes it: every metric has one HELP and one TYPE line,
 * then its samples, each series once; counters end in `_total`; the buckets of a histogram are cumulative and complete. Throws at the first violation.
 */
export function parsePrometheusText(text: string): ReadonlyMap<string, ScrapedFamily> {
  if (!text.endsWith('\n')) throw new Error('The last line has no end.')
  const families = new Map<string, ScrapedFamily & { readonly samples: Sample[] }>()
  const lines = text.slice(0, -1).split('\n')
  let current: (ScrapedFamily & { readonly samples: Sample[] }) | undefined
  for (let index = 0; index < lines.length; index += 1) {
    const line = lines[index] ?? ''
    if (!line.startsWith('#')) {
      if (current === undefined) throw new Error(`A sample before the first metric: ${line}`)
      current.samples.push(sampleOf(line, current))
      continue
    }
    const [, name = '', help = ''] = helpLine.exec(line) ?? []
    const [, typed, kind = ''] = typeLine.exec(lines[index + 1] ?? '') ?? []
    if (name === '' || typed !== name) throw new Error(`Expected HELP and TYPE of one metric: ${line}, ${lines[index + 1]}`)
    if (families.has(name)) throw new Error(`${name} is described twice.`)
    if ((kind === 'counter') !== name.endsWith('_total')) throw new Error(`${name} is a ${kind}.`)
    current = { name, kind, help, samples: [] }
    families.set(name, current)
    index += 1
  }
  for (const family of families.values()) checkSeries(family)
  return families
}

function sampleOf(line: string, { name: family, kind }: ScrapedFamily): Sample {
  const [, name = '', pairs = '', value = ''] = sampleLine.exec(line) ?? []
  const expected = kind === 'histogram' ? [`${family}_bucket`, `${family}_sum`, `${family}_count`] : [family]
  if (!expected.includes(name)) throw new Error(`Not a sample of ${family}: ${line}`)
  return { name, labels: labelsOf(pairs, line), value: Number(value.replace('Inf', 'Infinity')) }
}

function labelsOf(text: string, line: string): Readonly<Record<string, string>> {
  const labels: Record<string, string> = {}
  for (let position = 0; position < text.length; position = labelPair.lastIndex) {
    labelPair.lastIndex = position
    const [, name = '', value = ''] = labelPair.exec(text) ?? []
    if (name === '' || name in labels) throw new Error(`Invalid labels: ${line}`)
    labels[name] = value.replaceAll(/\\(.)/g, (_, escaped: string) => (escaped === 'n' ? '\n' : escaped))
  }
  return labels
}

function checkSeries({ name, kind, samples }: ScrapedFamily): void {
  const keys = samples.map((sample) => JSON.stringify([sample.name, Object.entries(sample.labels).sort()]))
  if (new Set(keys).size !== keys.length) throw new Error(`${name} has a series twice.`)
  if (kind !== 'histogram') return
  for (const { labels, value } of samples.filter((sample) => sample.name === `${name}_count`)) {
    const isSame = (other: Sample) => seriesOf(other.labels) === seriesOf(labels)
    const buckets = samples.filter((sample) => sample.name === `${name}_bucket` && isSame(sample))
    const bounds = buckets.map((bucket) => Number(bucket.labels['le']?.replace('+Inf', 'Infinity')))
    const counts = buckets.map((bucket) => bucket.value)
    const isAscending = (values: readonly number[]) => values.every((each, index) => index === 0 || each >= (values[index - 1] ?? 0))
    if (!isAscending(bounds) || !isAscending(counts) || bounds.at(-1) !== Infinity || counts.at(-1) !== value)
      throw new Error(`${name} has buckets that are not cumulative, or not complete.`)
    if (!samples.some((sample) => sample.name === `${name}_sum` && isSame(sample))) throw new Error(`${name} has a series without a sum.`)
  }
}

/** The labels without the bound of a bucket, in whichever order they are printed. */
function seriesOf({ le: _, ...labels }: Readonly<Record<string, string>>): string {
  return JSON.stringify(Object.entries(labels).sort())
}
