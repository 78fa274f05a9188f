/** Adds a value to the parameters of a statement, and gives what stands for it. */
export type Give = (value: unknown, type: string) => string

export function giveTo(parameters: unknown[]): Give {
  return (value, type) => `$${parameters.push(value)}::${type}`
}
