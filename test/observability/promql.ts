/** A metric in an expression, with the labels that select its series. */
export interface Selector {
  readonly metric: string
  readonly matchers: readonly { readonly label: string; readonly value: string }[]
  /** The function that is applied to its range, such as `rate`. */
  readonly rangeFunction: string | undefined
}

/** Labels that are named after `by`, `on` and the like. */
export interface Grouping {
  readonly keyword: string
  readonly labels: readonly string[]
  /** The selectors between the parentheses that follow; for vector matching, all of the expression. */
  readonly selectors: readonly Selector[]
}

const keywords = new Set(['and', 'or', 'unless', 'bool', 'group_left', 'group_right'])
const parts =
  /"[^"]*"|\[[^\]]*\]|\boffset\s+\w+|\b(by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)|(?<![\w.])([a-zA-Z_:][\w:]*)(?=(\s*\(|\s+(?:by|without)\b)?)(?:\{((?:[^"}]|"[^"]*")*)\})?/g

/** Finds the metrics and labels of a PromQL expression. Whether the expression is valid is checked by `promtool`. */
export function parsePromql(expression: string): { readonly selectors: readonly Selector[]; readonly groupings: readonly Grouping[] } {
  const found = [...expression.matchAll(parts)]
  const placed = found.flatMap((match) => {
    const [, , , metric, call, matchers = ''] = match
    if (metric === undefined || call !== undefined || keywords.has(metric)) return []
    return [{ index: match.index, selector: { metric, matchers: matchersOf(matchers), rangeFunction: rangeFunctionAt(expression, match) } }]
  })
  const groupings = found.flatMap((match) => {
    const [whole, keyword, labels = ''] = match
    if (keyword === undefined) return []
    const aggregates = keyword === 'by' || keyword === 'without'
    const [from, to] = aggregates ? parenthesesAfter(expression, match.index + whole.length) : [0, expression.length]
    const selectors = placed.filter(({ index }) => index >= from && index < to).map(({ selector }) => selector)
    return [{ keyword, labels: labels.split(',').map((label) => label.trim()), selectors }]
  })
  return { selectors: placed.map(({ selector }) => selector), groupings }
}

function matchersOf(text: string): Selector['matchers'] {
  return [...text.matchAll(/(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"/g)].map(([, label = '', value = '']) => ({ label, value }))
}

function rangeFunctionAt(expression: string, { 0: text, index }: RegExpExecArray): string | undefined {
  if (!expression.slice(index + text.length).startsWith('[')) return undefined
  return /(\w+)\(\s*$/.exec(expression.slice(0, index))?.[1]
}

/** The range of the parenthesised text that begins at or after this index. */
function parenthesesAfter(expression: string, index: number): readonly [from: number, to: number] {
  const from = expression.indexOf('(', index)
  let depth = 0
  for (let at = from; at < expression.length; at += 1) {
    if (expression[at] === '(') depth += 1
    if (expression[at] === ')') depth -= 1
    if (depth === 0) return [from, at]
  }
  throw new Error(`A parenthesis is not closed: ${expression}`)
}
