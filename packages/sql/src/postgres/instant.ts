/** An instant in milliseconds since the epoch. Not by `extract()`, which calculates with decimal numbers and takes as long as reading the row. */
export function instant(column: string): string {
  return `date_part('epoch', ${column}) * 1000`
}
