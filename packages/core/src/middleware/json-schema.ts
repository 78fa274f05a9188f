import { AckordError, describeValue, InvalidOptionError } from '../errors.ts'
import { escapeText } from '../escape-text.ts'
import { describeMessage } from '../message/marshal.ts'
import type { Message } from '../message/message.ts'
import { checkChoice, checkFunction, checkName } from '../options.ts'
import { type Middleware, middleware } from './middleware.ts'

/** A compiled schema: returns whether the data is valid, and sets `errors` if not. */
export interface JsonSchemaValidator {
  (data: unknown): boolean
  readonly errors?: readonly JsonSchemaError[] | null | undefined
}

/** The part of ajv's errors that locates the problem, without the data. */
export interface JsonSchemaError {
  readonly instancePath: string
  readonly keyword: string
  readonly params?: { readonly missingProperty?: unknown } | undefined
}

/** An invalid part of the data. */
export interface JsonSchemaProblem {
  /** A JSON pointer; '' is the data as a whole. */
  readonly path: string
  /** The keyword of the schema that it violates. */
  readonly keyword: string
}

/** JSON schemas by message type. */
export class JsonSchemaRegistry {
  readonly #compile: (schema: object) => JsonSchemaValidator
  readonly #entries = new Map<string, { readonly schema: object; readonly validator: JsonSchemaValidator }>()

  /** `compile` is a library's compile function, bound: `new JsonSchemaRegistry(ajv.compile.bind(ajv))`. */
  constructor(compile: (schema: object) => JsonSchemaValidator) {
    this.#compile = checkFunction('compile', compile)
  }

  /** Compiles the schema immediately, so that an invalid one is detected at start. One schema per type. */
  register(type: string, schema: object): this {
    checkName('type', type)
    if (this.#entries.has(type)) throw new InvalidOptionError(`register('${type}')`, 'was already called for this type.')
    if (typeof schema !== 'object' || schema === null) {
      throw new InvalidOptionError(`register('${type}')`, `requires a schema; it got ${describeValue(schema)}.`)
    }
    if ('$async' in schema && schema.$async === true) {
      throw new InvalidOptionError(`register('${type}')`, 'got an asynchronous schema; only synchronous ones are supported.')
    }
    this.#entries.set(type, { schema, validator: this.#compiled(type, schema) })
    return this
  }

  /** The problems of the data; empty if it is valid, `undefined` if no schema is registered for the type. */
  validate(type: string, data: unknown): readonly JsonSchemaProblem[] | undefined {
    const validator = this.#entries.get(type)?.validator
    if (validator === undefined) return undefined
    if (validator(data) === true) return []
    const { errors } = validator
    return errors?.length ? errors.map(toProblem) : [{ path: '', keyword: 'schema' }]
  }

  schema(type: string): object | undefined {
    return this.#entries.get(type)?.schema
  }

  /** All schemas by type, in the order of their registration. */
  schemas(): ReadonlyMap<string, object> {
    return new Map([...this.#entries].map(([type, { schema }]) => [type, schema]))
  }

  #compiled(type: string, schema: object): JsonSchemaValidator {
    try {
      return this.#compile(schema)
    } catch (cause) {
      throw new InvalidOptionError(`register('${type}')`, 'got a schema that does not compile; see the cause.', { cause })
    }
  }
}

export interface JsonSchemaOptions {
  /** How messages whose type has no schema are treated. Default: 'pass'. */
  readonly unknown?: 'pass' | 'reject' | undefined
  /** Whether outputs are validated too. Default: true. */
  readonly outputs?: boolean | undefined
}

/**
 * Rejects data that does not match the schema of its type. The error contains the locations, never the data. For an input the message is at fault,
 * for an output the handler.
 */
export function jsonSchemaMiddleware(registry: JsonSchemaRegistry, options: JsonSchemaOptions = {}): Middleware {
  const { unknown = 'pass', outputs: checkOutputs = true } = options
  checkChoice('unknown', unknown, ['pass', 'reject'])

  function check(message: Message, name: string, retryable: boolean): void {
    const problems = message.type === undefined ? undefined : registry.validate(message.type, message.data)
    if (problems === undefined && unknown === 'pass') return
    if (problems?.length === 0) return
    const text = problems === undefined ? `No JSON schema is registered for ${name}.` : describeProblems(name, problems)
    throw new AckordError('ACKORD_VALIDATION_FAILED', text, { retryable })
  }

  return middleware(
    { role: checkOutputs ? 'outputs' : undefined },
    (next) =>
      async function jsonSchema(message, context) {
        check(message, describeMessage(message), false)
        const outputs = await next(message, context)
        if (checkOutputs) for (const output of outputs) check(output, `an output (${describeMessage(output)})`, true)
        return outputs
      },
  )
}

/** Points at the missing property itself; its name comes from the schema, not from the data. */
function toProblem({ instancePath, keyword, params }: JsonSchemaError): JsonSchemaProblem {
  const missing = params?.missingProperty
  return { path: typeof missing === 'string' ? `${instancePath}/${missing}` : instancePath, keyword }
}

const shownProblems = 10

function describeProblems(name: string, problems: readonly JsonSchemaProblem[]): string {
  const shown = problems.slice(0, shownProblems).map(({ path, keyword }) => `'${escapeText(path)}' (${keyword})`)
  const more = problems.length > shownProblems ? ` and ${problems.length - shownProblems} more` : ''
  return `The data of ${name} does not match its JSON schema at ${shown.join(', ')}${more}.`
}
