/** Parameters of a statement of ours with arrays as texts, for clients that would make something else of them. Each has a cast beside it. */
export function withArrayLiterals(parameters: readonly unknown[]): unknown[] {
  return parameters.map((value) => (Array.isArray(value) ? arrayLiteral(value) : value))
}

/** An array as PostgreSQL writes it. Elements are texts, numbers or null. */
export function arrayLiteral(values: readonly unknown[]): string {
  return `{${values.map((value) => (value === null ? 'NULL' : `"${String(value).replace(/[\\"]/g, '\\$&')}"`)).join(',')}}`
}

/** An array of numbers, which may be larger than JavaScript's and so be texts. */
export function numberArray(numbers: readonly (number | string)[]): string {
  return `{${numbers.join(',')}}`
}
