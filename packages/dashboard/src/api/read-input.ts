import { describeValue } from '@ackord/core/internal'
import { invalid } from '../http/api-failure.ts'

// Checks of values from outside. Each throws a failure that names the field.

export type Fields = Readonly<Record<string, unknown>>

/** An object that has no other fields than these. A misspelt field must not be ignored: a filter without it would match more records. */
export function readFields(value: unknown, name: string, known: readonly string[]): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw wrong(name, 'must be an object', value)
  const unknown = Object.keys(value).filter((field) => !known.includes(field))
  if (unknown.length > 0) throw invalid(`${name} has no field ${JSON.stringify(unknown[0])}.`)
  return value as Fields
}

export function readText(value: unknown, name: string, maxLength: number): string {
  if (typeof value !== 'string' || value === '' || value.length > maxLength)
    throw wrong(name, `must be a string of 1 to ${maxLength} characters`, value)
  return value
}

export function readNumber(value: unknown, name: string, { min, max }: { readonly min: number; readonly max: number }): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < min || value > max)
    throw wrong(name, `must be a whole number from ${min} to ${max}`, value)
  return value
}

export function readChoice<T extends string>(value: unknown, name: string, choices: readonly T[]): T {
  const found = choices.find((choice) => choice === value)
  if (found === undefined) throw wrong(name, `must be one of ${choices.join(', ')}`, value)
  return found
}

/** Without duplicates. */
export function readTexts(value: unknown, name: string, limits: { readonly count: number; readonly length: number }): readonly string[] {
  if (!Array.isArray(value) || value.length === 0 || value.length > limits.count)
    throw wrong(name, `must be an array of 1 to ${limits.count} strings`, value)
  return [...new Set(value.map((each) => readText(each, `${name}[]`, limits.length)))]
}

/** The result of `read`, or `undefined` for a field that is missing. */
export function optional<T>(value: unknown, read: (value: unknown) => T): T | undefined {
  return value === undefined || value === null ? undefined : read(value)
}

function wrong(name: string, expectation: string, value: unknown) {
  return invalid(`${name} ${expectation}; it is ${typeof value === 'number' ? String(value) : describeValue(value)}.`)
}
