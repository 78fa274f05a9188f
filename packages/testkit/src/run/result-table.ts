/** The result of one scenario on one implementation. */
export interface ResultRow {
  readonly implementation: string
  readonly suite: string
  readonly scenario: string
  readonly result: 'passed' | 'failed'
  readonly note: string | undefined
}

/** Collects the results of any number of suites. Pass the same table to all of them, and print it at the end. */
export class ResultTable {
  readonly #rows: ResultRow[] = []

  add(row: ResultRow): void {
    this.#rows.push(row)
  }

  get rows(): readonly ResultRow[] {
    return this.#rows
  }

  format(): string {
    return formatTable(this.#rows)
  }
}

/** Markdown: a table per suite, a row per scenario, a column per implementation. A dash means that the scenario was not run there. */
export function formatTable(rows: readonly ResultRow[]): string {
  return distinct(rows.map((row) => row.suite))
    .map((suite) =>
      suiteTable(
        suite,
        rows.filter((row) => row.suite === suite),
      ),
    )
    .join('\n')
}

function suiteTable(suite: string, rows: readonly ResultRow[]): string {
  const implementations = distinct(rows.map((row) => row.implementation))
  const cellOf = (scenario: string, implementation: string): string => {
    const row = rows.findLast((candidate) => candidate.scenario === scenario && candidate.implementation === implementation)
    if (row === undefined) return '–'
    return row.note === undefined ? row.result : `${row.result} (${row.note})`
  }
  const lines = distinct(rows.map((row) => row.scenario)).map((scenario) => [
    scenario,
    ...implementations.map((implementation) => cellOf(scenario, implementation)),
  ])
  const table = [[suite, ...implementations], ...lines].map((cells) => cells.map((cell) => cell.replaceAll('|', '\\|')))
  const widths = [suite, ...implementations].map((_, column) => Math.max(...table.map((cells) => cells[column]?.length ?? 0), 3))
  const line = (cells: readonly string[]) => `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |\n`
  const [head = [], ...body] = table
  return line(head) + line(widths.map((width) => '-'.repeat(width))) + body.map(line).join('')
}

function distinct(values: readonly string[]): string[] {
  return [...new Set(values)]
}
