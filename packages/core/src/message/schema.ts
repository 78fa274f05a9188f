import { AckordError, describeValue, InvalidOptionError } from '../errors.ts'
import { escapeText } from '../escape-text.ts'
import { describeMessage } from './marshal.ts'
import type { Message } from './message.ts'

/** The part of Standard Schema that Ackord uses; zod, valibot and arktype schemas satisfy it. */
export interface StandardSchema<Output = unknown> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined
  }
}

type SchemaResult<Output> = { readonly value: Output; readonly issues?: undefined } | { readonly issues: readonly SchemaIssue[] }

interface SchemaIssue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

/** A schema's result when it rejected the data. */
type Issues = Extract<Awaited<ReturnType<StandardSchema['~standard']['validate']>>, { issues: object }>['issues']

/**
 * Returns the schema's output for the message's data. Rejected data is the message's own fault: the error is not retryable. No async/await on the hot path: saves
 * promises.
 */
export function validateData<T>(schema: StandardSchema<T>, message: Message): Promise<T> {
  return validateValue(schema, message.data, () => `data of ${describeMessage(message)}`)
}

/** Returns the schema's output for a value. `describe` names it in errors. */
export async function validateValue<T>(schema: StandardSchema<T>, value: unknown, describe: () => string): Promise<T> {
  let issues: Issues
  try {
    const answer = schema['~standard'].validate(value)
    const result = answer instanceof Promise ? await answer : answer
    if (result.issues === undefined) return result.value
    issues = result.issues
  } catch (cause) {
    throw new AckordError('ACKORD_VALIDATION_FAILED', `The schema for the ${describe()} failed.`, {
      retryable: false,
      cause,
    })
  }
  throw new AckordError('ACKORD_VALIDATION_FAILED', `The ${describe()} is not valid: ${listIssues(issues)}.`, {
    retryable: false,
  })
}

export function checkSchema(schema: StandardSchema | undefined): void {
  // Some libraries' schemas are functions.
  if (schema === undefined || typeof schema?.['~standard']?.validate === 'function') return
  const problem = `must be a Standard Schema, such as those of zod, valibot and arktype; it is ${describeValue(schema)}.`
  throw new InvalidOptionError('schema', problem)
}

/** A long array can fail at every element; the text should still fit a log line. */
const shownIssues = 10

function listIssues(issues: Issues): string {
  // Arktype's own arrays are copied first: their map() is not that of an array.
  const listed = Array.from(issues)
    .slice(0, shownIssues)
    .map((issue) => {
      const path = Array.from(issue.path ?? [], (part) => String(typeof part === 'object' ? part.key : part)).join('.')
      const message = escapeText(withoutValue(issue), 300)
      return message.startsWith(path) ? message : `${escapeText(path)}: ${message}`
    })
  const more = issues.length - listed.length
  return more > 0 ? `${listed.join('; ')}; and ${more} more` : listed.join('; ')
}

/**
 * The issue's message without the rejected value, which valibot and arktype quote at its end and also keep as `received` or `actual`. Unquoted words
 * there (`undefined`, `an object`, `missing`) name a kind and stay.
 */
function withoutValue(issue: Issues[number]): string {
  const { message } = issue
  const { received, actual } = issue as { readonly received?: unknown; readonly actual?: unknown }
  const quoted = received ?? actual
  if (typeof quoted !== 'string' || kind.test(quoted)) return message
  const start = message.lastIndexOf(quoted)
  return start === -1 ? message : `${message.slice(0, start)}…${message.slice(start + quoted.length)}`
}

const kind = /^(?!(?:true|false)$)[A-Za-z ]*$/
