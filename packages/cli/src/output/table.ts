import { printable, truncate, widthOf } from './text.ts'

export interface Column<Row> {
  readonly heading: string
  /** Numbers are right-aligned. */
  readonly cell: (row: Row) => string | number
  /** How a cell is cut if the table is too wide: columns with a lower `rank` first, to no less than `min`. Default: it is not cut. */
  readonly cut?: { readonly rank: number; readonly min: number } | undefined
  /** Whether the column is omitted if cutting is not enough: the lowest rank first. It is also omitted if it is empty. Default: it is always shown. */
  readonly omit?: number | undefined
  /** Colours a cell, after it was cut. Default: none. */
  readonly colour?: ((text: string, row: Row) => string) | undefined
}

export interface TableOptions {
  /** The width to fit the table into. `undefined`: nothing is cut or omitted. */
  readonly width: number | undefined
  /** Formats the headings. */
  readonly heading: (text: string) => string
}

interface Sized<Row> {
  readonly column: Column<Row>
  readonly cells: readonly string[]
  readonly numeric: boolean
  readonly min: number
  width: number
}

const gap = '  '

/** The lines of a table, with columns as wide as their contents, or as narrow as the width requires. */
export function tableLines<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  { width, heading }: TableOptions,
): readonly string[] {
  const all = columns.map((column) => sized(column, rows))
  const shown = width === undefined ? all : fitted(all, width)
  const line = (texts: readonly string[], colour: (text: string, index: number) => string) =>
    shown
      .map((one, index) => {
        const text = truncate(texts[index] ?? '', one.width)
        const space = ' '.repeat(one.width - widthOf(text))
        return one.numeric ? space + colour(text, index) : colour(text, index) + space
      })
      .join(gap)
      .trimEnd()
  const headings = line(
    shown.map(({ column }) => column.heading),
    (text) => text,
  )
  const body = rows.map((row, number) =>
    line(
      shown.map(({ cells }) => cells[number] ?? ''),
      (text, index) => shown[index]?.column.colour?.(text, row) ?? text,
    ),
  )
  return [heading(headings), ...body]
}

function sized<Row>(column: Column<Row>, rows: readonly Row[]): Sized<Row> {
  const values = rows.map(column.cell)
  const cells = values.map((value) => printable(String(value)))
  const width = Math.max(column.heading.length, ...cells.map(widthOf))
  const min = column.cut === undefined ? width : Math.min(width, Math.max(column.cut.min, column.heading.length))
  return { column, cells, min, width, numeric: rows.length > 0 && values.every((value) => typeof value === 'number') }
}

/** The columns that fit into the width, with their final widths. If not even the columns that are never omitted fit, the lines are too long. */
function fitted<Row>(all: readonly Sized<Row>[], width: number): readonly Sized<Row>[] {
  let shown = all.filter(({ column, cells }) => column.omit === undefined || cells.some((cell) => cell !== ''))
  for (const omitted of shown.filter(({ column }) => column.omit !== undefined).sort(byOmission)) {
    if (total(shown.map(({ min }) => min)) <= width) break
    shown = shown.filter((one) => one !== omitted)
  }
  let excess = total(shown.map((one) => one.width)) - width
  for (const one of shown.filter(({ column }) => column.cut !== undefined).sort(byCut)) {
    const less = Math.min(Math.max(0, excess), one.width - one.min)
    one.width -= less
    excess -= less
  }
  return shown
}

function total(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, 0) + gap.length * Math.max(0, widths.length - 1)
}

function byOmission<Row>(one: Sized<Row>, other: Sized<Row>): number {
  return (one.column.omit ?? 0) - (other.column.omit ?? 0)
}

function byCut<Row>(one: Sized<Row>, other: Sized<Row>): number {
  return (one.column.cut?.rank ?? 0) - (other.column.cut?.rank ?? 0)
}
