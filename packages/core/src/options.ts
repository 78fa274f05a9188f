import { describeValue, InvalidOptionError } from './errors.ts'

/** Validates a duration in milliseconds; `Infinity` only where it means "no limit". */
export function checkDuration(option: string, value: number, limits: { readonly infinite?: boolean; readonly min?: number } = {}): number {
  const { infinite = false, min = 0 } = limits
  if (typeof value === 'number' && value >= min && (Number.isFinite(value) || (infinite && value === Infinity))) return value
  const range = `${min} or more${infinite ? ', or Infinity' : ''}`
  throw new InvalidOptionError(option, `must be a number of milliseconds, ${range}; it is ${shown(value)}.`)
}

export function checkCount(option: string, value: number, limits: { readonly infinite?: boolean; readonly min?: number } = {}): number {
  const { infinite = false, min = 1 } = limits
  if ((Number.isSafeInteger(value) && value >= min) || (infinite && value === Infinity)) return value
  const range = `${min} or more${infinite ? ', or Infinity' : ''}`
  throw new InvalidOptionError(option, `must be a whole number, ${range}; it is ${shown(value)}.`)
}

export function checkFraction(option: string, value: number): number {
  if (typeof value === 'number' && value >= 0 && value <= 1) return value
  throw new InvalidOptionError(option, `must be a number from 0 to 1; it is ${shown(value)}.`)
}

export function checkName(option: string, value: string): string {
  if (typeof value !== 'string' || value === '') {
    throw new InvalidOptionError(option, `must be a non-empty string; it is ${shown(value)}.`)
  }
  // When encoded, every unpaired surrogate becomes the same replacement character, so two names could become one.
  if (!value.isWellFormed()) throw new InvalidOptionError(option, 'must be well-formed Unicode.')
  return value
}

export function checkChoice<T extends string>(option: string, value: T, choices: readonly T[]): T {
  if (choices.includes(value)) return value
  const listed = choices.map((choice) => `'${choice}'`).join(', ')
  throw new InvalidOptionError(option, `must be one of ${listed}; it is ${shown(value)}.`)
}

export function checkFunction<T>(option: string, value: T): T {
  if (typeof value === 'function') return value
  throw new InvalidOptionError(option, `must be a function; it is ${shown(value)}.`)
}

/** `rest` contains the options that remain after destructuring the known ones: a misspelt option must not be ignored. */
export function rejectUnknownOptions(owner: string, rest: object): void {
  const names = Object.keys(rest)
  if (names.length === 0) return
  throw new InvalidOptionError(owner, `has no option '${names.join("', '")}'. Check the spelling.`)
}

function shown(value: unknown): string {
  if (typeof value === 'number' || typeof value === 'string')
    return JSON.stringify(value) === 'null' ? String(value) : JSON.stringify(value)
  return describeValue(value)
}
